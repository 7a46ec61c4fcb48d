// RetryTable: tells a send that is repeated from a new one. Of each bound session and partition it
// remembers the last sends with a number: what was sent (the producer's checksum) and where it
// went. The same number with the same checksum is the same send; clients that number on their own
// repeat numbers for different ones, which the checksum tells apart. Known by partition: a balanced
// send that is repeated goes to another one, and is new there.
//
// In memory only: a session does not outlive the process, and the clients never repeat a send in
// another session. One shard. Bounded: the windows used least recently go first, so that with more
// sessions than memory for them a late retry may be appended twice, as without the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/intrusive_list.hpp"
#include "base/units.hpp"
#include "coro/sync.hpp"

namespace galgo::partitions {

/// Who sends, and the number the client gave the send. A session or number of 0 is none: such a
/// send is never taken for a retry.
struct Producer {
    SessionId session;
    RequestNumber request;
};

class RetryTable {
 public:
    /// Sends remembered of a session and partition.
    static constexpr std::size_t kWindowSize = 64;

    struct Options {
        std::size_t bytes_max = 16 * kMiB;  ///< of all windows
    };

    struct Send {
        PartitionKey partition;
        Incarnation incarnation;
        Producer producer;
        std::uint64_t checksum = 0;  ///< of the batch as the producer sealed it
    };

    /// A new send between begin() and its end. One that is not confirmed leaves no trace.
    class Pending {
     public:
        Pending() noexcept = default;
        Pending(RetryTable& table, const Send& send, std::size_t entry) noexcept
            : table_(&table), send_(send), entry_(entry) {}
        Pending(Pending&& other) noexcept
            : table_(std::exchange(other.table_, nullptr)),
              send_(other.send_),
              entry_(other.entry_) {}
        Pending& operator=(Pending&& other) noexcept {
            std::swap(table_, other.table_);
            std::swap(send_, other.send_);
            std::swap(entry_, other.entry_);
            return *this;
        }
        ~Pending() { settle(std::nullopt); }
        /// The send is committed with its first message at `base`.
        void confirm(Offset base) noexcept { settle(base); }

     private:
        void settle(std::optional<Offset> base) noexcept {
            if (table_ != nullptr) {
                std::exchange(table_, nullptr)->settle(send_, entry_, base);
            }
        }

        RetryTable* table_ = nullptr;
        Send send_;
        std::size_t entry_ = 0;
    };

    enum class Found : std::uint8_t {
        kNew,        ///< append it, then confirm `pending`
        kConfirmed,  ///< was appended at `base`: that is the answer
        kInFlight,   ///< the first one is on its way: wait for settled(), then ask again
        kFull,       ///< the whole window is on its way: refuse
    };
    struct Begun {
        Found found = Found::kNew;
        Offset base;      ///< kConfirmed
        Pending pending;  ///< kNew
    };

    RetryTable(coro::ReadyQueue& ready, Options options) noexcept
        : options_(options), settled_(ready) {}
    ~RetryTable();
    RetryTable(const RetryTable&) = delete;
    RetryTable& operator=(const RetryTable&) = delete;

    /// Looks `send` up and, when it is new, remembers it as on its way.
    [[nodiscard]] Begun begin(const Send& send);
    /// Woken whenever a send ends; whoever waits asks again.
    [[nodiscard]] coro::WaitList& settled() noexcept { return settled_; }
    /// The session ended: what is known of it goes. A send of it that arrives later makes a window
    /// that nobody asks for; it goes when it has not been used for longest.
    void end_session(SessionId session) noexcept;

    [[nodiscard]] std::size_t window_count() const noexcept { return windows_.size(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    /// Sends that were answered with an earlier confirmation.
    [[nodiscard]] std::uint64_t answered() const noexcept { return answered_; }

 private:
    struct Entry {
        std::uint64_t request = 0;
        std::uint64_t checksum = 0;
        std::uint64_t base = 0;  ///< offset, or kFree, or kInFlightBase
    };
    struct Key {
        SessionId session;
        PartitionKey partition;
        bool operator==(const Key&) const noexcept = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const noexcept;
    };
    struct AgeTag;
    struct SessionTag;
    struct Window : ListLink<AgeTag>, ListLink<SessionTag> {
        Key key;
        Incarnation incarnation;
        std::uint64_t highest = 0;  ///< request number: a higher one needs no search
        std::uint32_t in_flight = 0;
        std::uint32_t next = 0;      ///< entry to be replaced once there are kWindowSize
        std::vector<Entry> entries;  ///< grows to kWindowSize, then is a ring
    };
    using SessionWindows = IntrusiveList<Window, SessionTag>;

    static constexpr std::uint64_t kFree = ~std::uint64_t{0};
    static constexpr std::uint64_t kInFlightBase = kFree - 1;
    /// What a window costs beside its entries, with its part of the two maps.
    static constexpr std::size_t kWindowBytes = 256;

    Window& window_of(const Send& send);
    [[nodiscard]] std::optional<std::size_t> place_in(Window& window);
    void settle(const Send& send, std::size_t entry, std::optional<Offset> base) noexcept;
    void clear(Window& window) noexcept;
    void remove(Window& window) noexcept;
    void make_room() noexcept;

    Options options_;
    coro::WaitList settled_;
    std::unordered_map<Key, Window, KeyHash> windows_;
    std::unordered_map<SessionId, SessionWindows> sessions_;
    IntrusiveList<Window, AgeTag> by_age_;  ///< least recently used first
    std::size_t bytes_ = 0;
    std::uint64_t answered_ = 0;
};

}  // namespace galgo::partitions
