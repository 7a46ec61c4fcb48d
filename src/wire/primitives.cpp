// Field readers and writers.
#include "wire/primitives.hpp"

#include <limits>

#include "model/text.hpp"

namespace galgo::wire {

namespace {
constexpr std::uint8_t kIdentifierNumber = 1;
constexpr std::uint8_t kIdentifierName = 2;
constexpr std::size_t kStr8Max = 255;
}  // namespace

ConstBytes FieldReader::bytes(std::size_t count) noexcept {
    const std::optional<ConstBytes> taken = failed_ ? std::nullopt : reader_.take_bytes(count);
    if (!taken) {
        failed_ = true;
        return {};
    }
    return *taken;
}

std::string_view FieldReader::text(std::size_t count) noexcept {
    const std::string_view taken = as_text(bytes(count));
    if (!model::is_valid_utf8(taken)) {
        failed_ = true;
        return {};
    }
    return taken;
}

std::string_view FieldReader::name() noexcept {
    const std::string_view taken = str8();
    failed_ = failed_ || taken.empty();
    return taken;
}

std::string_view FieldReader::str8() noexcept {
    return text(u8());
}

std::string_view FieldReader::str32() noexcept {
    return text(u32());
}

ConstBytes FieldReader::block32() noexcept {
    return bytes(u32());
}

Identifier FieldReader::identifier() noexcept {
    const std::uint8_t kind = u8();
    if (kind == kIdentifierNumber) {
        if (u8() != sizeof(std::uint32_t)) {
            failed_ = true;
        }
        return Identifier::numbered(u32());
    }
    if (kind != kIdentifierName) {
        failed_ = true;
        return {};
    }
    const std::string_view taken = name();
    return failed_ ? Identifier{} : Identifier::named(taken);
}

ConsumerRef FieldReader::consumer() noexcept {
    const ConsumerKind kind = one_of(ConsumerKind::kConsumer, ConsumerKind::kGroup);
    return ConsumerRef{.kind = kind, .id = identifier()};
}

std::optional<model::PartitionId> FieldReader::optional_partition() noexcept {
    const std::uint8_t flag = u8();
    const auto partition = id<model::PartitionId>();
    // wire: only the value 1 means "set"; everything else is read as absent, not refused.
    return flag == 1 && !failed_ ? std::optional(partition) : std::nullopt;
}

Partitioning FieldReader::partitioning() noexcept {
    Partitioning partitioning;
    partitioning.kind = one_of(PartitioningKind::kBalanced, PartitioningKind::kKey);
    const std::uint8_t size = u8();
    switch (partitioning.kind) {
        case PartitioningKind::kBalanced:
            failed_ = failed_ || size != 0;
            break;
        case PartitioningKind::kPartition:
            failed_ = failed_ || size != sizeof(std::uint32_t);
            partitioning.partition = id<model::PartitionId>();
            break;
        case PartitioningKind::kKey:
            failed_ = failed_ || size == 0;
            partitioning.key = bytes(size);
            break;
    }
    return partitioning;
}

PollingStrategy FieldReader::polling_strategy() noexcept {
    const PollingKind kind = one_of(PollingKind::kOffset, PollingKind::kNext);
    return PollingStrategy{.kind = kind, .value = u64()};
}

ConstBytes FieldReader::rest() noexcept {
    return bytes(reader_.remaining());
}

void put_name(ByteWriter& to, std::string_view name) {
    GALGO_CHECK(!name.empty());
    put_str8(to, name);
}

void put_str8(ByteWriter& to, std::string_view text) {
    GALGO_CHECK(text.size() <= kStr8Max);
    to.put<std::uint8_t>(static_cast<std::uint8_t>(text.size()));
    to.put_text(text);
}

void put_str32(ByteWriter& to, std::string_view text) {
    put_block32(to, as_bytes(text));
}

void put_block32(ByteWriter& to, ConstBytes bytes) {
    GALGO_CHECK(bytes.size() <= std::numeric_limits<std::uint32_t>::max());
    to.put<std::uint32_t>(static_cast<std::uint32_t>(bytes.size()));
    to.put_bytes(bytes);
}

void put_identifier(ByteWriter& to, const Identifier& identifier) {
    if (identifier.is_numeric()) {
        to.put<std::uint8_t>(kIdentifierNumber);
        to.put<std::uint8_t>(sizeof(std::uint32_t));
        to.put<std::uint32_t>(identifier.number());
        return;
    }
    to.put<std::uint8_t>(kIdentifierName);
    put_name(to, identifier.name());
}

void put_consumer(ByteWriter& to, const ConsumerRef& consumer) {
    to.put<std::uint8_t>(static_cast<std::uint8_t>(consumer.kind));
    put_identifier(to, consumer.id);
}

void put_optional_partition(ByteWriter& to, std::optional<model::PartitionId> partition) {
    to.put<std::uint8_t>(partition ? 1 : 0);
    to.put<std::uint32_t>(partition.value_or(model::PartitionId{}).value());
}

void put_partitioning(ByteWriter& to, const Partitioning& partitioning) {
    to.put<std::uint8_t>(static_cast<std::uint8_t>(partitioning.kind));
    switch (partitioning.kind) {
        case PartitioningKind::kBalanced:
            to.put<std::uint8_t>(0);
            break;
        case PartitioningKind::kPartition:
            to.put<std::uint8_t>(sizeof(std::uint32_t));
            to.put<std::uint32_t>(partitioning.partition.value());
            break;
        case PartitioningKind::kKey:
            GALGO_CHECK(!partitioning.key.empty() && partitioning.key.size() <= kStr8Max);
            to.put<std::uint8_t>(static_cast<std::uint8_t>(partitioning.key.size()));
            to.put_bytes(partitioning.key);
            break;
    }
}

void put_polling_strategy(ByteWriter& to, const PollingStrategy& strategy) {
    to.put<std::uint8_t>(static_cast<std::uint8_t>(strategy.kind));
    to.put<std::uint64_t>(strategy.value);
}

}  // namespace galgo::wire
