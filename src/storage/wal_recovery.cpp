// Opening the log of the metadata group: all of it is read and judged first, then changed. See the
// head of wal.hpp for what is torn and what is rotten.
#include <algorithm>
#include <array>
#include <cerrno>
#include <format>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/replace_file.hpp"
#include "storage/wal.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

std::unexpected<Refusal> damaged(std::string text) {
    return refuse(fail(ErrorCode::kStateFileCorrupted).error(), std::move(text));
}

bool all_zero(ConstBytes bytes) {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

/// A part of a file. Zeros stand for what could not be read, or lies behind the end.
struct Part {
    std::vector<std::byte> bytes;
    std::vector<std::uint64_t> unreadable;  ///< begins of blocks, ascending
};

/// Reads `size` bytes, whole blocks. What the disk cannot give costs a block, not more.
Task<Part> read_part(runtime::IoBackend& io, runtime::FileHandle file, std::uint64_t position,
                     std::size_t size) {
    Part part{.bytes = std::vector<std::byte>(size)};
    const Result<std::size_t> got = co_await runtime::read(io, file, part.bytes, position);
    if (got.has_value()) {
        co_return part;
    }
    for (std::size_t at = 0; at < size; at += kWalBlockBytes) {
        const MutableBytes block =
            MutableBytes(part.bytes).subspan(at, std::min(kWalBlockBytes, size - at));
        std::ranges::fill(block, std::byte{0});
        const Result<std::size_t> one = co_await runtime::read(io, file, block, position + at);
        if (!one.has_value()) {
            std::ranges::fill(block, std::byte{0});
            part.unreadable.push_back(at);
        }
    }
    co_return part;
}

/// A file as it is made, with nothing written to it since.
bool is_unused(ConstBytes file, const WalSeal& seal) {
    const std::size_t region = file.size() / 2;
    if (file.size() % (2 * kWalBlockBytes) != 0 || region < kWalRegionBytesMin) {
        return false;
    }
    return std::ranges::all_of(std::array{file.first(region), file.subspan(region)},
                               [&](ConstBytes half) {
                                   return decode_wal_header(half, seal) == region &&
                                          all_zero(half.subspan(kWalBlockBytes));
                               });
}

}  // namespace

/// What opening has learnt so far.
struct Wal::Scan {
    bool first_batch = true;  ///< any sequence may come: older generations are gone
    std::string end_path;     ///< where the file before ended, for the text of a refusal
    std::uint64_t end_position = 0;
    bool clean_end = true;  ///< nothing but zeros where the last file ends
    std::vector<Repair> repairs;
    struct Last {
        std::uint64_t generation = 0;
        std::array<std::uint64_t, 2> positions{};  ///< of its copies, in the file
        std::vector<std::byte> bytes;
    };
    std::optional<Last> last;  ///< batch
    std::optional<File> next;  ///< made ahead, whole and unused
};

Task<OrRefusal<std::unique_ptr<Wal>>> Wal::open(runtime::IoBackend& io, coro::ReadyQueue& ready,
                                                Superblock& superblock, Options options,
                                                OnEntry on_entry) {
    std::unique_ptr<Wal> wal(new Wal(io, ready, superblock, std::move(options)));
    OrRefusal<void> done;
    if (superblock.state().wal_last == 0 && !wal->options_.required_by.empty()) {
        done = wal->no_entries();
    } else if (superblock.state().wal_last == 0) {
        done = co_await wal->start_new();
    } else {
        done = co_await wal->recover(on_entry);
    }
    if (!done.has_value()) {
        if (wal->file_ != runtime::kNoFile) {
            (void)co_await runtime::close(io, std::exchange(wal->file_, runtime::kNoFile));
        }
        co_return std::unexpected(std::move(done.error()));
    }
    co_return wal;
}

