// A partition log whose batches are encrypted: what is on the disk, what comes back, and what is
// said when it cannot. The other tests of the log run a second time with encryption, too.
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;

constexpr LogOptions kFlushAtOnce{.messages_required_to_save = 1};
constexpr std::string_view kSecretText = "the quick brown fox jumps over the lazy dog";

struct EncryptedRig : Rig {
    explicit EncryptedRig(std::uint64_t seed, LogOptions log_options = {})
        : Rig(seed, log_options) {
        encrypted = true;
    }
};

/// One batch of one message with that payload, which make_batch() would not give.
coro::Task<Status> append_text(Rig& rig, std::string_view payload, std::string_view headers) {
    wire::BatchBuilder builder;
    const std::uint64_t stamp = ++rig.clock_us;
    builder.reset(stamp);
    builder.add({.id = 1,
                 .timestamp_us = stamp,
                 .payload = as_bytes(payload),
                 .user_headers = as_bytes(headers)});
    const ConstBytes built = builder.finish();
    std::vector<std::byte> bytes(built.begin(), built.end());
    memory::BufRef stored = rig.buffer(bytes);
    const Offset base = rig.log->end_offset();
    const wire::BatchStamp where{
        .partition = kTestPartition, .base_offset = base, .base_timestamp = Timestamp(stamp)};
    (void)wire::stamp_batch(MutableBytes(bytes), where);
    if (rig.encrypted) {
        GALGO_CO_TRY_ASSIGN(stored, co_await rig.log->encrypt(std::move(stored)));
        stamp_encrypted(stored.mutable_bytes(), where);
    } else {
        (void)wire::stamp_batch(stored.mutable_bytes(), where);
    }
    rig.op = rig.op.next();
    rig.attempted[base.value()] = std::move(bytes);
    const Status status = co_await rig.log->append({.bytes = std::move(stored),
                                                    .base = base,
                                                    .count = 1,
                                                    .timestamp = Timestamp(stamp),
                                                    .op = rig.op,
                                                    .commit_op = rig.committed});
    if (status.has_value()) {
        rig.acknowledged[base.value()] = 1;
        rig.committed = rig.op;
        rig.log->commit(rig.op);
    }
    co_return status;
}

/// Files below /data that hold `text`.
std::vector<std::string> files_with(Rig& rig, std::string_view text) {
    std::vector<std::string> found;
    for (const std::string& path : rig.node.disk->list_all()) {
        const auto bytes = rig.node.disk->read_file(path);
        if (bytes.has_value() &&
            std::ranges::search(*bytes, as_bytes(text)).begin() != bytes->end()) {
            found.push_back(path);
        }
    }
    return found;
}

