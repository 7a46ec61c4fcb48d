// Task<T>: a lazy coroutine that is awaited in the very expression that creates it. It can be
// neither copied nor moved, so arguments passed by reference outlive the call: the caller's frame
// is suspended in the same full expression. Work that must outlive the expression goes through
// Scope::spawn.
//
// Awaiting transfers control straight into the callee and, at its end, straight back (symmetric
// transfer, no queue). An exception that escapes a task stops the process: our code throws nothing.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "coro/frame_pool.hpp"

namespace galgo::coro {

template <class T>
class Task;

namespace detail {

/// Counts children that run side by side; the last one to end resumes the parent.
struct Join {
    std::size_t remaining;
    std::coroutine_handle<> parent;
};

struct PromiseBase {
    std::coroutine_handle<> continuation;
    Join* join = nullptr;

    static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
    static void operator delete(void* frame, std::size_t bytes) noexcept {
        free_frame(frame, bytes);
    }

    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }

    struct FinalAwaiter {
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
            PromiseBase& promise = self.promise();
            if (promise.join == nullptr) {
                return promise.continuation;
            }
            if (--promise.join->remaining == 0) {
                return promise.join->parent;
            }
            return std::noop_coroutine();
        }
        void await_resume() const noexcept {}
    };
    [[nodiscard]] FinalAwaiter final_suspend() const noexcept { return {}; }

    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

    template <class U>
    auto await_transform(Task<U> task) noexcept;

    template <class Awaitable>
    Awaitable&& await_transform(Awaitable&& awaitable) const noexcept {
        return std::forward<Awaitable>(awaitable);
    }
};

template <class T>
struct Promise : PromiseBase {
    std::optional<T> value;
    Task<T> get_return_object() noexcept;
    template <class U = T>
    void return_value(U&& result) {
        value.emplace(std::forward<U>(result));
    }
    T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
    Task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() const noexcept {}
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
 public:
    using promise_type = detail::Promise<T>;
    using Handle = std::coroutine_handle<promise_type>;

    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() {
        if (handle_) {
            handle_.destroy();
        }
    }

    /// For the awaiters of this module only.
    [[nodiscard]] Handle release_handle() noexcept { return std::exchange(handle_, {}); }

 private:
    friend promise_type;
    explicit Task(Handle handle) noexcept : handle_(handle) {}
    Handle handle_;
};

namespace detail {

template <class T>
class [[nodiscard]] TaskAwaiter {
 public:
    explicit TaskAwaiter(typename Task<T>::Handle handle) noexcept : handle_(handle) {}
    TaskAwaiter(const TaskAwaiter&) = delete;
    TaskAwaiter& operator=(const TaskAwaiter&) = delete;
    ~TaskAwaiter() { handle_.destroy(); }

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
        handle_.promise().continuation = awaiting;
        return handle_;
    }
    T await_resume() { return handle_.promise().take(); }

 private:
    typename Task<T>::Handle handle_;
};

template <class U>
auto PromiseBase::await_transform(Task<U> task) noexcept {
    return TaskAwaiter<U>(task.release_handle());
}

template <class T>
Task<T> Promise<T>::get_return_object() noexcept {
    return Task<T>(Task<T>::Handle::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
    return Task<void>(Task<void>::Handle::from_promise(*this));
}

template <class... Ts>
class [[nodiscard]] AllAwaiter {
 public:
    explicit AllAwaiter(typename Task<Ts>::Handle... handles) noexcept : handles_(handles...) {}
    AllAwaiter(const AllAwaiter&) = delete;
    AllAwaiter& operator=(const AllAwaiter&) = delete;
    ~AllAwaiter() {
        std::apply([](auto... handle) { (handle.destroy(), ...); }, handles_);
    }

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> awaiting) {
        // One more than the children, so that none of them resumes the parent before all have
        // started.
        join_ = {.remaining = sizeof...(Ts) + 1, .parent = awaiting};
        std::apply(
            [this](auto... handle) {
                ((handle.promise().join = &join_), ...);
                (handle.resume(), ...);
            },
            handles_);
        return --join_.remaining != 0;
    }
    std::tuple<Ts...> await_resume() {
        return std::apply(
            [](auto... handle) { return std::tuple<Ts...>(handle.promise().take()...); }, handles_);
    }

 private:
    std::tuple<typename Task<Ts>::Handle...> handles_;
    Join join_{};
};

}  // namespace detail

/// Runs the tasks side by side on this shard and returns their values once all have ended:
///   auto [header, body] = co_await all(write_header(), write_body());
template <class... Ts>
[[nodiscard]] auto all(Task<Ts>... tasks) noexcept {
    return detail::AllAwaiter<Ts...>(tasks.release_handle()...);
}

}  // namespace galgo::coro
