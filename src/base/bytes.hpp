// Little-endian loads and stores, and two cursors over byte ranges. The reader never reads past its
// range: each take reports failure by an empty optional, so untrusted bytes are values throughout.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"

namespace galgo {

static_assert(std::endian::native == std::endian::little,
              "wire and disk formats are little-endian");

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

/// Loads a little-endian T from `bytes` + `position`; the caller has checked the range.
template <class T>
    requires std::is_trivially_copyable_v<T>
[[nodiscard]] T load(ConstBytes bytes, std::size_t position) noexcept {
    GALGO_DCHECK(position + sizeof(T) <= bytes.size());
    T value;
    std::memcpy(&value, bytes.data() + position, sizeof(T));
    return value;
}

template <class T>
    requires std::is_trivially_copyable_v<T>
void store(MutableBytes bytes, std::size_t position, std::type_identity_t<T> value) noexcept {
    GALGO_DCHECK(position + sizeof(T) <= bytes.size());
    std::memcpy(bytes.data() + position, &value, sizeof(T));
}

[[nodiscard]] inline ConstBytes as_bytes(std::string_view text) noexcept {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
[[nodiscard]] inline std::string_view as_text(ConstBytes bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Reads forward over a borrowed range. A failed take leaves the position where it was.
class ByteReader {
 public:
    explicit ByteReader(ConstBytes bytes) noexcept : bytes_(bytes) {}

    [[nodiscard]] std::size_t position() const noexcept { return position_; }
    [[nodiscard]] std::size_t remaining() const noexcept { return bytes_.size() - position_; }
    [[nodiscard]] ConstBytes rest() const noexcept { return bytes_.subspan(position_); }

    template <class T>
        requires std::is_arithmetic_v<T> || std::is_same_v<T, u128>
    [[nodiscard]] std::optional<T> take() noexcept {
        if (remaining() < sizeof(T)) {
            return std::nullopt;
        }
        T value = load<T>(bytes_, position_);
        position_ += sizeof(T);
        return value;
    }

    [[nodiscard]] std::optional<ConstBytes> take_bytes(std::size_t count) noexcept {
        if (remaining() < count) {
            return std::nullopt;
        }
        ConstBytes taken = bytes_.subspan(position_, count);
        position_ += count;
        return taken;
    }

 private:
    ConstBytes bytes_;
    std::size_t position_ = 0;
};

/// Appends to a growing vector: control-plane replies and log bodies, not the message path.
class ByteWriter {
 public:
    template <class T>
        requires std::is_arithmetic_v<T> || std::is_same_v<T, u128>
    void put(std::type_identity_t<T> value) {
        const auto* from = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), from, from + sizeof(T));
    }
    void put_bytes(ConstBytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    void put_text(std::string_view text) { put_bytes(as_bytes(text)); }
    /// Overwrites what was put before, for a length that is known only at the end.
    template <class T>
    void patch(std::size_t position, std::type_identity_t<T> value) {
        GALGO_CHECK(position + sizeof(T) <= bytes_.size());
        store<T>(bytes_, position, value);
    }

    [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
    [[nodiscard]] ConstBytes bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
    std::vector<std::byte> bytes_;
};

}  // namespace galgo
