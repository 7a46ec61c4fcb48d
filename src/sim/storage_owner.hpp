// Whom the storage of a simulated node (model_storage.hpp) tells what became of what it was asked
// for. Nothing is told from within append, read or persist.
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
    /// The operation under way ended, and nothing was made of that yet. False: the process died.
    [[nodiscard]] virtual bool disk_op_ended() = 0;
    virtual void ask_wake() = 0;

 protected:
    ~StorageOwner() = default;
};

}  // namespace galgo::sim
