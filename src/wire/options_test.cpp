#include <gtest/gtest.h>

#include "wire/detail/test_support.hpp"
#include "wire/options.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::wire {
namespace {

using model::TopicOptions;

std::vector<std::byte> field(int kind, ConstBytes data) {
    ByteWriter writer;
    writer.put<std::uint8_t>(static_cast<std::uint8_t>(kind));
    writer.put<std::uint32_t>(static_cast<std::uint32_t>(data.size()));
    writer.put_bytes(data);
    return std::move(writer).take();
}

std::vector<std::byte> joined(std::initializer_list<std::vector<std::byte>> parts) {
    std::vector<std::byte> bytes;
    for (const auto& part : parts) {
        bytes.insert(bytes.end(), part.begin(), part.end());
    }
    return bytes;
}

template <class T>
std::vector<std::byte> raw(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    return {bytes.begin(), bytes.end()};
}

TEST(OptionBlockTest, ParsesInAnyOrderAndFinds) {
    const auto bytes = joined({field(2, as_bytes("zeta")), field(12, raw(std::uint64_t{7})),
                               field(2, as_bytes("alpha")), field(77, as_bytes("?"))});
    const auto block = OptionBlock::parse(bytes);
    ASSERT_TRUE(block.has_value());
    ASSERT_TRUE(block->find("zeta"));
    EXPECT_EQ(block->find("zeta")->kind, ValueKind::kUint64);
    EXPECT_EQ(load<std::uint64_t>(block->find("zeta")->value, 0), 7U);
    EXPECT_EQ(static_cast<int>(block->find("alpha")->kind), 77) << "undefined kinds are carried";
    EXPECT_FALSE(block->find("beta"));
    EXPECT_EQ(std::ranges::distance(block->begin(), block->end()), 2);
    EXPECT_TRUE(OptionBlock::parse({})->empty());
    EXPECT_EQ(OptionBlock().begin(), OptionBlock().end());
}

TEST(OptionBlockTest, RefusesBadFields) {
    const auto key = field(2, as_bytes("k"));
    const auto value = field(2, as_bytes("v"));
    const auto refused = [](const std::vector<std::byte>& bytes) {
        const auto block = OptionBlock::parse(bytes);
        return !block && block.error().code == ErrorCode::kInvalidCommand;
    };
    EXPECT_FALSE(refused(joined({key, value})));
    EXPECT_TRUE(refused(key)) << "a key alone";
    EXPECT_TRUE(refused(joined({field(1, as_bytes("k")), value}))) << "key kind";
    EXPECT_TRUE(refused(joined({field(2, as_bytes("\xff")), value}))) << "key text";
    EXPECT_TRUE(refused(joined({field(2, {}), value}))) << "empty key";
    EXPECT_TRUE(refused(joined({key, field(2, {})}))) << "empty value";
    EXPECT_TRUE(refused(joined({key, field(0, as_bytes("v"))}))) << "kind 0";
    EXPECT_TRUE(refused(joined({key, field(1, std::vector<std::byte>(256))}))) << "long value";
    EXPECT_FALSE(refused(joined({key, field(1, std::vector<std::byte>(255))})));
    EXPECT_TRUE(refused(joined({key, value, key, value}))) << "duplicate";
    const auto good = joined({key, value});
    for (std::size_t size = 1; size < good.size(); ++size) {
        EXPECT_TRUE(refused(copy_of(ConstBytes(good).first(size)))) << size;
    }
}

TEST(OptionBlockTest, BoundsOfCountAndSize) {
    const auto block_of = [](int count, std::size_t value_size) {
        ByteWriter writer;
        for (int i = 0; i < count; ++i) {
            writer.put_bytes(field(2, as_bytes("key" + std::to_string(i))));
            writer.put_bytes(field(1, std::vector<std::byte>(value_size)));
        }
        return std::move(writer).take();
    };
    EXPECT_TRUE(OptionBlock::parse(block_of(1024, 1)).has_value());
    EXPECT_FALSE(OptionBlock::parse(block_of(1025, 1)).has_value());
    const auto large = block_of(400, 240);
    ASSERT_GT(large.size(), kOptionBlockBytesMax);
    EXPECT_FALSE(OptionBlock::parse(large).has_value());
    EXPECT_TRUE(OptionBlock::parse(block_of(380, 240)).has_value());
}

TEST(OptionBlockBuilderTest, SortsReplacesErases) {
    OptionBlockBuilder builder;
    builder.put_u32("b", 2);
    builder.put_bool("a", true);
    builder.put_u32("b", 3);
    builder.put_string("c", "x");
    builder.erase("c");
    builder.erase("nothing");
    const auto bytes = builder.encode();
    EXPECT_EQ(to_hex(bytes), "0201000000610301000000010201000000620b0400000003000000");
}

// --- catalogue ---

Result<ResolvedTopicOptions> resolve(std::string_view key, ValueKind kind, ConstBytes value,
                                     std::uint32_t partitions = 1) {
    OptionBlockBuilder builder;
    builder.put(key, kind, value);
    const auto bytes = builder.encode();
    return resolve_topic_options(OptionBlock::parse(bytes).value(), partitions);
}
ErrorCode error_with(std::string_view key, ValueKind kind, ConstBytes value) {
    const auto resolved = resolve(key, kind, value);
    return resolved ? ErrorCode::kOk : resolved.error().code;
}
ErrorCode error_with(std::string_view key, std::string_view text) {
    return error_with(key, ValueKind::kString, as_bytes(text));
}
ErrorCode error_with(std::string_view key, std::uint64_t value) {
    return error_with(key, ValueKind::kUint64, raw(value));
}
TopicOptions values_with(std::string_view key, std::string_view text) {
    return resolve(key, ValueKind::kString, as_bytes(text)).value().values;
}
TopicOptions values_with(std::string_view key, std::uint64_t value) {
    return resolve(key, ValueKind::kUint64, raw(value)).value().values;
}

TEST(TopicCatalogTest, NothingGivenDerivesAllDefaults) {
    const auto resolved = resolve_topic_options({}, 1);
    ASSERT_TRUE(resolved.has_value());
    EXPECT_EQ(resolved->values, TopicOptions{});
    EXPECT_TRUE(resolved->explicit_block.empty());
    const auto derived = OptionBlock::parse(resolved->derived_block);
    ASSERT_TRUE(derived.has_value());
    EXPECT_EQ(std::ranges::distance(derived->begin(), derived->end()), 9);
    EXPECT_EQ(as_text(derived->find(kOptionCompression)->value), "none");
    EXPECT_EQ(as_text(derived->find(kOptionDurability)->value), "replicated");
    EXPECT_EQ(load<std::uint64_t>(derived->find(kOptionSegmentSize)->value, 0), 1U << 30U);
    EXPECT_EQ(load<std::uint64_t>(derived->find(kOptionMessageExpiry)->value, 0), UINT64_MAX);
    EXPECT_EQ(load<std::uint32_t>(derived->find(kOptionMessagesRequiredToSave)->value, 0), 1024U);
}

TEST(TopicCatalogTest, WhatTheSdkSendsStaysExplicit) {
    // The option block of the worked create_topic example.
    const auto bytes = from_hex(
        "021a000000636f6e73756d65725f6f66667365745f6475726162696c697479020a0000007265706c69636174"
        "6564020a0000006475726162696c697479020a0000007265706c696361746564");
    const auto block = OptionBlock::parse(bytes);
    ASSERT_TRUE(block.has_value());
    const auto resolved = resolve_topic_options(*block, 1);
    ASSERT_TRUE(resolved.has_value());
    EXPECT_EQ(to_hex(resolved->explicit_block), to_hex(bytes));
    EXPECT_EQ(resolved->values, TopicOptions{});
}

TEST(TopicCatalogTest, AcceptedForms) {
    EXPECT_EQ(values_with(kOptionCompression, "GZip").compression,
              model::CompressionAlgorithm::kGzip);
    const auto by_code = resolve(kOptionCompression, ValueKind::kUint8, raw(std::uint8_t{2}));
    ASSERT_TRUE(by_code.has_value());
    EXPECT_EQ(
        to_hex(by_code->explicit_block),
        to_hex(resolve(kOptionCompression, ValueKind::kString, as_bytes("gzip"))->explicit_block))
        << "accepted values are stored in their canonical form";
    EXPECT_EQ(values_with(kOptionMessageExpiry, "7 days").message_expiry_us, 604'800'000'000U);
    EXPECT_EQ(values_with(kOptionMessageExpiry, "never_expire").message_expiry_us, UINT64_MAX);
    EXPECT_EQ(values_with(kOptionMessageExpiry, 5).message_expiry_us, 5U);
    EXPECT_EQ(values_with(kOptionMessageExpiry, 0U).message_expiry_us, UINT64_MAX);
    EXPECT_EQ(values_with(kOptionMaxTopicSize, "10 GiB").max_topic_size_bytes, 10ULL << 30U);
    EXPECT_EQ(values_with(kOptionMaxTopicSize, "unlimited").max_topic_size_bytes, UINT64_MAX);
    EXPECT_EQ(values_with(kOptionSegmentSize, "1 MiB").segment_size_bytes, 1U << 20U);
    EXPECT_EQ(values_with(kOptionSegmentSize, 0U).segment_size_bytes, 1U << 30U);
    EXPECT_EQ(values_with(kOptionDurability, "PERSISTED").durability,
              model::Durability::kPersisted);
    EXPECT_EQ(values_with(kOptionConsumerOffsetDurability, "persisted").consumer_offset_durability,
              model::Durability::kPersisted);
    EXPECT_EQ(values_with(kOptionMessagesRequiredToSave, "17").messages_required_to_save, 17U);
    EXPECT_EQ(
        values_with(kOptionSizeRequiredToSave, "2 MB").size_of_messages_required_to_save_bytes,
        2'000'000U);
    EXPECT_TRUE(values_with(kOptionPreallocateSegments, "true").preallocate_segments);
    EXPECT_TRUE(resolve(kOptionPreallocateSegments, ValueKind::kBool, raw(std::uint8_t{1}))
                    ->values.preallocate_segments);
}

TEST(TopicCatalogTest, ZeroStaysExplicitWithTheResolvedValue) {
    const auto resolved = resolve(kOptionSegmentSize, ValueKind::kUint64, raw(std::uint64_t{0}));
    ASSERT_TRUE(resolved.has_value());
    const auto block = OptionBlock::parse(resolved->explicit_block);
    EXPECT_EQ(load<std::uint64_t>(block->find(kOptionSegmentSize)->value, 0), 1U << 30U);
}

TEST(TopicCatalogTest, BoundsAndErrors) {
    constexpr auto kBad = ErrorCode::kInvalidOptionValue;
    EXPECT_EQ(error_with("enforce_fsync", "true"), ErrorCode::kUnsupportedOptionKey);
    EXPECT_EQ(error_with("partitions_count", 1), ErrorCode::kUnsupportedOptionKey);
    EXPECT_EQ(error_with(kOptionCompression, "zstd"), kBad);
    EXPECT_EQ(error_with(kOptionCompression, ValueKind::kUint8, raw(std::uint8_t{3})), kBad);
    EXPECT_EQ(error_with(kOptionCompression, ValueKind::kUint64, raw(std::uint64_t{1})), kBad);
    EXPECT_EQ(error_with(kOptionMessageExpiry, "soon"), kBad);
    EXPECT_EQ(error_with(kOptionMessageExpiry, ValueKind::kUint32, raw(std::uint32_t{1})), kBad);
    EXPECT_EQ(error_with(kOptionMessageExpiry, ValueKind::kUint64, raw(std::uint32_t{1})), kBad);
    EXPECT_EQ(error_with(kOptionSegmentSize, (1U << 20U) - 512U), kBad);
    EXPECT_EQ(error_with(kOptionSegmentSize, (1U << 20U) + 1U), kBad);
    EXPECT_EQ(error_with(kOptionSegmentSize, (1U << 30U) + 512U), kBad);
    EXPECT_EQ(error_with(kOptionSegmentSize, (1U << 20U) + 512U), ErrorCode::kOk);
    EXPECT_EQ(error_with(kOptionMaxTopicSize, (1U << 30U) - 1U), ErrorCode::kInvalidTopicSize);
    EXPECT_EQ(error_with(kOptionMaxTopicSize, 1U << 30U), ErrorCode::kOk);
    EXPECT_EQ(error_with(kOptionDurability, "eventual"), kBad);
    EXPECT_EQ(error_with(kOptionDurability, ValueKind::kUint8, raw(std::uint8_t{1})), kBad);
    const auto required = [](std::uint32_t value) {
        return error_with(kOptionMessagesRequiredToSave, ValueKind::kUint32, raw(value));
    };
    EXPECT_EQ(required(0), kBad);
    EXPECT_EQ(required(1), ErrorCode::kOk);
    EXPECT_EQ(required(16'777'216), ErrorCode::kOk);
    EXPECT_EQ(required(16'777'217), kBad);
    EXPECT_EQ(error_with(kOptionMessagesRequiredToSave, "12x"), kBad);
    EXPECT_EQ(error_with(kOptionMessagesRequiredToSave, "99999999999"), kBad);
    EXPECT_EQ(error_with(kOptionSizeRequiredToSave, (1U << 30U) + 1U), kBad);
    EXPECT_EQ(error_with(kOptionSizeRequiredToSave, 1U << 30U), ErrorCode::kOk);
    EXPECT_EQ(error_with(kOptionPreallocateSegments, ValueKind::kBool, raw(std::uint8_t{2})), kBad);
    EXPECT_EQ(error_with(kOptionPreallocateSegments, "yes"), kBad);
    EXPECT_EQ(error_with(kOptionPreallocateSegments, "\xff"), kBad);
}

TEST(TopicCatalogTest, PreallocationIsBounded) {
    const auto preallocate = [](std::uint32_t partitions) {
        return resolve(kOptionPreallocateSegments, ValueKind::kString, as_bytes("true"),
                       partitions);
    };
    EXPECT_TRUE(preallocate(64).has_value());
    EXPECT_EQ(preallocate(65).error().code, ErrorCode::kInvalidOptionValue);
}

TEST(TopicCatalogTest, UpdateKeepsWhatWasSentAndLeavesTheRest) {
    const auto created = resolve(kOptionSegmentSize, ValueKind::kString, as_bytes("1 MiB"));
    ASSERT_TRUE(created.has_value());
    OptionBlockBuilder builder;
    builder.put_string(kOptionMessageExpiry, "1 day");
    builder.put_u64(kOptionMaxTopicSize, 2U << 20U);
    const auto bytes = builder.encode();
    const auto block = OptionBlock::parse(bytes);
    EXPECT_TRUE(validate_topic_update(*block).has_value());
    const auto updated = update_topic_options(*created, *block);
    ASSERT_TRUE(updated.has_value());
    EXPECT_EQ(updated->values.message_expiry_us, 86'400'000'000U);
    EXPECT_EQ(updated->values.segment_size_bytes, 1U << 20U);
    const auto explicit_block = OptionBlock::parse(updated->explicit_block);
    EXPECT_EQ(as_text(explicit_block->find(kOptionMessageExpiry)->value), "1 day");
    EXPECT_TRUE(explicit_block->find(kOptionSegmentSize));
    const auto derived = OptionBlock::parse(updated->derived_block);
    EXPECT_FALSE(derived->find(kOptionMessageExpiry));
    EXPECT_EQ(std::ranges::distance(derived->begin(), derived->end()), 6);
}

TEST(TopicCatalogTest, UpdateRefusesOtherKeysAndBadValues) {
    const auto error_of = [](std::string_view key, std::uint64_t value) {
        OptionBlockBuilder builder;
        builder.put_u64(key, value);
        const auto bytes = builder.encode();
        const auto block = OptionBlock::parse(bytes);
        const auto current = resolve_topic_options({}, 1);
        const auto updated = update_topic_options(*current, *block);
        return updated ? ErrorCode::kOk : updated.error().code;
    };
    EXPECT_EQ(error_of(kOptionSegmentSize, 1U << 20U), ErrorCode::kUnsupportedOptionKey);
    EXPECT_EQ(error_of("nonsense", 1), ErrorCode::kUnsupportedOptionKey);
    EXPECT_EQ(error_of(kOptionCompression, 1), ErrorCode::kInvalidOptionValue);
    EXPECT_EQ(error_of(kOptionMaxTopicSize, 512), ErrorCode::kInvalidTopicSize);
    EXPECT_EQ(error_of(kOptionMaxTopicSize, 0), ErrorCode::kOk);
}

TEST(TopicCatalogTest, StreamsAndUsersHaveNone) {
    EXPECT_TRUE(refuse_options({}).has_value());
    OptionBlockBuilder builder;
    builder.put_u32("any", 1);
    const auto bytes = builder.encode();
    EXPECT_EQ(refuse_options(OptionBlock::parse(bytes).value()).error().code,
              ErrorCode::kUnsupportedOptionKey);
}

TEST(TopicCatalogTest, DescribesNineKeysInOrder) {
    const auto rows = describe_topic_options();
    EXPECT_EQ(rows.size(), 9U);
    EXPECT_TRUE(std::ranges::is_sorted(rows, {}, &OptionDescription::key));
    for (const OptionDescription& row : rows) {
        EXPECT_FALSE(row.description.empty());
        EXPECT_FALSE(row.default_value.empty());
        EXPECT_GE(static_cast<int>(row.kind), 1);
        EXPECT_LE(static_cast<int>(row.kind), 15);
        EXPECT_EQ(error_with(row.key, row.kind, row.default_value), ErrorCode::kOk) << row.key;
    }
}

}  // namespace
}  // namespace galgo::wire
