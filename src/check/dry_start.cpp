// The steps of a start, run on the overlay: the same code, in the same order as server/node*.cpp.
#include <algorithm>
#include <array>
#include <format>

#include "check/detail/check_context.hpp"
#include "observe/log_capture.hpp"
#include "partitions/partition_table.hpp"
#include "runtime/io_await.hpp"
#include "shard/start_evidence.hpp"
#include "storage/encryption_file.hpp"
#include "storage/shard_journal.hpp"

namespace galgo::check {

using coro::Task;

namespace {

/// Changes between two snapshots, as a start has it.
constexpr std::uint64_t kSnapshotOps = 512;

void refuse(Context& context, const std::string& file, std::string why) {
    context.report.add({.severity = Severity::kRefusal,
                        .file = context.short_name(file),
                        .byte = {},
                        .offsets = {},
                        .what = std::move(why),
                        .start = "is refused"});
}

void take_line(void* context, observe::LogLevel level, std::string_view, std::string_view message,
               observe::Fields fields) {
    auto& lines = *static_cast<std::vector<LoggedLine>*>(context);
    if (lines.size() == LogTaker::kLinesMax) {
        return;
    }
    std::string text(message);
    for (const observe::Field& field : fields) {
        std::array<char, 2048> buffer;
        const std::size_t size = field.format(buffer.data(), buffer.size());
        std::string_view shown(buffer.data(), size);
        const std::size_t quote = shown.find("=\"");  // read by people: without quotes
        text += ' ';
        if (quote != std::string_view::npos && shown.ends_with('"')) {
            text += shown.substr(0, quote + 1);
            text += shown.substr(quote + 2, shown.size() - quote - 3);
        } else {
            text += shown;
        }
    }
    lines.push_back({.level = level, .text = std::move(text)});
}

/// Without the key everything but the messages themselves can be checked.
Task<void> check_key(Context& context) {
    const Options& options = context.options;
    const std::string path = options.path + "/" + storage::kEncryptionFileName;
    const storage::OrRefusal<void> checked = co_await storage::check_key(
        context.overlay, options.path, options.key, options.is_encrypted);
    if (!checked.has_value()) {
        refuse(context, path, checked.error().text);
    }
}

Task<bool> open_metadata(Context& context, LogTaker& log, metadata::PartitionStatsRegistry& stats,
                         storage::Trash& trash, Start& start) {
    const Options& options = context.options;
    const std::string directory = options.path + "/metadata";
    if (!context.real().file_facts(directory).has_value()) {
        (void)co_await runtime::make_directories(context.overlay, directory);
    }
    const auto files = [&context, &options, &directory](runtime::IoBackend& io) {
        return storage::MetadataFiles::Options{
            .directory = directory,
            .identity = {.salt = 1},
            .required_by = shard::proof_of_entries(
                io, options.path,
                options.path + "/" + options.runtime_folder + "/current_config.toml"),
            .superblock_required_by = shard::proof_of_superblock(io, options.path),
            .tail_ops_max = context.options.journal_slots,
            .snapshot_ops = std::min(kSnapshotOps, context.options.journal_slots / 2)};
    };
    const bool is_new = !context.real().file_facts(directory + "/superblock").has_value();
    storage::OrRefusal<shard::RecoveredMetadata> found = co_await shard::recover_metadata(
        context.overlay, context.loop.ready(), files(context.overlay), options.state, stats, trash);
    tell_lines(context, directory, log.take(), {});
    if (!found.has_value()) {
        refuse(context, directory, found.error().text);
        context.overlay.forget();
        co_return false;
    }
    const std::uint64_t before = context.report.count(Severity::kMends);
    if (is_new) {
        context.report.add({.severity = Severity::kNote,
                            .file = context.short_name(directory),
                            .byte = {},
                            .offsets = {},
                            .what = "no metadata yet",
                            .start = "is the first one of this directory"});
    } else {
        Cuts cuts;
        co_await tell_changes(context, directory, cuts);
    }
    start.has_metadata_repairs = context.report.count(Severity::kMends) != before;
    start.state = std::move(found->state);
    start.head = found->head;
    co_await found->files->close();
    found->files.reset();
    (void)log.take();
    context.overlay.forget();
    co_return true;
}

Task<bool> replay_journals(Context& context, LogTaker& log, storage::Trash& trash, Start& start) {
    const std::string directory = context.options.path + "/state";
    Result<storage::JournalReplay> replay =
        co_await storage::replay_journals(context.overlay, directory, context.options.boot);
    if (!replay.has_value()) {
        refuse(context, directory, "the journals cannot be read: " + to_string(replay.error()));
        co_return false;
    }
    start.replay = *std::move(replay);
    const std::string why = !start.replay.refusal().empty()
                                ? start.replay.refusal()
                                : shard::judge_lives(start.replay, start.state, start.head, trash,
                                                     context.options.path);
    tell_lines(context, directory, log.take(), {why});
    if (!why.empty()) {
        refuse(context, directory, why);
        co_return false;
    }
    start.claims = co_await storage::load_ledgers(context.overlay, directory, context.options.boot);
    std::erase_if(start.claims, [&start](const auto& claim) {  // lives that ended
        const metadata::Partition* row = start.state.find_partition(claim.first.first);
        return row == nullptr || row->incarnation != claim.first.second;
    });
    tell_lines(context, directory, log.take(), {});
    co_return true;
}

}  // namespace

LogTaker::LogTaker() {
    observe::capture_log(take_line, &lines_);
}

LogTaker::~LogTaker() {
    observe::capture_log(nullptr, nullptr);
}

Task<void> start_dry(Context& context, LogTaker& log, metadata::PartitionStatsRegistry& stats,
                     storage::Trash& trash, Start& start) {
    co_await check_key(context);
    const bool known = co_await open_metadata(context, log, stats, trash, start);
    if (known) {
        start.accepted = co_await replay_journals(context, log, trash, start);
    }
    context.overlay.forget();
}

Task<void> open_dry(Context& context, LogTaker& log, storage::Trash& trash, Start& start,
                    const KnownPartition& partition, Cuts& cuts) {
    runtime::IoBackend& io = context.overlay;
    storage::ShardJournal journal(io, context.loop.ready(),
                                  {.directory = context.options.path + "/state",
                                   .epoch = start.replay.next_epoch(),
                                   .first_sequence = start.replay.next_sequence()});
    std::vector<storage::LedgerRow> claims;
    if (const auto claim = start.claims.find({partition.key, partition.incarnation});
        claim != start.claims.end()) {
        claims.push_back(claim->second);
    }
    partitions::PartitionTable table(context.loop, context.pool, journal,
                                     {.data_path = context.options.path,
                                      .trash = trash,
                                      .encryption = context.options.key,
                                      .consumer_offsets_max = context.options.consumer_offsets_max,
                                      .replay = &start.replay,
                                      .claims = std::move(claims)});
    std::vector<std::string> faults;
    {
        const Result<partitions::PartitionHandle> opened =
            co_await table.open(partition.key, partition.incarnation, partition.options,
                                [](const partitions::Counters&) {});
        if (!opened.has_value()) {
            faults.push_back("it cannot be opened: " + to_string(opened.error()));
        }
    }
    for (std::string& fault : table.faults()) {
        faults.push_back(std::move(fault));
    }
    const std::vector<LoggedLine> lines = log.take();
    for (const std::string& fault : faults) {
        context.report.add({.severity = Severity::kDamage,
                            .file = context.short_name(partition.directory),
                            .byte = {},
                            .offsets = {},
                            .what = fault,
                            .start = "the partition takes no messages; what is whole is served"});
    }
    tell_lines(context, partition.directory, lines, faults);
    co_await tell_changes(context, partition.directory, cuts);
    if (context.options.repair && faults.empty()) {
        co_await repair_indexes(context, partition);
    }
    (void)co_await table.close_all();
    co_await journal.close();
    (void)log.take();
    context.overlay.forget();
}

}  // namespace galgo::check
