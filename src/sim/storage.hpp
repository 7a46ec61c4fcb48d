// What a simulated node needs of its storage: a log and a superblock, asynchronous, on a
// SectorDisk. The model (model_storage.hpp) follows the same rules as the server's storage; the
// server's own code can take its place behind this interface.
//
// A storage has at most one disk operation under way. When it begins one it asks its owner for the
// event (begin_disk_op); when that event comes, on_disk_done() is called and reports through the
// owner. on_wake() is the same for what needs no disk (ask_wake). No call reports synchronously
// from within append, read or persist.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.hpp"
#include "consensus/events.hpp"
#include "sim/entry.hpp"

namespace galgo::sim {

enum class RecoveryResult : std::uint8_t {
    kOk,
    kRefused,  ///< damage that must not be taken for a torn tail: stays down until an operator
               ///< comes
    kFailed,   ///< an error of the disk: may be tried again
};

class StorageOwner {
 public:
    /// Entries in log order, then the result. Entries are delivered for kOk only.
    virtual void on_recovered_entry(const LogEntry& entry) = 0;
    virtual void on_recovered(RecoveryResult result,
                              const std::optional<consensus::SuperblockState>& superblock) = 0;
    virtual void on_append_done(OpNumber op, consensus::Identity identity, bool durable) = 0;
    virtual void on_superblock_done(const consensus::SuperblockState& state, bool written) = 0;
    /// `entry`: kPresent only.
    virtual void on_read_done(OpNumber op, consensus::ReadStatus status, const LogEntry* entry) = 0;
    virtual void begin_disk_op() = 0;
    virtual void ask_wake() = 0;

 protected:
    ~StorageOwner() = default;
};

class Storage {
 public:
    virtual ~Storage() = default;
    /// Forgets everything but the disk: the process is gone.
    virtual void crash() = 0;
    virtual void recover() = 0;
    virtual void append(const LogEntry& entry) = 0;
    virtual void read(OpNumber op) = 0;
    virtual void persist(const consensus::SuperblockState& state) = 0;
    virtual void on_disk_done() = 0;
    virtual void on_wake() = 0;

    /// No append can succeed any more in this life.
    [[nodiscard]] virtual bool poisoned() const = 0;
    /// Would recovery tell every acknowledged entry from a torn tail, however damaged?
    [[nodiscard]] virtual bool tail_is_marked() const = 0;
    /// A sector that recovery needs and that tail_is_marked covers; empty when there is none.
    [[nodiscard]] virtual std::optional<std::uint32_t> pick_sector_to_rot(
        std::uint64_t random) const = 0;
    /// The log is as long as this run wants it; what is left is for the healing.
    [[nodiscard]] virtual bool long_enough() const = 0;
};

}  // namespace galgo::sim
