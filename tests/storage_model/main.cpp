// galgo-log-model: the storage of partitions against a plain vector. docs/storage-model.md
//
// Exit codes: 0 no difference, 1 usage, 100 a crash or a broken assertion, 102 a difference, or a
// planted mistake that was not found. Each run is a function of its seed.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <format>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "driver.hpp"
#include "observe/log.hpp"

namespace {

using namespace galgo::log_model;

constexpr int kUsage = 1;
constexpr int kCrash = 100;
constexpr int kDifference = 102;
constexpr std::uint64_t kOperationsOfARun = 10'000;
constexpr std::uint64_t kPlantOperationsMax = 100'000;
constexpr std::size_t kJobsMax = 64;

struct Options {
    std::uint64_t from = 1;
    std::uint64_t operations = 0;  ///< of all runs together; 0: of one run
    std::uint64_t seeds = 0;       ///< runs; 0: as many as the operations need
    std::uint64_t jobs = 1;
    bool log = false;
    bool quiet = false;
    bool twice = false;
    bool plants = false;
    bool lost_syncs = false;
    Plant plant = Plant::kNone;
    std::string_view plant_name;
};

/// What a child process leaves to its parent.
struct Totals {
    std::uint64_t operations = 0;
    std::uint64_t runs = 0;
    std::uint64_t seed = 0;   ///< of the run in progress, or of the last
    std::uint64_t trace = 0;  ///< sum over the runs: of whatever order
    std::array<std::uint64_t, kWeights.size()> counts{};
    std::uint64_t acknowledged = 0;
    std::uint64_t failed = 0;
    std::uint64_t crashes = 0;
    std::uint64_t faults = 0;
    std::uint64_t lost_unstable = 0;
    double cpu_seconds = 0;

    void add(const RunResult& run) {
        operations += run.operations;
        ++runs;
        trace += run.trace;
        for (std::size_t i = 0; i < counts.size(); ++i) {
            counts[i] += run.counts[i];
        }
        acknowledged += run.acknowledged;
        failed += run.failed;
        crashes += run.crashes;
        faults += run.faults;
        lost_unstable += run.lost_unstable;
    }
    void add(const Totals& other) {
        operations += other.operations;
        runs += other.runs;
        trace += other.trace;
        for (std::size_t i = 0; i < counts.size(); ++i) {
            counts[i] += other.counts[i];
        }
        acknowledged += other.acknowledged;
        failed += other.failed;
        crashes += other.crashes;
        faults += other.faults;
        lost_unstable += other.lost_unstable;
        cpu_seconds += other.cpu_seconds;
    }
};

double cpu_seconds() {
    return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

std::string replay_command(std::uint64_t seed, const Options& options) {
    return std::format(
        "./x model {}{}{} --log", seed, options.lost_syncs ? " --lost-syncs" : "",
        options.plant == Plant::kNone ? "" : std::format(" --plant {}", options.plant_name));
}

RunResult run_seed(std::uint64_t seed, const Options& options) {
    const RunOptions run{.seed = seed,
                         .operations = kOperationsOfARun,
                         .plant = options.plant,
                         .log = options.log,
                         .lost_syncs = options.lost_syncs};
    RunResult result = std::make_unique<Driver>(run)->run();
    if (options.twice && !result.difference.has_value() &&
        std::make_unique<Driver>(run)->run().trace != result.trace) {
        result.difference = "the second run of the seed has another trace";
    }
    return result;
}

int run_job(const Options& options, std::uint64_t job, Totals& totals) {
    const double begin = cpu_seconds();
    int code = 0;
    if (options.log) {
        static_cast<void>(galgo::observe::start_log({}));
    }
    for (std::uint64_t i = job; i < options.seeds && code == 0; i += options.jobs) {
        totals.seed = options.from + i;
        const RunResult result = run_seed(totals.seed, options);
        totals.add(result);
        if (result.difference.has_value()) {
            std::fputs(std::format("DIFFERENCE at seed {}, operation {}: {}\nAgain: {}\n",
                                   totals.seed, result.operations, *result.difference,
                                   replay_command(totals.seed, options))
                           .c_str(),
                       stderr);
            code = kDifference;
        }
    }
    totals.cpu_seconds += cpu_seconds() - begin;
    if (options.log) {
        galgo::observe::stop_log();
    }
    return code;
}

/// In a process of its own, because an assertion may end it.
pid_t start_job(const Options& options, std::uint64_t job, Totals& totals, bool silent) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child != 0) {
        return child;
    }
    if (silent && std::freopen("/dev/null", "w", stderr) == nullptr) {
        ::_exit(kUsage);
    }
    const int code = run_job(options, job, totals);
    std::fflush(stdout);
    ::_exit(code);
}

int wait_for(pid_t child) {
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return kCrash;
    }
    const int code = WEXITSTATUS(status);
    return code == 0 || code == kDifference ? code : kCrash;
}

