// The order of a check.
#include "check/check.hpp"

#include <format>
#include <set>
#include <utility>

#include "check/detail/check_context.hpp"
#include "model/ids.hpp"
#include "shard/partition_owner.hpp"
#include "storage/incarnation_file.hpp"

namespace galgo::check {

using coro::Task;

namespace {

constexpr std::uint64_t kProgressNs = 3 * kSecond;

/// As PartitionOwner::open_existing goes through them; those that a start opens.
std::vector<KnownPartition> known_partitions(const Context& context, const Start& start) {
    std::vector<KnownPartition> known;
    for (const metadata::Stream& stream : start.state.streams().rows()) {
        for (const metadata::Topic& topic : stream.topics.rows()) {
            for (std::uint32_t i = 0; i < topic.partition_count(); ++i) {
                const PartitionKey key =
                    model::pack_partition_key(stream.id, topic.id, model::PartitionId{i});
                const Incarnation incarnation = topic.partitions[i].incarnation;
                std::string directory =
                    std::format("{}/streams/{}/topics/{}/partitions/{}", context.options.path,
                                stream.id.value(), topic.id.value(), i);
                if (context.real().file_facts(directory).has_value() ||
                    start.replay.find(key, incarnation) != nullptr ||
                    start.claims.contains({key, incarnation})) {
                    known.push_back({.key = key,
                                     .incarnation = incarnation,
                                     .directory = std::move(directory),
                                     .options = shard::partition_options(topic.options.values)});
                }
            }
        }
    }
    return known;
}

/// Files of a partition that no start opens.
Task<void> scan_unopened(Context& context, const storage::Trash& trash, const Start& start,
                         const FoundPartition& found) {
    const Result<std::optional<Incarnation>> incarnation =
        co_await storage::read_incarnation(context.real(), found.directory);
    const std::optional<Incarnation> life = incarnation.value_or(std::nullopt);
    if (start.accepted) {
        const bool ended = life.has_value() && trash.is_retired(found.key, *life);
        context.report.add(
            {.severity = ended ? Severity::kNote : Severity::kDamage,
             .file = context.short_name(found.directory),
             .byte = {},
             .offsets = {},
             .what = ended ? "left by a deletion"
                           : "files of a partition that the metadata does not know",
             .start = ended ? "" : "serves nothing of it",
             .remedy =
                 ended ? "" : "restore the metadata directory that knows it, or move it away"});
    }
    const Cuts none;
    ++context.report.counts.partitions;
    tell_files_of_partition(context, found.directory);
    co_await scan_partition(context, found.directory, found.key, life, none);
}

/// A copy of the superblock or of the metadata log that is not whole: the step of the start that
/// heals them, on the real files.
Task<void> repair_metadata(Context& context, LogTaker& log) {
    metadata::PartitionStatsRegistry stats;
    storage::Trash trash(context.options.path + "/trash");
    const std::string directory = context.options.path + "/metadata";
    storage::OrRefusal<shard::RecoveredMetadata> found =
        co_await shard::recover_metadata(context.real(), context.loop.ready(),
                                         {.directory = directory,
                                          .identity = {},
                                          .required_by = "the check of a moment ago",
                                          .tail_ops_max = context.options.journal_slots},
                                         context.options.state, stats, trash);
    if (found.has_value()) {
        co_await found->files->close();
    }
    (void)log.take();
    context.report.add({.severity = found.has_value() ? Severity::kNote : Severity::kDamage,
                        .file = context.short_name(directory),
                        .byte = {},
                        .offsets = {},
                        .what = found.has_value()
                                    ? "repaired: copies are written anew as a start does it"
                                    : "cannot be repaired: " + found.error().text});
}

}  // namespace

void Context::tell_progress(std::string_view where) {
    const Instant now = real().now();
    if (now < next_line_at) {
        return;
    }
    const bool is_first = next_line_at == Instant{0};
    next_line_at = now.plus(kProgressNs);
    if (!is_first && progress) {
        progress(std::format("{} partitions, {} segments, {} MB so far; at {}",
                             report.counts.partitions, report.counts.segments,
                             report.counts.bytes / 1'000'000, short_name(where)));
    }
}

Task<void> check_directory(runtime::Loop& loop, OverlayBackend& io, memory::BufferPool& pool,
                           Options options, Report& report, Progress progress) {
    Context context{.loop = loop,
                    .overlay = io,
                    .pool = pool,
                    .options = std::move(options),
                    .report = report,
                    .progress = std::move(progress)};
    LogTaker log;
    metadata::PartitionStatsRegistry stats;
    storage::Trash trash(context.options.path + "/trash");
    Start start;
    context.tell_progress("metadata");
    co_await scan_metadata(context);
    const std::uint64_t superblock_mends = report.count(Severity::kMends);
    co_await start_dry(context, log, stats, trash, start);
    if (context.options.repair && start.accepted &&
        (start.has_metadata_repairs || superblock_mends != 0)) {
        co_await repair_metadata(context, log);
    }
    tell_other_files(context);
    std::set<PartitionKey> opened;
    if (start.accepted) {
        for (const KnownPartition& partition : known_partitions(context, start)) {
            opened.insert(partition.key);
            ++report.counts.partitions;
            Cuts cuts;
            tell_files_of_partition(context, partition.directory);
            co_await open_dry(context, log, trash, start, partition, cuts);
            const Result<std::optional<Incarnation>> life =
                co_await storage::read_incarnation(context.real(), partition.directory);
            co_await scan_partition(context, partition.directory, partition.key,
                                    life.value_or(std::nullopt).value_or(partition.incarnation),
                                    cuts);
            (void)log.take();
            context.tell_progress(partition.directory);
        }
    }
    for (const FoundPartition& found : list_partitions(context)) {
        if (!opened.contains(found.key)) {
            co_await scan_unopened(context, trash, start, found);
        }
    }
}

}  // namespace galgo::check
