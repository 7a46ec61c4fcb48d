// The small shapes that request and reply bodies are made of, and the two cursors that read and
// write them.
//
//   identifier  kind u8 (1 number, 2 name), len u8, value      name   len u8 (1..255), UTF-8
//   consumer    kind u8 (1 consumer, 2 group), identifier      str8   len u8, UTF-8
//   partition   flag u8 (1 = set), u32                         str32  len u32, UTF-8
//   partitioning kind u8 (1 balanced, 2 id, 3 key), len u8, value
//   strategy    kind u8 (1..5), value u64
//
// Views borrow the body they were read from and allocate nothing. wire: iggy_binary_protocol
// 0.11.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "model/ids.hpp"

namespace galgo::wire {

/// Names a resource by number or by name. Borrows the name.
class Identifier {
 public:
    constexpr Identifier() noexcept = default;
    [[nodiscard]] static constexpr Identifier numbered(std::uint32_t number) noexcept {
        Identifier identifier;
        identifier.number_ = number;
        return identifier;
    }
    /// `name` has 1..255 bytes.
    [[nodiscard]] static constexpr Identifier named(std::string_view name) noexcept {
        GALGO_CHECK(!name.empty() && name.size() <= model::kNameSizeMax);
        Identifier identifier;
        identifier.name_ = name;
        return identifier;
    }

    [[nodiscard]] constexpr bool is_numeric() const noexcept { return name_.empty(); }
    /// Only for a numeric one.
    [[nodiscard]] constexpr std::uint32_t number() const noexcept {
        GALGO_DCHECK(is_numeric());
        return number_;
    }
    /// Empty for a numeric one.
    [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }

    constexpr bool operator==(const Identifier&) const noexcept = default;

 private:
    std::uint32_t number_ = 0;
    std::string_view name_;
};

enum class ConsumerKind : std::uint8_t { kConsumer = 1, kGroup = 2 };

struct ConsumerRef {
    ConsumerKind kind = ConsumerKind::kConsumer;
    Identifier id;

    constexpr bool operator==(const ConsumerRef&) const noexcept = default;
};

enum class PartitioningKind : std::uint8_t { kBalanced = 1, kPartition = 2, kKey = 3 };

struct Partitioning {
    PartitioningKind kind = PartitioningKind::kBalanced;
    model::PartitionId partition;  ///< for kPartition
    ConstBytes key;                ///< for kKey, 1..255 bytes
};

enum class PollingKind : std::uint8_t {
    kOffset = 1,
    kTimestamp = 2,
    kFirst = 3,
    kLast = 4,
    kNext = 5,
};

struct PollingStrategy {
    PollingKind kind = PollingKind::kNext;
    std::uint64_t value = 0;  ///< offset, or microseconds since the epoch; else ignored

    constexpr bool operator==(const PollingStrategy&) const noexcept = default;
};

/// Reads fields in order. The first failure sticks: later takes give empty values and finish() an
/// error, so a decoder is a plain list of fields. Borrows the body.
class FieldReader {
 public:
    explicit FieldReader(ConstBytes body) noexcept : reader_(body) {}

    template <class T>
    [[nodiscard]] T number() noexcept {
        const std::optional<T> value = failed_ ? std::nullopt : reader_.take<T>();
        if (!value) {
            failed_ = true;
            return T{};
        }
        return *value;
    }
    [[nodiscard]] std::uint8_t u8() noexcept { return number<std::uint8_t>(); }
    [[nodiscard]] std::uint16_t u16() noexcept { return number<std::uint16_t>(); }
    [[nodiscard]] std::uint32_t u32() noexcept { return number<std::uint32_t>(); }
    [[nodiscard]] std::uint64_t u64() noexcept { return number<std::uint64_t>(); }
    /// A strong id, read as its integer.
    template <class Id>
    [[nodiscard]] Id id() noexcept {
        return Id(number<typename Id::value_type>());
    }
    /// A u8 that must be 'first'..'last'.
    template <class Enum>
        requires std::is_enum_v<Enum>
    [[nodiscard]] Enum one_of(Enum first, Enum last) noexcept {
        const std::uint8_t value = u8();
        if (value < static_cast<std::uint8_t>(first) || value > static_cast<std::uint8_t>(last)) {
            failed_ = true;
            return first;
        }
        return static_cast<Enum>(value);
    }

    [[nodiscard]] ConstBytes bytes(std::size_t count) noexcept;
    [[nodiscard]] std::string_view text(std::size_t count) noexcept;  ///< must be UTF-8
    [[nodiscard]] std::string_view name() noexcept;
    [[nodiscard]] std::string_view str8() noexcept;
    [[nodiscard]] std::string_view str32() noexcept;
    /// u32 length and that many bytes.
    [[nodiscard]] ConstBytes block32() noexcept;
    [[nodiscard]] Identifier identifier() noexcept;
    [[nodiscard]] ConsumerRef consumer() noexcept;
    [[nodiscard]] std::optional<model::PartitionId> optional_partition() noexcept;
    [[nodiscard]] Partitioning partitioning() noexcept;
    [[nodiscard]] PollingStrategy polling_strategy() noexcept;
    /// Everything that is left.
    [[nodiscard]] ConstBytes rest() noexcept;

    void set_failed() noexcept { failed_ = true; }
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    [[nodiscard]] std::size_t position() const noexcept { return reader_.position(); }
    [[nodiscard]] std::size_t remaining() const noexcept { return reader_.remaining(); }

    /// `value`, or kInvalidCommand if any take failed. Bytes behind the last field are tolerated.
    template <class T>
    [[nodiscard]] Result<T> finish(T value) const {
        if (failed_) {
            return fail(ErrorCode::kInvalidCommand, static_cast<std::uint32_t>(position()));
        }
        return value;
    }

 private:
    ByteReader reader_;
    bool failed_ = false;
};

// Writers. Sizes outside the bounds of a shape are programmer errors.
void put_name(ByteWriter& to, std::string_view name);
void put_str8(ByteWriter& to, std::string_view text);
void put_str32(ByteWriter& to, std::string_view text);
void put_block32(ByteWriter& to, ConstBytes bytes);
void put_identifier(ByteWriter& to, const Identifier& identifier);
void put_consumer(ByteWriter& to, const ConsumerRef& consumer);
void put_optional_partition(ByteWriter& to, std::optional<model::PartitionId> partition);
void put_partitioning(ByteWriter& to, const Partitioning& partitioning);
void put_polling_strategy(ByteWriter& to, const PollingStrategy& strategy);

}  // namespace galgo::wire