void print(const Totals& totals) {
    std::string text = std::format(
        "trace {:016x}\n{} operations in {} runs, {:.1f} s of CPU, {:.0f} a second\n"
        "{} sends acknowledged, {} failed; {} faults struck, {} stops and crashes, {} messages "
        "that were not stable lost\n",
        totals.trace, totals.operations, totals.runs, totals.cpu_seconds,
        static_cast<double>(totals.operations) / std::max(totals.cpu_seconds, 0.001),
        totals.acknowledged, totals.failed, totals.faults, totals.crashes, totals.lost_unstable);
    for (std::size_t i = 0; i < kWeights.size(); ++i) {
        text += std::format("  {:<16} {}\n", kWeights[i].name, totals.counts[i]);
    }
    std::fputs(text.c_str(), stdout);
}

int run_campaign(const Options& options, Totals* totals) {
    std::array<pid_t, kJobsMax> children{};
    for (std::uint64_t job = 0; job < options.jobs; ++job) {
        children[job] = start_job(options, job, totals[job], false);
    }
    int code = 0;
    Totals all;
    for (std::uint64_t job = 0; job < options.jobs; ++job) {
        const int one = wait_for(children[job]);
        code = code == 0 ? one : code;
        if (one == kCrash) {
            std::fputs(std::format("CRASH at seed {}\nAgain: {}\n", totals[job].seed,
                                   replay_command(totals[job].seed, options))
                           .c_str(),
                       stderr);
        }
        all.add(totals[job]);
    }
    if (!options.quiet) {
        print(all);
    }
    return code;
}

/// Each planted mistake has to be found, and nothing without one.
int find_plants(const Options& options, Totals& totals) {
    Options one = options;
    one.jobs = 1;
    one.seeds = kPlantOperationsMax / kOperationsOfARun;
    std::fputs(
        std::format("| {:<18} | {:>10} |\n| --- | ---: |\n", "planted", "operations").c_str(),
        stdout);
    // What fails without a plant would pass for one whose plants are found.
    bool all = wait_for(start_job(one, 0, totals, false)) == 0;
    for (const PlantName& plant : kPlants) {
        totals = {};
        one.plant = plant.plant;
        const int code = wait_for(start_job(one, 0, totals, true));
        const bool found = code == kDifference;
        all = all && found;
        std::fputs(std::format("| {:<18} | {:>10} |{}\n", plant.name, totals.operations,
                               found ? "" : " NOT FOUND")
                       .c_str(),
                   stdout);
    }
    return all ? 0 : kDifference;
}

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

std::optional<Options> parse(int count, char** arguments) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string_view name = arguments[i];
        options.log = options.log || name == "--log";
        options.quiet = options.quiet || name == "--quiet";
        options.twice = options.twice || name == "--twice";
        options.plants = options.plants || name == "--plants";
        options.lost_syncs = options.lost_syncs || name == "--lost-syncs";
        if (name == "--log" || name == "--quiet" || name == "--twice" || name == "--plants" ||
            name == "--lost-syncs") {
            continue;
        }
        if (const auto seed = number(name); seed.has_value()) {
            options.from = *seed;
            continue;
        }
        if (++i == count) {
            return std::nullopt;
        }
        const std::string_view text = arguments[i];
        if (name == "--plant") {
            const auto* const found = std::ranges::find(kPlants, text, &PlantName::name);
            if (found == kPlants.end()) {
                return std::nullopt;
            }
            options.plant = found->plant;
            options.plant_name = found->name;
            continue;
        }
        const auto value = number(text);
        if (!value.has_value() || *value == 0) {
            return std::nullopt;
        }
        if (name == "--ops") {
            options.operations = *value;
        } else if (name == "--seeds") {
            options.seeds = *value;
        } else if (name == "--jobs" && *value <= kJobsMax) {
            options.jobs = *value;
        } else {
            return std::nullopt;
        }
    }
    if (options.seeds == 0) {
        options.seeds = std::max<std::uint64_t>(
            1, (options.operations + kOperationsOfARun - 1) / kOperationsOfARun);
    }
    return options;
}

}  // namespace

int main(int count, char** arguments) {
    const std::optional<Options> options = parse(count, arguments);
    if (!options.has_value()) {
        std::fputs(
            "usage: log-model [SEED] [--ops N] [--seeds N] [--jobs N] [--twice] [--log] "
            "[--quiet]\n"
            "       [--lost-syncs]  failed syncs and losses of power meet in one run\n"
            "       [--plant NAME]  with a planted mistake\n"
            "       [--plants]      each planted mistake must be found\n",
            stderr);
        return kUsage;
    }
    void* const memory = ::mmap(nullptr, sizeof(Totals) * kJobsMax, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return kUsage;
    }
    Totals* const totals = new (memory) Totals[kJobsMax];
    return options->plants ? find_plants(*options, totals[0]) : run_campaign(*options, totals);
}
