// What a start, and a check of a data directory, asks before it believes the files of the metadata
// group: what proves that there was more, and whether the journals know more. On shard 0's loop,
// before there are shards.
#pragma once

#include <string>

#include "base/ids.hpp"
#include "metadata/state.hpp"
#include "runtime/io.hpp"
#include "storage/journal_replay.hpp"
#include "storage/trash.hpp"

namespace galgo::shard {

/// What says that the metadata log had entries when the last process ended; empty: nothing, so this
/// may be the first start. A partition's directory is made for an entry; the printed configuration
/// (`config_path`) is written when the first entries are stable.
[[nodiscard]] std::string proof_of_entries(runtime::IoBackend& io, const std::string& data_path,
                                           const std::string& config_path);
/// What says that the last process had a superblock: it is made before the shards, and they make
/// journals; empty: nothing.
[[nodiscard]] std::string proof_of_superblock(runtime::IoBackend& io, const std::string& data_path);
/// Do the journals know no more than the metadata? Why the start is refused; empty: it is not. A
/// partition that only the journals know has them kept, with an error line.
[[nodiscard]] std::string judge_lives(const storage::JournalReplay& replay,
                                      const metadata::State& state, OpNumber head,
                                      const storage::Trash& trash, const std::string& data_path);

}  // namespace galgo::shard