/// The superblock names no generation: nothing was ever acknowledged, or it has lost what it knew.
Task<OrRefusal<void>> Wal::start_new() {
    OrRefusal<void> known = check_known(1);
    if (!known.has_value()) {
        co_return known;
    }
    Scan scan;
    OrRefusal<void> above = co_await judge_above(scan, 0);
    if (!above.has_value()) {
        co_return above;
    }
    const File file{.generation = 1, .region_bytes = options_.region_bytes};
    const std::string path = wal_path(options_.directory, file.generation);
    OrRefusal<void> settled = co_await superblock_.settle();
    if (!settled.has_value()) {
        co_return settled;
    }
    Status status = co_await make_file(file);
    if (status.has_value()) {
        status = co_await superblock_.update([](SuperblockState& state) {
            state.wal_first = 1;
            state.wal_last = 1;
        });
    }
    if (status.has_value()) {
        const Result<runtime::FileHandle> opened =
            co_await runtime::open(io_, path, runtime::OpenMode::kReadWrite);
        if (opened.has_value()) {
            file_ = *opened;
        } else {
            status = std::unexpected(opened.error());
        }
    }
    if (!status.has_value()) {
        co_return refuse(status.error(),
                         std::format("cannot make {}: {}", path, to_string(status.error())));
    }
    files_.push_back(file);
    position_ = kWalBlockBytes;
    co_return OrRefusal<void>{};
}

std::unexpected<Refusal> Wal::no_entries() const {
    return damaged(std::format("{} in {}, but {}: {}",
                               superblock_.state().wal_last == 0
                                   ? "the metadata log has no file"
                                   : "the files of the metadata log have no entry at position 4096",
                               options_.directory, options_.required_by, kRestoreRemedy));
}

Task<OrRefusal<void>> Wal::recover(OnEntry& on_entry) {
    Scan scan;
    const SuperblockState& state = superblock_.state();
    for (std::uint64_t generation = state.wal_first; generation <= state.wal_last; ++generation) {
        OrRefusal<void> done = co_await recover_file(scan, generation, on_entry);
        if (!done.has_value()) {
            co_return done;
        }
    }
    if (head_ == OpNumber{0} && !options_.required_by.empty()) {
        co_return no_entries();
    }
    if (head_ < state.commit) {
        co_return damaged(std::format(
            "{} ends behind change {}, but the superblock knows change {} as committed: {}",
            wal_path(options_.directory, state.wal_last), head_.value(), state.commit.value(),
            kRestoreRemedy));
    }
    OrRefusal<void> known = check_known(state.wal_last);
    if (!known.has_value()) {
        co_return known;
    }
    OrRefusal<void> above = co_await judge_above(scan, state.wal_last);
    if (!above.has_value()) {
        co_return above;
    }
    co_return co_await finish_recovery(scan);
}

