// Router: from a request to its response, by a table of paths. Pure but for the Backend it asks; no
// sockets. wire: REST API of the reference server, 0.11.0 clients: /ping, error shape, CORS
// headers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/http_server.hpp"
#include "http/request_parser.hpp"
#include "http/response.hpp"

namespace galgo::http {

class Router {
 public:
    /// Both outlive the router.
    Router(Backend& backend, const HttpOptions& options);

    /// Metrics are open to whoever can reach a loopback listener, and to nobody else.
    void set_loopback(bool is_loopback) noexcept { is_loopback_ = is_loopback; }
    [[nodiscard]] Response answer(const Request& request);

 private:
    using Handler = Response (Router::*)();
    struct Route {
        std::string path;
        Handler get;
    };

    [[nodiscard]] Response route(const Request& request);
    [[nodiscard]] Response get_ping();
    [[nodiscard]] Response get_health();
    [[nodiscard]] Response get_metrics();
    void add_cors(const Request& request, Response& response) const;

    Backend& backend_;
    const HttpOptions& options_;
    bool is_loopback_ = false;
    std::vector<Route> routes_;
};

/// Is that a loopback address? An IP literal, as SocketAddress has it.
[[nodiscard]] bool is_loopback_ip(std::string_view ip) noexcept;

}  // namespace galgo::http
