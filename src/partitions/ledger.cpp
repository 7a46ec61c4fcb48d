// What a shard's ledger says of its partitions, and when it is written.
#include <algorithm>

#include "coro/ready_queue.hpp"
#include "observe/log.hpp"
#include "partitions/partition_table.hpp"

namespace galgo::partitions {

using coro::Task;

namespace {

/// Partitions that are asked between two steps of others.
constexpr std::size_t kRowsAtATime = 256;
/// With so many rows a ledger is written once a second when something has changed; with more,
/// less often by as much.
constexpr std::size_t kRowsEachSecond = 4096;
constexpr std::uint64_t kLedgerLineNs = 60 * kSecond;

}  // namespace

const storage::LedgerRow* PartitionTable::claim_of(PartitionKey key,
                                                   Incarnation incarnation) const {
    const auto found = unopened_.find(key);
    return found != unopened_.end() && found->second.incarnation == incarnation ? &found->second
                                                                                : nullptr;
}

/// Each row is as new as this call or newer: what closes meanwhile is in `unopened_` at the end.
Task<std::vector<storage::LedgerRow>> PartitionTable::ledger_rows() {
    std::vector<PartitionKey> keys;
    keys.reserve(rows_.size());
    for (const auto& [key, row] : rows_) {
        keys.push_back(key);
    }
    std::vector<storage::LedgerRow> rows;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (i % kRowsAtATime == kRowsAtATime - 1) {
            co_await coro::yield_to(loop_.ready());
        }
        const auto found = rows_.find(keys[i]);
        if (found != rows_.end() && found->second.partition != nullptr) {
            rows.push_back(found->second.partition->ledger_row());
        }
    }
    for (const auto& [key, row] : unopened_) {
        rows.push_back(row);
    }
    std::erase_if(rows, [](const storage::LedgerRow& row) { return row.empty(); });
    std::ranges::stable_sort(rows, {}, &storage::LedgerRow::partition);
    co_return rows;
}

Task<void> PartitionTable::write_ledger() {
    if (options_.boot == 0) {
        co_return;
    }
    co_await writing_ledger_.acquire();
    std::vector<storage::LedgerRow> rows = co_await ledger_rows();
    co_await replace_ledger(std::move(rows));
    writing_ledger_.release();
}

Task<void> PartitionTable::keep_ledger() {
    if (options_.boot == 0 || loop_.now() < next_ledger_at_) {
        co_return;
    }
    co_await writing_ledger_.acquire();
    std::vector<storage::LedgerRow> rows = co_await ledger_rows();
    next_ledger_at_ = loop_.now().plus(rows.size() / kRowsEachSecond * kSecond);
    if (rows != ledger_) {
        co_await replace_ledger(std::move(rows));
    }
    writing_ledger_.release();
}

Task<void> PartitionTable::replace_ledger(std::vector<storage::LedgerRow> rows) {
    const storage::JournalOptions& journal = storage_.journal.options();
    storage::Ledger ledger{.shard = journal.shard,
                           .epoch = journal.epoch,
                           .boot = options_.boot,
                           .rows = std::move(rows)};
    const Status written = co_await storage::write_ledger(loop_.io(), journal.directory, ledger);
    ledger_ = written.has_value() ? std::move(ledger.rows) : std::vector<storage::LedgerRow>();
    if (!written.has_value() && loop_.now() >= next_ledger_line_at_) {
        next_ledger_line_at_ = loop_.now().plus(kLedgerLineNs);
        observe::log_warn(
            "partitions", "the ledger cannot be written: files that go missing may not be noticed",
            {{"directory", journal.directory}, {"error", to_string(written.error())}});
    }
}

Task<void> PartitionTable::before_release(void* table) {
    return static_cast<PartitionTable*>(table)->write_ledger();
}

}  // namespace galgo::partitions
