// Option blocks: pairs of a key and a typed value, sent with streams, topics and users.
//
//   entry  key field, value field        field  kind u8 (not 0), len u32 (1..255), data
//
// Keys are of kind string, UTF-8, unique; at most 1024 entries and 100 000 bytes. In requests a
// block runs to the end of the body, in replies it has a u32 length in front. Input may be in any
// order; ours is sorted by key. An OptionBlock is a checked view: it borrows its bytes and iterates
// without failing. wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"

namespace galgo::wire {

/// Type of an option value (and of a user header). A value may carry a number that is none of
/// these.
enum class ValueKind : std::uint8_t {
    kRaw = 1,
    kString = 2,
    kBool = 3,
    kInt8 = 4,
    kInt16 = 5,
    kInt32 = 6,
    kInt64 = 7,
    kInt128 = 8,
    kUint8 = 9,
    kUint16 = 10,
    kUint32 = 11,
    kUint64 = 12,
    kUint128 = 13,
    kFloat32 = 14,
    kFloat64 = 15,
};

inline constexpr std::size_t kOptionEntriesMax = 1024;
inline constexpr std::size_t kOptionBlockBytesMax = 100'000;
inline constexpr std::size_t kFieldBytesMax = 255;

struct OptionEntry {
    std::string_view key;
    ValueKind kind = ValueKind::kRaw;
    ConstBytes value;
};

class OptionBlock {
 public:
    /// The empty block.
    OptionBlock() noexcept = default;
    /// Checks the whole of `bytes`. Error: kInvalidCommand.
    [[nodiscard]] static Result<OptionBlock> parse(ConstBytes bytes) noexcept;

    class Iterator {
     public:
        using iterator_concept = std::forward_iterator_tag;
        using value_type = OptionEntry;
        using difference_type = std::ptrdiff_t;

        Iterator() noexcept = default;
        explicit Iterator(ConstBytes rest) noexcept : rest_(rest) {}
        [[nodiscard]] OptionEntry operator*() const noexcept;
        Iterator& operator++() noexcept;
        Iterator operator++(int) noexcept {
            Iterator before = *this;
            ++*this;
            return before;
        }
        bool operator==(const Iterator& other) const noexcept {
            return rest_.size() == other.rest_.size();
        }

     private:
        ConstBytes rest_;
    };

    [[nodiscard]] Iterator begin() const noexcept { return Iterator(bytes_); }
    [[nodiscard]] Iterator end() const noexcept { return Iterator(bytes_.last(0)); }
    [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
    [[nodiscard]] ConstBytes bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::optional<OptionEntry> find(std::string_view key) const noexcept;

 private:
    ConstBytes bytes_;
};

/// Collects entries and writes them sorted by key. A key that is put twice keeps the last value.
class OptionBlockBuilder {
 public:
    void put(std::string_view key, ValueKind kind, ConstBytes value);
    void put_string(std::string_view key, std::string_view value);
    void put_u64(std::string_view key, std::uint64_t value);
    void put_u32(std::string_view key, std::uint32_t value);
    void put_bool(std::string_view key, bool value);
    void put_all(const OptionBlock& block);
    void erase(std::string_view key);

    /// The block within its bounds, which the caller guarantees (catalogue keys are few).
    [[nodiscard]] std::vector<std::byte> encode() const;

 private:
    struct Entry {
        std::string key;
        ValueKind kind;
        std::vector<std::byte> value;
    };
    std::vector<Entry> entries_;  // sorted by key
};

}  // namespace galgo::wire
