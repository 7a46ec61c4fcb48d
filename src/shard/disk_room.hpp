// DiskRoom: keeps a part of the data directory's file system free of messages, so that a disk that
// fills up ends in typed refusals of sends, and polls, stored offsets, deletions, the cleaner and
// the metadata go on. Sends are paid for from what was free at the last look, until the next one.
// What other programs write is seen a second late: the file system may still refuse a write, which
// fences the partition for as long as it lasts.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "runtime/io.hpp"

namespace galgo::shard {

class DiskRoom {
 public:
    /// `reserve_bytes`: kept free, but no more than a 32nd of the file system; 0 = nothing is.
    /// `unwritten_bytes`: what the journals hold at most of messages that were taken and have no
    /// place in a segment yet; it is kept free in addition.
    DiskRoom(std::uint64_t reserve_bytes, std::uint64_t unwritten_bytes) noexcept
        : wanted_reserve_(reserve_bytes), unwritten_(unwritten_bytes) {}

    /// A look at the file system, about once a second, by one shard; none when that failed: then it
    /// decides itself. Logs when sends begin to be refused, and when they are taken again: with
    /// twice the reserve free.
    void update(const std::optional<runtime::DiskSpace>& now) noexcept;

    /// One shard's part: takes from the whole in pieces, so that shards do not meet at every send.
    class Share {
     public:
        explicit Share(DiskRoom& room) noexcept : room_(room) {}
        /// Before a batch of `bytes` is taken. False: refuse it.
        [[nodiscard]] bool take(std::uint64_t bytes) noexcept {
            const std::uint32_t look = room_.look_.load(std::memory_order_relaxed);
            if (look != look_) {
                look_ = look;
                credit_ = 0;
            }
            if (credit_ < bytes) {
                credit_ += room_.draw(bytes);
            }
            if (credit_ < bytes) {
                return false;
            }
            credit_ -= bytes;
            return true;
        }

     private:
        DiskRoom& room_;
        std::uint32_t look_ = 0;
        std::uint64_t credit_ = 0;  ///< taken from the whole since that look, and not used
    };

    // ---- any thread
    [[nodiscard]] bool is_full() const noexcept { return is_full_.load(std::memory_order_relaxed); }
    /// What the health answer says while sends are refused.
    [[nodiscard]] std::optional<std::string> fault() const;
    [[nodiscard]] std::uint64_t refusals() const noexcept {
        return refusals_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t free_bytes() const noexcept {
        return free_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t reserve_bytes() const noexcept {
        return reserve_.load(std::memory_order_relaxed);
    }

 private:
    /// For `bytes` at least: a piece, or just them. 0 and a refusal when there is no room.
    std::uint64_t draw(std::uint64_t bytes) noexcept;
    [[nodiscard]] bool try_draw(std::uint64_t bytes) noexcept;

    const std::uint64_t wanted_reserve_;
    const std::uint64_t unwritten_;
    std::atomic<std::uint32_t> look_{0};
    std::atomic<std::int64_t> left_{std::numeric_limits<std::int64_t>::max()};
    std::atomic<bool> is_full_{false};      ///< no send is taken
    std::atomic<bool> has_refused_{false};  ///< one that was too large, since the last look
    std::atomic<bool> tells_{false};        ///< health says so
    std::atomic<std::uint64_t> refusals_{0};
    std::atomic<std::uint64_t> free_{0};
    std::atomic<std::uint64_t> reserve_{0};
};

}  // namespace galgo::shard