Task<OrRefusal<void>> Wal::recover_file(Scan& scan, std::uint64_t generation, OnEntry& on_entry) {
    const std::string path = wal_path(options_.directory, generation);
    const Result<runtime::FileFacts> facts = io_.file_facts(path);
    if (!facts.has_value()) {
        co_return refuse(facts.error(),
                         facts.error().os_errno == ENOENT
                             ? std::format("{} is missing, which the superblock names as part of "
                                           "the log: {}",
                                           path, kRestoreRemedy)
                             : std::format("cannot read {}: {}", path, to_string(facts.error())));
    }
    if (file_ != runtime::kNoFile) {
        (void)co_await runtime::close(io_, std::exchange(file_, runtime::kNoFile));
    }
    const Result<runtime::FileHandle> opened =
        co_await runtime::open(io_, path, runtime::OpenMode::kReadWrite);
    if (!opened.has_value()) {
        co_return refuse(opened.error(),
                         std::format("cannot open {}: {}", path, to_string(opened.error())));
    }
    file_ = *opened;

    // The header stands at the begin of both regions; the second is found by the first, or by the
    // size of a whole file.
    const WalSeal seal = seal_of(generation);
    std::vector<std::byte> block(kWalBlockBytes);
    Result<std::uint64_t> region_bytes = fail(ErrorCode::kInvalidFormat);
    std::string unreadable;
    const std::uint64_t middle = facts->size_bytes / 2;
    const std::array<std::uint64_t, 2> places{0, middle};
    for (const std::uint64_t position : places) {
        std::ranges::fill(block, std::byte{0});
        const Result<std::size_t> got = co_await runtime::read(io_, file_, block, position);
        if (!got.has_value()) {
            unreadable = std::format(" (cannot be read: {})", to_string(got.error()));
        }
        const Result<std::uint64_t> decoded = decode_wal_header(block, seal);
        if (decoded.has_value() && (position == 0 || *decoded == middle)) {
            region_bytes = *decoded;
            break;
        }
        if (!decoded.has_value() && decoded.error().code != ErrorCode::kInvalidFormat) {
            region_bytes = decoded;
        }
    }
    if (!region_bytes.has_value()) {
        switch (region_bytes.error().code) {
            case ErrorCode::kInvalidVersion:
                co_return refuse(
                    region_bytes.error(),
                    std::format("{} was written by another version: use that version", path));
            case ErrorCode::kStateFileCorrupted:
                co_return damaged(
                    std::format("{} is not the file that belongs here (its header at "
                                "position 0 names another directory or generation): "
                                "{}",
                                path, kRestoreRemedy));
            default:
                co_return damaged(
                    std::format("{} has {} bytes and no whole header at positions 0 and {}{}: {}",
                                path, facts->size_bytes, middle, unreadable, kRestoreRemedy));
        }
    }
    const std::uint64_t region = *region_bytes;
    const Part a = co_await read_part(io_, file_, 0, static_cast<std::size_t>(region));
    const Part b = co_await read_part(io_, file_, region, static_cast<std::size_t>(region));
    const std::uint64_t a_bytes = std::min(facts->size_bytes, region);
    const std::uint64_t b_bytes = std::min(facts->size_bytes - a_bytes, region);

    // Only what does not verify is written, so that a power loss in the middle costs nothing.
    Repair repair{
        .generation = generation, .file_bytes = 2 * region, .found_bytes = facts->size_bytes};
    for (const auto& [part, begin] : {std::pair(&a, std::uint64_t{0}), std::pair(&b, region)}) {
        for (const std::uint64_t at : part->unreadable) {
            repair.pieces.push_back({begin + at, std::vector<std::byte>(kWalBlockBytes)});
        }
        if (decode_wal_header(part->bytes, seal) != region) {
            repair.pieces.push_back({begin, encode_wal_header(seal, region)});
        }
    }
    // A batch that came before, and stands here too, was written to the wrong place.
    const auto batch_at = [&](const Part& part, std::uint64_t at) {
        std::optional<WalBatch> found =
            decode_wal_batch(part.bytes, static_cast<std::size_t>(at), seal);
        if (found.has_value() && !scan.first_batch && found->sequence <= sequence_) {
            found.reset();
        }
        return found;
    };
    std::uint64_t position = kWalBlockBytes;
    while (position < region) {
        std::optional<WalBatch> from_a = batch_at(a, position);
        std::optional<WalBatch> from_b = batch_at(b, position);
        if (from_a.has_value() && from_b.has_value() && from_a->sequence != from_b->sequence) {
            // So was one that came later.
            (from_a->sequence < from_b->sequence ? from_b : from_a).reset();
        }
        if (!from_a.has_value() && !from_b.has_value()) {
            break;
        }
        const WalBatch batch = from_a.has_value() ? *from_a : *from_b;
        const std::size_t size = batch.padded_bytes();
        const ConstBytes whole =
            ConstBytes(from_a.has_value() ? a.bytes : b.bytes).subspan(position, size);
        if (from_a.has_value() && from_b.has_value() &&
            !std::ranges::equal(whole,
                                ConstBytes(b.bytes).subspan(position, from_b->padded_bytes()))) {
            co_return damaged(
                std::format("{}: the batches at positions {} and {} are both whole, and differ: {}",
                            path, position, region + position, kRestoreRemedy));
        }
        if (scan.first_batch && batch.op_before > options_.snapshot_op) {
            co_return damaged(
                std::format("changes {} to {} are missing: the snapshot ends before them, and the "
                            "log begins behind them, in {} at position {}: {}",
                            options_.snapshot_op.next().value(), batch.op_before.value(), path,
                            position, kRestoreRemedy));
        }
        if (!scan.first_batch && batch.sequence != sequence_ + 1) {
            co_return damaged(
                std::format("{} is damaged at position {}{}: batch {} stands where {} was written "
                            "and acknowledged: {}",
                            scan.end_path.empty() ? path : scan.end_path,
                            scan.end_path.empty() ? position : scan.end_position,
                            scan.end_path.empty() ? "" : " and its copy", batch.sequence,
                            sequence_ + 1, kRestoreRemedy));
        }
        if (scan.first_batch) {
            head_ = batch.op_before;
        }
        scan.first_batch = false;
        scan.end_path.clear();
        if (!from_a.has_value() || !from_b.has_value()) {
            repair.pieces.push_back(
                {(from_a.has_value() ? region : 0) + position, {whole.begin(), whole.end()}});
            ++healed_count_;
        }
        OrRefusal<void> taken = take_entries(batch, whole, path, position, on_entry);
        if (!taken.has_value()) {
            co_return taken;
        }
        sequence_ = batch.sequence;
        if (batch.op_last > superblock_.state().snapshot.op) {
            log_bytes_ += size;
        }
        ends_in_mark_ = batch.kind == WalBatchKind::kMark;
        scan.last = {.generation = generation,
                     .positions = {position, region + position},
                     .bytes = {whole.begin(), whole.end()}};
        position += size;
    }

    // Here the log of this file ends. A batch further on says that it did not.
    for (std::uint64_t at = position + kWalBlockBytes; at < region; at += kWalBlockBytes) {
        if (batch_at(a, at).has_value() || batch_at(b, at).has_value()) {
            co_return damaged(
                std::format("{} is damaged at position {} and at its copy, position {}; the whole "
                            "batch at {} says that what stood there was acknowledged: {}",
                            path, position, region + position, at, kRestoreRemedy));
        }
    }
    const auto clean_at = [&](const Part& part) {
        return position >= region ||
               all_zero(ConstBytes(part.bytes).subspan(position, kWalBlockBytes));
    };
    const bool clean = clean_at(a) && clean_at(b);
    // A copy that cannot be read may have been whole; one that can, and is not, was not, and where
    // the other one was this log would need two faults to lose it. What a cut took counts up to the
    // end of the batch, and one cut takes both. Only the last file can end before what was
    // acknowledged: of the others the next batch, and the commit of the superblock, tell.
    const auto cannot_be_told = [&](const Part& part, std::uint64_t present) {
        if (position >= region) {
            return false;
        }
        const bool readable = position + kWalBlockBytes <= present &&
                              std::ranges::find(part.unreadable, position) == part.unreadable.end();
        const bool complete =
            present == region && (part.unreadable.empty() || part.unreadable.back() < position);
        return !readable || (!complete && !clean_at(part));
    };
    if (generation == superblock_.state().wal_last && cannot_be_told(a, a_bytes) &&
        cannot_be_told(b, b_bytes)) {
        co_return damaged(std::format(
            "{} has {} of {} bytes, of which {} blocks cannot be read: what stood at position {} "
            "and at its copy, position {}, cannot be told: {}",
            path, facts->size_bytes, 2 * region, a.unreadable.size() + b.unreadable.size(),
            position, region + position, kRestoreRemedy));
    }
    if (a_bytes != region || b_bytes != region) {
        // The lost part of a region is written again: zeros, and then what the whole one has.
        observe::log_warn("storage", "a file of the metadata log was cut short and is restored",
                          {{"path", path}, {"bytes", facts->size_bytes}});
    }
    scan.end_path = path;
    scan.end_position = position;
    scan.clean_end = clean;
    if (!repair.pieces.empty() || facts->size_bytes != repair.file_bytes) {
        scan.repairs.push_back(std::move(repair));
    }
    files_.push_back({.generation = generation, .region_bytes = region, .op_last = head_});
    position_ = position;
    co_return OrRefusal<void>{};
}

