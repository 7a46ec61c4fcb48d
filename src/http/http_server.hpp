// HttpServer: the HTTP/1.1 listener of the node: liveness, health and metrics. Runs on shard 0 over
// the sockets of the shard's IoBackend; the parser is Boost.Beast's, fed with bytes (no sockets of
// its own).
//
//   GET /ping                200 "pong"
//   GET /healthz             200 {"status":"ok"}, or 503 with the reasons
//   GET <metrics_endpoint>   200 Prometheus text; open while the listener is on loopback, else 403
//
// One request at a time a connection, in order; what a peer pipelines behind it waits. Limits:
// HttpOptions. Request bodies are counted and thrown away, so that a peer costs at most its header
// buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"
#include "runtime/loop.hpp"

namespace galgo::http {

struct CorsOptions {
    bool enabled = false;
    std::vector<std::string> allowed_methods = {"GET", "POST", "PUT", "DELETE"};
    /// A first entry of "*" allows any origin; empty allows none.
    std::vector<std::string> allowed_origins = {"*"};
    std::vector<std::string> allowed_headers = {"content-type", "authorization"};
    std::vector<std::string> exposed_headers = {"iggy-view"};
    bool allow_credentials = false;
    bool allow_private_network = false;
};

struct HttpOptions {
    std::uint64_t body_bytes_max = 2'000'000;  ///< above it 413
    bool metrics_enabled = true;
    std::string metrics_endpoint = "/metrics";  ///< starts with '/'
    CorsOptions cors;
    std::uint32_t header_bytes_max = 16 * 1024;    ///< request line and headers; above it 431
    std::uint32_t connections_max = 256;           ///< above it a connection is closed at once
    std::uint64_t idle_timeout_ns = 60 * kSecond;  ///< between requests
    std::uint64_t header_timeout_ns =
        10 * kSecond;  ///< from the first byte of a request to its headers' end
    /// Of a whole request body, and of each net::kProgressBytesMin of an answer.
    std::uint64_t progress_timeout_ns = 30 * kSecond;
};

/// What the routes show; implemented above. Called on the server's shard, must not wait.
class Backend {
 public:
    virtual ~Backend() = default;
    /// Reasons why this node should get no traffic, one sentence each; empty = healthy.
    virtual std::vector<std::string> health_faults() = 0;
    /// Appends Prometheus text format 0.0.4.
    virtual void metrics(std::string& out) = 0;
};

class HttpServer {
 public:
    /// Loop and backend outlive the server.
    HttpServer(runtime::Loop& loop, Backend& backend, HttpOptions options);
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;
    /// After stop() has ended, or without start().
    ~HttpServer();

    /// As net::TcpListener::listen: tries for 10 s while the address is in use.
    coro::Task<Status> listen(runtime::SocketAddress address);
    /// What it is bound to.
    [[nodiscard]] runtime::SocketAddress address() const;
    /// Accepts from now on.
    void start();
    /// Accepts no more, ends all connections and waits for them.
    coro::Task<void> stop();

    [[nodiscard]] std::size_t open_count() const noexcept;
    [[nodiscard]] std::uint64_t request_count() const noexcept;

 private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace galgo::http
