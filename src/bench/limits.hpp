// What the machine itself gives for the shapes of the workload, without a server: a thread of this
// process answers over loopback TCP with the least that a server has to do. The rows have the same
// names as those of the workload, server "limit", so that ratios come from one run. CPU is that of
// the answering thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bench/report.hpp"

namespace galgo::bench {

struct LimitOptions {
    std::uint32_t message_size = 1000;
    std::uint32_t batch = 1000;
    std::uint64_t total_bytes = 1'000'000'000;
    std::uint32_t round_trips = 20'000;
    std::uint32_t round_trip_size = 256;
    std::uint32_t warmup = 32;
    std::uint32_t time_limit_seconds = 60;
    bool sync = false;            ///< fdatasync of each batch in front of its acknowledgement
    std::string folder = "/tmp";  ///< for the file of a run, removed at its end
};

/// Rows "produce" (receive a batch, validate it as the server does, pwrite it to a new file,
/// acknowledge with 16 bytes), "consume" (16 bytes up, the batch back from that file by pread and
/// send), "send-ack" (a batch of one message up, validated and written, 16 bytes down) and
/// "echo" (round_trip_size bytes up and down).
[[nodiscard]] Result<std::vector<Row>> measure_limits(const LimitOptions& options);

}  // namespace galgo::bench
