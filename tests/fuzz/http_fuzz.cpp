// Fuzzes the HTTP request parser and the router. Laws: nothing crashes; whole requests and their
// answers are the same however their bytes are cut (the first byte chooses how). A malformed one
// may be noticed sooner or later, but never becomes a request. Only the limit of a header is not
// exact: where it lies by a few bytes depends on the cut, and the requests before it stay the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "fuzz_target.hpp"
#include "http/http_server.hpp"
#include "http/request_parser.hpp"
#include "http/router.hpp"

namespace galgo::http {
namespace {

class NoBackend final : public Backend {
 public:
    std::vector<std::string> health_faults() override { return {"none"}; }
    void metrics(std::string& out) override { out += "x 1\n"; }
};

struct Parsed {
    std::string seen;  ///< requests and their answers
    unsigned failure_status = 0;
};

Parsed parse_all(ConstBytes bytes, std::size_t step, Router& router) {
    RequestParser parser({.header_bytes_max = 1024, .body_bytes_max = 4096});
    Parsed parsed;
    std::string& seen = parsed.seen;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
        parser.append(bytes.subspan(at, std::min(step, bytes.size() - at)));
        while (parser.advance() == ParseState::kComplete) {
            const Request& request = parser.request();
            seen += request.method + " " + request.target + (request.keep_alive ? " k\n" : "\n");
            render(router.answer(request), {.omit_body = request.method == "HEAD"}, seen);
            parser.next();
        }
        if (parser.advance() == ParseState::kFailed) {
            const unsigned status = parser.failure_status();
            GALGO_CHECK(status == 400 || status == 413 || status == 431 || status == 501);
            parsed.failure_status = status;
            break;
        }
    }
    return parsed;
}

}  // namespace
}  // namespace galgo::http

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace galgo;
    if (size == 0) {
        return 0;
    }
    const ConstBytes bytes = ConstBytes(reinterpret_cast<const std::byte*>(data), size).subspan(1);
    http::NoBackend backend;
    http::HttpOptions options;
    options.cors.enabled = (data[0] & 1U) != 0;
    http::Router router(backend, options);
    router.set_loopback(true);
    const http::Parsed whole = http::parse_all(bytes, bytes.size() + 1, router);
    const http::Parsed cut = http::parse_all(bytes, std::size_t{1} + data[0], router);
    if (whole.failure_status == 431 || cut.failure_status == 431) {
        GALGO_CHECK(whole.seen.starts_with(cut.seen) || cut.seen.starts_with(whole.seen));
    } else {
        GALGO_CHECK(whole.seen == cut.seen);
    }
    return 0;
}
