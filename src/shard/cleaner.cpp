#include "shard/cleaner.hpp"

#include <algorithm>
#include <format>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "model/ids.hpp"
#include "observe/log.hpp"

namespace galgo::shard {

using coro::Task;
using partitions::Cleaned;
using partitions::PartitionHandle;
using partitions::RetentionRules;

namespace {

constexpr std::size_t kSegmentsAtATime = 16;
constexpr std::uint64_t kLineNs = 60 * kSecond;
constexpr std::uint64_t kMicrosecondNs = 1000;

std::string text_of(PartitionKey key) {
    const model::PartitionAddress address = model::unpack_partition_key(key);
    return std::format("{}/{}/{}", address.stream.value(), address.topic.value(),
                       address.partition.value());
}

/// 0 and all ones both mean "never" and "no bound".
std::uint64_t bound_of(std::uint64_t option) noexcept {
    return option == ~std::uint64_t{0} ? 0 : option;
}

}  // namespace

Task<void> Cleaner::run() {
    // No bound holds for the interval of a cleaner that is off.
    const std::uint64_t interval =
        options_.interval_ns == 0 ? kLineNs : std::max(options_.interval_ns, kMillisecond);
    while (co_await sleeper_.sleep_for(interval)) {
        co_await pass();
    }
}

Task<void> Cleaner::pass() {
    Figures figures;
    std::vector<Life> lives = table_.open_lives();
    bool is_first = true;
    while (!lives.empty() && !stopping_) {
        std::vector<Life> more;
        for (const Life& life : lives) {
            if (stopping_) {
                co_return;
            }
            const bool again = co_await clean(life, is_first, figures);
            if (again) {
                more.push_back(life);
            }
            co_await coro::yield_to(loop_.ready());
        }
        lives = std::move(more);
        is_first = false;
    }
    held_back_bytes_ = figures.held_back_bytes;
    tell(figures);
}

/// True when the partition has more to do.
Task<bool> Cleaner::clean(Life life, bool is_first, Figures& figures) {
    std::optional<PartitionHandle> partition = table_.find(life.first, life.second);
    const std::optional<RetentionRules> rules = rules_of(life);
    if (!partition.has_value() || !rules.has_value()) {
        co_return false;
    }
    const Result<Cleaned> cleaned =
        co_await (*partition)->clean(*rules, loop_.wall_now(), kSegmentsAtATime);
    if (!cleaned.has_value()) {
        if (loop_.now() >= next_error_line_at_) {
            next_error_line_at_ = loop_.now().plus(kLineNs);
            observe::log_warn(
                "shard", "segments that are due cannot be removed now",
                {{"partition", text_of(life.first)}, {"error", to_string(cleaned.error())}});
        }
        co_return false;
    }
    figures.segment_count += cleaned->trimmed.segment_count;
    figures.bytes += cleaned->trimmed.bytes;
    if (is_first && cleaned->held_back_bytes != 0) {
        figures.held_back_bytes += cleaned->held_back_bytes;
        ++figures.held_back_count;
        if (cleaned->held_back_bytes > figures.most_held_back_bytes) {
            figures.most_held_back_bytes = cleaned->held_back_bytes;
            figures.most_held_back = life.first;
            figures.held_back_by = cleaned->held_back_by;
        }
    }
    co_return cleaned->again;
}

/// From the metadata of this moment. Nothing for a life that is over.
std::optional<RetentionRules> Cleaner::rules_of(Life life) const {
    const metadata::State& state = metadata_.state();
    const metadata::Partition* row = state.find_partition(life.first);
    if (row == nullptr || row->incarnation != life.second) {
        return std::nullopt;
    }
    RetentionRules rules{.held_back_max_us = options_.held_back_max_ns / kMicrosecondNs};
    if (!options_.enabled) {
        return rules;
    }
    const model::PartitionAddress address = model::unpack_partition_key(life.first);
    const metadata::Topic* topic =
        state.find_topic(wire::Identifier::numbered(address.stream.value()),
                         wire::Identifier::numbered(address.topic.value()));
    const model::TopicOptions& options = topic->options.values;
    rules.expiry_us = bound_of(options.message_expiry_us);
    rules.size_max_bytes = bound_of(options.max_topic_size_bytes);
    rules.partition_count = topic->partition_count();
    for (std::uint32_t i = 0; rules.size_max_bytes != 0 && i < topic->partition_count(); ++i) {
        rules.topic_sealed_bytes += topic->partitions[i].stats->load().sealed_bytes;
    }
    return rules;
}

void Cleaner::tell(const Figures& figures) {
    if (figures.segment_count != 0) {
        observe::log_info("shard", "segments were removed by retention",
                          {{"segments", figures.segment_count}, {"bytes", figures.bytes}});
    }
    if (figures.held_back_count == 0 || loop_.now() < next_held_back_line_at_) {
        return;
    }
    next_held_back_line_at_ = loop_.now().plus(kLineNs);
    const partitions::SlowestConsumer slowest =
        figures.held_back_by.value_or(partitions::SlowestConsumer{});
    observe::log_warn(
        "shard", "messages that are due stay because of stored offsets",
        {{"bytes", figures.held_back_bytes},
         {"partitions", figures.held_back_count},
         {"most", text_of(figures.most_held_back)},
         {"kind", slowest.consumer.kind == wire::ConsumerKind::kGroup ? "group" : "consumer"},
         {"id", slowest.consumer.id},
         {"stored", slowest.is_unknown ? "unknown" : std::to_string(slowest.stored.value())}});
}

}  // namespace galgo::shard
