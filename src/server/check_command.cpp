#include "server/check_command.hpp"

#include <unistd.h>

#include <cstdio>
#include <format>
#include <memory>
#include <string>
#include <utility>

#include "check/check.hpp"
#include "check/overlay_backend.hpp"
#include "config/encryption_key.hpp"
#include "coro/scope.hpp"
#include "crypto/aead.hpp"
#include "http/response.hpp"
#include "memory/buffer_pool.hpp"
#include "runtime/loop.hpp"
#include "runtime_uring/pinning.hpp"
#include "runtime_uring/probe.hpp"
#include "runtime_uring/uring_backend.hpp"
#include "runtime_uring/uring_group.hpp"
#include "server/boot_number.hpp"
#include "storage/data_directory.hpp"

namespace galgo::server {

using coro::Task;

namespace {

/// The least that a partition with the largest batches needs.
constexpr std::uint64_t kPoolBytes = 1 * kGiB;
/// I/O of a server that was killed a moment ago still holds its lock.
constexpr std::uint32_t kLockWaitMs = 2000;

int cannot_run(const std::string& why) {
    std::fprintf(stderr, "galgo-server check: %s\n", why.c_str());
    return static_cast<int>(check::Verdict::kCannotRun);
}

void append_field(std::string& out, const char* name, const std::string& value) {
    if (!value.empty()) {
        out += std::format(",\"{}\":", name);
        http::append_json_string(out, value);
    }
}

std::string json_of(const check::Report& report, const std::string& path) {
    std::string out = "{\"directory\":";
    http::append_json_string(out, path);
    const check::Counts& counts = report.counts;
    out += std::format(
        ",\"status\":{},\"partitions\":{},\"segments\":{},\"batches\":{},\"messages\":{},"
        "\"bytes\":{},\"refusals\":{},\"damages\":{},\"mends\":{},\"notes\":{},"
        "\"not_listed\":{},\"findings\":[",
        static_cast<int>(report.verdict()), counts.partitions, counts.segments, counts.batches,
        counts.messages, counts.bytes, report.count(check::Severity::kRefusal),
        report.count(check::Severity::kDamage), report.count(check::Severity::kMends),
        report.count(check::Severity::kNote), report.dropped_count());
    bool is_first = true;
    for (const check::Finding& finding : report.findings()) {
        out += std::format("{}{{\"severity\":\"{}\"", is_first ? "" : ",",
                           check::name_of(finding.severity));
        is_first = false;
        append_field(out, "file", finding.file);
        if (finding.byte.has_value()) {
            out += std::format(",\"byte\":{}", *finding.byte);
        }
        if (finding.offsets.has_value()) {
            out += std::format(",\"offset\":{}", finding.offsets->first.value());
            if (finding.offsets->second > finding.offsets->first) {
                out += std::format(",\"offset_end\":{}", finding.offsets->second.value());
            }
        }
        append_field(out, "what", finding.what);
        append_field(out, "start", finding.start);
        append_field(out, "remedy", finding.remedy);
        out += '}';
    }
    return out + "]}";
}

void print(const check::Report& report, const CheckOptions& options) {
    if (options.json) {
        std::printf("%s\n", json_of(report, options.path).c_str());
        return;
    }
    for (const check::Finding& finding : report.findings()) {
        std::printf("%s\n", check::line_of(finding).c_str());
    }
    std::printf("%s\n", check::summary_of(report).c_str());
}

/// One check on a loop of its own; its caller waits for the loop.
struct Job {
    runtime::Loop& loop;
    check::OverlayBackend& overlay;
    memory::BufferPool& pool;
    check::Options options;
    check::Report& report;
};

Task<void> run_job(std::shared_ptr<Job> job) {
    co_await check::check_directory(
        job->loop, job->overlay, job->pool, job->options, job->report,
        [](const std::string& line) { std::fprintf(stderr, "check: %s\n", line.c_str()); });
    job->loop.stop();
}

void check_once(runtime::IoBackend& ring, memory::BufferPool& pool, const check::Options& options,
                check::Report& report) {
    check::OverlayBackend overlay(ring);
    runtime::Loop loop(overlay, {});
    coro::Scope scope(loop.ready());
    scope.spawn(
        run_job,
        std::make_shared<Job>(Job{
            .loop = loop, .overlay = overlay, .pool = pool, .options = options, .report = report}));
    if (!loop.stop_requested()) {
        loop.run();
    }
}

/// Why the directory cannot be repaired; empty: it can.
std::string why_not_repaired(const storage::DataDirectory& directory) {
    if (directory.lock_descriptor() < 0) {
        return "--repair needs the lock of the directory, and " + directory.path() +
               "/LOCK is not there or cannot be locked";
    }
    if (::access(directory.path().c_str(), W_OK) != 0) {
        return "--repair: " + directory.path() + " cannot be written";
    }
    return {};
}

}  // namespace

int run_check(const CheckOptions& given, const config::Config& config) {
    CheckOptions options = given;
    while (options.path.size() > 1 && options.path.ends_with('/')) {
        options.path.pop_back();
    }
    std::expected<storage::DataDirectory, std::string> directory =
        storage::DataDirectory::inspect({.path = options.path, .lock_wait_ms = kLockWaitMs});
    if (!directory.has_value()) {
        return cannot_run(directory.error());
    }
    if (options.repair) {
        if (const std::string why = why_not_repaired(*directory); !why.empty()) {
            return cannot_run(why);
        }
    }
    std::optional<storage::DataKey> key;
    if (config.system.encryption.enabled) {
        const auto decoded = config::decode_encryption_key(config.system.encryption.key);
        if (!decoded.has_value() || !crypto::Aes256Gcm::is_available()) {
            return cannot_run(
                "system.encryption: the key is not base64 of 32 bytes, or the crypto "
                "library refuses AES-256-GCM");
        }
        key.emplace(*decoded);
    }
    if (const Status usable = runtime_uring::probe(); !usable.has_value()) {
        return cannot_run(runtime_uring::explain_setup_failure(usable.error().os_errno));
    }
    runtime_uring::UringGroup rings(1);
    const Status entered = runtime_uring::enter_shard_thread(ShardIndex{0}, std::nullopt);
    Result<std::unique_ptr<runtime_uring::UringBackend>> ring = runtime_uring::UringBackend::create(
        rings, ShardIndex{0},
        {.ring = runtime_uring::ring_options(
             static_cast<std::uint32_t>(config.runtime.ring_capacity))});
    if (!entered.has_value() || !ring.has_value()) {
        return cannot_run(runtime_uring::explain_setup_failure(
            ring.has_value() ? entered.error().os_errno : ring.error().os_errno));
    }
    memory::BufferPool pool({.budget_bytes = kPoolBytes});
    check::Options what{
        .path = options.path,
        .runtime_folder = config.system.runtime_path,
        .log_folder = config.system.logging.path,
        .is_encrypted = directory->is_encrypted(),
        .key = key.has_value() ? &*key : nullptr,
        .journal_slots = config.metadata.journal_slots,
        .state = {.sessions_max = static_cast<std::size_t>(config.metadata.clients_table_max)},
        .consumer_offsets_max = static_cast<std::uint32_t>(config.partition.consumer_offsets_max),
        .boot = directory->is_upgrading() ? 0 : read_boot_number(),  // as a start does
        .repair = options.repair};
    check::Report report;
    const auto add_note = [&](check::Report& to) {
        if (directory->lock_descriptor() < 0) {
            to.add({.severity = check::Severity::kNote,
                    .file = "LOCK",
                    .byte = {},
                    .offsets = {},
                    .what = "it is not there or may not be opened, so the directory is not locked: "
                            "when a server uses it, what is said here is worth nothing"});
        }
        if (directory->is_upgrading()) {
            to.add({.severity = check::Severity::kMends,
                    .file = "FORMAT",
                    .byte = {},
                    .offsets = {},
                    .what = "the directory has a format before this one",
                    .start = "upgrades it; indexes of format 2 are written anew"});
        }
    };
    add_note(report);
    check_once(**ring, pool, what, report);
    if (options.repair) {
        if (!options.json) {
            print(report, options);
            std::printf("after the repair:\n");
        }
        report = {};
        what.repair = false;
        add_note(report);
        check_once(**ring, pool, what, report);
    }
    print(report, options);
    (*ring)->shutdown();
    pool.stop_shard();
    return static_cast<int>(report.verdict());
}

}  // namespace galgo::server
