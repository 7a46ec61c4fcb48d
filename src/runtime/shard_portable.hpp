// is_shard_portable: may a value be moved to another shard? Owned values may; raw pointers,
// references and views may not, because what they point at belongs to the sending shard. A class
// says so about itself by a member `static constexpr bool kShardPortable = true;` (its author
// vouches for its members) or by a specialisation of IsShardPortable beside the class.
#pragma once

#include <array>
#include <cstddef>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/strong_id.hpp"

namespace galgo::runtime {

namespace detail {
template <class T>
concept DeclaresPortable = requires { requires T::kShardPortable; };
}  // namespace detail

template <class T>
struct IsShardPortable
    : std::bool_constant<std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, u128> ||
                         std::is_same_v<T, std::byte> || detail::DeclaresPortable<T>> {};

template <>
struct IsShardPortable<void> : std::true_type {};
template <>
struct IsShardPortable<std::monostate> : std::true_type {};
template <>
struct IsShardPortable<std::string> : std::true_type {};
template <>
struct IsShardPortable<Error> : std::true_type {};
template <class Tag, class T>
struct IsShardPortable<StrongId<Tag, T>> : std::true_type {};
template <class T>
struct IsShardPortable<std::optional<T>> : IsShardPortable<T> {};
template <class T>
struct IsShardPortable<std::vector<T>> : IsShardPortable<T> {};
template <class T>
struct IsShardPortable<std::unique_ptr<T>> : IsShardPortable<T> {};
template <class T, std::size_t N>
struct IsShardPortable<std::array<T, N>> : IsShardPortable<T> {};
template <class T, class E>
struct IsShardPortable<std::expected<T, E>>
    : std::bool_constant<IsShardPortable<T>::value && IsShardPortable<E>::value> {};
template <class A, class B>
struct IsShardPortable<std::pair<A, B>>
    : std::bool_constant<IsShardPortable<A>::value && IsShardPortable<B>::value> {};
template <class... Ts>
struct IsShardPortable<std::tuple<Ts...>>
    : std::bool_constant<(IsShardPortable<Ts>::value && ...)> {};
template <class... Ts>
struct IsShardPortable<std::variant<Ts...>>
    : std::bool_constant<(IsShardPortable<Ts>::value && ...)> {};

template <class T>
inline constexpr bool is_shard_portable = IsShardPortable<T>::value;

}  // namespace galgo::runtime
