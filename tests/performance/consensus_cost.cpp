// galgo-consensus-cost: what a step of a consensus group of one costs, in nanoseconds and calls of
// the allocator. Every batch and every metadata operation of a single node takes two such steps: a
// request becomes a prepare, and its finished append a commit.
//
//   galgo-consensus-cost [LIMIT]    LIMIT: nanoseconds a step at most, 300 when not given
//
// Prints one line a case: how many groups take turns, how many requests each has in flight, and for
// each kind of step the median, the best and the worst of the rounds. Ends with 1 when a median is
// above the limit or a step allocated. Means something in a release build; in any other only the
// allocations do. Not a part of the server, and installed nowhere.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <variant>
#include <vector>

#include "account.hpp"
#include "base/check.hpp"
#include "consensus/replica.hpp"

namespace {

using namespace galgo::consensus;
using galgo::Incarnation;
using galgo::Timestamp;
using Clock = std::chrono::steady_clock;

constexpr double kLimitDefaultNs = 300;
constexpr std::size_t kRounds = 15;
constexpr std::size_t kStepsARound = 400'000;

struct Case {
    std::size_t groups;
    std::uint8_t in_flight;
};
constexpr std::array<Case, 4> kCases{{{.groups = 1, .in_flight = 1},
                                      {.groups = 1, .in_flight = 32},
                                      {.groups = 1000, .in_flight = 1},
                                      {.groups = 1000, .in_flight = 32}}};

/// Nanoseconds a step, one figure a round.
struct Samples {
    std::vector<double> request;
    std::vector<double> done;
};

/// Groups of one that have nothing to wait for, in one pool.
class Groups {
 public:
    explicit Groups(const Case& what) : what_(what) {
        EffectList effects;
        for (std::uint64_t i = 0; i < what.groups; ++i) {
            replicas_.push_back(
                std::make_unique<Replica>(pool_, options_, GroupId{i}, Incarnation{1}));
            replicas_.back()->step(Boot{}, effects);
        }
        prepares_.resize(what.groups * what.in_flight);
        turn();  // the pool gets its pipelines
    }

    /// All that the case has in flight goes in and comes out once.
    void turn() {
        EffectList effects;
        const auto start = Clock::now();
        std::size_t at = 0;
        for (std::uint8_t i = 0; i < what_.in_flight; ++i) {
            for (const std::unique_ptr<Replica>& replica : replicas_) {
                ++stamp_;
                effects.clear();
                replica->step(ClientRequest{.token = Token{stamp_},
                                            .wall = Timestamp{stamp_},
                                            .body = BodyDigest{stamp_}},
                              effects);
                const auto* append = std::get_if<Append>(&effects.view().front());
                GALGO_CHECK(append != nullptr);
                prepares_[at++] = append->prepare;
            }
        }
        const auto middle = Clock::now();
        at = 0;
        for (std::uint8_t i = 0; i < what_.in_flight; ++i) {
            for (const std::unique_ptr<Replica>& replica : replicas_) {
                const Prepare& prepare = prepares_[at++];
                effects.clear();
                replica->step(AppendDone{.op = prepare.op,
                                         .identity = prepare.identity,
                                         .status = AppendStatus::kDurable},
                              effects);
                GALGO_CHECK(std::holds_alternative<Commit>(effects.view().front()));
            }
        }
        const auto end = Clock::now();
        request_time_ += middle - start;
        done_time_ += end - middle;
    }

    void round(Samples& samples) {
        const std::size_t turns = std::max<std::size_t>(1, kStepsARound / prepares_.size());
        request_time_ = done_time_ = {};
        for (std::size_t i = 0; i < turns; ++i) {
            turn();
        }
        const auto steps = static_cast<double>(turns * prepares_.size());
        samples.request.push_back(std::chrono::duration<double, std::nano>(request_time_).count() /
                                  steps);
        samples.done.push_back(std::chrono::duration<double, std::nano>(done_time_).count() /
                               steps);
    }

 private:
    const Case what_;
    const ReplicaOptions options_;
    PipelinePool pool_;
    std::vector<std::unique_ptr<Replica>> replicas_;
    std::vector<Prepare> prepares_;
    std::uint64_t stamp_ = 0;
    Clock::duration request_time_{};
    Clock::duration done_time_{};
};

/// Prints them; returns the median.
double print(const char* step, std::vector<double>& nanoseconds) {
    std::ranges::sort(nanoseconds);
    const double median = nanoseconds[nanoseconds.size() / 2];
    std::printf("  %s %6.1f ns (%.1f to %.1f)", step, median, nanoseconds.front(),
                nanoseconds.back());
    return median;
}

}  // namespace

int main(int argc, char** argv) {
    using galgo::performance::t_account;
    const double limit = argc > 1 ? std::atof(argv[1]) : kLimitDefaultNs;
    if (argc > 2 || limit <= 0) {
        std::fputs("usage: galgo-consensus-cost [nanoseconds a step at most]\n", stderr);
        return 1;
    }
    GALGO_CHECK(galgo::performance::allocator_is_watched());
    bool good = true;
    for (const Case& what : kCases) {
        Groups groups(what);
        Samples samples;
        samples.request.reserve(kRounds);
        samples.done.reserve(kRounds);
        t_account.calls = 0;
        t_account.armed = true;
        for (std::size_t i = 0; i < kRounds; ++i) {
            const galgo::performance::Inside inside;
            groups.round(samples);
        }
        t_account.armed = false;
        const std::uint64_t calls = t_account.calls;
        std::printf("groups %4zu in flight %2u", what.groups, unsigned{what.in_flight});
        const double request = print("request", samples.request);
        const double done = print("commit", samples.done);
        std::printf("  allocator calls %llu\n", static_cast<unsigned long long>(calls));
        good = good && request <= limit && done <= limit && calls == 0;
    }
    if (!good) {
        std::printf("more than %.0f ns, or an allocation\n", limit);
    }
    return good ? 0 : 1;
}
