#include "shard/metadata_recovery.hpp"

#include <format>

#include "metadata/apply.hpp"
#include "metadata/node_snapshot.hpp"

namespace galgo::shard {

using coro::Task;

Task<storage::OrRefusal<RecoveredMetadata>> recover_metadata(
    runtime::IoBackend& io, coro::ReadyQueue& ready, storage::MetadataFiles::Options files,
    metadata::StateOptions state, metadata::PartitionStatsRegistry& registry,
    storage::Trash& trash) {
    RecoveredMetadata found;
    const auto on_snapshot = [&](const storage::SnapshotContents* contents) -> Status {
        if (contents == nullptr) {
            found = {.state = metadata::State(state),
                     .clients = std::make_unique<metadata::ClientTable>(),
                     .head = {},
                     .last_timestamp = {},
                     .files = {}};
            return {};
        }
        GALGO_TRY_ASSIGN(metadata::NodeSnapshot snapshot,
                         metadata::decode_node_snapshot(contents->payload, registry));
        if (snapshot.state.op() != contents->op) {
            return fail(ErrorCode::kStateFileCorrupted);
        }
        for (const auto& [partition, incarnation] : snapshot.ended_lives) {
            trash.note_retired(partition, incarnation);
        }
        found = {.state = std::move(snapshot.state),
                 .clients = std::move(snapshot.clients),
                 .head = contents->op,
                 .last_timestamp = contents->timestamp,
                 .files = {}};
        return {};
    };
    const auto on_entry = [&](const wire::PrepareHeader& header,
                              ConstBytes body) -> std::expected<void, std::string> {
        const metadata::PrepareView prepare = metadata::view_prepare(header, body);
        if (!metadata::may_be_logged(*found.clients, prepare)) {
            return std::unexpected(
                std::format("it is request {} of a client that had one answered before: {}",
                            prepare.request.value(), storage::kRestoreRemedy));
        }
        const metadata::ApplyOutcome outcome = metadata::apply(found.state, registry, prepare);
        if (outcome.result == ErrorCode::kInvalidCommand) {
            // What does not decode is refused before it is logged.
            return std::unexpected(
                std::format("operation {} is unknown here, or its body does not decode: use the "
                            "version that wrote it, or {}",
                            static_cast<unsigned>(header.operation), storage::kRestoreRemedy));
        }
        metadata::record_commit(*found.clients, prepare, outcome,
                                metadata::reply_body(prepare.operation, outcome));
        for (const metadata::Change& change : outcome.changes) {
            if (change.kind == metadata::ChangeKind::kPartitionDeleted ||
                change.kind == metadata::ChangeKind::kPartitionPurged) {
                trash.note_retired(change.partition, change.incarnation_before);
            }
        }
        found.head = header.op;
        found.last_timestamp = header.timestamp;
        return {};
    };
    storage::OrRefusal<std::unique_ptr<storage::MetadataFiles>> opened =
        co_await storage::MetadataFiles::open(io, ready, std::move(files), on_snapshot, on_entry);
    if (!opened.has_value()) {
        co_return std::unexpected(std::move(opened.error()));
    }
    found.files = *std::move(opened);
    co_return found;
}

}  // namespace galgo::shard
