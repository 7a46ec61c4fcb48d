// Parsing and building of option blocks. Duplicate keys are found by sorting views on the stack:
// 1024 entries of hostile input must not cost a quadratic number of comparisons on the connection's
// shard.
#include "wire/options.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "model/text.hpp"

namespace galgo::wire {
namespace {

constexpr std::size_t kFieldPrefix = 5;

struct Field {
    std::uint8_t kind = 0;
    ConstBytes data;
};

std::optional<Field> take_field(ByteReader& reader) noexcept {
    const std::optional<std::uint8_t> kind = reader.take<std::uint8_t>();
    const std::optional<std::uint32_t> size = reader.take<std::uint32_t>();
    if (!kind || *kind == 0 || !size || *size == 0 || *size > kFieldBytesMax) {
        return std::nullopt;
    }
    const std::optional<ConstBytes> data = reader.take_bytes(*size);
    if (!data) {
        return std::nullopt;
    }
    return Field{.kind = *kind, .data = *data};
}

/// Reads an entry of checked bytes; moves `rest` behind it.
OptionEntry take_checked_entry(ConstBytes& rest) noexcept {
    ByteReader reader(rest);
    const std::optional<Field> key = take_field(reader);
    const std::optional<Field> value = take_field(reader);
    GALGO_CHECK(key && value);
    rest = reader.rest();
    return OptionEntry{.key = as_text(key->data),
                       .kind = static_cast<ValueKind>(value->kind),
                       .value = value->data};
}

template <class T>
ConstBytes bytes_of(const T& value) noexcept {
    return std::as_bytes(std::span(&value, 1));
}

void put_field(ByteWriter& to, ValueKind kind, ConstBytes data) {
    GALGO_CHECK(!data.empty() && data.size() <= kFieldBytesMax);
    to.put<std::uint8_t>(static_cast<std::uint8_t>(kind));
    to.put<std::uint32_t>(static_cast<std::uint32_t>(data.size()));
    to.put_bytes(data);
}

}  // namespace

Result<OptionBlock> OptionBlock::parse(ConstBytes bytes) noexcept {
    OptionBlock block;
    if (bytes.empty()) {
        return block;
    }
    if (bytes.size() > kOptionBlockBytesMax) {
        return fail(ErrorCode::kInvalidCommand);
    }
    std::array<std::string_view, kOptionEntriesMax> keys;
    std::size_t count = 0;
    ByteReader reader(bytes);
    while (reader.remaining() > 0) {
        const std::optional<Field> key = take_field(reader);
        const std::optional<Field> value = key ? take_field(reader) : std::nullopt;
        if (!value || count == kOptionEntriesMax ||
            key->kind != static_cast<std::uint8_t>(ValueKind::kString) ||
            !model::is_valid_utf8(as_text(key->data))) {
            return fail(ErrorCode::kInvalidCommand);
        }
        keys[count++] = as_text(key->data);
    }
    const auto used = std::span(keys).first(count);
    std::ranges::sort(used);
    if (std::ranges::adjacent_find(used) != used.end()) {
        return fail(ErrorCode::kInvalidCommand);
    }
    block.bytes_ = bytes;
    return block;
}

OptionEntry OptionBlock::Iterator::operator*() const noexcept {
    ConstBytes rest = rest_;
    return take_checked_entry(rest);
}

OptionBlock::Iterator& OptionBlock::Iterator::operator++() noexcept {
    const auto key_size = load<std::uint32_t>(rest_, 1);
    const std::size_t value_at = kFieldPrefix + key_size;
    const auto value_size = load<std::uint32_t>(rest_, value_at + 1);
    rest_ = rest_.subspan(value_at + kFieldPrefix + value_size);
    return *this;
}

std::optional<OptionEntry> OptionBlock::find(std::string_view key) const noexcept {
    for (const OptionEntry entry : *this) {
        if (entry.key == key) {
            return entry;
        }
    }
    return std::nullopt;
}

void OptionBlockBuilder::put(std::string_view key, ValueKind kind, ConstBytes value) {
    const auto at = std::ranges::lower_bound(entries_, key, {}, &Entry::key);
    std::vector<std::byte> copy(value.begin(), value.end());
    if (at != entries_.end() && at->key == key) {
        at->kind = kind;
        at->value = std::move(copy);
        return;
    }
    entries_.insert(at, Entry{.key = std::string(key), .kind = kind, .value = std::move(copy)});
}

void OptionBlockBuilder::put_string(std::string_view key, std::string_view value) {
    put(key, ValueKind::kString, as_bytes(value));
}
void OptionBlockBuilder::put_u64(std::string_view key, std::uint64_t value) {
    put(key, ValueKind::kUint64, bytes_of(value));
}
void OptionBlockBuilder::put_u32(std::string_view key, std::uint32_t value) {
    put(key, ValueKind::kUint32, bytes_of(value));
}
void OptionBlockBuilder::put_bool(std::string_view key, bool value) {
    const std::uint8_t byte = value ? 1 : 0;
    put(key, ValueKind::kBool, bytes_of(byte));
}

void OptionBlockBuilder::put_all(const OptionBlock& block) {
    for (const OptionEntry entry : block) {
        put(entry.key, entry.kind, entry.value);
    }
}

void OptionBlockBuilder::erase(std::string_view key) {
    const auto at = std::ranges::lower_bound(entries_, key, {}, &Entry::key);
    if (at != entries_.end() && at->key == key) {
        entries_.erase(at);
    }
}

std::vector<std::byte> OptionBlockBuilder::encode() const {
    GALGO_CHECK(entries_.size() <= kOptionEntriesMax);
    ByteWriter writer;
    for (const Entry& entry : entries_) {
        put_field(writer, ValueKind::kString, as_bytes(entry.key));
        put_field(writer, entry.kind, entry.value);
    }
    GALGO_CHECK(writer.size() <= kOptionBlockBytesMax);
    return std::move(writer).take();
}

}  // namespace galgo::wire
