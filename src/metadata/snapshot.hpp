// A State as bytes: checkpoint of the metadata log, transfer to a replica that is too far behind,
// and the digest by which replicas and replays are compared. Canonical: equal states give equal
// bytes.
//
// The statistics lines are not part of it (they belong to the partitions' owners); a decoded state
// gets them from the registry. Layout, little-endian, lists preceded by a u32 count and ordered by
// ascending id (tokens by name):
//   magic u32 "GMSN" | version u16 = 2 | 0 u16 | op u64 | metadata_revision u64
//   streams  { id u32, name, created_at u64, topics { id u32, name, created_at u64,
//              explicit block32, derived block32, partitions { created_at u64, incarnation u64 },
//              next_group_id u32, groups { id u32, name, generation u64,
//              members { slot u32, client u128, partitions { id u32 } } } } }
//   users    { id u32, name, created_at u64, created_op u64, status u8, password hash str32,
//              permissions block32 (empty: none), tokens { name, hash 32 B, expiry_at u64 (0:
//              never) } }
//   sessions { client u128, epoch u64, user u32, last_commit u64 }
//   checksum u64: XXH3-64 of all before
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "metadata/partition_stats.hpp"
#include "metadata/state.hpp"

namespace galgo::metadata {

[[nodiscard]] std::vector<std::byte> encode_snapshot(const State& state);

/// The state that was encoded: encoding it again gives `bytes`. Bytes from disk or network are
/// checked, never trusted: neither damage nor a forged checksum gives a state that breaks an
/// invariant. Errors: kStateFileCorrupted; kInvalidVersion, whole but of another version.
[[nodiscard]] Result<State> decode_snapshot(ConstBytes bytes, PartitionStatsRegistry& registry,
                                            StateOptions options = {});

/// The checksum of the snapshot: equal for equal states, whatever log or snapshot they come from.
[[nodiscard]] std::uint64_t digest(const State& state);

}  // namespace galgo::metadata
