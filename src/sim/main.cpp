// galgo-sim: runs of the deterministic simulator. docs/simulator.md
//
// Exit codes: 0 fine, 1 usage, 100 crash or broken assertion, 101 no progress, 102 wrong result,
// 103 not enough of what was asked for with --each. Runs are in processes of their own (--jobs); a
// seed is the same run in any of them.
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <format>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.hpp"
#include "sim/cluster.hpp"
#include "sim/planted.hpp"
#include "sim/report.hpp"

namespace {

using namespace galgo::sim;

constexpr int kUsage = 1;
constexpr int kCrash = 100;
constexpr int kLiveness = 101;
constexpr int kCorrectness = 102;
constexpr int kLacking = 103;
constexpr std::uint8_t kJobsMax = 64;
constexpr long kRunSecondsMax = 60;             ///< of CPU; a run takes less than one
constexpr std::uint64_t kCleanTicks = 300'000;  ///< without a bug, before those with one

struct Options {
    std::uint64_t from = 1;
    std::uint64_t seeds = 1;
    std::uint64_t ticks = 0;
    std::uint64_t each = 0;  ///< how often each kind of fault must have struck; 0: not asked
    std::uint8_t nodes = 0;
    std::uint8_t jobs = 1;
    bool log = false;
    bool twice = false;
    bool quiet = false;
    bool bugs = false;
    const PlantedBug* bug = nullptr;
};

/// What a child process leaves to its parent.
struct Shared {
    Totals totals;
    std::uint64_t ticks = 0;  ///< also of a run that crashed
    std::uint64_t seed = 0;   ///< of the last run
    bool told = false;        ///< its failure is on stderr
    double cpu_seconds = 0;
    std::array<char, 256> failure{};
};

// For the crash hook. One run at a time.
std::array<char, 256> replay_line;
std::size_t replay_size = 0;
Shared* shared = nullptr;
const Cluster* running = nullptr;

// What the build with sanitizers finds is found again by that one. (That of --bug is always one.)
#if defined(GALGO_DEBUG_CHECKS) && !defined(GALGO_PLANTED_BUGS)
constexpr std::string_view kBuild = " --dev";
#else
constexpr std::string_view kBuild = "";
#endif

std::string replay_command(std::uint64_t seed, const Options& options) {
    return std::format("./x sim {}{}{}{}", seed,
                       options.nodes != 0 ? std::format(" --nodes {}", options.nodes) : "",
                       options.bug != nullptr ? std::format(" --bug {}", options.bug->name) : "",
                       kBuild);
}

void on_crash() noexcept {
    if (shared != nullptr && running != nullptr) {
        shared->ticks += running->ticks();
        shared->totals.take_counts(running->context());
        shared->told = true;
    }
    static_cast<void>(!::write(STDERR_FILENO, replay_line.data(), replay_size));
    ::_exit(kCrash);
}

void on_signal(int signal) {
    if (signal == SIGPROF) {
        constexpr std::string_view kText = "a run without an end: ";
        static_cast<void>(!::write(STDERR_FILENO, kText.data(), kText.size()));
    }
    on_crash();
}

/// Counts down by the CPU time of this process; from the beginning with each run.
void set_watchdog() {
    const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = kRunSecondsMax, .tv_usec = 0}};
    ::setitimer(ITIMER_PROF, &timer, nullptr);
}

void prepare_replay(std::uint64_t seed, const Options& options) {
    const auto end = std::format_to_n(replay_line.begin(), replay_line.size(),
                                      "CRASH at seed {}\nAgain: {} --log\n", seed,
                                      replay_command(seed, options));
    replay_size = std::min(static_cast<std::size_t>(end.size), replay_line.size());
}

int code_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::kLiveness:
            return kLiveness;
        case Verdict::kCorrectness:
            return kCorrectness;
        case Verdict::kPassed:
        case Verdict::kUnavailable:
            break;
    }
    return 0;
}

