// One run: random operations on the world, each checked against the model at once, with faults and
// crashes; ends at the first difference. A function of its seed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coro/scope.hpp"
#include "model.hpp"
#include "plan.hpp"
#include "plants.hpp"
#include "trace.hpp"
#include "wire/batch.hpp"
#include "world.hpp"

namespace galgo::log_model {

struct RunOptions {
    std::uint64_t seed = 1;
    std::uint64_t operations = 10'000;
    Plant plant = Plant::kNone;
    bool log = false;
    /// Failed syncs and losses of power meet in one run.
    bool lost_syncs = false;
};

struct RunResult {
    std::uint64_t operations = 0;
    std::uint64_t trace = 0;
    Difference difference;
    std::array<std::uint64_t, kWeights.size()> counts{};
    std::uint64_t acknowledged = 0;
    std::uint64_t failed = 0;
    std::uint64_t crashes = 0;
    std::uint64_t faults = 0;
    std::uint64_t lost_unstable = 0;  ///< what a loss of power was allowed to take
};

/// A send, as it can be repeated.
struct Sent {
    std::uint64_t serial = 0;
    std::uint32_t count = 0;
    std::uint32_t payload_bytes = 0;
    std::uint64_t origin = 0;
    std::size_t session = 0;
    partitions::Producer producer;
    std::uint64_t base = 0;
    std::uint64_t place = 0;  ///< in the window of its session, counted from the first
};

class Driver : public coro::Anchored {
 public:
    explicit Driver(const RunOptions& options);
    ~Driver();
    RunResult run();

 private:
    static constexpr std::size_t kSessions = 3;
    /// What the sessions of a partition sent since the process, or its life, began.
    struct Sends {
        std::deque<Sent> recent;
        std::array<std::uint64_t, kSessions> placed{};
        std::array<std::uint64_t, kSessions> next_request{};
    };
    enum class Armed : std::uint8_t { kNothing, kShort, kPassing, kError, kSyncError };

    // driver.cpp: operations
    void step(Operation operation);
    [[nodiscard]] Operation draw();
    void append(std::size_t index);
    void burst(std::size_t index);
    void retry(std::size_t index);
    void store_offset(std::size_t index);
    void delete_offset(std::size_t index);
    void flush(std::size_t index);
    void clean(std::size_t index);
    void delete_segments(std::size_t index);
    void purge(std::size_t index);
    void jump();
    void end_session();
    void arm_fault(bool at_boot);
    void heal();
    void stop();
    void crash(runtime_sim::CrashKind kind);
    void crash_somehow();
    [[nodiscard]] bool may_lose_power() const;
    void boot();
    [[nodiscard]] Sent draw_send(std::size_t index);
    [[nodiscard]] memory::BufRef build(const Sent& sent);
    [[nodiscard]] Attempt attempt_of(ConstBytes batch);
    void note_sent(std::size_t index, const Sent& sent, const Result<Offset>& base);
    void note_faults();
    void clear_faults();
    void begin_process();
    [[nodiscard]] partitions::ConsumerKey draw_consumer();
    [[nodiscard]] partitions::RetentionRules rules() const;
    [[nodiscard]] std::uint64_t due_bound(const PartitionModel& model);
    static coro::Task<void> send_one(coro::Anchor<Driver> driver, std::size_t index, Sent sent);

    // laws.cpp
    void poll(std::size_t index);
    void check_poll(std::size_t index, const partitions::PollRequest& request, std::uint64_t from,
                    const partitions::PollResult& result);
    void check_stored(std::size_t index, partitions::ConsumerKey key);
    void check_counters(std::size_t index);
    void scan(std::size_t index, bool& whole);
    void recover(std::size_t index, bool& whole);

    void differ(std::string text);
    void check(Difference found);
    void say(std::string text);
    [[nodiscard]] std::uint64_t wall_now() { return world_.clock().wall_now().value(); }
    [[nodiscard]] PartitionModel& model(std::size_t index) { return models_[index]; }

    RunOptions options_;
    Plan plan_;
    runtime_sim::SimRandom& random_;
    World world_;
    std::vector<PartitionModel> models_;
    std::vector<Sends> sends_;
    std::array<std::uint64_t, kSessions> sessions_{};
    std::uint64_t next_session_ = 1;
    std::uint64_t next_serial_ = 1;
    wire::BatchBuilder builder_;
    std::vector<std::byte> noise_;
    Trace trace_;
    RunResult result_;
    std::optional<Crash> unresolved_;  ///< of a start that did not see everything yet
    Armed armed_ = Armed::kNothing;
    std::uint64_t fault_count_ = 0;
    bool faulty_ = false;    ///< something struck this process: errors are to be expected
    bool poisoned_ = false;  ///< something that does not pass by itself
    bool is_full_ = false;
    bool is_healing_ = false;
    bool sync_failed_ = false;  ///< ever
    std::size_t in_burst_ = 0;
};

}  // namespace galgo::log_model
