// The files of the metadata group, copy by copy: a start uses one that is whole.
#include <array>
#include <format>
#include <optional>

#include "check/detail/check_context.hpp"
#include "runtime/io_await.hpp"
#include "storage/snapshot_file.hpp"
#include "storage/superblock.hpp"

namespace galgo::check {

using coro::Task;

namespace {

/// What the whole copies of the highest sequence say; empty: none is whole.
Task<std::optional<storage::SuperblockState>> scan_superblock(Context& context) {
    const std::string path = context.options.path + "/metadata/superblock";
    const Result<runtime::FileHandle> file =
        co_await runtime::open(context.real(), path, runtime::OpenMode::kRead);
    if (!file.has_value()) {
        co_return std::nullopt;  // the start has a word about it
    }
    std::optional<storage::DecodedSuperblock> best;
    std::array<std::uint64_t, storage::kSuperblockCopies> sequences{};
    for (std::size_t i = 0; i < storage::kSuperblockCopies; ++i) {
        storage::SuperblockCopy copy;
        const Result<std::size_t> got =
            co_await runtime::read(context.real(), *file, copy, i * storage::kSuperblockCopyBytes);
        if (!got.has_value() || *got != copy.size()) {
            continue;
        }
        const Result<storage::DecodedSuperblock> decoded = storage::decode_superblock(copy);
        if (decoded.has_value()) {
            sequences[i] = decoded->sequence;
            if (!best.has_value() || decoded->sequence > best->sequence) {
                best = *decoded;
            }
        }
    }
    (void)co_await runtime::close(context.real(), *file);
    for (std::size_t i = 0; best.has_value() && i < storage::kSuperblockCopies; ++i) {
        if (sequences[i] != best->sequence) {
            context.report.add(
                {.severity = Severity::kMends,
                 .file = context.short_name(path),
                 .byte = i * storage::kSuperblockCopyBytes,
                 .offsets = {},
                 .what = std::format("copy {} of {} {}", i + 1, storage::kSuperblockCopies,
                                     sequences[i] == 0 ? "is damaged" : "is old"),
                 .start = "writes it anew from another copy",
                 .remedy = "--repair"});
        }
    }
    co_return best.has_value() ? std::optional(best->state) : std::nullopt;
}

}  // namespace

Task<void> scan_metadata(Context& context) {
    const std::optional<storage::SuperblockState> state = co_await scan_superblock(context);
    if (!state.has_value()) {
        co_return;
    }
    const std::string directory = context.options.path + "/metadata";
    for (const storage::SnapshotRef& ref : {state->snapshot, state->snapshot_before}) {
        if (ref.op == OpNumber{0}) {
            continue;
        }
        const storage::OrRefusal<storage::SnapshotContents> contents =
            co_await storage::read_snapshot(context.real(), directory, ref);
        if (!contents.has_value()) {
            context.report.add(
                {.severity = Severity::kMends,
                 .file = context.short_name(storage::snapshot_path(directory, ref.op)),
                 .byte = {},
                 .offsets = {},
                 .what = contents.error().text,
                 .start = "uses the other snapshot and the log, when they are whole; the next "
                          "snapshot replaces it",
                 .remedy = "keep a copy of the metadata directory before the next start"});
        }
    }
}

}  // namespace galgo::check
