// Four copies, two halves, one path for making, opening and changing.
#include "storage/superblock.hpp"

#include <algorithm>
#include <cerrno>
#include <format>
#include <vector>

#include "crypto/hash.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/paths.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint32_t kMagic = 0x31425347;  // "GSB1"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kHalf = kSuperblockCopies / 2;

// Byte positions within a copy.
enum At : std::size_t {
    kAtChecksum = 0,
    kAtMagic = 8,
    kAtVersion = 12,
    kAtSequence = 16,
    kAtSalt = 24,
    kAtCluster = 32,
    kAtReplica = 48,
    kAtReplicaCount = 49,
    kAtView = 52,
    kAtLogView = 56,
    kAtCommit = 64,
    kAtEpoch = 72,
    kAtWalFirst = 80,
    kAtWalLast = 88,
    kAtSnapshot = 96,
    kAtSnapshotBefore = 120,
};

void put_snapshot(MutableBytes bytes, std::size_t at, const SnapshotRef& snapshot) {
    store<std::uint64_t>(bytes, at, snapshot.op.value());
    store<std::uint64_t>(bytes, at + 8, snapshot.digest);
    store<std::uint64_t>(bytes, at + 16, snapshot.size_bytes);
}

SnapshotRef get_snapshot(ConstBytes bytes, std::size_t at) {
    return {.op = OpNumber(load<std::uint64_t>(bytes, at)),
            .digest = load<std::uint64_t>(bytes, at + 8),
            .size_bytes = load<std::uint64_t>(bytes, at + 16)};
}

}  // namespace

SuperblockCopy encode_superblock(const SuperblockState& state, std::uint64_t sequence) {
    GALGO_CHECK(state.log_view <= state.view && state.wal_first <= state.wal_last);
    SuperblockCopy copy{};
    const MutableBytes bytes(copy);
    store<std::uint32_t>(bytes, kAtMagic, kMagic);
    store<std::uint16_t>(bytes, kAtVersion, kVersion);
    store<std::uint64_t>(bytes, kAtSequence, sequence);
    store<std::uint64_t>(bytes, kAtSalt, state.salt);
    store<u128>(bytes, kAtCluster, state.cluster.value());
    store<std::uint8_t>(bytes, kAtReplica, state.replica);
    store<std::uint8_t>(bytes, kAtReplicaCount, state.replica_count);
    store<std::uint32_t>(bytes, kAtView, state.view.value());
    store<std::uint32_t>(bytes, kAtLogView, state.log_view.value());
    store<std::uint64_t>(bytes, kAtCommit, state.commit.value());
    store<std::uint64_t>(bytes, kAtEpoch, state.epoch);
    store<std::uint64_t>(bytes, kAtWalFirst, state.wal_first);
    store<std::uint64_t>(bytes, kAtWalLast, state.wal_last);
    put_snapshot(bytes, kAtSnapshot, state.snapshot);
    put_snapshot(bytes, kAtSnapshotBefore, state.snapshot_before);
    store<std::uint64_t>(bytes, kAtChecksum, crypto::xxh3_64(ConstBytes(copy).subspan(kAtMagic)));
    return copy;
}

Result<DecodedSuperblock> decode_superblock(ConstBytes copy) {
    if (copy.size() != kSuperblockCopyBytes || load<std::uint32_t>(copy, kAtMagic) != kMagic ||
        load<std::uint64_t>(copy, kAtChecksum) != crypto::xxh3_64(copy.subspan(kAtMagic))) {
        return fail(ErrorCode::kInvalidFormat);
    }
    if (load<std::uint16_t>(copy, kAtVersion) != kVersion) {
        return fail(ErrorCode::kInvalidVersion);
    }
    DecodedSuperblock decoded{
        .state = {.cluster = ClusterId(load<u128>(copy, kAtCluster)),
                  .salt = load<std::uint64_t>(copy, kAtSalt),
                  .replica = load<std::uint8_t>(copy, kAtReplica),
                  .replica_count = load<std::uint8_t>(copy, kAtReplicaCount),
                  .view = ViewNumber(load<std::uint32_t>(copy, kAtView)),
                  .log_view = ViewNumber(load<std::uint32_t>(copy, kAtLogView)),
                  .commit = OpNumber(load<std::uint64_t>(copy, kAtCommit)),
                  .epoch = load<std::uint64_t>(copy, kAtEpoch),
                  .wal_first = load<std::uint64_t>(copy, kAtWalFirst),
                  .wal_last = load<std::uint64_t>(copy, kAtWalLast),
                  .snapshot = get_snapshot(copy, kAtSnapshot),
                  .snapshot_before = get_snapshot(copy, kAtSnapshotBefore)},
        .sequence = load<std::uint64_t>(copy, kAtSequence)};
    if (decoded.state.log_view > decoded.state.view ||
        decoded.state.wal_first > decoded.state.wal_last || decoded.sequence == 0) {
        return fail(ErrorCode::kInvalidFormat);
    }
    return decoded;
}

