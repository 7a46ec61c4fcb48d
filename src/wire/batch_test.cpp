#include "wire/batch.hpp"

#include <gtest/gtest.h>

#include "wire/detail/test_support.hpp"
#include "wire/message_requests.hpp"
#include "wire/replies.hpp"
#include "wire/reply_decoders.hpp"

namespace galgo::wire {
namespace {

constexpr std::uint64_t kOrigin = 1'700'000'000'000'000;

// The body of the worked example: two messages, the second with one user header.
std::vector<std::byte> golden_send_body() {
    return copy_of(Golden(400)
                       .row(0x00, "16 00 00 00 01 04 00 00 00 00 01 04 00 00 00 00")
                       .row(0x10, "02 04 00 00 00 00 02 00 00 00")
                       .row(0x30, "00 00 00 40 1e 18 24 0a 06 00 76 01 00 00 00 00")
                       .row(0x40, "00 00 fd 2b a7 f3 92 10 92 fa 02 00 00 00 00 00")
                       .row(0x110, "00 00 00 00 00 00 00 00 00 00 8e 5c a5 9e db bd")
                       .row(0x120, "bf b9 01 00 00 00 00 00 00 00 00 00 00 00 00 00")
                       .row(0x130, "00 00 00 00 00 00 00 00 00 00 00 00 00 00 05 00")
                       .row(0x140, "00 00 00 00 00 00 00 00 00 00 68 65 6c 6c 6f 84")
                       .row(0x150, "d8 56 de cf 60 df 07 02 00 00 00 00 00 00 00 00")
                       .row(0x160, "00 00 00 00 00 00 00 01 00 00 00 05 00 00 00 0f")
                       .row(0x170, "00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 68")
                       .row(0x180, "69 02 01 00 00 00 6b 0b 04 00 00 00 07 00 00 00")
                       .bytes());
}

std::vector<std::byte> golden_batch() {
    const std::vector<std::byte> body = golden_send_body();
    return {body.begin() + 0x1a, body.end()};
}

ErrorCode error_of(ConstBytes batch) {
    const auto view = BatchView::validate(batch);
    return view ? ErrorCode::kOk : view.error().code;
}

/// A batch of `count` messages with payloads of `payload_size` bytes.
std::vector<std::byte> batch_of(std::uint32_t count, std::size_t payload_size) {
    const std::vector<std::byte> payload(payload_size, std::byte{0x5a});
    BatchBuilder builder;
    builder.reset(kOrigin);
    for (std::uint32_t i = 0; i < count; ++i) {
        builder.add({.id = i + 1, .timestamp_us = kOrigin + i, .payload = payload});
    }
    return copy_of(builder.finish());
}

TEST(BatchTest, SendBodyGolden) {
    BatchBuilder builder;
    builder.reset(kOrigin);
    builder.add({.id = 1, .timestamp_us = kOrigin, .payload = as_bytes("hello")});
    const std::vector<std::byte> headers = from_hex("02 01000000 6b 0b 04000000 07000000");
    builder.add(
        {.id = 2, .timestamp_us = kOrigin + 5, .payload = as_bytes("hi"), .user_headers = headers});
    ByteWriter writer;
    SendMessagesRequest{.stream = Identifier::numbered(0),
                        .topic = Identifier::numbered(0),
                        .partitioning = {.kind = PartitioningKind::kPartition,
                                         .partition = model::PartitionId(0),
                                         .key = {}},
                        .messages_count = builder.message_count(),
                        .batch = {}}
        .encode_metadata(writer);
    writer.put_bytes(builder.finish());
    EXPECT_EQ(to_hex(writer.bytes()), to_hex(golden_send_body()));
}

TEST(BatchTest, DecodesAndValidatesTheGoldenBody) {
    const std::vector<std::byte> body = golden_send_body();
    const auto request = SendMessagesRequest::decode(body);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->messages_count, 2U);
    EXPECT_EQ(request->batch_position, 0x1aU);
    EXPECT_EQ(request->partitioning.kind, PartitioningKind::kPartition);
    const auto view = BatchView::validate(request->batch);
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->header().batch_checksum, 0xfa921092f3a72bfdU);
    EXPECT_EQ(view->header().message_count, 2U);
    EXPECT_EQ(view->header().origin_timestamp_us, kOrigin);
    FrameCursor cursor = view->cursor();
    const auto first = cursor.next();
    const auto second = cursor.next();
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->checksum, 0xb9bfbddb9ea55c8eU);
    EXPECT_EQ(as_text(first->payload), "hello");
    EXPECT_TRUE(first->user_headers.empty());
    EXPECT_EQ(second->checksum, 0x07df60cfde56d884U);
    EXPECT_EQ(as_text(second->payload), "hi");
    EXPECT_EQ(second->user_headers.size(), 15U);
    EXPECT_EQ(second->timestamp_delta_us, 5U);
    EXPECT_TRUE(cursor.at_end());
    EXPECT_FALSE(cursor.next().has_value());
}

