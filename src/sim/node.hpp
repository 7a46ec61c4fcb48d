// One simulated node: the consensus core as the server has it, the metadata state machine and the
// client table as the server has them, on a storage that lives on a simulated disk.
//
// It does what the server's metadata plane does: classify a request, admit it, give it to the core,
// carry out the core's effects in their order, apply what is committed, answer. Between any two
// effects, and between any two disk operations, it may crash (Context::boundary).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/effects.hpp"
#include "consensus/replica.hpp"
#include "metadata/apply.hpp"
#include "metadata/client_table.hpp"
#include "metadata/state.hpp"
#include "sim/checkers.hpp"
#include "sim/clock.hpp"
#include "sim/disk.hpp"
#include "sim/faults.hpp"
#include "sim/model_storage.hpp"
#include "sim/network.hpp"
#include "sim/planted.hpp"
#include "sim/schedule.hpp"
#include "sim/storage_owner.hpp"
#include "sim/swarm.hpp"
#include "sim/trace.hpp"
#include "sim/workload.hpp"

namespace galgo::sim {

/// What the nodes of one run share.
struct Context {
    explicit Context(const Workload& table) : workload(table), network(schedule), checkers(table) {}

    const Workload& workload;
    Schedule schedule;
    Network network;
    Checkers checkers;
    Swarm swarm;
    Bug bug = Bug::kNone;
    FaultCounts faults;
    SimMarkCounts marks;
    consensus::Marks core_marks;
    Trace trace;
    bool log = false;  ///< print every event

    // Crashes at boundaries: every effect and every end of a disk operation is one.
    Random crash_random;
    std::uint64_t boundaries_left = 0;  ///< 0: never
    std::uint32_t crashes_left = 0;
    std::uint64_t restarts = 0;
    std::uint64_t boots_refused = 0;

    void next_boundary_crash() noexcept;
};

enum class NodeStatus : std::uint8_t { kDown, kBooting, kUp, kRefused };

class Node final : public StorageOwner {
 public:
    Node(Context& context, std::uint8_t number);

    void reset();
    // The outside world.
    void boot();
    void tick();
    void on_frame(const Packet& packet);
    void on_request(const ClientMessage& message);
    void on_disk_event();
    void on_wake_event();
    /// A backup is told by its primary of another entry at its commit: it must stop.
    void hear_of_another_commit(bool beside_a_prepare);
    /// While it is down: a new disk takes the place of the old one.
    void lose_disk();
    /// False: it is down already, or must not crash now.
    bool crash(bool power);
    /// May it crash, for what the run still wants to find out?
    [[nodiscard]] bool may_crash() const;

    [[nodiscard]] NodeStatus status() const noexcept { return status_; }
    [[nodiscard]] std::uint32_t life() const noexcept { return life_; }
    [[nodiscard]] bool paused() const noexcept { return paused_; }
    void pause(bool paused) noexcept { paused_ = paused; }
    /// Up, and with a part in the group.
    [[nodiscard]] bool serves() const noexcept;
    /// Up or on its way, and as far as anybody knows it will serve.
    [[nodiscard]] bool may_serve() const noexcept;
    [[nodiscard]] bool needs_operator() const noexcept;
    [[nodiscard]] const consensus::Replica* replica() const noexcept {
        return replica_.has_value() ? &*replica_ : nullptr;
    }
    /// As the primary: the op that it said it cannot give to `peer`, because its log does not give
    /// it; 0: none.
    [[nodiscard]] OpNumber starved(std::uint8_t peer) const noexcept { return starved_[peer]; }
    [[nodiscard]] SectorDisk& disk() noexcept { return disk_; }
    [[nodiscard]] const SectorDisk& disk() const noexcept { return disk_; }
    [[nodiscard]] NodeClock& clock() noexcept { return clock_; }
    [[nodiscard]] const ModelStorage& storage() const noexcept { return storage_; }

    // StorageOwner
    void on_recovered_entry(const LogEntry& entry) override;
    void on_recovered(RecoveryResult result,
                      const std::optional<consensus::SuperblockState>& superblock) override;
    void on_append_done(OpNumber op, consensus::Identity identity, bool durable) override;
    void on_superblock_done(const consensus::SuperblockState& state, bool written) override;
    void on_read_done(OpNumber op, consensus::ReadStatus status, const LogEntry* entry) override;
    void begin_disk_op() override;
    bool disk_op_ended() override;
    void ask_wake() override;

 private:
    static constexpr std::size_t kRing = 256;
    static constexpr std::size_t kSlots = 160;

    struct Slot {
        bool used = false;
        bool own = false;  ///< proposed by the node itself
        ClientMessage message;
        LogEntry entry;
    };

    // node.cpp
    template <class EventType>
    void step(const EventType& event);
    void carry_out(const consensus::EffectList& effects);
    void carry_out_append(const consensus::Append& append);
    void carry_out_send(const consensus::Send& send);
    void carry_out_commit(const consensus::Commit& commit);
    void carry_out_abandon(const consensus::Abandon& abandon);
    void carry_out_reject(const consensus::Reject& reject);
    void boundary(Fault kind);
    [[nodiscard]] const LogEntry* entry_of(OpNumber op) const noexcept;
    void read_from_memory_or_disk(OpNumber op);
    void start_replica(const std::optional<consensus::SuperblockState>& superblock);

    // node_requests.cpp
    void serve_command(const ClientMessage& message);
    void propose(const ClientMessage& message, metadata::LogOperation operation, ConstBytes body,
                 bool own);
    [[nodiscard]] metadata::Admitted register_root() const;
    void propose_own(metadata::LogOperation operation, ConstBytes body);
    void propose_at_start();
    void answer(ClientMessage message, ReplyKind kind);
    Outcome apply(const LogEntry& entry);
    [[nodiscard]] std::uint64_t digest() const;
    void evict_by_local_state();

    Context& context_;
    std::uint8_t number_;
    NodeStatus status_ = NodeStatus::kDown;
    bool paused_ = false;
    std::uint32_t life_ = 0;
    SectorDisk disk_;
    ModelStorage storage_;
    NodeClock clock_;
    Random random_;

    consensus::PipelinePool pool_;
    consensus::ReplicaOptions options_;
    std::optional<consensus::Replica> replica_;
    std::optional<metadata::PartitionStatsRegistry> registry_;
    std::optional<metadata::State> state_;
    std::optional<metadata::ClientTable> clients_;
    OpNumber applied_;
    bool proposed_at_start_ = false;
    bool disk_lost_ = false;

    std::vector<LogEntry> ring_;           ///< by op
    std::vector<LogEntry> recovered_;      ///< while booting
    const LogEntry* incoming_ = nullptr;   ///< beside the frame of this step
    const LogEntry* from_disk_ = nullptr;  ///< what the read of this step brought
    std::vector<Slot> slots_;
    std::vector<std::uint16_t> free_slots_;
    std::array<bool, kClientsMax> in_flight_{};
    std::array<OpNumber, kNodesMax> starved_{};
    std::vector<OpNumber> memory_reads_;
    std::uint64_t ticks_in_life_ = 0;
    Random tick_random_;
};

}  // namespace galgo::sim
