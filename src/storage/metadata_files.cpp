// Superblock, log and snapshots of the metadata group as one thing.
#include "storage/metadata_files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <format>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

/// Of files that only an existing superblock explains; empty when there is none. The first by name:
/// a refusal says the same each time.
std::string remains_in(const std::vector<runtime::DirectoryEntry>& entries) {
    std::string first;
    for (const runtime::DirectoryEntry& entry : entries) {
        if ((wal_generation(entry.name).has_value() || snapshot_op(entry.name).has_value()) &&
            (first.empty() || entry.name < first)) {
            first = entry.name;
        }
    }
    return first.empty() ? first : first + " beside it needs it";
}

}  // namespace

Task<OrRefusal<std::unique_ptr<MetadataFiles>>> MetadataFiles::open(runtime::IoBackend& io,
                                                                    coro::ReadyQueue& ready,
                                                                    Options options,
                                                                    OnSnapshot on_snapshot,
                                                                    Wal::OnEntry on_entry) {
    std::unique_ptr<MetadataFiles> files(new MetadataFiles(io, std::move(options)));
    OrRefusal<void> done = co_await files->load(ready, on_snapshot, on_entry);
    if (!done.has_value()) {
        co_await files->close();
        co_return std::unexpected(std::move(done.error()));
    }
    co_return files;
}

Task<OrRefusal<void>> MetadataFiles::load(coro::ReadyQueue& ready, OnSnapshot& on_snapshot,
                                          Wal::OnEntry& on_entry) {
    const Result<std::vector<runtime::DirectoryEntry>> entries =
        io_.list_directory(options_.directory);
    if (!entries.has_value()) {
        co_return refuse(entries.error(), std::format("cannot list {}: {}", options_.directory,
                                                      to_string(entries.error())));
    }
    std::string required_by = options_.required_by;
    if (required_by.empty()) {
        required_by = remains_in(*entries);
    }
    if (required_by.empty()) {
        required_by = options_.superblock_required_by;
    }
    OrRefusal<std::unique_ptr<Superblock>> superblock =
        co_await Superblock::open(io_, ready,
                                  {.path = options_.directory + "/superblock",
                                   .initial = options_.identity,
                                   .required_by = std::move(required_by)});
    if (!superblock.has_value()) {
        co_return std::unexpected(std::move(superblock.error()));
    }
    superblock_ = *std::move(superblock);
    OrRefusal<SnapshotRef> loaded = co_await load_snapshot(on_snapshot);
    if (!loaded.has_value()) {
        co_return std::unexpected(std::move(loaded.error()));
    }
    good_ = *loaded;
    loaded_op_ = loaded->op;
    // A lost snapshot is healed by a longer tail: what it covered does not count.
    const OpNumber counted_from = superblock_->state().snapshot.op;
    Wal::OnEntry take = [this, &on_entry, loaded_op = loaded->op, counted_from,
                         slots = options_.tail_ops_max](
                            const wire::PrepareHeader& header,
                            ConstBytes body) -> std::expected<void, std::string> {
        if (header.op <= loaded_op) {
            return {};
        }
        if (header.op > counted_from && ++tail_count_ > slots) {
            return std::unexpected(std::format(
                "more than {} changes stand behind the last snapshot, and metadata.journal_slots "
                "is {}: set metadata.journal_slots back to the value it had",
                slots, slots));
        }
        return on_entry(header, body);
    };
    // A snapshot holds what was in the log, also one that the superblock does not name.
    OpNumber known;
    for (const runtime::DirectoryEntry& entry : *entries) {
        known = std::max(known, storage::snapshot_op(entry.name).value_or(OpNumber{0}));
    }
    const std::string known_by = snapshot_path(options_.directory, known);
    OrRefusal<std::unique_ptr<Wal>> wal = co_await Wal::open(io_, ready, *superblock_,
                                                             {.directory = options_.directory,
                                                              .region_bytes = options_.region_bytes,
                                                              .barriers = options_.barriers,
                                                              .snapshot_op = loaded->op,
                                                              .required_by = options_.required_by,
                                                              .known_op = known,
                                                              .known_by = known_by},
                                                             std::move(take));
    if (!wal.has_value()) {
        co_return std::unexpected(std::move(wal.error()));
    }
    wal_ = *std::move(wal);
    co_return OrRefusal<void>{};
}