TEST(BatchTest, StampGoldenAndPollReply) {
    std::vector<std::byte> batch = golden_batch();
    const BatchStamp stamp{.partition = model::PartitionId(0),
                           .base_offset = Offset(42),
                           .base_timestamp = Timestamp(1'700'000'000'100'000)};
    const BatchHeader header = stamp_batch(batch, stamp);
    EXPECT_EQ(header.batch_checksum, 0x4a198ab10e0e955dU);
    EXPECT_EQ(error_of(batch), ErrorCode::kOk);

    ByteWriter reply;
    reply.put_bytes(poll_prefix(
        {.partition = model::PartitionId(0), .current_offset = Offset(43), .messages_count = 2}));
    reply.put_bytes(batch);
    ASSERT_EQ(reply.size(), 390U);
    EXPECT_EQ(to_hex(reply.bytes().first(0x44)),
              to_hex(from_hex("00 00 00 00 2b 00 00 00 00 00 00 00 02 00 00 00"
                              "00 00 00 00 00 00 00 00 2a 00 00 00 00 00 00 00"
                              "a0 c6 1f 18 24 0a 06 00 00 40 1e 18 24 0a 06 00"
                              "76 01 00 00 00 00 00 00 5d 95 0e 0e b1 8a 19 4a"
                              "02 00 00 00")));
    EXPECT_EQ(to_hex(reply.bytes().subspan(0x110)),
              to_hex(ConstBytes(golden_batch()).subspan(256)));

    auto reader = PollReplyReader::begin(reply.bytes());
    ASSERT_TRUE(reader.has_value());
    EXPECT_EQ(reader->prefix().current_offset, Offset(43));
    const auto first = reader->next();
    const auto second = reader->next();
    const auto end = reader->next();
    ASSERT_TRUE(first && *first && second && *second && end);
    EXPECT_EQ((*first)->offset, Offset(42));
    EXPECT_EQ((*second)->offset, Offset(43));
    EXPECT_EQ((*second)->origin_timestamp, Timestamp(kOrigin + 5));
    EXPECT_EQ((*second)->timestamp, Timestamp(1'700'000'000'100'000));
    EXPECT_FALSE(end->has_value());
}

TEST(BatchTest, SliceGolden) {
    std::vector<std::byte> batch = golden_batch();
    stamp_batch(batch, {.partition = model::PartitionId(0),
                        .base_offset = Offset(42),
                        .base_timestamp = Timestamp(1'700'000'000'100'000)});
    const auto slice = slice_batch(batch, {.first = 1, .count = 1});
    ASSERT_TRUE(slice.has_value());
    EXPECT_EQ(slice->size(), 321U);
    EXPECT_EQ(slice->end, batch.size());
    const auto header = decode_batch_header(slice->header);
    ASSERT_TRUE(header.has_value());
    EXPECT_EQ(header->batch_length, 321U);
    EXPECT_EQ(header->message_count, 1U);
    EXPECT_EQ(header->base_offset, 42U);
    EXPECT_EQ(header->batch_checksum, 0x8103fda0aa6927ceU);

    std::vector<std::byte> sliced(slice->header.begin(), slice->header.end());
    sliced.insert(sliced.end(), batch.begin() + static_cast<std::ptrdiff_t>(slice->begin),
                  batch.begin() + static_cast<std::ptrdiff_t>(slice->end));
    EXPECT_TRUE(BatchView::validate(sliced, OffsetDeltas::kContiguous).has_value());
    EXPECT_EQ(error_of(sliced), ErrorCode::kInvalidCommand) << "a slice is no producer batch";

    const auto whole = slice_batch(batch, {.first = 0, .count = 2});
    ASSERT_TRUE(whole.has_value());
    EXPECT_EQ(to_hex(whole->header), to_hex(ConstBytes(batch).first(256)));
    EXPECT_EQ(whole->begin, 256U);
    EXPECT_FALSE(slice_batch(batch, {.first = 0, .count = 0}).has_value());
    EXPECT_FALSE(slice_batch(batch, {.first = 2, .count = 1}).has_value());
    EXPECT_FALSE(slice_batch(batch, {.first = 1, .count = 2}).has_value());
    EXPECT_FALSE(slice_batch(batch, {.first = 1, .count = 0xFFFF'FFFF}).has_value());
    EXPECT_FALSE(slice_batch(ConstBytes(batch).first(373), {.first = 0, .count = 1}).has_value());
}

TEST(BatchTest, RecordOfAReferenceRunIsValid) {
    Golden record(306);
    record.row(0,
               "0000000000000000 0000000000000000 0ad44cd06f610600 02d44cd06f610600"
               "3201000000000000 f28de351de916334 01000000");
    record.row(256,
               "2aaf8e232760796c 69a44bf7b6914a41bd007191f9e8c27b 00000000 00000000"
               "00000000 02000000 0000000000000000 6d30");
    const auto view = BatchView::validate(record.bytes());
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->header().batch_checksum, 3775021296709242354U);
    EXPECT_EQ(view->cursor().next()->checksum, 7816384349494751018U);
}

TEST(BatchTest, NamesEachDefect) {
    const std::vector<std::byte> good = golden_batch();
    const auto with = [&good](std::size_t at, int value) {
        std::vector<std::byte> bytes = good;
        bytes[at] = static_cast<std::byte>(value);
        return error_of(bytes);
    };
    EXPECT_EQ(error_of(good), ErrorCode::kOk);
    EXPECT_EQ(with(32, 0x77), ErrorCode::kInvalidCommand) << "batch_length";
    EXPECT_EQ(with(48, 0), ErrorCode::kInvalidCommand) << "no message";
    EXPECT_EQ(with(48, 1), ErrorCode::kInvalidCommand) << "fewer than there are";
    EXPECT_EQ(with(48, 3), ErrorCode::kInvalidCommand) << "more than fit";
    EXPECT_EQ(with(52, 1), ErrorCode::kInvalidReservedField);
    EXPECT_EQ(with(255, 1), ErrorCode::kInvalidReservedField);
    EXPECT_EQ(with(40, 0), ErrorCode::kInvalidBatchChecksum);
    EXPECT_EQ(with(8, 1), ErrorCode::kInvalidBatchChecksum) << "base_offset is covered";
    EXPECT_EQ(with(256, 0), ErrorCode::kInvalidMessageChecksum);
    EXPECT_EQ(with(256 + 8, 9), ErrorCode::kInvalidMessageChecksum) << "id";
    EXPECT_EQ(with(256 + 24, 1), ErrorCode::kInvalidCommand) << "offset_delta";
    EXPECT_EQ(with(256 + 28, 1), ErrorCode::kInvalidMessageChecksum) << "timestamp_delta";
    EXPECT_EQ(with(256 + 40, 1), ErrorCode::kInvalidReservedField);
    EXPECT_EQ(with(256 + 48, 'H'), ErrorCode::kInvalidMessageChecksum) << "payload";
    EXPECT_EQ(with(256 + 39, 0xff), ErrorCode::kInvalidCommand) << "payload_length";
    EXPECT_EQ(with(256 + 36, 0), ErrorCode::kInvalidMessageChecksum) << "tiling is off";
    EXPECT_EQ(with(good.size() - 1, 1), ErrorCode::kInvalidMessageChecksum) << "user headers";
    std::vector<std::byte> longer = good;
    longer.push_back(std::byte{0});
    EXPECT_EQ(error_of(longer), ErrorCode::kInvalidCommand);
}

TEST(BatchTest, EveryTruncationIsRefused) {
    const std::vector<std::byte> good = golden_batch();
    for (std::size_t size = 0; size < good.size(); ++size) {
        EXPECT_FALSE(BatchView::validate(ConstBytes(good).first(size)).has_value()) << size;
    }
}

TEST(BatchTest, EveryFlippedBitIsNoticed) {
    std::vector<std::byte> bytes = golden_batch();
    for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
        const auto mask = static_cast<std::byte>(1U << (i % 8));
        bytes[i / 8] ^= mask;
        EXPECT_NE(error_of(bytes), ErrorCode::kOk) << "bit " << i;
        bytes[i / 8] ^= mask;
    }
}

TEST(BatchTest, StepsComeToTheSameVerdict) {
    for (const std::vector<std::byte>& batch :
         {batch_of(1000, 100), batch_of(3, 1'000'000), batch_of(1, 0), golden_batch()}) {
        for (const std::size_t step :
             {std::size_t{1000}, std::size_t{65'536}, std::size_t{1} << 30U}) {
            auto validator = BatchValidator::begin(batch);
            ASSERT_TRUE(validator.has_value());
            std::size_t steps = 1;
            for (;; ++steps) {
                const auto done = validator->step(step);
                ASSERT_TRUE(done.has_value());
                if (*done) {
                    break;
                }
                ASSERT_LE(steps, batch.size() / step * 2 + 2) << "a step must move on";
            }
            EXPECT_GE(steps * (step + 512), batch.size() / 2);
        }
    }
}

TEST(BatchTest, SteppingFindsDamageInALargeFrame) {
    std::vector<std::byte> batch = batch_of(2, 1'000'000);
    batch[1'500'000] ^= std::byte{1};
    auto validator = BatchValidator::begin(batch);
    ASSERT_TRUE(validator.has_value());
    for (;;) {
        const auto done = validator->step(100'000);
        if (!done) {
            EXPECT_EQ(done.error().code, ErrorCode::kInvalidMessageChecksum);
            break;
        }
        ASSERT_FALSE(*done);
    }
}

TEST(BatchTest, SliceOfEveryRangeIsValid) {
    std::vector<std::byte> batch = batch_of(130, 7);
    stamp_batch(batch, {.partition = model::PartitionId(3),
                        .base_offset = Offset(1000),
                        .base_timestamp = Timestamp(kOrigin + 77)});
    for (std::uint32_t first = 0; first < 130; first += 13) {
        for (std::uint32_t count = 1; count <= 130 - first; count += 7) {
            const auto slice = slice_batch(batch, {.first = first, .count = count});
            ASSERT_TRUE(slice.has_value());
            std::vector<std::byte> bytes(slice->header.begin(), slice->header.end());
            const ConstBytes frames =
                ConstBytes(batch).subspan(slice->begin, slice->end - slice->begin);
            bytes.insert(bytes.end(), frames.begin(), frames.end());
            const auto view = BatchView::validate(bytes, OffsetDeltas::kContiguous);
            ASSERT_TRUE(view.has_value());
            EXPECT_EQ(view->header().message_count, count);
            EXPECT_EQ(view->cursor().next()->offset_delta, first);
        }
    }
}

TEST(BatchTest, RandomDamageNeverPassesNorCrashes) {
    Random random(20'251'129);
    const std::vector<std::byte> good = batch_of(20, 30);
    for (int round = 0; round < 20'000; ++round) {
        std::vector<std::byte> bytes = good;
        const std::uint64_t edits = 1 + random.below(4);
        for (std::uint64_t i = 0; i < edits; ++i) {
            bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
        }
        bytes.resize(bytes.size() - random.below(3) * random.below(60));
        if (BatchView::validate(bytes).has_value()) {
            EXPECT_EQ(to_hex(bytes), to_hex(good));
        }
        (void)slice_batch(bytes, {.first = static_cast<std::uint32_t>(random.below(25)),
                                  .count = static_cast<std::uint32_t>(random.below(25))});
    }
}

TEST(PollReplyReaderTest, RefusesWrongCountsAndBrokenRecords) {
    std::vector<std::byte> batch = golden_batch();
    ByteWriter reply;
    reply.put_bytes(poll_prefix({.messages_count = 3}));
    reply.put_bytes(batch);
    const auto outcome = [](ConstBytes bytes) {
        auto reader = PollReplyReader::begin(bytes);
        if (!reader) {
            return false;
        }
        for (;;) {
            const auto message = reader->next();
            if (!message) {
                return false;
            }
            if (!*message) {
                return true;
            }
        }
    };
    EXPECT_FALSE(outcome(reply.bytes()));
    std::vector<std::byte> bytes = copy_of(reply.bytes());
    bytes[12] = std::byte{2};
    EXPECT_TRUE(outcome(bytes));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(outcome(ConstBytes(bytes).first(size))) << size;
    }
    bytes[16 + 48] = std::byte{1};
    EXPECT_FALSE(outcome(bytes)) << "a frame is left over";
    const auto empty = poll_prefix({.partition = kStaleAssignmentPartition});
    EXPECT_TRUE(outcome(empty));
}

}  // namespace
}  // namespace galgo::wire
