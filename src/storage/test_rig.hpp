// For the tests of this module: one simulated process with a pool, a shard journal and one
// partition log, that can be stopped, crashed and started again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coro/scope.hpp"
#include "memory/buffer_pool.hpp"
#include "model/ids.hpp"
#include "observe/histogram.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "storage/journal_replay.hpp"
#include "storage/offsets_file.hpp"
#include "storage/partition_log.hpp"
#include "storage/segment_format.hpp"
#include "storage/shard_journal.hpp"
#include "storage/storage_context.hpp"
#include "wire/batch.hpp"

namespace galgo::storage {

inline constexpr PartitionKey kTestKey{7};
inline constexpr model::PartitionId kTestPartition{7};
inline const std::string kTestLogDirectory = "/data/streams/0/topics/0/partitions/0";

inline std::string log_path(std::uint64_t start) {
    return kTestLogDirectory + '/' + segment_file_name(Offset(start), kLogExtension);
}
inline std::string index_path(std::uint64_t start) {
    return kTestLogDirectory + '/' + segment_file_name(Offset(start), kIndexExtension);
}
inline std::vector<std::uint64_t> range(std::uint64_t from, std::uint64_t end) {
    std::vector<std::uint64_t> all;
    for (; from < end; ++from) {
        all.push_back(from);
    }
    return all;
}

/// Lines of the log file in `directory` that contain one of `texts`, behind the last one that
/// contains `begin`: other tests of the process log to it as well.
inline std::vector<std::string> lines_told(const std::string& directory, std::string_view begin,
                                           std::initializer_list<std::string_view> texts) {
    std::ifstream file(directory + "/" + std::string(observe::kLogFileName));
    std::vector<std::string> told;
    const auto contains = [](std::string_view line, std::string_view text) {
        return line.find(text) != std::string_view::npos;
    };
    for (std::string line; std::getline(file, line);) {
        if (contains(line, begin)) {
            told.clear();
        } else if (std::ranges::any_of(texts, [&](auto text) { return contains(line, text); })) {
            told.push_back(line);
        }
    }
    return told;
}

/// A stamped batch of `count` messages with payloads of `payload_bytes`, that differ with `seed`.
inline std::vector<std::byte> make_batch(Offset base, std::uint32_t count,
                                         std::size_t payload_bytes, std::uint64_t timestamp,
                                         std::uint64_t seed) {
    wire::BatchBuilder builder;
    builder.reset(timestamp);
    std::vector<std::byte> payload(payload_bytes);
    for (std::uint32_t i = 0; i < count; ++i) {
        for (std::size_t at = 0; at < payload.size(); ++at) {
            payload[at] = static_cast<std::byte>(seed * 31 + i * 7 + at);
        }
        builder.add({.id = seed + i + 1,
                     .timestamp_us = timestamp,
                     .payload = payload,
                     .user_headers = {}});
    }
    const ConstBytes built = builder.finish();
    std::vector<std::byte> bytes(built.begin(), built.end());
    (void)wire::stamp_batch(
        MutableBytes(bytes),
        {.partition = kTestPartition, .base_offset = base, .base_timestamp = Timestamp(timestamp)});
    return bytes;
}

inline DataKey test_key(std::uint8_t seed) {
    KeyBytes bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(seed + i);
    }
    return DataKey(bytes);
}

struct Rig {
    explicit Rig(std::uint64_t seed, LogOptions log_options = {},
                 std::uint64_t journal_file_bytes = 256 * kKiB)
        : world(seed),
          node(world.add_node()),
          pool(memory::PoolOptions{.budget_bytes = 64 * kMiB}),
          options(log_options),
          file_bytes(journal_file_bytes) {}
    ~Rig() {
        if (journal) {
            crash_process();
        }
    }

    /// Boots on what the disk has.
    void start() {
        const Status booted = world.run(node, boot(*this));
        ASSERT_TRUE(booted.has_value()) << to_string(booted.error()) << " seed " << world.seed();
    }
    void stop() {
        const bool was_fenced = log->fenced().has_value();
        const Status stopped = world.run(node, shut_down(*this));
        EXPECT_TRUE(stopped.has_value() || was_fenced);
        destroy();
        world.restart(node, runtime_sim::CrashKind::kProcess);
    }
    /// What is in flight is lost; the disk keeps what `kind` leaves.
    void crash(runtime_sim::CrashKind kind,
               runtime_sim::UnsyncedFate fate = runtime_sim::UnsyncedFate::kSeeded) {
        crash_process();
        world.restart(node, kind, fate);
    }
    void restart() {
        stop();
        start();
    }

