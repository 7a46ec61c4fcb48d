// Response: what a route answers, and its bytes on the wire. The JSON error shape is the one of the
// reference's REST API: {"id":404,"code":"not_found","reason":"...","field":null}. Pure.
#pragma once

#include <string>
#include <string_view>

namespace galgo::http {

struct Response {
    unsigned status = 200;
    std::string_view content_type = {};  ///< a literal; empty = no body and no header
    std::string headers = {};            ///< more header lines, each with its CRLF
    std::string body = {};
};

inline constexpr std::string_view kTextType = "text/plain; charset=utf-8";
inline constexpr std::string_view kJSONType = "application/json";

[[nodiscard]] Response text_response(unsigned status, std::string_view body);
/// An error of the HTTP layer: its id is the status.
[[nodiscard]] Response error_response(unsigned status, std::string_view code,
                                      std::string_view reason);

/// Appends `text` as a JSON string, quotes included. Bytes above 0x7F pass as they are.
void append_json_string(std::string& out, std::string_view text);

struct RenderOptions {
    bool omit_body = false;   ///< HEAD: the length without the bytes
    bool keep_alive = false;  ///< false adds Connection: close
};
/// Appends the whole answer to `out`.
void render(const Response& response, RenderOptions options, std::string& out);

}  // namespace galgo::http
