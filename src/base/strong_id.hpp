// StrongId: an integer that cannot be mixed up with another kind of integer. No implicit conversion
// in either direction; `value()` leaves the type on purpose.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace galgo {

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
    T value_{};
};

}  // namespace galgo

template <class Tag, class T>
struct std::hash<galgo::StrongId<Tag, T>> {
    std::size_t operator()(const galgo::StrongId<Tag, T>& id) const noexcept {
        return std::hash<T>{}(id.value());
    }
};
