// What the HTTP routes show of this process: health and metrics. Lives on shard 0; reads what other
// shards publish by relaxed atomics, so a scrape costs them nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "http/http_server.hpp"
#include "observe/metrics.hpp"
#include "runtime/io.hpp"
#include "shard/shard.hpp"

namespace galgo::server {

class HTTPBackend final : public http::Backend {
 public:
    /// `io` is shard 0's.
    HTTPBackend(shard::Process& process, runtime::IoBackend& io,
                const std::vector<std::atomic<shard::Shard*>>& shards, observe::Registry& registry);

    /// Reasons why this node should get no traffic: fenced partitions or metadata, a shard without
    /// a turn for 2 s. Empty = healthy.
    std::vector<std::string> health_faults() override;
    void metrics(std::string& out) override;

 private:
    void refresh();

    shard::Process& process_;
    runtime::IoBackend& io_;
    const std::vector<std::atomic<shard::Shard*>>& shards_;
    observe::Registry& registry_;
};

}  // namespace galgo::server
