// What a start changes in the metadata log once all of it was judged: rotten copies, the last
// batch, left-over files. Before that nothing is (wal_recovery.cpp).
#include <algorithm>
#include <format>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/replace_file.hpp"
#include "storage/detail/wal_scan.hpp"
#include "storage/wal.hpp"

namespace galgo::storage {

using coro::Task;

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
