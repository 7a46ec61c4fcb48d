#include "http/router.hpp"

#include <algorithm>
#include <utility>

#include "observe/metrics.hpp"

namespace galgo::http {
namespace {

/// The path of a request target: without query, and without scheme and host of the absolute form.
std::string_view path_of(std::string_view target) noexcept {
    constexpr std::string_view kScheme = "http://";
    if (target.starts_with(kScheme)) {
        target.remove_prefix(kScheme.size());
        const std::size_t slash = target.find('/');
        target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    }
    return target.substr(0, target.find_first_of("?#"));
}

std::string join(const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) {
        text += text.empty() ? "" : ",";
        text += item;
    }
    return text;
}

void add_header(Response& response, std::string_view name, std::string_view value) {
    response.headers.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

bool is_loopback_ip(std::string_view ip) noexcept {
    return ip.starts_with("127.") || ip == "::1" || ip.starts_with("::ffff:127.");
}

Router::Router(Backend& backend, const HttpOptions& options)
    : backend_(backend), options_(options) {
    routes_.push_back({.path = "/ping", .get = &Router::get_ping});
    routes_.push_back({.path = "/healthz", .get = &Router::get_health});
    if (options.metrics_enabled) {
        routes_.push_back({.path = options.metrics_endpoint, .get = &Router::get_metrics});
    }
}

Response Router::answer(const Request& request) {
    // A preflight is answered before any routing.
    const bool is_preflight = options_.cors.enabled && request.method == "OPTIONS";
    Response response = is_preflight ? Response{} : route(request);
    if (options_.cors.enabled) {
        add_cors(request, response);
    }
    return response;
}

Response Router::route(const Request& request) {
    const std::string_view path = path_of(request.target);
    const auto found = std::ranges::find_if(
        routes_, [&](const Route& candidate) { return candidate.path == path; });
    if (found == routes_.end()) {
        return error_response(404, "not_found", "Resource not found");
    }
    if (request.method != "GET" && request.method != "HEAD") {
        Response response{.status = 405};
        add_header(response, "allow", "GET,HEAD");
        return response;
    }
    return (this->*found->get)();
}

Response Router::get_ping() {
    return text_response(200, "pong");
}

Response Router::get_health() {
    const std::vector<std::string> faults = backend_.health_faults();
    Response response{.content_type = kJSONType};
    if (faults.empty()) {
        response.body = "{\"status\":\"ok\"}";
        return response;
    }
    response.status = 503;
    response.body = "{\"status\":\"unavailable\",\"reasons\":[";
    for (const std::string& fault : faults) {
        response.body += &fault == &faults.front() ? "" : ",";
        append_json_string(response.body, fault);
    }
    response.body += "]}";
    return response;
}

Response Router::get_metrics() {
    if (!is_loopback_) {
        return error_response(
            403, "forbidden",
            "Metrics are served only while the HTTP listener is bound to a loopback "
            "address.");
    }
    Response response{.content_type = observe::Registry::kContentType};
    backend_.metrics(response.body);
    return response;
}

void Router::add_cors(const Request& request, Response& response) const {
    const CorsOptions& cors = options_.cors;
    const bool any_origin = !cors.allowed_origins.empty() && cors.allowed_origins.front() == "*";
    add_header(response, "vary",
               "origin, access-control-request-method, access-control-request-headers");
    if (any_origin) {
        add_header(response, "access-control-allow-origin", "*");
    } else if (!request.origin.empty() && std::ranges::find(cors.allowed_origins, request.origin) !=
                                              cors.allowed_origins.end()) {
        add_header(response, "access-control-allow-origin", request.origin);
    }
    if (cors.allow_credentials) {
        add_header(response, "access-control-allow-credentials", "true");
    }
    if (request.method == "OPTIONS") {
        add_header(response, "access-control-allow-methods", join(cors.allowed_methods));
        add_header(response, "access-control-allow-headers", join(cors.allowed_headers));
        if (cors.allow_private_network) {
            add_header(response, "access-control-allow-private-network", "true");
        }
    } else if (!cors.exposed_headers.empty()) {
        add_header(response, "access-control-expose-headers", join(cors.exposed_headers));
    }
}

}  // namespace galgo::http
