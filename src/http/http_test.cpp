#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http_server.hpp"
#include "http/request_parser.hpp"
#include "http/router.hpp"
#include "net/timed_io.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"

namespace galgo::http {
namespace {

using coro::Task;
using runtime::SocketHandle;
using runtime_sim::Node;
using runtime_sim::TestWorld;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kPing = "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view kPong =
    "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 4\r\n\r\npong";

// ---- the parser alone
// --------------------------------------------------------------------------------

std::string outcome(RequestParser& parser) {
    switch (parser.advance()) {
        case ParseState::kNeedHeader:
            return "header?";
        case ParseState::kNeedBody:
            return "body?";
        case ParseState::kComplete:
            return parser.request().method + " " + parser.request().target;
        case ParseState::kFailed:
            return std::to_string(parser.failure_status());
    }
    return "";
}
std::string parse(std::string_view text, RequestParser::Limits limits = {}) {
    RequestParser parser(limits);
    parser.append(as_bytes(text));
    return outcome(parser);
}

/// A request with this chunked body is one when the last byte is there, and not before.
void expect_whole_at_last_byte(std::string_view body) {
    SCOPED_TRACE(body);
    RequestParser parser({});
    parser.append(as_bytes("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    for (const char& byte : body) {
        EXPECT_EQ(outcome(parser), "body?");
        parser.append(as_bytes(std::string_view(&byte, 1)));
    }
    EXPECT_EQ(outcome(parser), "POST /a");
}

// The last chunk, with and without trailers, in any pieces.
TEST(RequestParser, ChunkedBodyByteByByte) {
    for (const std::string_view body : {"0\r\n\r\n", "0\r\nT: v\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n",
                                        "1;a=b\r\nx\r\n0;c\r\nT: v\r\n\r\n"}) {
        expect_whole_at_last_byte(body);
    }
}
// What the request before counted does not count for this one.
TEST(RequestParser, ChunkedBodyAfterAnotherBody) {
    RequestParser parser({});
    parser.append(as_bytes("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"));
    EXPECT_EQ(outcome(parser), "PUT /a");
    parser.next();
    parser.append(as_bytes("POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    for (const std::string_view piece : {"0\r\n", "\r", "\n"}) {
        EXPECT_EQ(outcome(parser), "body?");
        parser.append(as_bytes(piece));
    }
    EXPECT_EQ(outcome(parser), "POST /b");
}

TEST(RequestParser, RequestCutAtEveryByte) {
    const std::string text =
        "POST /a?b=c HTTP/1.1\r\nHost: a\r\nOrigin: http://o\r\nContent-Length: 5\r\n\r\nhello";
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
        RequestParser parser({});
        parser.append(as_bytes(std::string_view(text).substr(0, cut)));
        EXPECT_THAT(outcome(parser), EndsWith("?")) << cut;
        parser.append(as_bytes(std::string_view(text).substr(cut)));
        EXPECT_EQ(outcome(parser), "POST /a?b=c") << cut;
        EXPECT_EQ(parser.request().origin, "http://o");
        EXPECT_TRUE(parser.request().keep_alive);
    }
}

TEST(RequestParser, PipelinedByteByByte) {
    std::string text;
    for (int i = 0; i < 5; ++i) {
        text += "\r\nPUT /" + std::to_string(i) +
                " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    }
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, text.size()}) {
        RequestParser parser({});
        std::string seen;
        for (std::size_t at = 0; at < text.size(); at += step) {
            parser.append(as_bytes(std::string_view(text).substr(at, step)));
            while (parser.advance() == ParseState::kComplete) {
                seen += parser.request().target;
                parser.next();
            }
        }
        EXPECT_EQ(seen, "/0/1/2/3/4") << step;
        EXPECT_FALSE(parser.has_begun());
    }
}

TEST(RequestParser, FailuresHaveAStatus) {
    EXPECT_EQ(parse("nonsense\r\n\r\n"), "400");
    EXPECT_EQ(parse("GET /ping HTTP/1.1\r\n\r\n"), "400");  // no host
    EXPECT_EQ(parse("GET /ping HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), "400");
    EXPECT_EQ(parse("GET /ping HTTP/1.0\r\n\r\n"), "GET /ping");
    EXPECT_EQ(parse("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "400");
    EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n"), "400");
    EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"), "400");
    EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(20'000, 'x')), "431");
    EXPECT_EQ(parse("GET /" + std::string(20'000, 'x')), "431");
    EXPECT_EQ(parse("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000001\r\n\r\n"), "413");
    EXPECT_EQ(parse("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n"), "body?");
    EXPECT_EQ(
        parse("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
              {.body_bytes_max = 4}),
        "413");
    EXPECT_EQ(parse(std::string_view("\0\xFF\x80\r\n\r\n", 7)), "400");
}

// What stands in the way of knowing where a request ends is refused as soon as the header says it.
TEST(RequestParser, OnlyChunkedIsDecoded) {
    const auto post = [](std::string_view fields, std::string_view version = "1.1") {
        return parse("POST /ping HTTP/" + std::string(version) + "\r\nHost: a\r\n" +
                     std::string(fields) + "\r\n0\r\n\r\n");
    };
    EXPECT_EQ(post("Transfer-Encoding: chunked\r\n"), "POST /ping");
    EXPECT_EQ(post("transfer-encoding: \t Chunked \t\r\n"), "POST /ping");
    for (const std::string_view value :
         {"gzip, chunked", "gzip", "identity", "chunked, gzip", "chunked, chunked", "chunked;q=1",
          "x-chunked", "\"chunked\"", ",chunked", "", "chunked chunked", "chunked\v"}) {
        const std::string field = "Transfer-Encoding: " + std::string(value) + "\r\n";
        const bool is_text = value.find('\v') == std::string_view::npos;
        EXPECT_EQ(post(field), is_text ? "501" : "400") << value;
        EXPECT_EQ(post("Content-Length: 3\r\n" + field), "400") << value;
        EXPECT_EQ(post(field + "Content-Length: 3\r\n"), "400") << value;
        EXPECT_EQ(post(field, "1.0"), "400") << value;
        EXPECT_EQ(post(field + "Transfer-Encoding: chunked\r\n"), "400") << value;
        EXPECT_EQ(post("Transfer-Encoding: chunked\r\n" + field), "400") << value;
    }
    EXPECT_EQ(post("Transfer-Encoding: chunked\r\n", "1.0"), "400");
    EXPECT_EQ(post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), "400");
    EXPECT_EQ(post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "400");
}

// Where nothing but lines may stand, a line break other than CRLF is not waited out.
TEST(RequestParser, BareLineBreaksAreRefusedAtOnce) {
    const std::string head = "POST /a HTTP/1.1\r\nHost: a\r\n";
    const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
    const std::vector<std::string> refused = {
        "POST /a HTTP/1.1\n",
        "POST /a\n",
        head + "X: y\n",
        head + "X\n",
        head + "\n",
        head + "X: y\rZ",
        chunked + "3\n",
        chunked + "3\nabc\n0\n\n",
        chunked + "3;a=b\n",
        chunked + "3\r\nabc\n",
        chunked + "3\r\nabc\r\n0\n",
        chunked + "0\n\n",
        chunked + "0\r\n\n",
        chunked + "0\r\nT: v\n",
        chunked + "0\r\nT: v\r\n\n",
        chunked + "3\rabc",
    };
    for (const std::string& text : refused) {
        EXPECT_EQ(parse(text), "400") << text;
        for (std::size_t cut = 1; cut < text.size(); ++cut) {
            RequestParser parser({});
            parser.append(as_bytes(std::string_view(text).substr(0, cut)));
            static_cast<void>(parser.advance());
            parser.append(as_bytes(std::string_view(text).substr(cut)));
            EXPECT_EQ(outcome(parser), "400") << text << " cut at " << cut;
        }
    }
}

TEST(RequestParser, ABodyMayHoldAnyLineBreaks) {
    for (const std::string_view body :
         {"a\r\n\n\n\n\r\r\n\n\r\n\n\r\n0\r\n\r\n", "1\r\n\n\r\n1\r\n\r\r\n0\r\n\r\n"}) {
        expect_whole_at_last_byte(body);
    }
    EXPECT_EQ(parse("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\n\r\n"), "body?");
    EXPECT_EQ(parse("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\n\r\n\r"), "POST /a");
}

// The lines of a chunked body are of no chunk, so the limit of the body does not count them.
TEST(RequestParser, LinesOfAChunkedBodyAreBounded) {
    for (const std::string_view begin : {"5;", "1\r\na\r\n5;a=", "0;", "0\r\nT: "}) {
        RequestParser parser({.header_bytes_max = 1000});
        parser.append(
            as_bytes("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
        parser.append(as_bytes(begin));
        EXPECT_EQ(outcome(parser), "body?");
        for (int i = 0; i < 9; ++i) {
            parser.append(as_bytes(std::string(100, 'x')));
            EXPECT_EQ(outcome(parser), "body?") << begin;
        }
        parser.append(as_bytes(std::string(200, 'x')));
        EXPECT_EQ(outcome(parser), "431") << begin;
    }
}

TEST(RequestParser, ExpectIsReportedOnce) {
    RequestParser parser({});
    parser.append(as_bytes(std::string_view(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n")));
    EXPECT_EQ(parser.advance(), ParseState::kNeedBody);
    EXPECT_TRUE(parser.take_expects_continue());
    EXPECT_FALSE(parser.take_expects_continue());
}

// ---- the routes
// --------------------------------------------------------------------------------------

class FakeBackend final : public Backend {
 public:
    std::vector<std::string> health_faults() override { return faults; }
    void metrics(std::string& out) override { out += metrics_text; }
    std::vector<std::string> faults;
    std::string metrics_text = "a_total 1\n";
};

Request request(std::string_view method, std::string_view target) {
    return {.method = std::string(method), .target = std::string(target), .keep_alive = true};
}

TEST(Router, Routes) {
    FakeBackend backend;
    const HttpOptions options;
    Router router(backend, options);
    EXPECT_EQ(router.answer(request("GET", "/ping")).body, "pong");
    EXPECT_EQ(router.answer(request("GET", "/ping?x")).body, "pong");
    EXPECT_EQ(router.answer(request("GET", "http://h:1/ping")).body, "pong");
    EXPECT_EQ(router.answer(request("GET", "/healthz")).body, "{\"status\":\"ok\"}");
    const Response unknown = router.answer(request("GET", "/streams"));
    EXPECT_EQ(unknown.status, 404u);
    EXPECT_EQ(unknown.content_type, kJSONType);
    EXPECT_EQ(
        unknown.body,
        "{\"id\":404,\"code\":\"not_found\",\"reason\":\"Resource not found\",\"field\":null}");
    const Response wrong = router.answer(request("POST", "/ping"));
    EXPECT_EQ(wrong.status, 405u);
    EXPECT_EQ(wrong.headers, "allow: GET,HEAD\r\n");
}

TEST(Router, HealthShowsItsReasons) {
    FakeBackend backend;
    const HttpOptions options;
    Router router(backend, options);
    backend.faults = {"partition 1/2/3 is fenced", "a \"quoted\"\n\\ reason"};
    const Response response = router.answer(request("GET", "/healthz"));
    EXPECT_EQ(response.status, 503u);
    EXPECT_EQ(response.body,
              "{\"status\":\"unavailable\",\"reasons\":[\"partition 1/2/3 is fenced\","
              "\"a \\\"quoted\\\"\\u000a\\\\ reason\"]}");
}

TEST(Router, MetricsAreForLoopback) {
    FakeBackend backend;
    HttpOptions options{.metrics_endpoint = "/m"};
    Router router(backend, options);
    EXPECT_EQ(router.answer(request("GET", "/m")).status, 403u);
    router.set_loopback(true);
    EXPECT_EQ(router.answer(request("GET", "/m")).body, "a_total 1\n");
    EXPECT_EQ(router.answer(request("GET", "/metrics")).status, 404u);
    options.metrics_enabled = false;
    Router without(backend, options);
    without.set_loopback(true);
    EXPECT_EQ(without.answer(request("GET", "/m")).status, 404u);
    EXPECT_TRUE(is_loopback_ip("127.0.0.5"));
    EXPECT_TRUE(is_loopback_ip("::1"));
    EXPECT_FALSE(is_loopback_ip("0.0.0.0"));
    EXPECT_FALSE(is_loopback_ip("::"));
    EXPECT_FALSE(is_loopback_ip(""));
}

TEST(Router, CORS) {
    FakeBackend backend;
    HttpOptions options;
    options.cors.enabled = true;
    Router router(backend, options);
    const Response preflight = router.answer(request("OPTIONS", "/anything"));
    EXPECT_EQ(preflight.status, 200u);
    EXPECT_THAT(preflight.headers, HasSubstr("access-control-allow-origin: *\r\n"));
    EXPECT_THAT(preflight.headers,
                HasSubstr("access-control-allow-methods: GET,POST,PUT,DELETE\r\n"));
    EXPECT_THAT(router.answer(request("GET", "/ping")).headers,
                HasSubstr("access-control-expose-headers: iggy-view\r\n"));
    options.cors.allowed_origins = {"http://a"};
    Request from = request("GET", "/ping");
    from.origin = "http://b";
    EXPECT_THAT(router.answer(from).headers, Not(HasSubstr("allow-origin")));
    from.origin = "http://a";
    EXPECT_THAT(router.answer(from).headers,
                HasSubstr("access-control-allow-origin: http://a\r\n"));
}

// ---- the server
// --------------------------------------------------------------------------------------

class HttpServerTest : public ::testing::Test {
 protected:
    HttpServerTest() : HttpServerTest(HttpOptions{}) {}
    explicit HttpServerTest(const HttpOptions& options) : server_(*node_.loop, backend_, options) {
        EXPECT_TRUE(world_.run(node_, server_.listen({.ip = node_.ip, .port = 0})));
        server_.start();
    }
    void TearDown() override {
        world_.run(node_, server_.stop());
        EXPECT_EQ(server_.open_count(), 0u);
        EXPECT_EQ(node_.io->free_chunk_count(), 64u);
    }

    SocketHandle connect() {
        const std::int32_t result =
            world_.run(client_, connect_task(*client_.io, server_.address()));
        EXPECT_GE(result, 0);
        return SocketHandle{result};
    }
    bool send(SocketHandle socket, std::string_view text) {
        return world_.run(client_, send_task(*client_.io, socket, text));
    }
    std::string receive(SocketHandle socket, std::size_t bytes) {
        return world_.run(client_, receive_task(*client_.io, socket, bytes));
    }
    /// Everything up to the end of the stream.
    std::string receive_all(SocketHandle socket) { return receive(socket, 1'000'000); }
    void close(SocketHandle socket) { client_.io->close_socket(socket); }

    /// Borrows all receive chunks of the server's node.
    void take_chunks() { world_.run(client_, take_chunks_task(*this)); }
    void return_chunks() {
        for (const runtime::ReceivedChunk& chunk : std::exchange(chunks_, {})) {
            node_.io->return_chunk(chunk);
        }
    }

    static Task<void> take_chunks_task(HttpServerTest& test) {
        const runtime::SocketAddress address{.ip = test.node_.ip, .port = 9999};
        const auto listener = test.node_.io->listen(address);
        EXPECT_TRUE(listener.has_value());
        const std::int32_t from = co_await connect_task(*test.client_.io, address);
        const std::int32_t to = co_await runtime::io_await(
            [&](runtime::IoOp& op) { test.node_.io->accept(op, *listener); });
        EXPECT_GE(to, 0);
        while (test.node_.io->free_chunk_count() != 0) {
            const bool sent = co_await send_task(*test.client_.io, SocketHandle{from}, "x");
            EXPECT_TRUE(sent);
            const net::TimedResult result = co_await net::timed_io(
                *test.node_.loop, runtime::kNever,
                [&](runtime::IoOp& op) { test.node_.io->receive_any(op, SocketHandle{to}); });
            EXPECT_EQ(result.value, 1);
            test.chunks_.push_back(result.chunk);
        }
        test.client_.io->close_socket(SocketHandle{from});
        test.node_.io->close_socket(SocketHandle{to});
        test.node_.io->close_socket(*listener);
    }
    static Task<std::int32_t> connect_task(runtime::IoBackend& io, runtime::SocketAddress address) {
        const std::int32_t result =
            co_await runtime::io_await([&](runtime::IoOp& op) { io.connect(op, address); });
        co_return result;
    }
    static Task<bool> send_task(runtime::IoBackend& io, SocketHandle socket,
                                std::string_view text) {
        const std::array<iovec, 1> parts{
            iovec{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()}};
        const std::int32_t result =
            co_await runtime::io_await([&](runtime::IoOp& op) { io.send(op, socket, parts); });
        co_return result == static_cast<std::int32_t>(text.size());
    }
    static Task<std::string> receive_task(runtime::IoBackend& io, SocketHandle socket,
                                          std::size_t bytes) {
        std::vector<std::byte> into(bytes);
        std::size_t filled = 0;
        while (filled < bytes) {
            const MutableBytes rest = MutableBytes(into).subspan(filled);
            const std::int32_t result = co_await runtime::io_await(
                [&](runtime::IoOp& op) { io.receive(op, socket, rest); });
            if (result <= 0) {
                break;
            }
            filled += static_cast<std::size_t>(result);
        }
        co_return std::string(as_text(ConstBytes(into).first(filled)));
    }

    TestWorld world_{1};
    Node& node_ = world_.add_node();
    Node& client_ = world_.add_node();
    FakeBackend backend_;
    HttpServer server_;
    std::vector<runtime::ReceivedChunk> chunks_;
};

TEST_F(HttpServerTest, KeepsAliveAndAnswersPipelined) {
    const SocketHandle socket = connect();
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(send(socket, kPing));
        EXPECT_EQ(receive(socket, kPong.size()), kPong);
        world_.run_for(50 * kSecond);
    }
    ASSERT_TRUE(send(socket, std::string(kPing) + std::string(kPing) +
                                 "HEAD /ping HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    const std::string answers = receive_all(socket);
    EXPECT_THAT(answers,
                StartsWith(std::string(kPong) + std::string(kPong) + "HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answers, EndsWith("content-length: 4\r\nconnection: close\r\n\r\n"));
    EXPECT_EQ(server_.request_count(), 6u);
    close(socket);
}

TEST_F(HttpServerTest, RequestCutAtEveryByte) {
    const SocketHandle socket = connect();
    for (std::size_t cut = 1; cut < kPing.size(); ++cut) {
        ASSERT_TRUE(send(socket, kPing.substr(0, cut)));
        world_.run_for(kMillisecond);
        ASSERT_TRUE(send(socket, kPing.substr(cut)));
        ASSERT_EQ(receive(socket, kPong.size()), kPong) << cut;
    }
    close(socket);
}

TEST_F(HttpServerTest, LargeMetricsArriveWhole) {
    backend_.metrics_text = std::string(300'000, 'm');
    const SocketHandle socket = connect();
    ASSERT_TRUE(send(socket, "GET /metrics HTTP/1.0\r\n\r\n"));
    const std::string answer = receive_all(socket);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4"));
    EXPECT_THAT(answer, EndsWith("\r\n\r\n" + backend_.metrics_text));
    close(socket);
}

TEST_F(HttpServerTest, BadRequestsAreAnsweredAndClosed) {
    const auto answer_to = [&](std::string_view text) {
        const SocketHandle socket = connect();
        EXPECT_TRUE(send(socket, text));
        std::string answer = receive_all(socket);
        close(socket);
        return answer;
    };
    EXPECT_THAT(answer_to("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 Bad Request\r\n"));
    EXPECT_THAT(
        answer_to("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(30'000, 'x') + "\r\n\r\n"),
        StartsWith("HTTP/1.1 431 "));
    const std::string encoded = answer_to(
        "POST /ping HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
    EXPECT_THAT(encoded, StartsWith("HTTP/1.1 501 Not Implemented\r\n"));
    EXPECT_THAT(encoded, HasSubstr("connection: close\r\n"));
    const std::string too_large =
        answer_to("POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" +
                  std::string(20'000, 'b'));
    EXPECT_THAT(too_large, StartsWith("HTTP/1.1 413 "));
    EXPECT_THAT(too_large, HasSubstr("connection: close\r\n"));
}

TEST_F(HttpServerTest, BareLineBreaksDoNotHoldAConnection) {
    const SocketHandle socket = connect();
    ASSERT_TRUE(send(socket,
                     "POST /ping HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "3\nabc\n0\n\n"));
    const Instant began = node_.loop->now();
    EXPECT_THAT(receive(socket, 24), StartsWith("HTTP/1.1 400 Bad Request"));
    EXPECT_LT(node_.loop->now().value(), began.plus(kSecond).value());
    close(socket);
}

TEST_F(HttpServerTest, BodyIsReadPastAndContinueIsSaid) {
    const SocketHandle socket = connect();
    ASSERT_TRUE(send(socket,
                     "POST /ping HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                     "Content-Length: 50000\r\n\r\n"));
    EXPECT_EQ(receive(socket, 25), "HTTP/1.1 100 Continue\r\n\r\n");
    ASSERT_TRUE(send(socket, std::string(50'000, 'b') + std::string(kPing)));
    constexpr std::string_view kRefused =
        "HTTP/1.1 405 Method Not Allowed\r\nallow: GET,HEAD\r\ncontent-length: 0\r\n\r\n";
    EXPECT_EQ(receive(socket, kRefused.size() + kPong.size()),
              std::string(kRefused) + std::string(kPong));
    close(socket);
}

TEST_F(HttpServerTest, SlowPeersAreClosed) {
    const SocketHandle idle = connect();
    const SocketHandle slow = connect();
    ASSERT_TRUE(send(slow, "GET /ping"));
    world_.run_for(9 * kSecond);
    ASSERT_TRUE(send(slow, " HTTP"));
    EXPECT_EQ(server_.open_count(), 2u);
    world_.run_for(2 * kSecond);
    EXPECT_EQ(server_.open_count(), 1u);
    EXPECT_EQ(receive_all(slow), "");
    world_.run_for(48 * kSecond);
    EXPECT_EQ(server_.open_count(), 1u);
    world_.run_for(2 * kSecond);
    EXPECT_EQ(server_.open_count(), 0u);
    close(idle);
    close(slow);
}

TEST_F(HttpServerTest, SlowPeersAreClosedWithoutChunksToo) {
    const SocketHandle slow = connect();
    ASSERT_TRUE(send(slow, "GET /p"));
    world_.run_for(kMillisecond);
    take_chunks();
    ASSERT_TRUE(send(slow, "ing"));
    world_.run_for(9 * kSecond);
    EXPECT_EQ(server_.open_count(), 1u);
    world_.run_for(2 * kSecond);
    EXPECT_EQ(server_.open_count(), 0u);
    return_chunks();
    close(slow);
}

TEST_F(HttpServerTest, AnswerTakenInCrumbsIsGivenUp) {
    backend_.metrics_text = std::string(1'000'000, 'm');
    const SocketHandle socket = connect();
    ASSERT_TRUE(send(socket, "GET /metrics HTTP/1.0\r\n\r\n"));
    for (int i = 0; i < 60 && server_.open_count() == 1; ++i) {
        world_.run_for(5 * kSecond);
        const std::string crumb = receive(socket, 1024);
    }
    EXPECT_EQ(server_.open_count(), 0u);
    close(socket);
}

TEST_F(HttpServerTest, AnswerTakenSlowlyArrivesWhole) {
    backend_.metrics_text = std::string(500'000, 'm');
    const SocketHandle socket = connect();
    ASSERT_TRUE(send(socket, "GET /metrics HTTP/1.0\r\n\r\n"));
    std::string answer;
    for (int i = 0; i < 7; ++i) {  // each send is cut by its deadline at least once
        world_.run_for(25 * kSecond);
        answer += receive(socket, 64 * 1024);
    }
    answer += receive_all(socket);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, EndsWith("\r\n\r\n" + backend_.metrics_text));
    close(socket);
}

class SmallHttpServerTest : public HttpServerTest {
 protected:
    SmallHttpServerTest() : HttpServerTest(HttpOptions{.connections_max = 2}) {}
};

TEST_F(SmallHttpServerTest, RefusesBeyondItsBoundAndStopsWithOpenConnections) {
    const SocketHandle a = connect();
    const SocketHandle b = connect();
    const SocketHandle c = connect();
    EXPECT_EQ(receive_all(c), "");
    EXPECT_EQ(server_.open_count(), 2u);
    ASSERT_TRUE(send(b, kPing));
    EXPECT_EQ(receive(b, kPong.size()), kPong);
    for (const SocketHandle socket : {a, b, c}) {
        client_.io->close_socket(socket);
    }
}

}  // namespace
}  // namespace galgo::http
