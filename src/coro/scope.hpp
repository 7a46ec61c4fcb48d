// Scope: the only way to let work outlive the expression that starts it. An object that spawns owns
// a Scope, awaits close() before it goes, and the destructor checks that nobody is left inside.
//
// spawn takes a free or static function and decay-copies its arguments into the new frame;
// references, raw pointers, views and callables with state are refused at compile time, because
// they would dangle. A long-lived object is passed as Anchor<T>, which counts who still holds it.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"

namespace galgo::coro {

/// Base of objects that spawned work may point back to. Destroying one that is still pinned stops
/// the process.
class Anchored {
 public:
    Anchored() noexcept = default;
    Anchored(const Anchored&) = delete;
    Anchored& operator=(const Anchored&) = delete;
    ~Anchored() { GALGO_CHECK(pins_ == 0); }

 private:
    template <class>
    friend class Anchor;
    std::uint32_t pins_ = 0;
};

/// A counted pin of an Anchored object of this shard.
template <class T>
class Anchor {
 public:
    explicit Anchor(T& object) noexcept : object_(&object) { ++base().pins_; }
    Anchor(const Anchor& other) noexcept : object_(other.object_) { ++base().pins_; }
    Anchor(Anchor&& other) noexcept : object_(other.object_) { ++base().pins_; }
    Anchor& operator=(const Anchor&) = delete;
    ~Anchor() { --base().pins_; }

    [[nodiscard]] T& operator*() const noexcept { return *object_; }
    [[nodiscard]] T* operator->() const noexcept { return object_; }

 private:
    [[nodiscard]] Anchored& base() const noexcept { return *object_; }
    T* object_;
};

namespace detail {

template <class T>
inline constexpr bool kIsSpan = false;
template <class T, std::size_t N>
inline constexpr bool kIsSpan<std::span<T, N>> = true;

template <class T>
inline constexpr bool kMayOutlive =
    !std::is_pointer_v<T> && !std::is_same_v<T, std::string_view> && !kIsSpan<T>;

/// Starts at once, destroys itself at its end.
struct Detached {
    struct promise_type {
        static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
        static void operator delete(void* frame, std::size_t bytes) noexcept {
            free_frame(frame, bytes);
        }
        Detached get_return_object() const noexcept { return {}; }
        [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
        [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
        template <class U>
        auto await_transform(Task<U> task) noexcept {
            return TaskAwaiter<U>(task.release_handle());
        }
    };
};

}  // namespace detail

class Scope {
 public:
    explicit Scope(ReadyQueue& queue) noexcept : empty_(queue) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { GALGO_CHECK(inside_ == 0); }

    /// Starts fn(args...) now; it runs until its first suspension before spawn returns. After
    /// close() was called nothing may be spawned (checked). fn returns Task<void>.
    template <class R, class... Params, class... Args>
    void spawn(R (*fn)(Params...), Args&&... args) {
        static_assert(std::is_same_v<R, Task<void>>, "a spawned function returns Task<void>");
        static_assert((!std::is_reference_v<Params> && ...),
                      "parameters of a spawned function are values");
        static_assert((detail::kMayOutlive<std::decay_t<Args>> && ...),
                      "pointers and views would dangle: pass a value, a BufRef or an Anchor");
        static_assert(((alignof(Params) <= 8 || !std::is_trivially_copyable_v<Params>) && ...),
                      "clang 19 misplaces such a parameter in the frame, see base/strong_id.hpp");
        GALGO_CHECK(!closed_);
        ++inside_;
        run(this, fn, std::tuple<std::decay_t<Args>...>(std::forward<Args>(args)...));
    }

    [[nodiscard]] std::size_t inside() const noexcept { return inside_; }
    [[nodiscard]] bool closed() const noexcept { return closed_; }

    /// Refuses new work and returns when all that was spawned has ended. It does not interrupt:
    /// whoever closes first tells the work to stop (closes its socket, sets its flag).
    Task<void> close() {
        closed_ = true;
        while (inside_ != 0) {
            co_await empty_.wait();
        }
    }

 private:
    template <class R, class... Params, class Tuple>
    static detail::Detached run(Scope* scope, R (*fn)(Params...), Tuple args) {
        co_await std::apply([fn](auto&... arg) -> Task<void> { return fn(std::move(arg)...); },
                            args);
        scope->leave();
    }
    void leave() noexcept {
        if (--inside_ == 0) {
            empty_.wake_all();
        }
    }

    std::size_t inside_ = 0;
    bool closed_ = false;
    WaitList empty_;
};

}  // namespace galgo::coro