OrRefusal<void> Wal::take_entries(const WalBatch& batch, ConstBytes bytes, const std::string& path,
                                  std::uint64_t position, OnEntry& on_entry) {
    const auto foreign = [&] {
        return damaged(
            std::format("{}: the batch at position {} verifies, but holds what this "
                        "version does not know: {}",
                        path, position, kRestoreRemedy));
    };
    if (batch.op_before != head_ || (batch.kind == WalBatchKind::kMark && batch.entry_count != 0)) {
        return foreign();
    }
    std::size_t at = kWalBatchHeaderBytes;
    for (std::uint32_t i = 0; i < batch.entry_count; ++i) {
        const auto header = wire::decode_prepare_header(bytes.subspan(at));
        if (!header.has_value() || header->size > batch.size_bytes - at) {
            return foreign();
        }
        const ConstBytes body = bytes.subspan(at + wire::kPrepareHeaderSize, header->body_size());
        if (!wire::prepare_body_matches(*header, body) || header->op <= head_ ||
            (i == 0 && header->op != batch.op_first)) {
            return foreign();
        }
        const std::expected<void, std::string> taken = on_entry(*header, body);
        if (!taken.has_value()) {
            return damaged(std::format("{}: change {}, in the batch at position {}: {}", path,
                                       header->op.value(), position, taken.error()));
        }
        head_ = header->op;
        at += header->size;
    }
    if (at != batch.size_bytes || head_ != batch.op_last) {
        return foreign();
    }
    return {};
}

