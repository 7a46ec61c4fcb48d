#include "shard/cleaner.hpp"

#include <algorithm>
#include <string>
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
using partitions::SlowestConsumer;
using partitions::text_of;

namespace {

constexpr std::uint64_t kLineNs = 60 * kSecond;
constexpr std::uint64_t kUrgentIntervalNs = 1 * kSecond;

/// 0 and all ones both mean "never" and "no bound".
std::uint64_t bound_of(std::uint64_t option) noexcept {
    return option == ~std::uint64_t{0} ? 0 : option;
}

}  // namespace

Task<void> Cleaner::run() {
    // No bound holds for the interval of a cleaner that is off.
    const std::uint64_t interval =
        options_.interval_ns == 0 ? kLineNs : std::max(options_.interval_ns, kMillisecond);
    Instant last = loop_.now();
    const auto left = [&] {
        const std::uint64_t passed = loop_.now().value() - last.value();
        return passed >= interval ? 0 : interval - passed;
    };
    while (co_await sleeper_.sleep_for(std::min(left(), kUrgentIntervalNs))) {
        if (is_urgent_ || left() == 0) {
            last = loop_.now();
            co_await pass();
        }
    }
}

Task<void> Cleaner::pass() {
    Share held_back;
    std::vector<Life> lives = table_.open_lives();
    while (!lives.empty() && !stopping_) {
        std::vector<Life> more;
        for (const Life& life : lives) {
            if (stopping_) {
                co_return;
            }
            const bool again = co_await clean(life, held_back);
            if (again) {
                more.push_back(life);
            }
            co_await coro::yield_to(loop_.ready());
        }
        lives = std::move(more);
    }
    held_back_bytes_ = held_back.bytes;
    tell(held_back);
}

/// True when the partition has more to do.
Task<bool> Cleaner::clean(Life life, Share& held_back) {
    std::optional<PartitionHandle> partition = table_.find(life.first, life.second);
    const std::optional<RetentionRules> rules = rules_of(life);
    if (!partition.has_value() || !rules.has_value()) {
        co_return false;
    }
    const Cleaned cleaned =
        co_await (*partition)->clean(*rules, loop_.wall_now(), partitions::kSegmentsAtATime);
    if (cleaned.trim_error.has_value()) {
        tell_error("segments that are due cannot be removed now", life.first, *cleaned.trim_error);
    }
    if (cleaned.roll_error.has_value()) {
        tell_error("a segment that is old enough cannot be ended now", life.first,
                   *cleaned.roll_error);
    }
    removed_count_ += cleaned.trimmed.segment_count;
    removed_bytes_ += cleaned.trimmed.bytes;
    if (cleaned.given_up_bytes != 0) {
        given_up_bytes_ += cleaned.given_up_bytes;
        given_up_.note(life.first, cleaned.given_up_bytes, cleaned.slowest);
    }
    if (cleaned.held_back_bytes != 0) {
        held_back.note(life.first, cleaned.held_back_bytes, cleaned.slowest);
    }
    co_return cleaned.again;
}

/// From the metadata of this moment. Nothing for a life that is over.
std::optional<RetentionRules> Cleaner::rules_of(Life life) const {
    const metadata::State& state = metadata_.state();
    const metadata::Partition* row = state.find_partition(life.first);
    if (row == nullptr || row->incarnation != life.second) {
        return std::nullopt;
    }
    RetentionRules rules{.held_back_max_ns = options_.held_back_max_ns};
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

void Cleaner::Share::note(PartitionKey partition, std::uint64_t more,
                          const std::optional<SlowestConsumer>& slowest) {
    bytes += more;
    ++partition_count;
    if (more > most_bytes) {
        most_bytes = more;
        most = partition;
        most_because_of = slowest.value_or(SlowestConsumer{});
    }
}

void Cleaner::tell_error(const char* what, PartitionKey partition, const Error& error) {
    if (is_due(next_error_line_at_)) {
        observe::log_warn("shard", what,
                          {{"partition", text_of(partition)}, {"error", to_string(error)}});
    }
}

/// May a line of that kind be written now? Then it is.
bool Cleaner::is_due(Instant& next_at) const noexcept {
    if (loop_.now() < next_at) {
        return false;
    }
    next_at = loop_.now().plus(kLineNs);
    return true;
}

void Cleaner::tell(const Share& held_back) {
    if (removed_count_ != 0 && is_due(next_removed_line_at_)) {
        observe::log_info("shard", "segments were removed by retention",
                          {{"segments", std::exchange(removed_count_, 0)},
                           {"bytes", std::exchange(removed_bytes_, 0)}});
    }
    if (given_up_.bytes != 0 && is_due(next_given_up_line_at_)) {
        tell_share("messages went although a consumer had not read them: held back too long",
                   std::exchange(given_up_, Share{}));
    }
    if (held_back.bytes != 0 && is_due(next_held_back_line_at_)) {
        tell_share("messages that are due stay because of stored offsets", held_back);
    }
}

void Cleaner::tell_share(const char* what, const Share& share) {
    const SlowestConsumer& slowest = share.most_because_of;
    observe::log_warn(
        "shard", what,
        {{"bytes", share.bytes},
         {"partitions", share.partition_count},
         {"most", text_of(share.most)},
         {"kind", slowest.consumer.kind == wire::ConsumerKind::kGroup ? "group" : "consumer"},
         {"id", slowest.consumer.id},
         {"stored", slowest.is_unknown ? "unknown" : std::to_string(slowest.stored.value())}});
}

}  // namespace galgo::shard
