// Rows of open partitions: opening at the first touch, retirement, relief of the journal, and the
// housekeeping of all of them.
#include "partitions/partition_table.hpp"

#include <algorithm>
#include <format>

#include "model/ids.hpp"
#include "observe/log.hpp"

namespace galgo::partitions {

using coro::Task;

namespace {

/// Between two looks at flushes that do not end, and two attempts of one that fails.
constexpr std::uint64_t kReliefRetryNs = 100 * kMillisecond;
/// For a flush of a partition, while hardly a journal file is left.
constexpr std::uint64_t kReliefPatienceMaxNs = 1 * kSecond;
/// Between two looks at all rows for the same journal files.
constexpr std::uint64_t kReliefLookNs = 1 * kMillisecond;
/// Flushes at a time, those that do not end left out: each takes a worker of the kernel and memory.
constexpr std::size_t kReliefsMax = 64;
/// Partitions that close their files at a time.
constexpr std::size_t kRestsMax = 256;

void report_dropped(PartitionKey key, const Status& dropped) {
    if (!dropped.has_value()) {
        observe::log_warn("partitions", "files of a removed partition are left",
                          {{"partition", text_of(key)}, {"error", to_string(dropped.error())}});
    }
}

}  // namespace

std::string text_of(PartitionKey key) {
    const model::PartitionAddress address = model::unpack_partition_key(key);
    return std::format("{}/{}/{}", address.stream.value(), address.topic.value(),
                       address.partition.value());
}

PartitionTable::PartitionTable(runtime::Loop& loop, memory::BufferPool& pool,
                               storage::ShardJournal& journal, TableOptions options)
    : loop_(loop),
      options_(std::move(options)),
      storage_(loop.io(), loop.ready(), pool, journal, options_.trash),
      retries_(loop.ready(), {}),
      environment_{.storage = storage_,
                   .loop = loop,
                   .pipelines = pipelines_,
                   .dirty = dirty_,
                   .retries = retries_,
                   .root = options_.data_path,
                   .validate_checksum = options_.validate_checksum,
                   .consumer_offsets_max = options_.consumer_offsets_max,
                   .group = {.pipeline_max = options_.pipeline_max},
                   .commit_times = options_.commit_times},
      changed_(loop.ready()),
      scope_(loop.ready()),
      writing_ledger_(loop.ready(), 1) {
    storage_.sync_times = options_.segment_sync_times;
    storage_.encryption = options_.encryption;
    journal.set_pressure_hook(
        [](void* context, std::uint64_t last) noexcept {
            static_cast<PartitionTable*>(context)->relieve_pressure(last);
        },
        this);
    for (storage::LedgerRow& claim : options_.claims) {
        unopened_.insert_or_assign(claim.partition, std::move(claim));
    }
    options_.claims.clear();
    if (options_.boot != 0) {
        journal.set_release_hook(before_release, this);
    }
}

PartitionTable::~PartitionTable() = default;

std::string PartitionTable::directory_of(PartitionKey key) const {
    const model::PartitionAddress address = model::unpack_partition_key(key);
    return std::format("{}/streams/{}/topics/{}/partitions/{}", options_.data_path,
                       address.stream.value(), address.topic.value(), address.partition.value());
}

bool PartitionTable::has_files(PartitionKey key, Incarnation incarnation) const {
    return has_directory(key) || claim_of(key, incarnation) != nullptr;
}

bool PartitionTable::has_directory(PartitionKey key) const {
    return loop_.io().file_facts(directory_of(key)).has_value();
}

std::optional<PartitionHandle> PartitionTable::find(PartitionKey key,
                                                    Incarnation incarnation) const {
    const auto found = rows_.find(key);
    if (found == rows_.end() || found->second.partition == nullptr ||
        found->second.incarnation != incarnation) {
        return std::nullopt;
    }
    return PartitionHandle(found->second.partition);
}

Task<Result<PartitionHandle>> PartitionTable::open(PartitionKey key, Incarnation incarnation,
                                                   PartitionOptions options,
                                                   PublishCounters publish) {
    for (;;) {
        if (scope_.closed()) {  // the shard stops: the journal takes no more
            co_return fail(ErrorCode::kTransientNotAccepted);
        }
        const auto found = rows_.find(key);
        if (found == rows_.end()) {
            break;
        }
        const Row& row = found->second;
        if (row.incarnation > incarnation) {
            co_return fail(ErrorCode::kTransientNotAccepted);
        }
        if (row.partition == nullptr) {  // opening or closing: its end decides
            co_await changed_.wait();
            continue;
        }
        if (row.incarnation == incarnation) {
            co_return PartitionHandle(row.partition);
        }
        co_await retire(key, incarnation, false);
    }
    rows_[key] = Row{.incarnation = incarnation};
    Result<std::unique_ptr<Partition>> opened =
        co_await Partition::open(environment_, directory_of(key), key, incarnation, options,
                                 options_.replay, claim_of(key, incarnation), std::move(publish));
    if (!opened.has_value()) {
        rows_.erase(key);
        changed_.wake_all();
        // Clients and housekeeping try again: a line a second is enough.
        if (loop_.now() >= next_open_line_at_) {
            next_open_line_at_ = loop_.now().plus(kSecond);
            observe::log_error("partitions", "a partition cannot be opened",
                               {{"partition", text_of(key)}, {"error", to_string(opened.error())}});
        }
        co_return std::unexpected(opened.error());
    }
    std::shared_ptr<Partition> partition = *std::move(opened);
    if (const std::optional<std::string> fence = partition->fenced()) {
        observe::log_error("partitions", "a partition takes no messages",
                           {{"partition", text_of(key)}, {"reason", *fence}});
    }
    rows_[key].partition = partition;
    unopened_.erase(key);  // its own row says as much
    changed_.wake_all();
    co_return PartitionHandle(std::move(partition));
}

Task<void> PartitionTable::retire(PartitionKey key, Incarnation keep_from, bool deleted) {
    for (;;) {
        const auto found = rows_.find(key);
        if (found == rows_.end()) {
            const auto claim = unopened_.find(key);
            if (claim != unopened_.end() && claim->second.incarnation < keep_from) {
                unopened_.erase(claim);
            }
            if (deleted && has_directory(key)) {
                co_await drop_unopened(key, keep_from);
            }
            co_return;
        }
        if (found->second.incarnation >= keep_from) {
            co_return;
        }
        if (found->second.partition != nullptr) {
            break;
        }
        co_await changed_.wait();
    }
    std::shared_ptr<Partition> partition = std::move(rows_[key].partition);
    rows_[key].partition = nullptr;
    co_await await_unused(partition);
    const Status dropped = co_await partition->drop();
    report_dropped(key, dropped);
    partition.reset();
    rows_.erase(key);
    changed_.wake_all();
}

/// The directory of a partition that this run never touched. The row keeps later lives out until
/// it is gone.
Task<void> PartitionTable::drop_unopened(PartitionKey key, Incarnation keep_from) {
    const Incarnation last{keep_from.value() - 1};
    rows_[key] = Row{.incarnation = last};
    const Status dropped = co_await storage::trash_unopened(storage_, options_.data_path,
                                                            directory_of(key), key, last);
    report_dropped(key, dropped);
    rows_.erase(key);
    changed_.wake_all();
}

/// Waits until nobody but the caller holds the partition.
Task<void> PartitionTable::await_unused(std::shared_ptr<Partition>& partition) {
    while (partition.use_count() > 1) {
        co_await partition->released().wait();
    }
}

/// Again and again while there is pressure; a partition whose flush is on its way is passed.
void PartitionTable::relieve_pressure(std::uint64_t last) {
    if (scope_.closed() || (last <= relieved_up_to_ && loop_.now() < look_again_at_)) {
        return;
    }
    relieved_up_to_ = last;
    look_again_at_ = loop_.now().plus(kReliefLookNs);
    const std::size_t running = count_running_reliefs();
    std::vector<PartitionHandle> pinning;
    has_more_ = false;
    for (const auto& [key, row] : rows_) {
        if (row.partition == nullptr || row.partition->is_relieving() ||
            !row.partition->pins_journal(0, last)) {
            continue;
        }
        has_more_ = running + pinning.size() >= kReliefsMax;
        if (has_more_) {
            break;
        }
        pinning.emplace_back(row.partition);
    }
    while (!pinning.empty()) {
        scope_.spawn(relieve, coro::Anchor<PartitionTable>(*this), std::move(pinning.back()));
        pinning.pop_back();
    }
    if (!reliefs_.empty() && !watching_) {
        watching_ = true;
        scope_.spawn(watch_reliefs, coro::Anchor<PartitionTable>(*this));
    }
}

Task<void> PartitionTable::relieve(coro::Anchor<PartitionTable> table, PartitionHandle partition) {
    Relief relief;
    relief.partition = &*partition;
    relief.began = table->loop_.now();
    table->reliefs_.push_back(relief);
    partition->begin_relief();
    const Status flushed = co_await partition->flush();
    if (!flushed.has_value()) {  // the log has fenced itself and said so
        relief.failed = true;
        co_await table->set_aside();
        co_await table->loop_.sleep_for(kReliefRetryNs);  // the journal asks again at once
    }
    partition->end_relief();
    relief.unlink();
}

/// Slow is not broken: it gets a while before its files are set aside, which costs the writing of
/// others in their place.
Task<void> PartitionTable::watch_reliefs(coro::Anchor<PartitionTable> table) {
    while ((!table->reliefs_.empty() || table->has_more_) && !table->scope_.closed()) {
        co_await table->loop_.sleep_for(kReliefRetryNs);
        co_await table->set_aside();
        if (table->has_more_) {
            table->relieve_pressure(table->relieved_up_to_);
        }
    }
    table->watching_ = false;
}

bool PartitionTable::is_stuck(const Relief& relief) const noexcept {
    return relief.failed || loop_.now() >= relief.began.plus(kReliefPatienceMaxNs);
}

std::size_t PartitionTable::count_running_reliefs() {
    std::size_t count = 0;
    reliefs_.for_each([&](Relief& relief) { count += is_stuck(relief) ? 0U : 1U; });
    return count;
}

/// Is that journal file pinned by a partition whose flush has failed or does not end?
bool PartitionTable::is_stuck_on(std::uint64_t journal_file) {
    bool found = false;
    reliefs_.for_each([&](Relief& relief) {
        found = found ||
                (is_stuck(relief) && relief.partition->pins_journal(journal_file, journal_file));
    });
    return found;
}

/// The journal files that such partitions pin leave the way of the others.
Task<void> PartitionTable::set_aside() {
    if (setting_aside_) {
        co_return;
    }
    setting_aside_ = true;
    bool done = true;
    while (done) {
        const std::uint64_t blocking = storage_.journal.blocking_sequence();
        done =
            blocking != 0 && is_stuck_on(blocking) && co_await storage_.journal.set_aside(blocking);
    }
    setting_aside_ = false;
}

void PartitionTable::rest() {
    std::size_t done = 0;
    for (const auto& [key, row] : rows_) {
        if (row.partition != nullptr && row.partition->rest() && ++done == kRestsMax) {
            return;  // the others in a second
        }
    }
}

bool PartitionTable::recovered() const noexcept {
    return std::ranges::all_of(rows_, [](const auto& entry) {
        const Row& row = entry.second;
        return row.partition == nullptr || row.partition->recovered();
    });
}

Task<void> PartitionTable::complete_recovery() {
    std::vector<PartitionHandle> partial;
    for (const auto& [key, row] : rows_) {
        if (row.partition != nullptr && !row.partition->recovered()) {
            partial.emplace_back(row.partition);
        }
    }
    while (!partial.empty()) {
        const Status completed = co_await partial.back()->complete_recovery();
        static_cast<void>(completed);  // the log has said what it cannot write
        partial.pop_back();
    }
}

Task<void> PartitionTable::checkpoint() {
    // The list is taken once: what changes meanwhile is for the next call, or a steady load of
    // auto-commits would keep this one going for ever.
    std::vector<PartitionHandle> changed;
    while (!dirty_.empty()) {
        Partition& first = dirty_.front();
        first.unlink();
        const auto found = rows_.find(first.key());
        if (found != rows_.end() && found->second.partition.get() == &first) {
            changed.emplace_back(found->second.partition);
        }  // else it is on its way out: close() writes its offsets
    }
    while (!changed.empty()) {
        const Partition& partition = *changed.back();
        const Status written = co_await changed.back()->checkpoint_offsets();
        if (!written.has_value()) {
            observe::log_warn(
                "partitions", "stored offsets cannot be written now",
                {{"partition", text_of(partition.key())}, {"error", to_string(written.error())}});
        }
        changed.pop_back();
    }
}

Task<Status> PartitionTable::close_all() {
    Status result;
    co_await scope_.close();
    while (!rows_.empty()) {
        const auto first = rows_.begin();
        const PartitionKey key = first->first;
        if (first->second.partition == nullptr) {
            co_await changed_.wait();
            continue;
        }
        std::shared_ptr<Partition> partition = std::move(first->second.partition);
        unopened_.insert_or_assign(key, partition->ledger_row());
        co_await await_unused(partition);
        const Status closed = co_await partition->close();
        if (!closed.has_value()) {
            observe::log_error("partitions", "acknowledged messages of a partition may be lost",
                               {{"partition", text_of(key)}, {"error", to_string(closed.error())}});
            result = closed;
        }
        unopened_.insert_or_assign(key, partition->ledger_row());
        partition.reset();
        rows_.erase(key);
        changed_.wake_all();
    }
    co_await storage_.files.close();
    co_await write_ledger();
    co_return result;
}

std::vector<std::pair<PartitionKey, Incarnation>> PartitionTable::open_lives() const {
    std::vector<std::pair<PartitionKey, Incarnation>> lives;
    lives.reserve(rows_.size());
    for (const auto& [key, row] : rows_) {
        if (row.partition != nullptr) {
            lives.emplace_back(key, row.incarnation);
        }
    }
    return lives;
}

std::vector<std::string> PartitionTable::faults() const {
    std::vector<std::string> faults;
    for (const auto& [key, row] : rows_) {
        if (row.partition == nullptr) {
            continue;
        }
        if (const std::optional<std::string> fence = row.partition->fenced()) {
            faults.push_back(std::format("partition {}: {}", text_of(key), *fence));
        }
    }
    return faults;
}

}  // namespace galgo::partitions