/// `generation`: the last one.
OrRefusal<void> Wal::check_known(std::uint64_t generation) const {
    if (head_ >= options_.known_op) {
        return {};
    }
    return damaged(
        std::format("{} ends behind change {}, but {} holds change {}: changes that were "
                    "acknowledged are missing: {}",
                    wal_path(options_.directory, generation), head_.value(), options_.known_by,
                    options_.known_op.value(), kRestoreRemedy));
}

/// Files above the last generation. The superblock names a file before anything is acknowledged
/// from it: a whole batch says that the superblock has lost what it knew. A batch has a copy in
/// both regions, so a bad sector in one of them is no reason to refuse.
Task<OrRefusal<void>> Wal::judge_above(Scan& scan, std::uint64_t generation_last) {
    const Result<std::vector<runtime::DirectoryEntry>> entries =
        io_.list_directory(options_.directory);
    if (!entries.has_value()) {
        co_return refuse(entries.error(), std::format("cannot list {}: {}", options_.directory,
                                                      to_string(entries.error())));
    }
    for (const runtime::DirectoryEntry& entry : *entries) {
        const std::uint64_t generation = wal_generation(entry.name).value_or(0);
        if (generation <= generation_last) {
            continue;
        }
        const std::string path = wal_path(options_.directory, generation);
        const Result<runtime::FileFacts> facts = io_.file_facts(path);
        if (!facts.has_value()) {
            co_return refuse(facts.error(),
                             std::format("cannot read {}: {}", path, to_string(facts.error())));
        }
        const Result<runtime::FileHandle> file =
            co_await runtime::open(io_, path, runtime::OpenMode::kRead);
        if (!file.has_value()) {
            co_return refuse(file.error(),
                             std::format("cannot open {}: {}", path, to_string(file.error())));
        }
        const std::uint64_t size = std::min(facts->size_bytes, 2 * kWalRegionBytesMax);
        const Part whole = co_await read_part(io_, *file, 0, static_cast<std::size_t>(size));
        (void)co_await runtime::close(io_, *file);
        const WalSeal seal = seal_of(generation);
        for (std::size_t at = 0; at < whole.bytes.size(); at += kWalBlockBytes) {
            if (decode_wal_batch(whole.bytes, at, seal).has_value()) {
                co_return damaged(
                    std::format("{} has a whole batch at position {}, but the superblock names "
                                "generation {} as the last: it has lost what it knew: {}",
                                path, at, generation_last, kRestoreRemedy));
            }
        }
        const auto second = std::ranges::lower_bound(whole.unreadable, size / 2);
        if (second != whole.unreadable.begin() && second != whole.unreadable.end()) {
            co_return damaged(std::format(
                "{}, above the last generation that the superblock names, cannot be read at "
                "positions {} and {}: whether something was acknowledged from it cannot be told: "
                "{}",
                path, whole.unreadable.front(), *second, kRestoreRemedy));
        }
        const File next{.generation = generation, .region_bytes = facts->size_bytes / 2};
        if (generation == generation_last + 1 && whole.unreadable.empty() &&
            is_unused(whole.bytes, seal)) {
            scan.next = next;
        }
    }
    co_return OrRefusal<void>{};
}