double cpu_seconds() {
    return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

/// One seed; twice when that is asked for, with the same trace.
RunResult run_seed(Cluster& cluster, std::uint64_t seed, const Options& options) {
    const RunOptions run{.bug = options.bug == nullptr ? Bug::kNone : options.bug->bug,
                         .log = options.log,
                         .nodes = options.nodes};
    prepare_replay(seed, options);
    set_watchdog();
    RunResult result = cluster.run(seed, run);
    if (options.twice && code_of(result.verdict) == 0 &&
        cluster.run(seed, run).trace != result.trace) {
        result.verdict = Verdict::kCorrectness;
        result.failure = "the second run of the seed has another trace";
    }
    return result;
}

/// Runs every `options.jobs`-th seed, beginning with number `job`, until one fails, the count is
/// reached or this job's share of the ticks is used up.
int run_job(const Options& options, std::uint8_t job) {
    const Workload workload;
    const auto cluster = std::make_unique<Cluster>(workload);
    running = cluster.get();
    Totals& totals = shared->totals;
    const double begin = cpu_seconds();
    int code = 0;
    for (std::uint64_t i = job; i < options.seeds && code == 0; i += options.jobs) {
        const std::uint64_t seed = options.from + i;
        shared->seed = seed;
        const RunResult result = run_seed(*cluster, seed, options);
        totals.add(seed, result);
        shared->ticks = totals.ticks;
        code = code_of(result.verdict);
        if (code != 0) {
            shared->told = true;
            std::strncpy(shared->failure.data(), result.failure.c_str(),
                         shared->failure.size() - 1);
            std::fputs(std::format("{} at seed {} ({} ticks): {}\nAgain: {} --log\n",
                                   code == kLiveness ? "LIVENESS" : "CORRECTNESS", seed,
                                   result.ticks, result.failure, replay_command(seed, options))
                           .c_str(),
                       stderr);
        }
        if (options.ticks != 0 && totals.ticks >= options.ticks / options.jobs) {
            break;
        }
    }
    totals.take_counts(cluster->context());
    shared->cpu_seconds = cpu_seconds() - begin;
    return code;
}

/// A process that runs one job, because an assertion may end it. -1: there is none.
pid_t start_job(const Options& options, std::uint8_t job, Shared& result, bool silent) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child != 0) {
        return child;
    }
    shared = &result;
    if (silent && std::freopen("/dev/null", "w", stderr) == nullptr) {
        ::_exit(kUsage);
    }
    const int code = run_job(options, job);
    std::fflush(stdout);
    ::_exit(code);
}

/// Ends of its own making keep their code; whatever else ended it, a sanitizer for one, is a crash.
int wait_for(pid_t child) {
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return kCrash;
    }
    const int code = WEXITSTATUS(status);
    return code == 0 || code == kLiveness || code == kCorrectness ? code : kCrash;
}

int run_campaign(const Options& options, Shared* results) {
    std::array<pid_t, kJobsMax> children{};
    for (std::uint8_t job = 0; job < options.jobs; ++job) {
        children[job] = start_job(options, job, results[job], false);
    }
    int code = 0;
    Totals totals;
    double cpu = 0;
    for (std::uint8_t job = 0; job < options.jobs; ++job) {
        const int one = wait_for(children[job]);
        code = code == 0 ? one : code;
        if (one == kCrash && !results[job].told) {
            prepare_replay(results[job].seed, options);
            std::fwrite(replay_line.data(), 1, replay_size, stderr);
        }
        totals.add(results[job].totals);
        cpu += results[job].cpu_seconds;
    }
    if (!options.quiet) {
        std::fputs(describe(totals, cpu).c_str(), stdout);
    }
    if (code == 0 && options.each != 0) {
        const std::string lacking = describe_lacking(totals, options.each);
        if (!lacking.empty()) {
            std::fputs(("LACKING: what this campaign did not see\n" + lacking).c_str(), stderr);
            code = kLacking;
        }
    }
    return code;
}

