// Who runs, and what it costs: the bracket around the server's own code in a process that holds
// server, client, simulated network and simulated disk at once.
//
// The bracket is open ("inside") exactly while code of the server runs: a turn of a shard's loop,
// except for the calls into its IoBackend, and again the completions which the back end delivers.
// CountingBackend (counting_backend.hpp) draws that line, so the simulator's maps and copies and
// the client's buffers are never charged to the server, and nothing of the server is left out.
//
// While the bracket is open, and only when armed:
//  * every call of the general allocator (malloc and its family, whatever operator new ends in) is
//    counted: allocation_counter.cpp;
//  * callgrind collects instructions, when asked to (collect).
// A process of one thread uses it; other threads (a sanitizer's) are never inside.
#pragma once

#include <cstdint>

namespace galgo::performance {

struct Account {
    bool armed = false;    ///< the measured part of a run
    bool collect = false;  ///< tell callgrind too
    bool inside = false;   ///< code of the server runs now
    std::uint64_t calls = 0;
    std::uint64_t bytes = 0;
    bool trap = false;  ///< stop in a debugger at the first counted call
};

/// Constant-initialised and trivial: safe to touch from inside malloc.
inline constinit thread_local Account t_account;

/// Called by the allocator hooks.
void note_allocation(std::uint64_t bytes) noexcept;
/// Are malloc and its family watched in this build? Proved by a test, not assumed.
[[nodiscard]] bool allocator_is_watched() noexcept;

/// Requests to callgrind; nothing happens outside of valgrind.
void callgrind_start() noexcept;  ///< instruments from here on
void callgrind_stop() noexcept;
void callgrind_toggle() noexcept;  ///< collects, or no longer
/// Writes what was collected since the last dump into a file of its own.
void callgrind_dump() noexcept;

namespace internal {
inline void switch_to(bool inside) noexcept {
    t_account.inside = inside;
    if (t_account.collect) {
        callgrind_toggle();
    }
}
}  // namespace internal

/// The server runs, until the end of the block.
class Inside {
 public:
    Inside() noexcept : entered_(t_account.armed && !t_account.inside) {
        if (entered_) {
            internal::switch_to(true);
        }
    }
    ~Inside() {
        if (entered_) {
            internal::switch_to(false);
        }
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

 private:
    const bool entered_;
};

/// Something else runs, until the end of the block.
class Outside {
 public:
    Outside() noexcept : left_(t_account.armed && t_account.inside) {
        if (left_) {
            internal::switch_to(false);
        }
    }
    ~Outside() {
        if (left_) {
            internal::switch_to(true);
        }
    }
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

 private:
    const bool left_;
};

}  // namespace galgo::performance