Superblock::Superblock(runtime::IoBackend& io, coro::ReadyQueue& ready, std::string path)
    : io_(io), path_(std::move(path)), turn_(ready, 1) {}

Task<OrRefusal<std::unique_ptr<Superblock>>> Superblock::open(runtime::IoBackend& io,
                                                              coro::ReadyQueue& ready,
                                                              Options options) {
    std::unique_ptr<Superblock> made(new Superblock(io, ready, std::move(options.path)));
    OrRefusal<void> done;
    const Result<runtime::FileFacts> facts = io.file_facts(made->path_);
    if (facts.has_value()) {
        done = co_await made->load();
    } else if (facts.error().os_errno != ENOENT) {
        done = refuse(facts.error(),
                      std::format("cannot read {}: {}", made->path_, to_string(facts.error())));
    } else if (!options.required_by.empty()) {
        done = refuse(facts.error(), std::format("{} is missing, but {}: {}", made->path_,
                                                 options.required_by, kRestoreRemedy));
    } else {
        done = co_await made->create(options.initial);
    }
    if (done.has_value() && (made->state_.cluster != options.initial.cluster ||
                             made->state_.replica != options.initial.replica ||
                             made->state_.replica_count != options.initial.replica_count)) {
        done = refuse(fail(ErrorCode::kInvalidFormat).error(),
                      std::format("{} belongs to replica {} of {} of another cluster or place: "
                                  "correct the cluster's settings, or the data path",
                                  made->path_, made->state_.replica, made->state_.replica_count));
    }
    if (!done.has_value()) {
        co_await made->close();
        co_return std::unexpected(std::move(done.error()));
    }
    co_return made;
}

Task<OrRefusal<void>> Superblock::create(SuperblockState initial) {
    const SuperblockCopy copy = encode_superblock(initial, 1);
    std::array<ConstBytes, kSuperblockCopies> copies;
    copies.fill(copy);
    const auto [parent, name] = detail::split_path(path_);
    Status status = co_await detail::replace_private_file(io_, parent, name, copies);
    if (status.has_value()) {
        status = co_await runtime::sync_directory(io_, parent);
    }
    if (!status.has_value()) {
        co_return refuse(status.error(),
                         std::format("cannot make {}: {}", path_, to_string(status.error())));
    }
    const OrRefusal<void> loaded = co_await load();
    settled_ = loaded.has_value();
    co_return loaded;
}

Task<OrRefusal<void>> Superblock::load() {
    const Result<runtime::FileHandle> file =
        co_await runtime::open(io_, path_, runtime::OpenMode::kReadWrite);
    if (!file.has_value()) {
        co_return refuse(file.error(),
                         std::format("cannot open {}: {}", path_, to_string(file.error())));
    }
    file_ = *file;
    std::array<std::optional<DecodedSuperblock>, kSuperblockCopies> copies;
    std::string bad;
    bool foreign_version = false;
    for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
        // A copy that the disk cannot read is a rotten copy like any other.
        std::vector<std::byte> bytes(kSuperblockCopyBytes);
        const Result<std::size_t> got =
            co_await runtime::read(io_, file_, bytes, i * kSuperblockCopyBytes);
        const Result<DecodedSuperblock> decoded =
            decode_superblock(ConstBytes(bytes).first(got.has_value() ? *got : 0));
        if (decoded.has_value()) {
            copies[i] = *decoded;
            verified_[i] = true;
            continue;
        }
        foreign_version = foreign_version || decoded.error().code == ErrorCode::kInvalidVersion;
        bad += std::format("{}{} at position {}", bad.empty() ? "" : ", ", i,
                           i * kSuperblockCopyBytes);
    }
    const DecodedSuperblock* chosen = nullptr;
    bool differ = false;
    for (const std::optional<DecodedSuperblock>& copy : copies) {
        if (copy.has_value() && (chosen == nullptr || copy->sequence > chosen->sequence)) {
            chosen = &*copy;
            differ = false;
        } else if (copy.has_value() && copy->sequence == chosen->sequence) {
            differ = differ || copy->state != chosen->state;
        }
    }
    if (foreign_version) {
        co_return refuse(fail(ErrorCode::kInvalidVersion).error(),
                         std::format("{} was written by another version: use that version", path_));
    }
    if (chosen == nullptr) {
        co_return refuse(fail(ErrorCode::kInvalidFormat).error(),
                         std::format("{}: none of its 4 copies is whole; damaged: copy {}: {}",
                                     path_, bad, kRestoreRemedy));
    }
    if (differ) {
        co_return refuse(fail(ErrorCode::kInvalidFormat).error(),
                         std::format("{}: two of its 4 copies, at positions 0, 4096, 8192 and "
                                     "12288, have sequence {}, and differ: {}",
                                     path_, chosen->sequence, kRestoreRemedy));
    }
    state_ = chosen->state;
    sequence_ = chosen->sequence;
    damaged_ = std::move(bad);
    for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
        current_[i] = copies[i].has_value() && copies[i]->sequence == sequence_;
        healed_count_ += current_[i] ? 0U : 1U;
    }
    co_return OrRefusal<void>{};
}

