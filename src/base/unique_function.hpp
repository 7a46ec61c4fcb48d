// UniqueFunction: a move-only callable with 48 bytes in place. libc++ 19 has no
// std::move_only_function.
#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <type_traits>
#include <utility>

#include "base/check.hpp"

namespace galgo {

template <class Signature>
class UniqueFunction;

/// Callables larger than the in-place buffer do not compile: the data path must not allocate for
/// one.
template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
    static constexpr std::size_t kCapacityBytes = 48;

    UniqueFunction() noexcept = default;

    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> &&
                 std::is_invocable_r_v<R, std::remove_cvref_t<F>&, Args...>)
    // NOLINTNEXTLINE(google-explicit-constructor): it stands for the callable
    UniqueFunction(F&& callable) {
        using Stored = std::remove_cvref_t<F>;
        static_assert(sizeof(Stored) <= kCapacityBytes &&
                      alignof(Stored) <= alignof(std::max_align_t));
        static_assert(std::is_nothrow_move_constructible_v<Stored>);
        new (storage_) Stored(std::forward<F>(callable));
        vtable_ = &kVtable<Stored>;
    }

    UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
    UniqueFunction& operator=(UniqueFunction&& other) noexcept {
        if (this != &other) {
            reset();
            take(other);
        }
        return *this;
    }
    UniqueFunction(const UniqueFunction&) = delete;
    UniqueFunction& operator=(const UniqueFunction&) = delete;
    ~UniqueFunction() { reset(); }

    explicit operator bool() const noexcept { return vtable_ != nullptr; }

    R operator()(Args... args) {
        GALGO_CHECK(vtable_ != nullptr);
        return vtable_->call(storage_, std::forward<Args>(args)...);
    }

    void reset() noexcept {
        if (vtable_ != nullptr) {
            vtable_->destroy(storage_);
            vtable_ = nullptr;
        }
    }

 private:
    struct Vtable {
        R (*call)(void*, Args&&...);
        void (*move)(void* to, void* from) noexcept;
        void (*destroy)(void*) noexcept;
    };

    template <class Stored>
    static constexpr Vtable kVtable{
        .call = [](void* stored, Args&&... args) -> R {
            return std::invoke(*static_cast<Stored*>(stored), std::forward<Args>(args)...);
        },
        .move =
            [](void* to, void* from) noexcept {
                new (to) Stored(std::move(*static_cast<Stored*>(from)));
                static_cast<Stored*>(from)->~Stored();
            },
        .destroy = [](void* stored) noexcept { static_cast<Stored*>(stored)->~Stored(); }};

    void take(UniqueFunction& other) noexcept {
        if (other.vtable_ != nullptr) {
            other.vtable_->move(storage_, other.storage_);
            vtable_ = std::exchange(other.vtable_, nullptr);
        }
    }

    alignas(std::max_align_t) std::byte storage_[kCapacityBytes];
    const Vtable* vtable_ = nullptr;
};

}  // namespace galgo