/// The exit code with which a bug was caught within its ticks; 0 when it was not.
int catch_bug(const PlantedBug& bug, const Options& options, Shared& result) {
#ifndef GALGO_PLANTED_BUGS
    if (bug.mutation.has_value()) {
        std::fputs(std::format("| {:<26} | not in this binary\n", bug.name).c_str(), stdout);
        return kCorrectness;
    }
#endif
    result = {};
    Options one = options;
    one.bug = &bug;
    one.jobs = 1;
    one.seeds = ~std::uint64_t{0};
    one.ticks = bug.ticks_max;
    const int code = wait_for(start_job(one, 0, result, true));
    const std::string_view how =
        code == kCrash ? kByAssertion : std::string_view(result.failure.data());
    const bool seen = code >= kCrash && result.ticks <= bug.ticks_max;
    const bool caught = seen && how.starts_with(bug.caught_by);
    const std::string text = caught ? std::string(how)
                             : seen ? std::format("NOT BY {}: {}", bug.caught_by, how)
                                    : "NOT CAUGHT";
    std::fputs(std::format("| {:<26} | {:>8} | {:>8} | {:>4} | {} |\n", bug.name, result.ticks,
                           bug.ticks_max, code, text)
                   .c_str(),
               stdout);
    return caught ? code : 0;
}

int catch_bugs(const Options& options, Shared& result) {
    std::fputs(std::format("| {:<26} | {:>8} | {:>8} | {:>4} | {} |\n"
                           "| --- | ---: | ---: | ---: | --- |\n",
                           "planted bug", "ticks", "at most", "code", "caught by")
                   .c_str(),
               stdout);
    // A core that fails without a bug would pass for one whose bugs are caught.
    Options clean = options;
    clean.bug = nullptr;
    clean.jobs = 1;
    clean.ticks = kCleanTicks;
    clean.seeds = ~std::uint64_t{0};
    bool all = wait_for(start_job(clean, 0, result, false)) == 0;
    for (const PlantedBug& bug : kPlantedBugs) {
        if (options.bug == nullptr || options.bug == &bug) {
            all = catch_bug(bug, options, result) != 0 && all;
        }
    }
    return all ? 0 : kCorrectness;
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
        if (name == "--log" || name == "--twice" || name == "--quiet" || name == "--bugs") {
            options.log = options.log || name == "--log";
            options.twice = options.twice || name == "--twice";
            options.quiet = options.quiet || name == "--quiet";
            options.bugs = options.bugs || name == "--bugs";
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
        if (name == "--bug") {
            const auto* const found = std::ranges::find(kPlantedBugs, text, &PlantedBug::name);
            if (found == std::end(kPlantedBugs)) {
                return std::nullopt;
            }
#ifndef GALGO_PLANTED_BUGS
            if (found->mutation.has_value()) {
                std::fputs(
                    "that bug is one of the core, and not in this binary: galgo-sim-planted\n",
                    stderr);
                return std::nullopt;
            }
#endif
            options.bug = found;
            continue;
        }
        const auto value = number(text);
        if (!value.has_value()) {
            return std::nullopt;
        }
        if (name == "--seeds" && *value > 0) {
            options.seeds = *value;
        } else if (name == "--ticks" && *value > 0) {
            options.ticks = *value;
            options.seeds = ~std::uint64_t{0} - kJobsMax;
        } else if (name == "--each") {
            options.each = *value;
        } else if (name == "--jobs" && *value >= 1 && *value <= kJobsMax) {
            options.jobs = static_cast<std::uint8_t>(*value);
        } else if (name == "--nodes" && (*value == 1 || *value == 3)) {
            options.nodes = static_cast<std::uint8_t>(*value);
        } else {
            return std::nullopt;
        }
    }
    return options;
}

}  // namespace

int main(int count, char** arguments) {
    const std::optional<Options> options = parse(count, arguments);
    if (!options.has_value()) {
        std::fputs(
            "usage: sim [SEED] [--seeds N] [--ticks N] [--nodes 1|3] [--jobs N] [--twice] [--log]\n"
            "           [--quiet]\n"
            "           [--each N]     each kind of fault N times, each mark once, or code 103\n"
            "           [--bug NAME]   with a planted bug\n"
            "           [--bugs]       each planted bug must be caught (or the one of --bug)\n",
            stderr);
        return kUsage;
    }
    galgo::set_crash_hook(&on_crash);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF}) {
        std::signal(signal, &on_signal);
    }
    void* memory = ::mmap(nullptr, kJobsMax * sizeof(Shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return kUsage;
    }
    auto* results = static_cast<Shared*>(memory);
    std::uninitialized_default_construct_n(results, kJobsMax);
    return options->bugs ? catch_bugs(*options, *results) : run_campaign(*options, results);
}