    memory::BufRef buffer(ConstBytes bytes) {
        memory::BufRef ref = *pool.acquire(bytes.size());
        std::ranges::copy(bytes, ref.mutable_bytes().begin());
        return ref;
    }
    /// Builds, appends and commits one batch at the end; remembers it.
    coro::Task<Status> append(std::uint32_t count, std::size_t payload_bytes) {
        Offset base = log->end_offset();
        const std::uint64_t stamp = ++clock_us;
        std::vector<std::byte> bytes = make_batch(base, count, payload_bytes, stamp, ++batch_seed);
        memory::BufRef stored = buffer(bytes);
        if (encrypted) {
            GALGO_CO_TRY_ASSIGN(stored, co_await log->encrypt(std::move(stored)));
            base = log->end_offset();  // the encryption of a large one lets others pass
            const wire::BatchStamp where{.partition = kTestPartition,
                                         .base_offset = base,
                                         .base_timestamp = Timestamp(stamp)};
            stamp_encrypted(stored.mutable_bytes(), where);
            (void)wire::stamp_batch(MutableBytes(bytes), where);
        }
        const OpNumber at = op = op.next();
        StampedBatch batch{.bytes = std::move(stored),
                           .base = base,
                           .count = count,
                           .timestamp = Timestamp(stamp),
                           .op = at,
                           .commit_op = committed};
        attempted[base.value()] = std::move(bytes);
        const Status status = co_await log->append(std::move(batch));
        if (status.has_value()) {
            acknowledged[base.value()] = count;
            committed = std::max(committed, at);
            log->commit(committed);
        }
        co_return status;
    }
    coro::Task<Result<TrimResult>> trim(Offset below, std::size_t count_max = 16) {
        trim_asked = std::max(trim_asked, below);
        co_return co_await log->trim(below, count_max);
    }
    Result<TrimResult> trim_now(Offset below, std::size_t count_max = 16) {
        return world.run(node, trim(below, count_max));
    }
    Status append_now(std::uint32_t count, std::size_t payload_bytes) {
        return world.run(node, append(count, payload_bytes));
    }
    Result<ReadSlices> read_now(Offset from, std::uint32_t count,
                                std::uint64_t max_bytes = 64 * kMiB) {
        return world.run(node,
                         log->read(log->plan_read(from, count, max_bytes, log->committed_end())));
    }
    /// The batches of a reply, taken apart.
    static std::vector<std::vector<std::byte>> batches_of(const ReadSlices& slices) {
        std::vector<std::byte> all;
        for (const memory::BufRef& slice : slices.slices) {
            all.insert(all.end(), slice.bytes().begin(), slice.bytes().end());
        }
        EXPECT_EQ(all.size(), slices.bytes);
        std::vector<std::vector<std::byte>> batches;
        for (std::size_t at = 0; at < all.size();) {
            const auto header = wire::decode_batch_header(ConstBytes(all).subspan(at));
            EXPECT_TRUE(header.has_value());
            if (!header.has_value() || header->batch_length > all.size() - at) {
                ADD_FAILURE() << "reply does not tile";
                break;
            }
            batches.emplace_back(
                all.begin() + static_cast<std::ptrdiff_t>(at),
                all.begin() + static_cast<std::ptrdiff_t>(at + header->batch_length));
            at += header->batch_length;
        }
        return batches;
    }
    /// Offsets of all messages of a reply.
    static std::vector<std::uint64_t> offsets_of(const ReadSlices& slices) {
        std::vector<std::uint64_t> offsets;
        for (const auto& batch : batches_of(slices)) {
            const auto view = wire::BatchView::validate(batch, wire::OffsetDeltas::kContiguous);
            EXPECT_TRUE(view.has_value());
            wire::FrameCursor cursor = view->cursor();
            while (!cursor.at_end()) {
                offsets.push_back(view->header().base_offset + cursor.next()->offset_delta);
            }
        }
        return offsets;
    }

