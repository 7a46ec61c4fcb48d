// What a start makes of the files of the metadata group: state, client table, which lives of
// partitions ended. Shard 0, before the plane.
#pragma once

#include <memory>

#include "base/ids.hpp"
#include "coro/ready_queue.hpp"
#include "coro/task.hpp"
#include "metadata/client_table.hpp"
#include "metadata/partition_stats.hpp"
#include "metadata/state.hpp"
#include "runtime/io.hpp"
#include "storage/metadata_files.hpp"
#include "storage/refusal.hpp"
#include "storage/trash.hpp"

namespace galgo::shard {

struct RecoveredMetadata {
    metadata::State state;
    std::unique_ptr<metadata::ClientTable> clients;
    OpNumber head;             ///< last operation that was applied
    Timestamp last_timestamp;  ///< its stamp
    std::unique_ptr<storage::MetadataFiles> files;
};

/// Opens the files and applies the log behind the snapshot, as the plane did when it was written.
/// `trash` learns which lives ended, as far as snapshot and log tell. A refusal has changed
/// neither snapshots nor log.
coro::Task<storage::OrRefusal<RecoveredMetadata>> recover_metadata(
    runtime::IoBackend& io, coro::ReadyQueue& ready, storage::MetadataFiles::Options files,
    metadata::StateOptions state, metadata::PartitionStatsRegistry& registry,
    storage::Trash& trash);

}  // namespace galgo::shard
