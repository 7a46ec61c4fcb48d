// What a check writes with --repair: indexes, as a start would write them. No log is changed.
#include <algorithm>
#include <format>
#include <set>

#include "check/detail/check_context.hpp"
#include "runtime/io_await.hpp"
#include "storage/segment_format.hpp"

namespace galgo::check {

using coro::Task;

namespace {

constexpr std::uint64_t kIndexBytesMax = 16 * kMiB;

Task<Result<std::vector<std::byte>>> read_whole(runtime::IoBackend& io, std::string path) {
    GALGO_CO_TRY_ASSIGN(const runtime::FileFacts facts, io.file_facts(path));
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(io, path, runtime::OpenMode::kRead));
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(std::min(facts.size_bytes, kIndexBytesMax)));
    const Result<std::size_t> got = co_await runtime::read(io, file, bytes, 0);
    (void)co_await runtime::close(io, file);
    GALGO_CO_TRY(got);
    bytes.resize(*got);
    co_return bytes;
}

/// An entry is a promise that the log is stable up to there. What is only in the page cache of a
/// failed sync becomes stable by being written again, as a start does it: with the bytes it has.
Task<Status> make_log_stable(Context& context, std::string log) {
    OverlayBackend::Extents extents;
    if (const OverlayBackend::Extents* written = context.overlay.written(log)) {
        extents = *written;
    }
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(context.real(), log, runtime::OpenMode::kReadWrite));
    Status status;
    for (const auto& [position, bytes] : extents) {
        if (status.has_value()) {
            status = co_await runtime::write_all(context.real(), file, bytes, position);
        }
    }
    if (status.has_value()) {
        status = co_await runtime::sync(context.real(), file);
    }
    (void)co_await runtime::close(context.real(), file);
    co_return status;
}

Task<Status> replace_index(runtime::IoBackend& io, std::string path,
                           const std::vector<std::byte>& bytes) {
    const std::string temporary = path + ".tmp";
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(io, temporary, runtime::OpenMode::kCreate));
    Status status = co_await runtime::truncate(io, file, 0);
    if (status.has_value()) {
        status = co_await runtime::write_all(io, file, bytes, 0);
    }
    if (status.has_value()) {
        status = co_await runtime::sync(io, file);
    }
    (void)co_await runtime::close(io, file);
    GALGO_CO_TRY(status);
    GALGO_CO_TRY(co_await runtime::rename(io, temporary, path));
    co_return co_await runtime::sync_directory(io, path.substr(0, path.rfind('/')));
}

/// Does the log stay as it is, and does the new index have all that verified in the old one? What
/// an index tells of lost messages is never given up.
Task<bool> may_be_replaced(Context& context, const std::string& index, const std::string& log,
                           const std::vector<std::byte>& bytes, std::uint64_t seed) {
    const bool is_cut = std::ranges::any_of(context.overlay.changes(), [&](const Change& change) {
        return change.kind == ChangeKind::kCut && change.path == log;
    });
    if (is_cut || !context.real().file_facts(log).has_value()) {
        co_return false;
    }
    const std::optional<Difference> difference = co_await compare(context, log);
    if (difference.has_value()) {
        co_return false;
    }
    if (!context.real().file_facts(index).has_value()) {
        co_return true;
    }
    const Result<std::vector<std::byte>> old = co_await read_whole(context.real(), index);
    if (!old.has_value()) {
        co_return false;
    }
    std::set<std::vector<std::byte>> kept;
    for (std::size_t at = 0; at + storage::kIndexEntryBytes <= bytes.size();
         at += storage::kIndexEntryBytes) {
        const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        kept.emplace(from, from + static_cast<std::ptrdiff_t>(storage::kIndexEntryBytes));
    }
    for (std::size_t at = 0; at + storage::kIndexEntryBytes <= old->size();
         at += storage::kIndexEntryBytes) {
        const auto from = old->begin() + static_cast<std::ptrdiff_t>(at);
        const std::vector<std::byte> entry(
            from, from + static_cast<std::ptrdiff_t>(storage::kIndexEntryBytes));
        if (!kept.contains(entry) && storage::decode_index_entry(entry, seed).has_value()) {
            co_return false;
        }
    }
    co_return true;
}

}  // namespace

Task<void> repair_indexes(Context& context, const KnownPartition& partition) {
    std::set<std::string> indexes;
    for (const Change& change : context.overlay.changes()) {
        const std::string& path = change.kind == ChangeKind::kMoved ? change.path_to : change.path;
        if (path.ends_with(storage::kIndexExtension) &&
            (change.kind == ChangeKind::kMoved || change.kind == ChangeKind::kWritten)) {
            indexes.insert(path);
        }
    }
    for (const std::string& index : indexes) {
        const std::string stem = index.substr(0, index.size() - storage::kIndexExtension.size());
        const std::string log = stem + std::string(storage::kLogExtension);
        const auto start = storage::parse_segment_file_name(
            std::string_view(index).substr(index.rfind('/') + 1), storage::kIndexExtension);
        const Result<std::vector<std::byte>> bytes = co_await read_whole(context.overlay, index);
        if (!start.has_value() || !bytes.has_value()) {
            continue;
        }
        const bool allowed = co_await may_be_replaced(
            context, index, log, *bytes,
            storage::index_seed(partition.key, partition.incarnation, *start));
        if (!allowed) {
            continue;
        }
        Status status = co_await make_log_stable(context, log);
        if (status.has_value()) {
            status = co_await replace_index(context.real(), index, *bytes);
        }
        context.report.add({.severity = status.has_value() ? Severity::kNote : Severity::kDamage,
                            .file = context.short_name(index),
                            .byte = {},
                            .offsets = {},
                            .what = status.has_value()
                                        ? std::format("repaired: written anew from the log, {} "
                                                      "entries",
                                                      bytes->size() / storage::kIndexEntryBytes)
                                        : "cannot be repaired: " + to_string(status.error())});
    }
}

}  // namespace galgo::check
