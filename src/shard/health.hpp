// What a shard tells the rest of the process about itself once a second: reasons why it cannot
// serve everything, and figures of its journal. The shard never waits here: while somebody reads,
// it skips its update.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "storage/shard_journal.hpp"

namespace galgo::shard {

/// Of the metadata log; all zero on other shards than the first.
struct MetadataFigures {
    std::uint64_t entry_count = 0;    ///< changes
    std::uint64_t batch_count = 0;    ///< groups of them that were written at once
    std::uint64_t barrier_count = 0;  ///< fdatasyncs
    std::uint64_t file_count = 0;
    std::uint64_t snapshot_count = 0;
};

struct HealthReport {
    std::vector<std::string> faults;
    storage::JournalStats journal;
    MetadataFigures metadata;
    std::uint64_t open_partitions = 0;
    std::uint64_t retries_answered = 0;  ///< sends that were known already
    std::uint64_t held_back_bytes = 0;   ///< due for retention, but a consumer has not read them
    std::uint64_t given_up_bytes = 0;    ///< removed by retention before a consumer had read them
    std::uint64_t read_ahead_bytes = 0;  ///< asked of the system ahead of consumers that catch up
};

class Health {
 public:
    /// The shard, once a second.
    void update(HealthReport report) {
        if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
            report_ = std::move(report);
        }
    }
    /// Anyone.
    [[nodiscard]] HealthReport report() const {
        const std::lock_guard lock(mutex_);
        return report_;
    }

 private:
    mutable std::mutex mutex_;
    HealthReport report_;
};

}  // namespace galgo::shard
