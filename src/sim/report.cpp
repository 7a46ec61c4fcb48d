#include "sim/report.hpp"

#include <algorithm>
#include <format>
#include <iterator>

namespace galgo::sim {
namespace {

/// Branches that nothing leads to here: there is no view before 0 and no view change yet; and a
/// primary that keeps its bounds never overfills a backup (cluster_test.cpp has one that does not).
constexpr consensus::Mark kNotHere[] = {consensus::Mark::kOldViewFrame,
                                        consensus::Mark::kPrepareBackupFull};

constexpr std::uint64_t kPassedAlonePercent = 80;
constexpr std::uint64_t kPassedOfThreePercent = 50;

}  // namespace

void Totals::add(std::uint64_t seed, const RunResult& result) noexcept {
    ++runs;
    ticks += result.ticks;
    if (result.nodes == 1) {
        ++runs_alone;
        ticks_alone += result.ticks;
    }
    passed += result.verdict == Verdict::kPassed ? 1 : 0;
    passed_alone += result.nodes == 1 && result.verdict == Verdict::kPassed ? 1 : 0;
    unavailable += result.verdict == Verdict::kUnavailable ? 1 : 0;
    events += result.events;
    committed += result.committed;
    acknowledged += result.acknowledged;
    trace += (result.trace ^ seed) * 0x9e3779b97f4a7c15U;
}

void Totals::take_counts(const Context& context) noexcept {
    restarts += context.restarts;
    boots_refused += context.boots_refused;
    faults.add(context.faults);
    marks.add(context.marks);
    for (std::size_t i = 0; i < core_marks.size(); ++i) {
        core_marks[i] += context.core_marks.count(static_cast<consensus::Mark>(i));
    }
}

void Totals::add(const Totals& other) noexcept {
    runs += other.runs;
    runs_alone += other.runs_alone;
    passed += other.passed;
    passed_alone += other.passed_alone;
    unavailable += other.unavailable;
    ticks += other.ticks;
    ticks_alone += other.ticks_alone;
    events += other.events;
    committed += other.committed;
    acknowledged += other.acknowledged;
    trace += other.trace;
    restarts += other.restarts;
    boots_refused += other.boots_refused;
    faults.add(other.faults);
    marks.add(other.marks);
    for (std::size_t i = 0; i < core_marks.size(); ++i) {
        core_marks[i] += other.core_marks[i];
    }
}

std::string describe(const Totals& totals, double cpu_seconds) {
    std::string text;
    const auto to = std::back_inserter(text);
    const double rate = cpu_seconds > 0 ? static_cast<double>(totals.ticks) / cpu_seconds : 0;
    std::format_to(to,
                   "runs {} ({} of one node): {} passed ({} of one node), {} ended as unavailable, "
                   "as expected\n"
                   "replica ticks {} ({} of one node), {:.1f} s of CPU, {:.0f} ticks a second\n"
                   "events {}, ops committed {}, requests acknowledged {}, restarts {}, boots "
                   "refused {}\n"
                   "trace {:016x}\n",
                   totals.runs, totals.runs_alone, totals.passed, totals.passed_alone,
                   totals.unavailable, totals.ticks, totals.ticks_alone, cpu_seconds, rate,
                   totals.events, totals.committed, totals.acknowledged, totals.restarts,
                   totals.boots_refused, totals.trace);
    const auto column = [&, line = 0](std::string_view name, std::uint64_t count) mutable {
        std::format_to(to, "  {:<24}{:>12}{}", name, count, ++line % 3 == 0 ? "\n" : "");
    };
    text += "faults\n";
    auto faults = column;
    for (std::size_t i = 0; i < FaultCounts::kSize; ++i) {
        faults(fault_name(i), totals.faults.at(i));
    }
    text += "\nmarks of the core\n";
    auto core = column;
    for (std::size_t i = 0; i < totals.core_marks.size(); ++i) {
        core(consensus::mark_name(static_cast<consensus::Mark>(i)), totals.core_marks[i]);
    }
    text += "\nmarks of storage, clients and nodes\n";
    auto own = column;
    for (std::size_t i = 0; i < SimMarkCounts::kSize; ++i) {
        own(sim_mark_name(i), totals.marks.at(i));
    }
    text += "\n";
    return text;
}

std::string describe_lacking(const Totals& totals, std::uint64_t each) {
    std::string text;
    const auto look = [&](std::string_view name, std::uint64_t count, std::uint64_t least) {
        if (count < least) {
            std::format_to(std::back_inserter(text), "  {}: {} times, wanted {}\n", name, count,
                           least);
        }
    };
    look("restarts", totals.restarts, 10 * each);
    // Unavailability is expected now and then; a failure that hides behind it makes it common.
    look("runs of one node that passed", totals.passed_alone,
         totals.runs_alone * kPassedAlonePercent / 100);
    look("runs of three nodes that passed", totals.passed - totals.passed_alone,
         (totals.runs - totals.runs_alone) * kPassedOfThreePercent / 100);
    for (std::size_t i = 0; i < FaultCounts::kSize; ++i) {
        look(fault_name(i), totals.faults.at(i), each);
    }
    for (std::size_t i = 0; i < totals.core_marks.size(); ++i) {
        const auto mark = static_cast<consensus::Mark>(i);
        if (!std::ranges::contains(kNotHere, mark)) {
            look(consensus::mark_name(mark), totals.core_marks[i], 1);
        }
    }
    for (std::size_t i = 0; i < SimMarkCounts::kSize; ++i) {
        look(sim_mark_name(i), totals.marks.at(i), 1);
    }
    return text;
}

}  // namespace galgo::sim
