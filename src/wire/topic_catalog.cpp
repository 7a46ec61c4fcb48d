// The topic option catalogue. One row a key: how a value is read into TopicOptions, how it is
// written back.
#include "wire/topic_catalog.hpp"

#include <array>
#include <charconv>
#include <optional>

#include "model/text.hpp"
#include "model/units_text.hpp"

namespace galgo::wire {
namespace {

using model::CompressionAlgorithm;
using model::Durability;
using model::TopicOptions;

std::optional<std::string_view> as_string(const OptionEntry& entry) noexcept {
    if (entry.kind != ValueKind::kString || !model::is_valid_utf8(as_text(entry.value))) {
        return std::nullopt;
    }
    return as_text(entry.value);
}

template <class T>
std::optional<T> as_number(const OptionEntry& entry, ValueKind kind) noexcept {
    if (entry.kind != kind || entry.value.size() != sizeof(T)) {
        return std::nullopt;
    }
    return load<T>(entry.value, 0);
}

using TextParser = Result<std::uint64_t> (*)(std::string_view);

/// A u64, or text that `parse` understands.
std::optional<std::uint64_t> as_u64_or_text(const OptionEntry& entry, TextParser parse) noexcept {
    if (const std::optional<std::string_view> text = as_string(entry)) {
        const Result<std::uint64_t> value = parse(*text);
        return value ? std::optional(*value) : std::nullopt;
    }
    return as_number<std::uint64_t>(entry, ValueKind::kUint64);
}

/// Reads a value, where 0 stands for "not given" and leaves the default.
bool read_u64(const OptionEntry& entry, TextParser parse, std::uint64_t& to) noexcept {
    const std::optional<std::uint64_t> value = as_u64_or_text(entry, parse);
    if (value && *value != 0) {
        to = *value;
    }
    return value.has_value();
}

bool read_compression(const OptionEntry& entry, TopicOptions& to) noexcept {
    if (const auto code = as_number<std::uint8_t>(entry, ValueKind::kUint8)) {
        to.compression = static_cast<CompressionAlgorithm>(*code);
        return *code == 1 || *code == 2;
    }
    const std::optional<std::string_view> text = as_string(entry);
    if (!text) {
        return false;
    }
    if (model::equals_ignoring_case(*text, "none")) {
        to.compression = CompressionAlgorithm::kNone;
        return true;
    }
    to.compression = CompressionAlgorithm::kGzip;
    return model::equals_ignoring_case(*text, "gzip");
}

bool read_durability(const OptionEntry& entry, Durability& to) noexcept {
    const std::optional<std::string_view> text = as_string(entry);
    if (!text) {
        return false;
    }
    to = model::equals_ignoring_case(*text, "persisted") ? Durability::kPersisted
                                                         : Durability::kReplicated;
    return to == Durability::kPersisted || model::equals_ignoring_case(*text, "replicated");
}

bool read_segment_size(const OptionEntry& entry, TopicOptions& to) noexcept {
    return read_u64(entry, model::parse_byte_size, to.segment_size_bytes) &&
           to.segment_size_bytes >= model::kSegmentSizeMin &&
           to.segment_size_bytes <= model::kSegmentSizeMax &&
           to.segment_size_bytes % model::kSegmentSizeStep == 0;
}

bool read_messages_required(const OptionEntry& entry, TopicOptions& to) noexcept {
    std::optional<std::uint32_t> value = as_number<std::uint32_t>(entry, ValueKind::kUint32);
    if (const std::optional<std::string_view> text = as_string(entry)) {
        const std::string_view digits = model::trimmed(*text);
        std::uint32_t parsed = 0;
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
        if (error != std::errc{} || end != digits.data() + digits.size()) {
            return false;
        }
        value = parsed;
    }
    to.messages_required_to_save = value.value_or(0);
    return to.messages_required_to_save >= 1 &&
           to.messages_required_to_save <= model::kMessagesRequiredToSaveMax;
}

bool read_preallocate(const OptionEntry& entry, TopicOptions& to) noexcept {
    if (const auto byte = as_number<std::uint8_t>(entry, ValueKind::kBool)) {
        to.preallocate_segments = *byte != 0;
        return *byte <= 1;
    }
    const std::optional<std::string_view> text = as_string(entry);
    if (!text) {
        return false;
    }
    to.preallocate_segments = model::equals_ignoring_case(*text, "true");
    return to.preallocate_segments || model::equals_ignoring_case(*text, "false");
}

std::string_view durability_text(Durability durability) noexcept {
    return durability == Durability::kPersisted ? "persisted" : "replicated";
}

struct CatalogRow {
    std::string_view key;
    ValueKind kind;
    bool updatable;
    bool (*read)(const OptionEntry&, TopicOptions&) noexcept;
    void (*write)(const TopicOptions&, OptionBlockBuilder&);
    std::string_view description;
};

// Sorted by key.
constexpr std::array kCatalog{
    CatalogRow{
        kOptionCompression, ValueKind::kString, true, read_compression,
        [](const TopicOptions& from, OptionBlockBuilder& to) {
            to.put_string(kOptionCompression,
                          from.compression == CompressionAlgorithm::kGzip ? "gzip" : "none");
        },
        "Compression that producers of the topic agree on: none or gzip. Messages are stored "
        "as they were sent."},
    CatalogRow{
        kOptionConsumerOffsetDurability, ValueKind::kString, false,
        [](const OptionEntry& entry, TopicOptions& to) noexcept {
            return read_durability(entry, to.consumer_offset_durability);
        },
        [](const TopicOptions& from, OptionBlockBuilder& to) {
            to.put_string(kOptionConsumerOffsetDurability,
                          durability_text(from.consumer_offset_durability));
        },
        "When storing a consumer offset succeeds: replicated (a quorum has it) or persisted (a "
        "quorum has it on stable storage)."},
    CatalogRow{
        kOptionDurability, ValueKind::kString, false,
        [](const OptionEntry& entry, TopicOptions& to) noexcept {
            return read_durability(entry, to.durability);
        },
        [](const TopicOptions& from, OptionBlockBuilder& to) {
            to.put_string(kOptionDurability, durability_text(from.durability));
        },
        "When sending messages succeeds: replicated (a quorum has them) or persisted (a quorum "
        "has them on stable storage)."},
    CatalogRow{
        kOptionMaxTopicSize, ValueKind::kUint64, true,
        [](const OptionEntry& entry, TopicOptions& to) noexcept {
            return read_u64(entry, model::parse_byte_size, to.max_topic_size_bytes);
        },
        [](const TopicOptions& from, OptionBlockBuilder& to) {
            to.put_u64(kOptionMaxTopicSize, from.max_topic_size_bytes);
        },
        "Bytes the topic may hold before its oldest segments are deleted; at least one segment, "
        "unlimited by default."},
    CatalogRow{
        kOptionMessageExpiry, ValueKind::kUint64, true,
        [](const OptionEntry& entry, TopicOptions& to) noexcept {
            return read_u64(entry, model::parse_expiry_us, to.message_expiry_us);
        },
        [](const TopicOptions& from, OptionBlockBuilder& to) {
            to.put_u64(kOptionMessageExpiry, from.message_expiry_us);
        },
        "Microseconds after which messages may be deleted, or a duration such as 7 days; never "
        "by default."},
    CatalogRow{
        kOptionMessagesRequiredToSave, ValueKind::kUint32, false, read_messages_required,
        [](const TopicOptions& from, OptionBlockBuilder& to) {
            to.put_u32(kOptionMessagesRequiredToSave, from.messages_required_to_save);
        },
        "Number of messages held in memory that makes a partition write them to its segment."},
    CatalogRow{kOptionPreallocateSegments, ValueKind::kBool, false, read_preallocate,
               [](const TopicOptions& from, OptionBlockBuilder& to) {
                   to.put_bool(kOptionPreallocateSegments, from.preallocate_segments);
               },
               "Reserve the disk space of a segment when it is created."},
    CatalogRow{kOptionSegmentSize, ValueKind::kUint64, false, read_segment_size,
               [](const TopicOptions& from, OptionBlockBuilder& to) {
                   to.put_u64(kOptionSegmentSize, from.segment_size_bytes);
               },
               "Bytes at which a segment is sealed: 1 MiB to 1 GiB, a multiple of 512."},
    CatalogRow{
        kOptionSizeRequiredToSave, ValueKind::kUint64, false,
        [](const OptionEntry& entry, TopicOptions& to) noexcept {
            return read_u64(entry, model::parse_byte_size,
                            to.size_of_messages_required_to_save_bytes) &&
                   to.size_of_messages_required_to_save_bytes <= model::kSizeRequiredToSaveMax;
        },
        [](const TopicOptions& from, OptionBlockBuilder& to) {
            to.put_u64(kOptionSizeRequiredToSave, from.size_of_messages_required_to_save_bytes);
        },
        "Bytes of messages held in memory that make a partition write them to its segment."},
};

const CatalogRow* find_row(std::string_view key) noexcept {
    for (const CatalogRow& row : kCatalog) {
        if (row.key == key) {
            return &row;
        }
    }
    return nullptr;
}

Status check_topic_size(const TopicOptions& options) noexcept {
    if (options.max_topic_size_bytes < options.segment_size_bytes) {
        return fail(ErrorCode::kInvalidTopicSize);
    }
    return {};
}

/// Lays an update over `values`. A 0 puts the default back.
Status read_update(const OptionBlock& block, TopicOptions& values) {
    for (const OptionEntry entry : block) {
        const CatalogRow* row = find_row(entry.key);
        if (row == nullptr || !row->updatable) {
            return fail(ErrorCode::kUnsupportedOptionKey);
        }
        TopicOptions fresh;
        if (!row->read(entry, fresh)) {
            return fail(ErrorCode::kInvalidOptionValue);
        }
        if (row->key == kOptionCompression) {
            values.compression = fresh.compression;
        } else if (row->key == kOptionMessageExpiry) {
            values.message_expiry_us = fresh.message_expiry_us;
        } else {
            values.max_topic_size_bytes = fresh.max_topic_size_bytes;
        }
    }
    return {};
}

}  // namespace

Result<ResolvedTopicOptions> resolve_topic_options(const OptionBlock& block,
                                                   std::uint32_t partitions_count) {
    ResolvedTopicOptions resolved;
    TopicOptions& values = resolved.values;
    for (const OptionEntry entry : block) {
        const CatalogRow* row = find_row(entry.key);
        if (row == nullptr) {
            return fail(ErrorCode::kUnsupportedOptionKey);
        }
        if (!row->read(entry, values)) {
            return fail(ErrorCode::kInvalidOptionValue);
        }
    }
    GALGO_TRY(check_topic_size(values));
    if (values.preallocate_segments &&
        values.segment_size_bytes * partitions_count > model::kPreallocatedBytesMax) {
        return fail(ErrorCode::kInvalidOptionValue);
    }
    OptionBlockBuilder explicit_builder;
    OptionBlockBuilder derived_builder;
    for (const CatalogRow& row : kCatalog) {
        row.write(values, block.find(row.key) ? explicit_builder : derived_builder);
    }
    resolved.explicit_block = explicit_builder.encode();
    resolved.derived_block = derived_builder.encode();
    return resolved;
}

Status validate_topic_update(const OptionBlock& block) {
    TopicOptions values;
    return read_update(block, values);
}

Result<ResolvedTopicOptions> update_topic_options(const ResolvedTopicOptions& current,
                                                  const OptionBlock& block) {
    ResolvedTopicOptions updated;
    updated.values = current.values;
    GALGO_TRY(read_update(block, updated.values));
    GALGO_TRY(check_topic_size(updated.values));
    GALGO_TRY_ASSIGN(const OptionBlock explicit_now, OptionBlock::parse(current.explicit_block));
    GALGO_TRY_ASSIGN(const OptionBlock derived_now, OptionBlock::parse(current.derived_block));
    OptionBlockBuilder explicit_builder;
    OptionBlockBuilder derived_builder;
    explicit_builder.put_all(explicit_now);
    explicit_builder.put_all(block);
    derived_builder.put_all(derived_now);
    for (const OptionEntry entry : block) {
        derived_builder.erase(entry.key);
    }
    updated.explicit_block = explicit_builder.encode();
    updated.derived_block = derived_builder.encode();
    return updated;
}

Status refuse_options(const OptionBlock& block) {
    if (!block.empty()) {
        return fail(ErrorCode::kUnsupportedOptionKey);
    }
    return {};
}

std::vector<OptionDescription> describe_topic_options() {
    OptionBlockBuilder defaults;
    for (const CatalogRow& row : kCatalog) {
        row.write(TopicOptions{}, defaults);
    }
    const std::vector<std::byte> bytes = defaults.encode();
    const Result<OptionBlock> block = OptionBlock::parse(bytes);
    GALGO_CHECK(block.has_value());
    std::vector<OptionDescription> descriptions;
    for (const CatalogRow& row : kCatalog) {
        const std::optional<OptionEntry> entry = block->find(row.key);
        GALGO_CHECK(entry.has_value());
        descriptions.push_back(
            OptionDescription{.key = row.key,
                              .kind = row.kind,
                              .default_value = {entry->value.begin(), entry->value.end()},
                              .description = row.description});
    }
    return descriptions;
}

}  // namespace galgo::wire
