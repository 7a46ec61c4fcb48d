// Opening a partition's log: whose files stand in its directory. Those of another life go to the
// trash or are moved aside as a whole; segments that begin with the batches of somebody else are
// passed over.
#include <cerrno>
#include <format>
#include <optional>

#include "model/ids.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/free_name.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/detail/replace_file.hpp"
#include "storage/incarnation_file.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::kNoBytes;
using memory::AcquireClass;

namespace {

constexpr std::string_view kIncarnationName = "incarnation";
constexpr std::size_t kIncarnationBytes = 16;

}  // namespace

Task<Result<std::optional<Incarnation>>> read_incarnation(runtime::IoBackend& io,
                                                          std::string directory) {
    const std::string path = std::format("{}/{}", directory, kIncarnationName);
    const Result<runtime::FileHandle> file =
        co_await runtime::open(io, path, runtime::OpenMode::kRead);
    if (!file.has_value() && file.error().os_errno == ENOENT) {
        co_return std::nullopt;
    }
    GALGO_CO_TRY(file);
    std::byte bytes[kIncarnationBytes + 1];
    const Result<std::size_t> got = co_await runtime::read(io, *file, bytes, 0);
    (void)co_await runtime::close(io, *file);
    GALGO_CO_TRY(got);
    if (*got != kIncarnationBytes ||
        load<std::uint64_t>(bytes, 8) !=
            detail::kind_checksum(detail::FileKind::kIncarnation, load<std::uint64_t>(bytes, 0))) {
        observe::log_warn("storage", "incarnation file is damaged", {{"directory", directory}});
        co_return std::nullopt;
    }
    co_return Incarnation(load<std::uint64_t>(bytes, 0));
}

/// A segment that begins with another batch than the name of its file says. Nothing of it is
/// served, and nothing is written into or over it. `next`: where the next file begins, if there is
/// one.
Task<Status> PartitionLog::tell_foreign(Offset start, std::optional<Offset> next) {
    if (next.has_value()) {
        note_lost(start, *next);
        co_return Status{};
    }
    last_is_sealed_ = true;  // the one before it was: it ends where it ends
    end_is_occupied_ = true;
    GALGO_CO_TRY_ASSIGN(const Offset end, co_await told_end(start));
    note_lost(start, end);
    co_return Status{};
}

/// False when its first batch verifies, with another offset or of another partition. One that does
/// not verify says nothing.
Task<Result<bool>> PartitionLog::begins_as_named(const Segment& segment, FileRef file) {
    SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, file.handle(),
                         segment.size_bytes, 0, wire::kBatchHeaderSize);
    GALGO_CO_TRY_ASSIGN(SegmentStep step, co_await cursor.next(kNoBytes));
    if (step.kind != StepKind::kBatch ||
        (is_ours(step.header) && step.header.base_offset == segment.start.value())) {
        co_return true;
    }
    cursor.seek(0);
    GALGO_CO_TRY_ASSIGN(step, co_await cursor.next(Offset{0}));
    if (step.kind != StepKind::kBatch) {
        co_return true;
    }
    const Status valid = co_await verify_batch(context_.ready, step.bytes);
    if (!valid.has_value()) {
        co_return true;
    }
    note_damage(std::format(
        "{} should begin with offset {} of partition {}, but does with offset {} of partition {}: "
        "it was renamed or brought here; put the right file in its place, or purge the partition",
        path_of(segment.start, kLogExtension), segment.start.value(),
        model::unpack_partition_key(partition_).partition.value(), step.header.base_offset,
        step.header.partition_id));
    intact_end_ = std::min(intact_end_, segment.start);
    co_return false;
}

/// As far as a batch says whose it is: the number of the partition in its topic.
bool PartitionLog::is_ours(const wire::BatchHeader& header) const noexcept {
    return header.partition_id == model::unpack_partition_key(partition_).partition.value();
}

/// The directory of an earlier incarnation (a purge or a deletion that was cut short) goes to the
/// trash as a whole: its offsets and its fence end with it.
Task<Status> PartitionLog::check_incarnation() {
    GALGO_CO_TRY_ASSIGN(const std::optional<Incarnation> found,
                        co_await read_incarnation(context_.io, directory_));
    if (!found.has_value()) {
        // Brought here by hand, or the work of a process that was killed before it had written the
        // file. This incarnation's: the next one must not take them for its own.
        directory_exists_ = false;
        const Status noted = co_await make_directory();
        if (!noted.has_value()) {
            observe::log_warn("storage", "an incarnation file cannot be written now",
                              {{"directory", directory_}, {"error", to_string(noted.error())}});
        }
        co_return Status{};
    }
    if (*found == incarnation_) {
        co_return Status{};
    }
    const std::size_t segment_count = segments_.size();
    segments_.clear();
    directory_exists_ = entries_dirty_ = false;
    if (*found > incarnation_ || !context_.trash.is_retired(partition_, *found)) {
        co_return co_await quarantine_partition(context_, root_, directory_, partition_, *found);
    }
    observe::log_info("storage", "dropping what an earlier incarnation left",
                      {{"directory", directory_}, {"segments", segment_count}});
    co_return co_await trash_partition(context_, directory_, partition_, *found);
}

/// No entry of the metadata log ended that life: it may be all that is left of messages.
Task<Status> quarantine_partition(StorageContext& context, std::string root, std::string directory,
                                  PartitionKey partition, Incarnation found) {
    const std::string folder = root + "/quarantine";
    GALGO_CO_TRY(co_await runtime::make_directories(context.io, folder));
    GALGO_CO_TRY(co_await runtime::sync_directory(context.io, root));
    GALGO_CO_TRY_ASSIGN(
        const std::string kept,
        detail::first_free(
            context.io, std::format("{}/{:016x}-{}.", folder, partition.value(), found.value())));
    const Status moved = co_await runtime::rename(context.io, directory, kept);
    observe::log_error("storage",
                       "files of a partition that the metadata log does not know are moved aside",
                       {{"directory", directory},
                        {"incarnation", found},
                        {"to", kept},
                        {"error", moved.has_value() ? "none" : to_string(moved.error())}});
    GALGO_CO_TRY(moved);
    GALGO_CO_TRY(co_await runtime::sync_directory(context.io, folder));
    co_return co_await runtime::sync_directory(context.io,
                                               directory.substr(0, directory.rfind('/')));
}

Task<Status> trash_unopened(StorageContext& context, std::string root, std::string directory,
                            PartitionKey partition, Incarnation incarnation) {
    const Result<std::optional<Incarnation>> found =
        co_await read_incarnation(context.io, directory);
    if (found.has_value() && found->has_value() && !context.trash.is_retired(partition, **found)) {
        co_return co_await quarantine_partition(context, std::move(root), std::move(directory),
                                                partition, **found);
    }
    co_return co_await trash_partition(context, std::move(directory), partition, incarnation);
}

Task<Status> PartitionLog::write_incarnation() {
    std::byte bytes[kIncarnationBytes];
    store<std::uint64_t>(bytes, 0, incarnation_.value());
    store<std::uint64_t>(
        bytes, 8, detail::kind_checksum(detail::FileKind::kIncarnation, incarnation_.value()));
    co_return co_await detail::replace_file(context_.io, directory_, std::string(kIncarnationName),
                                            bytes);
}

}  // namespace galgo::storage
