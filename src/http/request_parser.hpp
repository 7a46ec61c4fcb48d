// RequestParser: bytes in, one HTTP/1 request after another out. Wraps Boost.Beast's parser, which
// is included in request_parser.cpp alone; no socket, clock or thread here. Bodies are counted and
// thrown away. Any bytes are fine: what is wrong becomes a status to answer with. The only transfer
// coding is "chunked", and what leaves open where a request ends is refused.
//
//   parser.append(bytes);
//   while ((state = parser.advance()) == ParseState::kComplete) { answer(parser.request());
//   parser.next(); }
//
// Holds at most one header's bytes and what was appended last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.hpp"

namespace galgo::http {

struct Request {
    std::string method;  ///< as sent, "GET"
    std::string target;  ///< as sent, "/metrics?x=1"
    std::string origin;  ///< header Origin, empty when absent
    bool keep_alive = false;
};

enum class ParseState : std::uint8_t {
    kNeedHeader,  ///< more bytes, please; the headers are not complete
    kNeedBody,    ///< more bytes, please; request() is there already
    kComplete,    ///< request() is whole
    kFailed,      ///< answer failure_status() and close
};

class RequestParser {
 public:
    struct Limits {
        std::uint32_t header_bytes_max = 16 * 1024;
        std::uint64_t body_bytes_max = 2'000'000;
    };

    explicit RequestParser(Limits limits);
    RequestParser(const RequestParser&) = delete;
    RequestParser& operator=(const RequestParser&) = delete;
    ~RequestParser();

    /// Bytes behind what was appended before. Copies them.
    void append(ConstBytes bytes);
    /// Parses on; stays at kComplete until next() and at kFailed for ever.
    [[nodiscard]] ParseState advance();
    /// Makes ready for the request behind a complete one; bytes that came along stay.
    void next();

    [[nodiscard]] const Request& request() const noexcept { return request_; }
    /// 400, 413, 431 or 501.
    [[nodiscard]] unsigned failure_status() const noexcept { return failure_status_; }
    /// Has a request begun?
    [[nodiscard]] bool has_begun() const noexcept { return begun_ || !buffer_.empty(); }
    /// The peer waits for "100 Continue" before it sends its body. True once a request.
    [[nodiscard]] bool take_expects_continue() noexcept;

 private:
    struct Parser;
    ParseState parse();
    void read_header_fields();
    ParseState fail(unsigned status) noexcept;

    Limits limits_;
    std::unique_ptr<Parser> parser_;
    std::string buffer_;
    ParseState state_ = ParseState::kNeedHeader;
    Request request_;
    unsigned failure_status_ = 0;
    bool begun_ = false;
    bool expects_continue_ = false;
};

}  // namespace galgo::http
