// The model of one partition: a plain vector of its messages, what its consumers stored, and what
// may be missing after a crash.
//
//   after            replicated                              persisted
//   stop, kill -9    every message acknowledged or seen      the same
//   loss of power    every message that was stable           every message acknowledged
//
// Stable: it was there when a start, or a stop, without a fault ended. Messages of sends that were
// not acknowledged may be there, whole, at one place, or not; a start without a fault decides it.
// A stored offset is the last one acknowledged at its level, or one that was attempted later.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partitions/types.hpp"
#include "reply.hpp"

namespace galgo::log_model {

struct Message {
    std::uint64_t offset = 0;
    std::uint64_t serial = 0;
    std::uint64_t checksum = 0;
    std::uint64_t timestamp = 0;    ///< 0: no reader has seen it yet
    std::uint64_t sent_after = 0;   ///< wall time of the send
    std::uint64_t sent_before = 0;  ///< and of its end
    std::uint32_t index = 0;        ///< in its batch
    std::uint32_t batch_count = 0;
    std::uint32_t frame_bytes = 0;
    bool acknowledged = false;
    bool seen = false;
    bool stable = false;
    bool must = false;     ///< the start in progress has to bring it back
    bool here = false;     ///< readers of this run of the process have to get it
    bool scanned = false;  ///< by the check after a start
};

/// A send on its way, or one of which nobody knows whether it is there.
struct Attempt {
    std::vector<std::uint64_t> checksums;
    std::vector<std::uint32_t> frame_bytes;
    std::uint64_t floor = 0;  ///< it cannot stand before that offset
    std::uint64_t sent_after = 0;
    std::uint64_t sent_before = ~std::uint64_t{0};
    bool ended = false;
};

struct Consumer {
    std::optional<std::uint64_t> stored;
    bool damaged = false;
    bool raising = false;  ///< an auto-commit may be on its way to the journal
    std::set<std::optional<std::uint64_t>> after_kill;
    std::set<std::optional<std::uint64_t>> after_power;

    Consumer() : after_kill{std::nullopt}, after_power{std::nullopt} {}
};

enum class Crash : std::uint8_t { kStop, kKill, kPower };

class PartitionModel {
 public:
    bool persisted = false;
    bool offsets_persisted = false;
    std::uint64_t incarnation = 1;

    std::deque<Message> messages;  ///< by offset
    std::map<std::uint64_t, Attempt> attempts;
    std::map<partitions::ConsumerKey, Consumer> consumers;

    std::uint64_t committed_end = 0;  ///< of this run of the process
    std::uint64_t told_end = 0;       ///< behind what anybody was told
    std::uint64_t first = 0;          ///< never goes back
    std::uint64_t stable_first = 0;   ///< not even after a loss of power
    std::uint64_t wanted_end = 0;     ///< deletions that were asked for do not reach further
    std::uint64_t trim_bound = 0;     ///< messages before it may be gone
    bool failed_since_start = false;  ///< some offsets of this run are holes
    bool lost_unstable = false;       ///< a loss of power may have taken some
    bool tainted = false;             ///< a sync failed: what looks stable may not be

    /// Everything of it is gone, on purpose.
    void begin_life(std::uint64_t next_incarnation);

    // ---- sends
    void begin_send(std::uint64_t serial, Attempt attempt);
    [[nodiscard]] Difference acknowledge(std::uint64_t serial, std::uint64_t base,
                                         std::uint64_t wall_now);
    void fail_send(std::uint64_t serial, std::uint64_t wall_now);

    // ---- reads
    /// A reader got this message.
    [[nodiscard]] Difference see(const SeenMessage& seen);
    /// First message at or behind `offset`.
    [[nodiscard]] std::size_t index_of(std::uint64_t offset) const;
    /// Bytes of a reply for `count` messages from messages[index] on, all of one batch.
    [[nodiscard]] std::uint64_t slice_bytes(std::size_t index, std::uint64_t count) const;
    /// The log begins here now.
    [[nodiscard]] Difference advance_first(std::uint64_t now_first);

    // ---- consumers
    void store(partitions::ConsumerKey key, std::optional<std::uint64_t> offset);
    void attempt_store(partitions::ConsumerKey key, std::optional<std::uint64_t> offset);
    void raise(partitions::ConsumerKey key, std::uint64_t offset);
    [[nodiscard]] bool may_store(partitions::ConsumerKey key, std::size_t max) const;
    /// What some consumer has not read begins there; nothing: there is none.
    [[nodiscard]] std::optional<std::uint64_t> needed_from() const;
    [[nodiscard]] Difference recover_offset(partitions::ConsumerKey key, bool is_damaged,
                                            std::optional<std::uint64_t> found, Crash crash,
                                            bool whole);

    // ---- the end and the start of a process
    void crash(Crash crash);
    /// After a scan of all that is there. `whole`: no fault kept it from seeing all.
    [[nodiscard]] Difference recover(Crash crash, bool whole);
    void set_all_stable();

 private:
    void forget_unknown(std::uint64_t from, std::uint64_t end);
    [[nodiscard]] Difference place(std::uint64_t serial, const Attempt& attempt, std::uint64_t base,
                                   bool acknowledged);
};

[[nodiscard]] std::string describe(const Message& message);

}  // namespace galgo::log_model
