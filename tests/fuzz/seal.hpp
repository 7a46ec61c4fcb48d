// Makes damaged bytes of our formats verify again. Layouts: docs/formats, wire/batch.hpp,
// wire/prepare.hpp. Each function takes the longest part of the bytes it can make sense of and
// leaves the rest as it is.
#pragma once

#include <cstddef>

#include "base/bytes.hpp"
#include "storage/wal_format.hpp"

namespace galgo::fuzz {

/// The batch at the begin of `bytes`. `structure`: frames are walked as their lengths say, as many
/// as the header counts or as there are; count, length and offset deltas follow from them. Returns
/// the bytes of the batch, 0 when there is no room for one.
std::size_t seal_batch(MutableBytes bytes, bool structure);

/// Batches back to back. `structure`: base offsets ascend.
void seal_log(MutableBytes bytes, bool structure);

/// A whole journal file of shard 0 with this sequence, and its records.
void seal_journal(MutableBytes bytes, std::uint64_t sequence, bool structure);

/// Entries of the metadata log. `structure`: ops ascend, operations are known ones, clients are few
/// and write under the session they have.
void seal_entries(MutableBytes bytes, bool structure);

/// The only file of a metadata log in these targets.
inline constexpr storage::WalSeal kWalSeal{.salt = 7, .generation = 1};

/// Batches of the metadata log, from block to block, and their entries as above. `structure`:
/// sequences and ops follow each other, what the headers count is there.
void seal_wal(MutableBytes bytes, bool structure);

}  // namespace galgo::fuzz
