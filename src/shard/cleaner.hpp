// Cleaner: retention of the partitions of one shard. At each interval, and once a second while the
// disk is full, it looks at every open partition with the rules that its topic has at that moment,
// and takes away what may go: some segments of a partition at a time, then the others and the
// shard's other work have their turn, until nothing is due. Lines of one kind come at most once a
// minute; after an error the next pass tries again.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/ids.hpp"
#include "base/units.hpp"
#include "coro/task.hpp"
#include "partitions/partition_table.hpp"
#include "runtime/loop.hpp"
#include "shard/metadata_store.hpp"

namespace galgo::shard {

struct CleanerOptions {
    bool enabled = true;  ///< false: only what clients deleted goes
    std::uint64_t interval_ns = 60 * kSecond;
    /// How long a consumer may hold back what is due; 0 = for ever.
    std::uint64_t held_back_max_ns = 7 * 24 * 3600 * kSecond;
};

class Cleaner {
 public:
    Cleaner(runtime::Loop& loop, partitions::PartitionTable& table, MetadataReader metadata,
            CleanerOptions options) noexcept
        : loop_(loop), table_(table), metadata_(metadata), options_(options), sleeper_(loop) {}

    /// Passes at each interval until stop().
    coro::Task<void> run();
    /// run() returns soon, in the middle of a pass too.
    void stop() noexcept {
        stopping_ = true;
        sleeper_.interrupt();
    }
    /// The disk is full: until that is over there is a pass a second, what is due makes room.
    void set_urgent(bool is_urgent) noexcept { is_urgent_ = is_urgent; }
    /// All open partitions once, and those with more to do again.
    coro::Task<void> pass();
    /// By the last pass: due, but a consumer has not read them.
    [[nodiscard]] std::uint64_t held_back_bytes() const noexcept { return held_back_bytes_; }
    /// In this run: went although a consumer had not read them.
    [[nodiscard]] std::uint64_t given_up_bytes() const noexcept { return given_up_bytes_; }

 private:
    using Life = std::pair<PartitionKey, Incarnation>;
    /// Of several partitions, and the one that has most of it.
    struct Share {
        std::uint64_t bytes = 0;
        std::uint64_t partition_count = 0;
        std::uint64_t most_bytes = 0;
        PartitionKey most;
        partitions::SlowestConsumer most_because_of;

        void note(PartitionKey partition, std::uint64_t more,
                  const std::optional<partitions::SlowestConsumer>& slowest);
    };
    coro::Task<bool> clean(Life life, Share& held_back);
    [[nodiscard]] std::optional<partitions::RetentionRules> rules_of(Life life) const;
    void tell(const Share& held_back);
    static void tell_share(const char* what, const Share& share);
    void tell_error(const char* what, PartitionKey partition, const Error& error);
    [[nodiscard]] bool is_due(Instant& next_at) const noexcept;

    runtime::Loop& loop_;
    partitions::PartitionTable& table_;
    MetadataReader metadata_;
    CleanerOptions options_;
    runtime::Sleeper sleeper_;
    bool stopping_ = false;
    bool is_urgent_ = false;
    std::uint64_t held_back_bytes_ = 0;
    std::uint64_t given_up_bytes_ = 0;
    Share given_up_;                   ///< since the last line
    std::uint64_t removed_count_ = 0;  ///< segments, since the last line
    std::uint64_t removed_bytes_ = 0;
    Instant next_removed_line_at_{0};
    Instant next_held_back_line_at_{0};
    Instant next_given_up_line_at_{0};
    Instant next_error_line_at_{0};
};

}  // namespace galgo::shard
