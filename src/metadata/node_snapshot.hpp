// What a node keeps of its metadata at one operation: the state, the client table, and the lives of
// partitions that the log ended last. The last are there for the start: files of a life that the
// log ended may go, files of one that it does not know are kept, because they may be all that is
// left of a lost log. "It began before the snapshot and is not in it" would be no proof: the files
// may come from another directory, or the metadata from a backup.
//
// Canonical as its parts are: equal contents give equal bytes. Layout, little-endian:
//   magic u32 "GMNS" | version u16 = 1 | 0 u16
//   state block32 (snapshot.hpp) | client table block32 (client_table_snapshot.hpp)
//   u32 sessions_max: the bound that the log brought last
//   u32 count, ended lives { partition u64, incarnation u64 } oldest first
//   checksum u64: XXH3-64 of all before
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "metadata/client_table.hpp"
#include "metadata/partition_stats.hpp"
#include "metadata/state.hpp"

namespace galgo::metadata {

/// More in a snapshot are damage.
inline constexpr std::size_t kEndedLivesMax = 65536;

using EndedLife = std::pair<PartitionKey, Incarnation>;

struct NodeSnapshot {
    State state;
    std::unique_ptr<ClientTable> clients;  ///< never null
    std::vector<EndedLife> ended_lives;    ///< oldest first
};

/// `ended_lives`: at most kEndedLivesMax.
[[nodiscard]] std::vector<std::byte> encode_node_snapshot(const State& state,
                                                          const ClientTable& clients,
                                                          std::span<const EndedLife> ended_lives);

/// Errors: kStateFileCorrupted; kInvalidVersion, whole but it or a part is of another version.
[[nodiscard]] Result<NodeSnapshot> decode_node_snapshot(ConstBytes bytes,
                                                        PartitionStatsRegistry& registry);

}  // namespace galgo::metadata
