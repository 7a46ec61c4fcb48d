// One I/O operation with a deadline: when the time comes it is cancelled, and the await ends when
// the operation has really completed, so its buffers are the caller's again. Allocates nothing:
// operation and timer live in the awaiting frame.
#pragma once

#include <coroutine>
#include <cstdint>
#include <utility>

#include "runtime/io.hpp"
#include "runtime/loop.hpp"
#include "runtime/timer_wheel.hpp"

namespace galgo::net {

struct TimedResult {
    std::int32_t value = 0;        ///< as the operation's: >= 0 or -errno
    bool timed_out = false;        ///< it was cancelled; `value` may still be what it did before
    runtime::ReceivedChunk chunk;  ///< of a receive_any with value > 0: the caller returns it
};

/// See timed_io().
template <class Submit>
class [[nodiscard]] TimedIO : private runtime::IoOp, private runtime::Timer {
 public:
    TimedIO(runtime::Loop& loop, Instant deadline, Submit submit)
        : Timer([](Timer& timer) noexcept {
              auto& self = static_cast<TimedIO&>(timer);
              self.result_.timed_out = true;
              self.loop_.io().cancel(self);
          }),
          loop_(loop),
          deadline_(deadline),
          submit_(std::move(submit)) {}
    TimedIO(const TimedIO&) = delete;
    TimedIO& operator=(const TimedIO&) = delete;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
        handle_ = handle;
        complete = [](IoOp& op, std::int32_t result) noexcept {
            auto& self = static_cast<TimedIO&>(op);
            self.result_.value = result;
            self.loop_.timers().cancel(self);
            self.handle_.resume();
        };
        submit_(static_cast<IoOp&>(*this));
        if (deadline_ != runtime::kNever) {
            loop_.timers().arm(*this, deadline_);
        }
    }
    TimedResult await_resume() noexcept {
        if (result_.value > 0) {
            result_.chunk = chunk;
        }
        return result_;
    }

 private:
    runtime::Loop& loop_;
    Instant deadline_;
    Submit submit_;
    std::coroutine_handle<> handle_;
    TimedResult result_;
};

/// co_await timed_io(loop, deadline, [&](runtime::IoOp& op) { io.receive(op, ...); });
/// `deadline` on the loop's clock, at most a tick late; runtime::kNever waits for ever.
template <class Submit>
[[nodiscard]] TimedIO<Submit> timed_io(runtime::Loop& loop, Instant deadline, Submit submit) {
    return TimedIO<Submit>(loop, deadline, std::move(submit));
}

}  // namespace galgo::net