/// Only now is anything changed on disk.
Task<OrRefusal<void>> Wal::finish_recovery(Scan& scan) {
    OrRefusal<void> settled = co_await superblock_.settle();
    if (!settled.has_value()) {
        co_return settled;
    }
    bool last_damaged = false;
    for (const Repair& one : scan.repairs) {
        const std::string path = wal_path(options_.directory, one.generation);
        const std::uint64_t position =
            one.pieces.empty() ? one.found_bytes : one.pieces.front().position;
        const Status done = co_await repair(one);
        if (done.has_value()) {
            observe::log_warn("storage",
                              "restored rotten parts of the metadata log from their copies",
                              {{"path", path}, {"count", one.pieces.size()}});
            continue;
        }
        // The other copies are whole: the log can do without, but nothing goes behind it.
        last_damaged = last_damaged || one.generation == files_.back().generation;
        observe::log_error("storage", "rotten parts of the metadata log cannot be restored",
                           {{"path", path},
                            {"position", position},
                            {"error", to_string(done.error())},
                            {"remedy", remedy_of(done.error())}});
    }
    if (scan.last.has_value()) {
        OrRefusal<void> written = co_await rewrite_last(scan);
        if (!written.has_value()) {
            co_return written;
        }
    }
    if (scan.next.has_value()) {
        // A process that was killed behind the making of a file has not synced its name.
        const Status named = co_await runtime::sync_directory(io_, options_.directory);
        if (named.has_value()) {
            next_ = scan.next;
        }
    }
    was_torn_ = !scan.clean_end;
    ends_torn_ = was_torn_ || last_damaged;
    if (was_torn_) {
        observe::log_warn("storage",
                          "the metadata log ends in a batch that was never completed and was not "
                          "acknowledged",
                          {{"path", scan.end_path}, {"position", scan.end_position}});
    }
    co_return OrRefusal<void>{};
}

Task<Status> Wal::repair(const Repair& repair) {
    const std::string path = wal_path(options_.directory, repair.generation);
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(io_, path, runtime::OpenMode::kReadWrite));
    Status status;
    if (repair.found_bytes > repair.file_bytes) {
        status = co_await runtime::truncate(io_, file, repair.file_bytes);
    }
    // What was cut off is written, because a hole has no room for what comes.
    const std::vector<std::byte> zeros(kWalBlockBytes);
    for (std::uint64_t at = repair.found_bytes; at < repair.file_bytes && status.has_value();) {
        const std::size_t size =
            static_cast<std::size_t>(std::min<std::uint64_t>(zeros.size(), repair.file_bytes - at));
        status = co_await runtime::write_all(io_, file, ConstBytes(zeros).first(size), at);
        at += size;
    }
    for (const Repair::Piece& piece : repair.pieces) {
        if (status.has_value()) {
            status = co_await runtime::write_all(io_, file, piece.bytes, piece.position);
        }
    }
    if (status.has_value()) {
        status = co_await runtime::sync(io_, file);
    }
    (void)co_await runtime::close(io_, file);
    co_return status;
}

/// A batch that was read may come from the page cache of a process whose sync failed: the disk has
/// it only once it was written again, a sync alone does nothing. One copy after the other, so that
/// a power loss meets only one of them. When one cannot be written the other is left alone, and the
/// start refused: what is behind it may be the only one that there is.
Task<OrRefusal<void>> Wal::rewrite_last(const Scan& scan) {
    const std::string path = wal_path(options_.directory, scan.last->generation);
    const auto refused = [&](const Error& error, std::uint64_t position) {
        return refuse(error, std::format("cannot write the last batch of {} again, at position {}: "
                                         "{}: {}",
                                         path, position, to_string(error), remedy_of(error)));
    };
    const Result<runtime::FileHandle> file =
        co_await runtime::open(io_, path, runtime::OpenMode::kReadWrite);
    if (!file.has_value()) {
        co_return refused(file.error(), scan.last->positions[0]);
    }
    OrRefusal<void> done;
    for (const std::uint64_t position : scan.last->positions) {
        Status status;
        if (done.has_value()) {
            status = co_await runtime::write_all(io_, *file, scan.last->bytes, position);
        }
        if (done.has_value() && status.has_value()) {
            status = co_await runtime::sync(io_, *file);
        }
        if (!status.has_value()) {
            done = refused(status.error(), position);
        }
    }
    (void)co_await runtime::close(io_, *file);
    co_return done;
}

/// Not in force are files that were made ahead and are not whole, or were covered by a snapshot,
/// when a process ended.
Task<void> Wal::sweep() {
    const std::uint64_t first = files_.front().generation;
    const std::uint64_t last = files_.back().generation + (next_.has_value() ? 1 : 0);
    co_await detail::remove_strays(io_, options_.directory, [first, last](std::string_view name) {
        const std::optional<std::uint64_t> generation = wal_generation(name);
        return !generation.has_value()                     ? detail::Stray::kForeign
               : *generation < first || *generation > last ? detail::Stray::kGoes
                                                           : detail::Stray::kStays;
    });
    (void)co_await make_next(options_.region_bytes);
}

}  // namespace galgo::storage
