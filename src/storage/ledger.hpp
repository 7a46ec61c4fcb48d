// Ledger: what a shard knows of the files of its partitions, written down outside of them, so that
// a start sees what they lack: a partition whose directory was removed or replaced by an older one,
// a log that was cut behind its last index entry, the file of a stored offset that was deleted.
// docs/formats/ledger.md. One file a shard, replaced as a whole before a journal file goes or is
// used again, because until then the journal tells the same; when a start has recovered all; and at
// a stop.
//
// Not synced. Each row is a lower bound of what was there when it was written, and a file that does
// not verify says nothing: so no loss of power makes it say too much. What only the page cache had
// counts on the same boot of the machine alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"
#include "storage/journal_list.hpp"
#include "storage/offsets_file.hpp"

namespace galgo::storage {

/// A consumer whose offset has a file.
struct OffsetFileId {
    OffsetOwner owner = OffsetOwner::kConsumer;
    std::uint32_t id = 0;
    bool operator==(const OffsetFileId&) const noexcept = default;
};

/// Where messages ended. In an empty log 0.
struct KnownEnds {
    Offset files;  ///< those in the segments; nothing behind is there that a journal did not have
    Offset all;    ///< those that were acknowledged, in segments or journals
    bool operator==(const KnownEnds&) const noexcept = default;
};

/// Of one life of a partition.
struct LedgerRow {
    PartitionKey partition;
    Incarnation incarnation;
    KnownEnds written;            ///< what the page cache has, at least
    KnownEnds stable;             ///< what a loss of power leaves; not behind `written`
    bool offsets_stable = false;  ///< it leaves the files of `offsets`, too
    OpNumber offsets_op;          ///< of the last change of an offset that those files have
    std::vector<OffsetFileId> offsets;

    [[nodiscard]] bool empty() const noexcept { return written == KnownEnds{} && offsets.empty(); }
    bool operator==(const LedgerRow&) const noexcept = default;
};

struct Ledger {
    ShardIndex shard{0};
    std::uint64_t epoch = 0;  ///< start of the server that wrote it
    BootNumber boot = 0;
    std::vector<LedgerRow> rows;
    bool operator==(const Ledger&) const noexcept = default;
};

[[nodiscard]] std::vector<std::byte> encode_ledger(const Ledger& ledger);
/// Empty when magic, version, bounds or checksum are not ours. Bytes behind its end are passed.
[[nodiscard]] std::optional<Ledger> decode_ledger(ConstBytes from);
/// "ledger-3"
[[nodiscard]] std::string ledger_name(ShardIndex shard);

using LedgerClaims = std::map<std::pair<PartitionKey, Incarnation>, LedgerRow>;

/// What must be there on a machine in its boot `boot`: `written` and `offsets` of the rows say it;
/// the latter when no change behind `offsets_op` is in the files, because a newer ledger may be
/// lost. Of two rows for one life that of the later start counts. Pure.
[[nodiscard]] LedgerClaims claims_of(const std::vector<Ledger>& ledgers, BootNumber boot);

/// All ledgers below `directory` ("{path}/state"). What is absent, damaged or cannot be read claims
/// nothing; a line tells of damage.
coro::Task<LedgerClaims> load_ledgers(runtime::IoBackend& io, std::string directory,
                                      BootNumber boot);
/// Those of `first` and behind: shards that are no more, whose rows others have taken over. What is
/// left counts less than what the others write.
coro::Task<void> remove_ledgers(runtime::IoBackend& io, std::string directory, ShardIndex first);
/// Replaces the ledger of that shard. When it cannot, the old one is removed.
coro::Task<Status> write_ledger(runtime::IoBackend& io, std::string directory, Ledger ledger);

}  // namespace galgo::storage
