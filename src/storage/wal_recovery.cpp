// Opening the log of the metadata group: all of it is read and judged, and nothing changed; that is
// in wal_heal.cpp. See the head of wal.hpp for what is torn and what is rotten.
#include <algorithm>
#include <array>
#include <cerrno>
#include <format>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/wal_scan.hpp"
#include "storage/wal.hpp"

namespace galgo::storage {

using coro::Task;
using detail::WalPart;

namespace {

std::unexpected<Refusal> damaged(std::string text) {
    return refuse(fail(ErrorCode::kStateFileCorrupted).error(), std::move(text));
}

bool all_zero(ConstBytes bytes) {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

/// Reads `size` bytes, whole blocks. What the disk cannot give costs a block, not more.
Task<WalPart> read_part(runtime::IoBackend& io, runtime::FileHandle file, std::uint64_t position,
                        std::size_t size) {
    WalPart part{.bytes = std::vector<std::byte>(size)};
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

/// The header stands at the begin of both regions; the second is found by the first, or by the size
/// of a whole file.
Task<OrRefusal<std::uint64_t>> Wal::find_region(const Reading& reading) {
    std::vector<std::byte> block(kWalBlockBytes);
    Result<std::uint64_t> region_bytes = fail(ErrorCode::kInvalidFormat);
    std::string unreadable;
    const std::uint64_t middle = reading.size_bytes / 2;
    const std::array<std::uint64_t, 2> places{0, middle};
    for (const std::uint64_t position : places) {
        std::ranges::fill(block, std::byte{0});
        const Result<std::size_t> got = co_await runtime::read(io_, file_, block, position);
        if (!got.has_value()) {
            unreadable = std::format(" (cannot be read: {})", to_string(got.error()));
        }
        const Result<std::uint64_t> decoded = decode_wal_header(block, seal_of(reading.generation));
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
                co_return refuse(region_bytes.error(),
                                 std::format("{} was written by another version: use that version",
                                             reading.path));
            case ErrorCode::kStateFileCorrupted:
                co_return damaged(
                    std::format("{} is not the file that belongs here (its header at "
                                "position 0 names another directory or generation): "
                                "{}",
                                reading.path, kRestoreRemedy));
            default:
                co_return damaged(std::format(
                    "{} has {} bytes and no whole header at positions 0 and {}{}: {}", reading.path,
                    reading.size_bytes, middle, unreadable, kRestoreRemedy));
        }
    }
    co_return *region_bytes;
}

Task<OrRefusal<void>> Wal::recover_file(Scan& scan, std::uint64_t generation, OnEntry& on_entry) {
    Reading reading{.generation = generation, .path = wal_path(options_.directory, generation)};
    const std::string& path = reading.path;
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

    reading.size_bytes = facts->size_bytes;
    const OrRefusal<std::uint64_t> found = co_await find_region(reading);
    if (!found.has_value()) {
        co_return std::unexpected(found.error());
    }
    const std::uint64_t region = reading.region = *found;
    for (const std::size_t copy : {0U, 1U}) {
        const std::uint64_t begin = copy * region;
        WalPart& part = reading.parts.at(copy);
        part = co_await read_part(io_, file_, begin, static_cast<std::size_t>(region));
        part.present = std::min(std::max(reading.size_bytes, begin) - begin, region);
    }
    reading.repair = {.generation = generation,
                      .file_bytes = 2 * region,
                      .found_bytes = reading.size_bytes,
                      .pieces = {}};
    // Only what does not verify is written, so that a power loss in the middle costs nothing.
    for (const std::size_t copy : {0U, 1U}) {
        const WalPart& part = reading.parts.at(copy);
        for (const std::uint64_t at : part.unreadable) {
            reading.repair.pieces.push_back(
                {copy * region + at, std::vector<std::byte>(kWalBlockBytes)});
        }
        if (decode_wal_header(part.bytes, seal_of(generation)) != region) {
            reading.repair.pieces.push_back(
                {copy * region, encode_wal_header(seal_of(generation), region)});
        }
    }
    OrRefusal<void> done = replay_batches(scan, reading, on_entry);
    if (done.has_value()) {
        done = judge_end(scan, reading);
    }
    if (!done.has_value()) {
        co_return done;
    }
    scan.end_path = path;
    scan.end_position = reading.position;
    if (!reading.repair.pieces.empty() || reading.size_bytes != 2 * region) {
        scan.repairs.push_back(std::move(reading.repair));
    }
    files_.push_back({.generation = generation, .region_bytes = region, .op_last = head_});
    position_ = reading.position;
    co_return OrRefusal<void>{};
}

/// A batch that came before, and stands here too, was written to the wrong place.
std::optional<WalBatch> Wal::batch_at(const Scan& scan, const Reading& reading, const WalPart& part,
                                      std::uint64_t at) const {
    std::optional<WalBatch> found =
        decode_wal_batch(part.bytes, static_cast<std::size_t>(at), seal_of(reading.generation));
    if (found.has_value() && !scan.first_batch && found->sequence <= sequence_) {
        found.reset();
    }
    return found;
}

OrRefusal<void> Wal::replay_batches(Scan& scan, Reading& reading, OnEntry& on_entry) {
    const auto& [a, b] = reading.parts;
    const std::string& path = reading.path;
    const std::uint64_t region = reading.region;
    std::uint64_t& position = reading.position;
    while (position < region) {
        std::optional<WalBatch> from_a = batch_at(scan, reading, a, position);
        std::optional<WalBatch> from_b = batch_at(scan, reading, b, position);
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
            return damaged(
                std::format("{}: the batches at positions {} and {} are both whole, and differ: {}",
                            path, position, region + position, kRestoreRemedy));
        }
        if (scan.first_batch && batch.op_before > options_.snapshot_op) {
            return damaged(
                std::format("changes {} to {} are missing: the snapshot ends before them, and the "
                            "log begins behind them, in {} at position {}: {}",
                            options_.snapshot_op.next().value(), batch.op_before.value(), path,
                            position, kRestoreRemedy));
        }
        if (!scan.first_batch && batch.sequence != sequence_ + 1) {
            return damaged(
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
            reading.repair.pieces.push_back(
                {(from_a.has_value() ? region : 0) + position, {whole.begin(), whole.end()}});
            ++healed_count_;
        }
        OrRefusal<void> taken = take_entries(batch, whole, path, position, on_entry);
        if (!taken.has_value()) {
            return taken;
        }
        sequence_ = batch.sequence;
        if (batch.op_last > superblock_.state().snapshot.op) {
            log_bytes_ += size;
        }
        ends_in_mark_ = batch.kind == WalBatchKind::kMark;
        scan.last = {.generation = reading.generation,
                     .positions = {position, region + position},
                     .bytes = {whole.begin(), whole.end()}};
        position += size;
    }
    return {};
}

/// Here the log of this file ends, if a batch further on does not say that it did not.
OrRefusal<void> Wal::judge_end(Scan& scan, const Reading& reading) const {
    const auto& [a, b] = reading.parts;
    const std::string& path = reading.path;
    const std::uint64_t region = reading.region;
    const std::uint64_t position = reading.position;
    for (std::uint64_t at = position + kWalBlockBytes; at < region; at += kWalBlockBytes) {
        if (batch_at(scan, reading, a, at).has_value() ||
            batch_at(scan, reading, b, at).has_value()) {
            return damaged(
                std::format("{} is damaged at position {} and at its copy, position {}; the whole "
                            "batch at {} says that what stood there was acknowledged: {}",
                            path, position, region + position, at, kRestoreRemedy));
        }
    }
    const auto clean_at = [&](const WalPart& part) {
        return position >= region ||
               all_zero(ConstBytes(part.bytes).subspan(position, kWalBlockBytes));
    };
    scan.clean_end = clean_at(a) && clean_at(b);
    // A copy that cannot be read may have been whole; one that can, and is not, was not, and where
    // the other one was this log would need two faults to lose it. What a cut took counts up to the
    // end of the batch, and one cut takes both. Only the last file can end before what was
    // acknowledged: of the others the next batch, and the commit of the superblock, tell.
    const auto cannot_be_told = [&](const WalPart& part) {
        if (position >= region) {
            return false;
        }
        const bool readable = position + kWalBlockBytes <= part.present &&
                              std::ranges::find(part.unreadable, position) == part.unreadable.end();
        const bool complete = part.present == region &&
                              (part.unreadable.empty() || part.unreadable.back() < position);
        return !readable || (!complete && !clean_at(part));
    };
    if (reading.generation == superblock_.state().wal_last && cannot_be_told(a) &&
        cannot_be_told(b)) {
        return damaged(std::format(
            "{} has {} of {} bytes, of which {} blocks cannot be read: what stood at position {} "
            "and at its copy, position {}, cannot be told: {}",
            path, reading.size_bytes, 2 * region, a.unreadable.size() + b.unreadable.size(),
            position, region + position, kRestoreRemedy));
    }
    if (reading.size_bytes < 2 * region) {
        // The lost part of a region is written again: zeros, and then what the whole one has.
        observe::log_warn("storage", "a file of the metadata log was cut short and is restored",
                          {{"path", path}, {"bytes", reading.size_bytes}});
    }
    return {};
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
        const WalPart whole = co_await read_part(io_, *file, 0, static_cast<std::size_t>(size));
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

}  // namespace galgo::storage
