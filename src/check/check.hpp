// A check of a data directory that no server uses: every batch of every segment with all checksums,
// indexes against their logs, and the steps of a start, run on an overlay in memory. What it finds
// is a Report. Nothing below the directory is changed. On one shard, with a loop that nothing else
// uses.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_function.hpp"
#include "check/finding.hpp"
#include "check/overlay_backend.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "metadata/state.hpp"
#include "runtime/loop.hpp"
#include "storage/data_key.hpp"
#include "storage/journal_list.hpp"

namespace galgo::check {

/// As the configuration and the machine have them.
struct Options {
    std::string path;                        ///< of the data directory, without a '/' at its end
    std::string runtime_folder = "runtime";  ///< names below `path` of other parts of the server
    std::string log_folder = "logs";
    bool is_encrypted = false;              ///< FORMAT says so
    const storage::DataKey* key = nullptr;  ///< null: encryption is off
    std::uint64_t journal_slots = 1024;     ///< metadata.journal_slots
    metadata::StateOptions state{};
    std::uint32_t consumer_offsets_max = 0;
    storage::BootNumber boot = 0;  ///< of the machine; 0: not known
    /// Files whose content follows from others are written anew, as a start does it. Needs the
    /// lock.
    bool repair = false;
};

/// Called each few seconds, with a line for a terminal.
using Progress = UniqueFunction<void(const std::string& line)>;

/// `loop` runs on `io`. All log lines of the process are taken meanwhile (observe::capture_log).
coro::Task<void> check_directory(runtime::Loop& loop, OverlayBackend& io, memory::BufferPool& pool,
                                 Options options, Report& report, Progress progress);

}  // namespace galgo::check