TEST(LogEncryption, NoFileHoldsAPayloadOrHeader) {
    for (const bool encrypted : {false, true}) {
        Rig rig(1, {.messages_required_to_save = 8});
        rig.encrypted = encrypted;
        rig.start();
        std::string large(300'000, 'x');
        large.replace(200'000, kSecretText.size(), kSecretText);
        for (int i = 0; i < 20; ++i) {
            ASSERT_TRUE(rig.world.run(rig.node, append_text(rig, kSecretText, "h")).has_value());
            ASSERT_TRUE(rig.world.run(rig.node, append_text(rig, "p", kSecretText)).has_value());
        }
        ASSERT_TRUE(rig.world.run(rig.node, append_text(rig, large, {})).has_value());
        rig.world.run_for(kSecond);
        EXPECT_EQ(files_with(rig, kSecretText).empty(), encrypted);
        rig.verify(true);
        rig.restart();
        EXPECT_EQ(files_with(rig, kSecretText).empty(), encrypted);
        rig.verify(true);
        rig.stop();
    }
}

TEST(LogEncryption, EveryOffsetAndCountOfATailAndOfAFile) {
    for (const bool in_file : {false, true}) {
        EncryptedRig rig(2, in_file ? kFlushAtOnce : LogOptions{});
        rig.start();
        for (const std::uint32_t count : {1U, 7U, 3U, 12U, 1U}) {
            ASSERT_TRUE(rig.append_now(count, 50 * count).has_value());
        }
        rig.world.run_for(kSecond);
        const std::uint64_t end = rig.log->committed_end().value();
        for (std::uint64_t from = 0; from < end; ++from) {
            for (std::uint32_t count = 1; count <= end - from + 1; ++count) {
                const Result<ReadSlices> got = rig.read_now(Offset(from), count);
                ASSERT_TRUE(got.has_value());
                EXPECT_EQ(Rig::offsets_of(*got), range(from, std::min(end, from + count)));
            }
        }
        rig.stop();
    }
}

TEST(LogEncryption, RepliesAreCutToTheirBytes) {
    EncryptedRig rig(3, kFlushAtOnce);
    rig.start();
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(2, 5'000).has_value());
    }
    rig.world.run_for(kSecond);
    const std::uint64_t one = 256 + 2 * (48 + 5'000);
    for (const std::uint64_t bytes : {std::uint64_t{1}, one, 2 * one - 1, 2 * one, 5 * one + 3}) {
        const Result<ReadSlices> got = rig.read_now(Offset(0), 100, bytes);
        ASSERT_TRUE(got.has_value());
        EXPECT_EQ(Rig::batches_of(*got).size(), std::max<std::uint64_t>(bytes / one, 1)) << bytes;
    }
    rig.stop();
}

TEST(LogEncryption, LargeBatchesOfManyChunksKeepTheirOrder) {
    EncryptedRig rig(4, {.segment_size = 256 * kMiB});
    rig.start();
    const auto appends = [](Rig& all) -> coro::Task<Status> {
        auto [a, b, c] =
            co_await coro::all(all.append(3, 4'000'000), all.append(1, 100), all.append(1, 70'000));
        co_return a.has_value() && b.has_value() && c.has_value() ? Status{}
                                                                  : fail(ErrorCode::kError);
    };
    ASSERT_TRUE(rig.world.run(rig.node, appends(rig)).has_value());
    // The first came first, and the others do not pass it.
    EXPECT_EQ(rig.acknowledged, (std::map<std::uint64_t, std::uint32_t>{{0, 3}, {3, 1}, {4, 1}}));
    rig.verify(true);
    rig.restart();
    rig.verify(true);
    rig.stop();
}

// Batches of before the switch stay as they are, in the same segment too.
TEST(LogEncryption, PlainAndEncryptedBatchesInOneLog) {
    Rig rig(5, {.messages_required_to_save = 4});
    rig.encrypted = false;
    for (int round = 0; round < 6; ++round) {
        rig.encrypted = round % 2 == 1;
        rig.start();
        rig.context->encryption = &rig.key;
        rig.verify(true);
        for (int i = 0; i < 7; ++i) {
            ASSERT_TRUE(rig.append_now(3, 100).has_value());
        }
        ASSERT_TRUE(rig.append_now(2, 80'000).has_value());
        rig.verify(true);
        const Result<ReadSlices> all = rig.read_now(Offset(0), 1'000);
        ASSERT_TRUE(all.has_value());
        EXPECT_EQ(Rig::offsets_of(*all), range(0, rig.log->end_offset().value()));
        rig.stop();
    }
}

TEST(LogEncryption, ProcessAndPowerLossKeepWhatWasAcknowledged) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        EncryptedRig rig(seed, {.segment_size = 64 * kKiB,
                                .messages_required_to_save = 6,
                                .persisted = seed % 2 == 1});
        rig.start();
        for (int round = 0; round < 3; ++round) {
            for (int i = 0; i < 9; ++i) {
                ASSERT_TRUE(rig.append_now(2, i % 4 == 3 ? 70'000 : 300).has_value());
            }
            rig.crash(seed % 2 == 1 ? CrashKind::kPower : CrashKind::kProcess);
            rig.start();
            rig.verify(true);
        }
        rig.stop();
    }
}

/// What a read says that begins at each batch.
std::vector<ErrorCode> answers(Rig& rig) {
    std::vector<ErrorCode> codes;
    for (const auto& [base, count] : rig.acknowledged) {
        const Result<ReadSlices> got = rig.read_now(Offset(base), count);
        codes.push_back(got.has_value() ? ErrorCode::kOk : got.error().code);
    }
    return codes;
}

TEST(LogEncryption, WithoutTheKeyTheLogStandsAndPollsAreToldSo) {
    const DataKey other = test_key(1);
    for (const bool persisted : {false, true}) {
        EncryptedRig rig(6, {.messages_required_to_save = 4, .persisted = persisted});
        rig.start();
        for (int i = 0; i < 10; ++i) {
            ASSERT_TRUE(rig.append_now(2, i == 5 ? 70'000 : 300).has_value());
        }
        for (const DataKey* key : {&other, static_cast<const DataKey*>(nullptr)}) {
            rig.crash(CrashKind::kProcess);
            rig.start();  // journal, index and log are read without it
            EXPECT_FALSE(rig.log->fenced().has_value());
            EXPECT_EQ(rig.log->end_offset(), Offset(20));
            rig.context->encryption = key;
            EXPECT_EQ(answers(rig), std::vector(10, ErrorCode::kCannotDecryptData));
            const auto by_time =
                rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(rig.clock_us - 4)));
            EXPECT_EQ(by_time, Offset(10));
        }
        rig.crash(CrashKind::kProcess);
        rig.start();
        rig.verify(true);
        rig.stop();
    }
}

/// Changes a byte of the only batch of that base offset, and makes all sums right again.
void tamper(Rig& rig, std::uint64_t base, std::size_t at_in_batch) {
    auto bytes = *rig.node.disk->read_file(log_path(0));
    for (std::size_t at = 0; at < bytes.size();) {
        const MutableBytes here = MutableBytes(bytes).subspan(at);
        const Result<wire::BatchHeader> header = decode_stored_header(here);
        ASSERT_TRUE(header.has_value());
        const MutableBytes batch = here.first(static_cast<std::size_t>(header->batch_length));
        if (header->base_offset == base) {
            batch[at_in_batch] ^= std::byte{1};
            store<std::uint64_t>(batch, 100, crypto::xxh3_64(batch.subspan(256)));
            stamp_encrypted(batch, {.partition = kTestPartition,
                                    .base_offset = Offset(base),
                                    .base_timestamp = Timestamp(header->base_timestamp_us)});
        }
        at += batch.size();
    }
    rig.node.disk->write_file(log_path(0), bytes);
}

TEST(LogEncryption, ATagThatDoesNotFitIsAnErrorOfThatBatchAlone) {
    for (const std::size_t at : {60U, 68U, 84U, 256U, 400U, 24U}) {
        EncryptedRig rig(7, kFlushAtOnce);
        rig.start();
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(rig.append_now(2, 3'000).has_value());
        }
        rig.stop();
        tamper(rig, 4, at);
        rig.start();
        EXPECT_FALSE(rig.log->fenced().has_value());
        std::vector<ErrorCode> expected(5, ErrorCode::kOk);
        expected[2] = ErrorCode::kCannotDecryptData;
        EXPECT_EQ(answers(rig), expected) << at;
        // What stands before it is served, and ends there.
        const Result<ReadSlices> got = rig.read_now(Offset(0), 100);
        ASSERT_TRUE(got.has_value());
        EXPECT_EQ(Rig::offsets_of(*got), range(0, 4));
        rig.stop();
    }
}

TEST(LogEncryption, FlippedBitsOfTheFileAreFoundByTheChecksum) {
    for (std::uint64_t at = 0; at < 3 * 1'000; at += 37) {
        EncryptedRig rig(8, kFlushAtOnce);
        rig.start();
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(rig.append_now(1, 700).has_value());
        }
        rig.world.run_for(kSecond);
        const std::uint64_t length = encrypted_size(256 + 48 + 700);
        ASSERT_TRUE(rig.node.disk->corrupt(log_path(0), at, 0x10));
        const std::uint64_t hit = at / length;
        for (std::uint64_t base = 0; base < 5; ++base) {
            const Result<ReadSlices> got = rig.read_now(Offset(base), 1);
            if (got.has_value()) {
                EXPECT_NE(base, hit) << at;
                EXPECT_EQ(Rig::offsets_of(*got), range(base, base + 1)) << at;
            }
        }
        EXPECT_FALSE(rig.read_now(Offset(hit), 1).has_value()) << at;
        rig.crash(CrashKind::kProcess);
    }
}

}  // namespace
}  // namespace galgo::storage