/// The snapshot to begin with: the newest, or the one before it.
Task<OrRefusal<SnapshotRef>> MetadataFiles::load_snapshot(OnSnapshot& on_snapshot) {
    const SnapshotRef newest = superblock_->state().snapshot;
    const SnapshotRef before = superblock_->state().snapshot_before;
    OrRefusal<void> first = co_await try_snapshot(newest, on_snapshot);
    if (first.has_value()) {
        co_return newest;
    }
    if (first.error().error.code == ErrorCode::kInvalidVersion) {
        co_return refuse(first.error().error,
                         std::format("{}: use the version that wrote it", first.error().text));
    }
    OrRefusal<void> second = co_await try_snapshot(before, on_snapshot);
    if (!second.has_value()) {
        co_return refuse(first.error().error,
                         std::format("{}; and the snapshot before it: {}: {}", first.error().text,
                                     second.error().text, kRestoreRemedy));
    }
    observe::log_warn("storage",
                      "the newest snapshot of the metadata is damaged; the one before it and the "
                      "log are used",
                      {{"damage", first.error().text}, {"op", before.op}});
    snapshot_lost_ = true;
    co_return before;
}

Task<OrRefusal<void>> MetadataFiles::try_snapshot(SnapshotRef ref, OnSnapshot& on_snapshot) {
    if (ref.op == OpNumber{0}) {
        const Status empty = on_snapshot(nullptr);
        GALGO_CHECK(empty.has_value());
        co_return OrRefusal<void>{};
    }
    const OrRefusal<SnapshotContents> contents =
        co_await read_snapshot(io_, options_.directory, ref);
    if (!contents.has_value()) {
        co_return std::unexpected(contents.error());
    }
    const Status taken = on_snapshot(&*contents);
    if (!taken.has_value()) {
        co_return refuse(taken.error(), std::format("{} cannot be decoded: {}",
                                                    snapshot_path(options_.directory, ref.op),
                                                    to_string(taken.error())));
    }
    co_return OrRefusal<void>{};
}

OpNumber MetadataFiles::head() const noexcept {
    return wal_->head();
}

bool MetadataFiles::snapshot_due(std::uint64_t applied_count) const noexcept {
    return applied_count != 0 &&
           (snapshot_lost_ || applied_count >= options_.snapshot_ops ||
            wal_->log_bytes() - log_bytes_at_snapshot_ >= options_.snapshot_bytes);
}

Task<Status> MetadataFiles::install_snapshot(SealedSnapshot snapshot) {
    const SnapshotRef newest = snapshot.ref;
    GALGO_CHECK(newest.op > snapshot_op() && newest.op <= wal_->head());
    if (newest.size_bytes > kSnapshotBytesMax) {
        co_return fail_os(EFBIG);  // no start would read it
    }
    const std::uint64_t log_bytes = wal_->log_bytes();
    const Status written = co_await write_snapshot(io_, options_.directory, snapshot);
    if (!written.has_value()) {
        // It may have its name already, and nothing refers to it.
        const std::string path = snapshot_path(options_.directory, newest.op);
        (void)co_await runtime::unlink(io_, path);
        co_return written;
    }
    const SnapshotRef before = good_;
    const SuperblockState was = superblock_->state();
    const std::uint64_t first = wal_->first_generation_above(before.op);
    const Status named =
        co_await superblock_->update([&newest, &before, first](SuperblockState& state) {
            state.snapshot_before = before;
            state.snapshot = newest;
            state.commit = std::max(state.commit, newest.op);
            state.wal_first = std::max(state.wal_first, first);
        });
    if (!named.has_value()) {
        superblock_failed_ = true;
        co_return named;
    }
    good_ = newest;
    snapshot_lost_ = false;
    ++snapshot_count_;
    log_bytes_at_snapshot_ = log_bytes;
    co_await wal_->drop_before(first);
    const std::array<OpNumber, 2> named_before{was.snapshot.op, was.snapshot_before.op};
    for (const OpNumber old : named_before) {
        if (old != OpNumber{0} && old != before.op) {
            const std::string path = snapshot_path(options_.directory, old);
            (void)co_await runtime::unlink(io_, path);
        }
    }
    co_return Status{};
}

Task<void> MetadataFiles::sweep() {
    co_await wal_->sweep();
    const SuperblockState& state = superblock_->state();
    co_await detail::remove_strays(
        io_, options_.directory,
        [newest = state.snapshot.op, before = state.snapshot_before.op](std::string_view name) {
            const std::optional<OpNumber> op = storage::snapshot_op(name);
            return !op.has_value()                  ? detail::Stray::kForeign
                   : *op == newest || *op == before ? detail::Stray::kStays
                                                    : detail::Stray::kGoes;
        });
}

Task<void> MetadataFiles::close() {
    if (wal_ != nullptr) {
        co_await wal_->close();
    }
    if (superblock_ != nullptr) {
        co_await superblock_->close();
    }
}

}  // namespace galgo::storage