Task<OrRefusal<void>> Superblock::settle() {
    co_await turn_.acquire();
    const bool was_settled = settled_;
    OrRefusal<void> written = co_await write_all_copies();
    turn_.release();
    if (!written.has_value()) {
        co_return written;
    }
    if (!was_settled && healed_count_ != 0) {
        observe::log_warn("storage", "rewrote copies of the superblock that were damaged or old",
                          {{"path", path_},
                           {"count", healed_count_},
                           {"damaged", damaged_.empty() ? "none" : damaged_}});
    }
    co_return OrRefusal<void>{};
}

/// What was read may come from the page cache of a process whose sync failed: the disk has it only
/// once it was written again, a sync alone does nothing. One copy at a time: first those that did
/// not verify, then those of older sequences, then those that say what counts, so that a power loss
/// never meets the only whole one, nor more than one of the others.
///
/// One that the disk does not take is done without until the next start: three are enough.
Task<OrRefusal<void>> Superblock::write_all_copies() {
    if (settled_) {
        co_return OrRefusal<void>{};
    }
    const SuperblockCopy copy = encode_superblock(state_, sequence_);
    const auto rank = [this](std::size_t i) { return current_[i] ? 2 : verified_[i] ? 1 : 0; };
    for (const int turn : {0, 1, 2}) {
        for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
            const Status written = rank(i) == turn ? co_await write_copies(copy, i, 1) : Status{};
            if (written.has_value()) {
                continue;
            }
            if (left_out_.has_value()) {
                co_return refuse(
                    written.error(),
                    std::format("cannot write copies {} and {} of {} again, at positions {} and "
                                "{}: {}: {}",
                                *left_out_, i, path_, *left_out_ * kSuperblockCopyBytes,
                                i * kSuperblockCopyBytes, to_string(written.error()),
                                remedy_of(written.error())));
            }
            left_out_ = i;
            observe::log_error("storage", "a copy of the superblock cannot be written",
                               {{"path", path_},
                                {"position", i * kSuperblockCopyBytes},
                                {"error", to_string(written.error())},
                                {"remedy", remedy_of(written.error())}});
        }
    }
    if (left_out_.has_value()) {
        ++sequence_;  // what the disk may show of it one day is older than what comes
    }
    settled_ = true;
    co_return OrRefusal<void>{};
}

/// Copies [first, first + count), synced; without the one that is left out.
Task<Status> Superblock::write_copies(const SuperblockCopy& copy, std::size_t first,
                                      std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
        if (left_out_ != i) {
            GALGO_CO_TRY(co_await runtime::write_all(io_, file_, copy, i * kSuperblockCopyBytes));
        }
    }
    co_return co_await runtime::sync(io_, file_);
}

Task<Status> Superblock::update(UniqueFunction<void(SuperblockState&)> change) {
    co_await turn_.acquire();
    Status status;
    if (poisoned_.has_value()) {
        status = std::unexpected(*poisoned_);
    } else {
        const OrRefusal<void> settled = co_await write_all_copies();
        if (!settled.has_value()) {
            status = std::unexpected(settled.error().error);
        }
        SuperblockState next = state_;
        change(next);
        const SuperblockCopy copy = encode_superblock(next, sequence_ + 1);
        if (status.has_value()) {
            status = co_await write_copies(copy, 0, kHalf);
        }
        if (status.has_value()) {
            status = co_await write_copies(copy, kHalf, kSuperblockCopies - kHalf);
        }
        if (status.has_value()) {
            state_ = next;
            ++sequence_;
        } else {
            poisoned_ = status.error();
            observe::log_error("storage", "the superblock cannot be written until a restart",
                               {{"path", path_}, {"error", to_string(status.error())}});
        }
    }
    turn_.release();
    co_return status;
}

Task<void> Superblock::close() {
    co_await turn_.acquire();
    if (file_ != runtime::kNoFile) {
        (void)co_await runtime::close(io_, std::exchange(file_, runtime::kNoFile));
    }
    turn_.release();
}

}  // namespace galgo::storage
