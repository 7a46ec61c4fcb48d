#include "http/response.hpp"

#include <format>
#include <iterator>

namespace galgo::http {
namespace {

std::string_view reason_phrase(unsigned status) noexcept {
    switch (status) {
        case 200:
            return "OK";
        case 400:
            return "Bad Request";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 413:
            return "Content Too Large";
        case 431:
            return "Request Header Fields Too Large";
        case 501:
            return "Not Implemented";
        case 503:
            return "Service Unavailable";
        default:
            return "Error";
    }
}

}  // namespace

Response text_response(unsigned status, std::string_view body) {
    return {.status = status, .content_type = kTextType, .body = std::string(body)};
}

Response error_response(unsigned status, std::string_view code, std::string_view reason) {
    Response response{.status = status, .content_type = kJSONType};
    response.body = std::format("{{\"id\":{},\"code\":", status);
    append_json_string(response.body, code);
    response.body += ",\"reason\":";
    append_json_string(response.body, reason);
    response.body += ",\"field\":null}";
    return response;
}

void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            std::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    out += '"';
}

void render(const Response& response, RenderOptions options, std::string& out) {
    std::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", response.status,
                   reason_phrase(response.status));
    if (!response.content_type.empty()) {
        std::format_to(std::back_inserter(out), "content-type: {}\r\n", response.content_type);
    }
    out += response.headers;
    std::format_to(std::back_inserter(out), "content-length: {}\r\n", response.body.size());
    if (!options.keep_alive) {
        out += "connection: close\r\n";
    }
    out += "\r\n";
    if (!options.omit_body) {
        out += response.body;
    }
}

}  // namespace galgo::http