    /// The whole log agrees with what was appended; acknowledged batches are all there when
    /// `complete`. Forgets the acknowledged ones that are not.
    void verify(bool complete) {
        EXPECT_EQ(log->stats().segment_count, log->segment_count());  // checks its totals, too
        std::map<std::uint64_t, std::uint32_t> seen;
        Offset at = log->first_offset();
        while (at < log->committed_end()) {
            const Result<ReadSlices> got = read_now(at, 10'000, 4 * kMiB);
            if (!got.has_value() && log->is_lost(at)) {
                ASSERT_EQ(got.error().code, ErrorCode::kCannotReadMessage);
                at = at.next();
                continue;
            }
            ASSERT_TRUE(got.has_value()) << "seed " << world.seed() << " at " << at.value() << ": "
                                         << to_string(got.error());
            if (got->message_count == 0) {
                break;  // a hole up to the end
            }
            for (const auto& batch : batches_of(*got)) {
                const auto header = wire::decode_batch_header(batch);
                ASSERT_TRUE(header.has_value());
                const auto expected = attempted.find(header->base_offset);
                ASSERT_TRUE(expected != attempted.end()) << "seed " << world.seed();
                ASSERT_EQ(batch, expected->second)
                    << "seed " << world.seed() << " offset " << header->base_offset;
                ASSERT_TRUE(seen.emplace(header->base_offset, header->message_count).second);
            }
            ASSERT_GT(got->next, at);
            at = got->next;
        }
        std::erase_if(acknowledged, [&](const auto& entry) {  // given up
            return entry.first + entry.second <= trim_asked.value() &&
                   entry.first < log->first_offset().value();
        });
        for (const auto& [base, count] : acknowledged) {
            if (complete) {
                ASSERT_TRUE(seen.contains(base)) << "seed " << world.seed() << " lost " << base;
                ASSERT_GE(log->end_offset().value(), base + count);
            }
        }
        if (!complete) {
            std::erase_if(acknowledged,
                          [&](const auto& entry) { return !seen.contains(entry.first); });
        }
    }

    static coro::Task<Status> boot(Rig& rig) {
        runtime::IoBackend& io = *rig.node.io;
        GALGO_CO_TRY(co_await runtime::make_directories(io, "/data/state"));
        GALGO_CO_TRY(co_await runtime::sync_directory(io, "/data"));
        GALGO_CO_TRY(co_await runtime::sync_directory(io, "/"));
        GALGO_CO_TRY_ASSIGN(rig.replay,
                            co_await replay_journals(io, "/data/state", rig.boot_number));
        rig.journal = std::make_unique<ShardJournal>(
            io, rig.node.queue(),
            JournalOptions{.directory = "/data/state",
                           .epoch = rig.replay.next_epoch(),
                           .first_sequence = rig.replay.next_sequence(),
                           .file_bytes = rig.file_bytes,
                           .files_max = 6,
                           .boot = rig.boot_number});
        rig.node.loop->add_turn_end([journal = rig.journal.get()] { journal->end_of_turn(); });
        (void)co_await rig.journal->open();
        rig.context = std::make_unique<StorageContext>(io, rig.node.queue(), rig.pool, *rig.journal,
                                                       rig.trash, 8);
        rig.context->sync_times = &rig.segment_sync_times;
        rig.context->encryption = rig.encrypted ? &rig.key : nullptr;
        rig.scope = std::make_unique<coro::Scope>(rig.node.queue());
        GALGO_CO_TRY_ASSIGN(rig.log, co_await PartitionLog::open(
                                         *rig.context, "/data", kTestLogDirectory, kTestKey,
                                         rig.incarnation, rig.options, &rig.replay, rig.known));
        rig.journal->set_pressure_hook(
            [](void* context, std::uint64_t) noexcept { static_cast<Rig*>(context)->relieve(); },
            &rig);
        if (rig.log->recovery_complete()) {
            GALGO_CO_TRY(co_await rig.replay.remove_files(io));
        }
        co_return Status{};
    }
    void relieve() noexcept {
        if (!relieving && !scope->closed()) {
            relieving = true;
            scope->spawn(&Rig::flush_log, coro::Anchor<PartitionLog>(*log),
                         std::make_shared<Rig*>(this));
        }
    }
    static coro::Task<void> flush_log(coro::Anchor<PartitionLog> log, std::shared_ptr<Rig*> rig) {
        (void)co_await log->release_journal();
        (*rig)->relieving = false;
    }
    static coro::Task<Status> shut_down(Rig& rig) {
        co_await rig.scope->close();
        const Status closed = co_await rig.log->close();
        co_await rig.journal->close();
        co_await rig.context->files.close();
        co_return closed;
    }
    void crash_process() {
        for (int i = 0; i < 8; ++i) {
            world.kill(node);
            journal->stop_waiting();
        }
        world.kill(node);
        destroy();
    }
    void destroy() {
        log.reset();
        world.kill(node);
        scope.reset();
        context.reset();
        journal.reset();
    }

    [[nodiscard]] OffsetsHome offsets_home() const {
        return {.directory = kTestLogDirectory, .partition = kTestKey, .incarnation = incarnation};
    }

    runtime_sim::TestWorld world;
    runtime_sim::Node& node;
    memory::BufferPool pool;
    LogOptions options;
    std::uint64_t file_bytes;
    Incarnation incarnation{3};
    /// What append() appends is encrypted; the second run of the log's tests is of such logs.
    bool encrypted = std::getenv("GALGO_TEST_ENCRYPTION") != nullptr;
    DataKey key = test_key(0);
    JournalReplay replay;
    BootNumber boot_number = 0;  ///< of the machine: 0 keeps no lists of journals
    KnownEnds known;             ///< what a ledger says at the next start
    Trash trash{"/data/trash"};
    std::unique_ptr<ShardJournal> journal;
    std::unique_ptr<StorageContext> context;
    std::unique_ptr<coro::Scope> scope;
    std::unique_ptr<PartitionLog> log;
    observe::Histogram segment_sync_times;
    bool relieving = false;

    std::uint64_t clock_us = 1'000'000;
    std::uint64_t batch_seed = 0;
    OpNumber op{0};
    OpNumber committed{0};
    std::map<std::uint64_t, std::vector<std::byte>> attempted;
    std::map<std::uint64_t, std::uint32_t> acknowledged;
    Offset trim_asked;  ///< what ends there or before may be gone
};

}  // namespace galgo::storage
