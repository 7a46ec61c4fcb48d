// StrongId: an integer that cannot be mixed up with another kind of integer. No implicit conversion
// in either direction; `value()` leaves the type on purpose.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace galgo {

namespace detail {

/// How an id is stored: never with more than the alignment of a u64. clang 19 keeps a trivially
/// copyable by-value parameter of a coroutine at 8-byte alignment in the frame, and reads it with
/// instructions that fault below its own alignment of 16 (seen with std::optional of a struct).
template <class T, bool kWide = (alignof(T) > alignof(std::uint64_t))>
struct StoredId {
    using Type = T;
};
template <class T>
struct StoredId<T, true> {
    using Type [[gnu::aligned(8)]] = T;
};

}  // namespace detail

template <class Tag, class T>
class StrongId {
 public:
    using value_type = T;

    constexpr StrongId() noexcept = default;
    constexpr explicit StrongId(T value) noexcept : value_(value) {}

    [[nodiscard]] constexpr T value() const noexcept { return value_; }
    /// The id `count` behind this one. The caller knows that it does not wrap.
    [[nodiscard]] constexpr StrongId plus(T count) const noexcept {
        return StrongId(static_cast<T>(value_ + count));
    }
    [[nodiscard]] constexpr StrongId next() const noexcept { return plus(T{1}); }

    constexpr auto operator<=>(const StrongId&) const noexcept = default;

 private:
    typename detail::StoredId<T>::Type value_{};
};

}  // namespace galgo

template <class Tag, class T>
struct std::hash<galgo::StrongId<Tag, T>> {
    std::size_t operator()(const galgo::StrongId<Tag, T>& id) const noexcept {
        return std::hash<T>{}(id.value());
    }
};
