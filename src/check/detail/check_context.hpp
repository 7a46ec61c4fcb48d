// What the parts of a check share.
#pragma once

#include <cstdint>
#include <format>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check/check.hpp"
#include "check/finding.hpp"
#include "check/overlay_backend.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "metadata/partition_stats.hpp"
#include "observe/log.hpp"
#include "partitions/partition.hpp"
#include "runtime/loop.hpp"
#include "shard/metadata_recovery.hpp"
#include "storage/journal_replay.hpp"
#include "storage/ledger.hpp"
#include "storage/trash.hpp"

namespace galgo::check {

struct Context {
    runtime::Loop& loop;
    OverlayBackend& overlay;
    memory::BufferPool& pool;
    Options options;
    Report& report;
    Progress progress;
    Instant next_line_at{0};

    [[nodiscard]] runtime::IoBackend& real() const noexcept { return overlay.real(); }
    /// `path` without the data directory in front.
    [[nodiscard]] std::string short_name(std::string_view path) const {
        const std::string& root = options.path;
        return std::string(path.starts_with(root) && path.size() > root.size() &&
                                   path[root.size()] == '/'
                               ? path.substr(root.size() + 1)
                               : path);
    }
    void tell_progress(std::string_view where);
};

/// Lines that the code of a start logged.
struct LoggedLine {
    observe::LogLevel level = observe::LogLevel::kInfo;
    std::string text;
};

/// Takes the lines of the log while it lives; one at a time.
class LogTaker {
 public:
    static constexpr std::size_t kLinesMax = 1000;
    LogTaker();
    LogTaker(const LogTaker&) = delete;
    LogTaker& operator=(const LogTaker&) = delete;
    ~LogTaker();
    /// Those since the last call.
    [[nodiscard]] std::vector<LoggedLine> take() { return std::exchange(lines_, {}); }

 private:
    std::vector<LoggedLine> lines_;
};

// metadata_scan.cpp
/// Copies of the superblock and the snapshots that it names, one by one.
coro::Task<void> scan_metadata(Context& context);

// dry_start.cpp
/// The steps of a start up to its partitions.
struct Start {
    bool accepted = false;
    bool has_metadata_repairs = false;  ///< it would write copies of the metadata anew
    metadata::State state;
    OpNumber head;
    storage::JournalReplay replay;
    storage::LedgerClaims claims;
};
coro::Task<void> start_dry(Context& context, LogTaker& log, metadata::PartitionStatsRegistry& stats,
                           storage::Trash& trash, Start& start);
/// A partition that the metadata knows.
struct KnownPartition {
    PartitionKey key;
    Incarnation incarnation;
    std::string directory;
    partitions::PartitionOptions options{};
};
/// Of a log that a start would cut: where it ends then.
using Cuts = std::map<std::string, std::uint64_t>;
/// Opens it as a start does, and tells what that would change. With Options::repair indexes that it
/// would write anew are written.
coro::Task<void> open_dry(Context& context, LogTaker& log, storage::Trash& trash, Start& start,
                          const KnownPartition& partition, Cuts& cuts);

// changes.cpp
/// What the overlay has is told, with lines that were logged: errors are damage, warnings are what
/// a start mends. `faults`: already told, their text is not told again.
coro::Task<void> tell_changes(Context& context, const std::string& where, Cuts& cuts);
void tell_lines(Context& context, const std::string& where, const std::vector<LoggedLine>& lines,
                const std::vector<std::string>& faults);
/// The first byte in which the file as written differs from the real one, and how many do.
struct Difference {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
};
coro::Task<std::optional<Difference>> compare(Context& context, std::string path);

// repair.cpp
/// Indexes that the overlay has anew, of logs that it left as they are.
coro::Task<void> repair_indexes(Context& context, const KnownPartition& partition);

// partition_scan.cpp
/// Every batch of every segment, and indexes. `incarnation`: empty when nothing says it; then
/// indexes are not looked at.
coro::Task<void> scan_partition(Context& context, std::string directory, PartitionKey key,
                                std::optional<Incarnation> incarnation, const Cuts& cuts);

// other_files.cpp
/// Files that nobody knows, or that were set aside, but for those of partitions.
void tell_other_files(Context& context);
/// The same of one partition's directory.
void tell_files_of_partition(Context& context, const std::string& directory);
/// Directories of partitions on the disk, sorted by name.
struct FoundPartition {
    PartitionKey key;
    std::string directory;
};
[[nodiscard]] std::vector<FoundPartition> list_partitions(Context& context);

}  // namespace galgo::check
