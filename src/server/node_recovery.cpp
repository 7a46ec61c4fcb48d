// What a start reads before any shard runs: the files of the metadata group, the shards' journals,
// and whether they tell the same story. Runs on shard 0's loop, alone. Refuses, with one line,
// rather than serving less than was acknowledged.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/encryption_key.hpp"
#include "crypto/aead.hpp"
#include "crypto/random.hpp"
#include "observe/log.hpp"
#include "server/boot_number.hpp"
#include "server/node.hpp"
#include "shard/metadata_recovery.hpp"
#include "shard/start_evidence.hpp"
#include "storage/encryption_file.hpp"

namespace galgo::server {

using coro::Task;

namespace {

/// Changes between two snapshots of the metadata, as far as metadata.journal_slots allows.
constexpr std::uint64_t kSnapshotOps = 512;
/// "off": no fdatasync of the metadata log. To measure what barriers cost, never to serve.
constexpr const char* kBarriersVariable = "GALGO_METADATA_BARRIERS";

template <class T>
Task<void> run_and_stop(std::shared_ptr<std::optional<T>> out, UniqueFunction<Task<T>()> start,
                        std::shared_ptr<UniqueFunction<void()>> stop) {
    out->emplace(co_await start());
    (*stop)();
}

}  // namespace

/// Runs one task on shard 0's loop before there are shards.
template <class T>
T Node::run_alone(UniqueFunction<Task<T>()> start) {
    auto out = std::make_shared<std::optional<T>>();
    auto stop = std::make_shared<UniqueFunction<void()>>([this] { loop0_->stop(); });
    coro::Scope scope(loop0_->ready());
    scope.spawn(run_and_stop<T>, out, std::move(start), stop);
    if (!out->has_value()) {
        loop0_->run();
    }
    return std::move(**out);
}

/// Is the key that the messages of this directory are encrypted with the one that we have?
/// Before anything is read: nothing is changed for a start that is refused.
bool Node::check_key() {
    if (config_.system.encryption.enabled) {
        const auto key = config::decode_encryption_key(config_.system.encryption.key);
        if (!key.has_value()) {
            return refuse("system.encryption.key must be base64 of 32 bytes");
        }
        if (!crypto::Aes256Gcm::is_available()) {
            return refuse(
                "the crypto library refuses AES-256-GCM, which system.encryption needs: "
                "look at its system-wide policy");
        }
        data_key_.emplace(*key);
    }
    using Checked = storage::OrRefusal<void>;
    const Checked checked = run_alone<Checked>([this]() -> Task<Checked> {
        return storage::check_key(*io_, data_path_, data_key_ ? &*data_key_ : nullptr,
                                  directory_->is_encrypted());
    });
    return checked.has_value() || refuse(checked.error().text);
}

/// Before the first message is encrypted.
bool Node::note_key() {
    if (!data_key_.has_value()) {
        return true;
    }
    using Written = storage::OrRefusal<void>;
    const Written written = run_alone<Written>([this]() -> Task<Written> {
        return storage::write_key_mark(*io_, data_path_, *data_key_);
    });
    if (!written.has_value()) {
        return refuse(written.error().text);
    }
    const std::string problem = directory_->note_encryption();
    return problem.empty() || refuse(problem);
}

bool Node::replay() {
    metadata::State state(state_options());
    // A server of the format before would not keep what counts on this boot alone.
    boot_ = directory_->is_upgrading() ? 0 : read_boot_number();
    if (!check_key() || !open_metadata(state)) {
        return false;
    }
    Result<storage::JournalReplay> journals =
        run_alone<Result<storage::JournalReplay>>([this]() -> Task<Result<storage::JournalReplay>> {
            return storage::replay_journals(*io_, data_path_ + "/state", boot_);
        });
    if (!journals.has_value()) {
        return refuse("the journals in " + data_path_ +
                      "/state cannot be read: " + to_string(journals.error()));
    }
    replay_ = *std::move(journals);
    if (!replay_.refusal().empty()) {
        return refuse(replay_.refusal());
    }
    if (const std::string why =
            shard::judge_lives(replay_, state, replayed_op_, trash_, data_path_);
        !why.empty()) {
        return refuse(why);
    }
    if (!note_key()) {
        return false;
    }
    claims_ = run_alone<storage::LedgerClaims>([this]() -> Task<storage::LedgerClaims> {
        return storage::load_ledgers(*io_, data_path_ + "/state", boot_);
    });
    std::erase_if(claims_, [&state](const auto& claim) {  // lives that ended
        const metadata::Partition* row = state.find_partition(claim.first.first);
        return row == nullptr || row->incarnation != claim.first.second;
    });
    (void)run_alone<bool>([this] { return sweep_metadata(); });
    metadata_ = std::make_unique<shard::MetadataPair>(
        cpus_.size(), shard::MetadataCopy{.state = std::move(state), .registry = &stats_registry_});
    observe::log_info("server", "replayed",
                      {{"metadata_op", replayed_op_},
                       {"snapshot_op", metadata_files_->loaded_snapshot_op()},
                       {"journal_records", replay_.record_count()}});
    return true;
}

metadata::StateOptions Node::state_options() const {
    return {.sessions_max = static_cast<std::size_t>(config_.metadata.clients_table_max)};
}

/// Superblock, snapshot and log of the metadata group give `state`, the client table, and which
/// lives of partitions ended.
bool Node::open_metadata(metadata::State& state) {
    storage::MetadataFiles::Options options{
        .directory = directory_->metadata(),
        .identity = {.salt = crypto::random_u64()},
        .required_by = shard::proof_of_entries(
            *io_, data_path_,
            data_path_ + "/" + config_.system.runtime_path + "/current_config.toml"),
        .superblock_required_by = shard::proof_of_superblock(*io_, data_path_),
        .tail_ops_max = config_.metadata.journal_slots,
        .snapshot_ops = std::min(kSnapshotOps, config_.metadata.journal_slots / 2)};
    if (const char* barriers = std::getenv(kBarriersVariable);
        barriers != nullptr && std::string_view(barriers) == "off") {
        options.barriers = false;
        observe::log_warn("server",
                          "metadata is acknowledged before it is on the disk: for measurements "
                          "only",
                          {{"variable", kBarriersVariable}});
    }
    using Recovered = storage::OrRefusal<shard::RecoveredMetadata>;
    Recovered found = run_alone<Recovered>([&]() -> Task<Recovered> {
        return shard::recover_metadata(*io_, loop0_->ready(), std::move(options), state_options(),
                                       stats_registry_, trash_);
    });
    if (!found.has_value()) {
        return refuse(found.error().text);
    }
    state = std::move(found->state);
    clients_ = std::move(found->clients);
    replayed_op_ = found->head;
    replayed_timestamp_ = found->last_timestamp;
    metadata_files_ = std::move(found->files);
    metadata_files_->wal().measure_syncs(*metadata_sync_);
    return true;
}

/// The start is accepted: what nothing names is no evidence any more.
Task<bool> Node::sweep_metadata() {
    co_await metadata_files_->sweep();
    co_return true;
}

}  // namespace galgo::server
