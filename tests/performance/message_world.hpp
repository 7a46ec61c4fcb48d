// MessageWorld: a whole server of two shards and a client on the simulated back end, for counting
// what a message costs. Requests go the way of real ones: frames on a (simulated) socket, the
// dispatcher, the handler, the router and, for a partition of the other shard, the mesh, the
// partition, its log, and back. One request is in flight, as with the published clients.
//
// The connection lives on shard 0. Everything runs on the calling thread, and in virtual time.
// Two differences from the server's threads: the shards share one set of coroutine frame lists,
// and they run in turns, so the mesh never finds its peer asleep at the wrong moment.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "account.hpp"
#include "counting_backend.hpp"
#include "memory/buffer_pool.hpp"
#include "metadata/partition_stats.hpp"
#include "net/tcp_listener.hpp"
#include "observe/metrics.hpp"
#include "runtime/offload.hpp"
#include "runtime_sim/test_world.hpp"
#include "sdk/targets.hpp"
#include "shard/metadata_recovery.hpp"
#include "shard/shard.hpp"
#include "storage/journal_replay.hpp"
#include "storage/metadata_files.hpp"
#include "storage/trash.hpp"
#include "wire/batch.hpp"
#include "wire/codes.hpp"

namespace galgo::performance {

/// Where the partition of a case lives, seen from the connection.
enum class Owner : std::uint8_t { kLocal, kForeign };

/// One way to use the message path.
struct Case {
    std::string name;
    bool poll = false;             ///< else it sends
    std::uint32_t batch_size = 1;  ///< messages in each batch sent (before, when it polls)
    std::uint32_t payload_bytes = 256;
    std::uint32_t poll_count = 1;  ///< messages asked for by a poll
    bool auto_commit = false;      ///< polls "next" and commits what it got
    bool persisted = false;
    Owner owner = Owner::kLocal;
    std::uint32_t warm_up = 0;   ///< requests before the count
    std::uint32_t measured = 0;  ///< requests counted
    std::uint32_t planted = 0;   ///< allocations made on purpose, in turns of the owner's shard
};

struct Cost {
    std::uint64_t requests = 0;
    std::uint64_t messages = 0;
    std::uint64_t allocator_calls = 0;
    std::uint64_t allocator_bytes = 0;
    /// Of those, coroutine frames that did not fit into the lists of coro/frame_pool.hpp.
    std::uint64_t frame_calls = 0;
    std::uint64_t virtual_ns = 0;  ///< below kQuietNs, or housekeeping may have come in between
};

/// After a case begins no housekeeping comes for this long.
inline constexpr std::uint64_t kQuietNs = 900 * kMillisecond;

class MessageWorld {
 public:
    static constexpr std::uint64_t kSeed = 42;

    MessageWorld();
    ~MessageWorld();
    MessageWorld(const MessageWorld&) = delete;
    MessageWorld& operator=(const MessageWorld&) = delete;

    /// Runs the case on a partition of its own. `collect`: callgrind sees the measured part, and
    /// dumps at its end.
    Cost run(const Case& what, bool collect = false);
    /// Nothing but time passes: what the server allocates by itself.
    Cost run_idle(std::uint64_t nanoseconds);
    /// The bracket around one piece of code, as run() opens it around the server.
    template <class Code>
    Cost run_bracketed(Code&& code) {
        arm(false);
        {
            const Inside server;
            code();
        }
        return disarm();
    }

 private:
    using Bytes = std::vector<std::byte>;
    struct Target {
        std::string stream;
        std::uint32_t partition = 0;
    };

    void boot();
    void stop();
    void log_in();
    Target make_partition(const Case& what);
    void pass_housekeeping();
    void call(wire::Operation operation, wire::CommandCode code, ConstBytes body,
              ConstBytes rest = {});
    void fill(Bytes& into);
    template <class Done>
    void turn_until(const Done& done);
    [[nodiscard]] bool is_due(const runtime_sim::Node& node);
    void turn();
    void run_offloaded();
    void arm(bool collect);
    Cost disarm();

    // Order of destruction: the shards before their loops, the loops before their back ends.
    runtime_sim::TestWorld world_;
    runtime_sim::Node* nodes_[2];
    runtime_sim::Node* client_;
    std::unique_ptr<CountingBackend> backends_[2];
    memory::BufferPool pool_;
    shard::ShardMesh mesh_;
    runtime::OffloadQueue offload_;
    metadata::PartitionStatsRegistry stats_;
    storage::JournalReplay replay_;
    storage::Trash trash_;
    observe::Registry metrics_;
    std::unique_ptr<storage::MetadataFiles> metadata_files_;
    std::unique_ptr<shard::MetadataPair> metadata_;
    std::unique_ptr<metadata::ClientTable> clients_;
    shard::NodeFacts facts_;
    shard::DiskRoom disk_room_{256 * kMiB, 0};
    std::unique_ptr<shard::Process> process_;
    std::unique_ptr<net::TcpListener> listener_;
    std::unique_ptr<shard::Shard> shards_[2];

    // The client
    runtime::SocketHandle socket_ = runtime::kNoSocket;
    SessionId session_;
    RequestNumber next_request_{0};
    std::uint32_t topic_count_ = 0;
    Bytes header_;
    Bytes reply_;
    std::size_t reply_size_ = 0;
    ConstBytes payload_;             ///< of the last reply, without its result section
    std::uint32_t planted_[2] = {};  ///< still to be made, by shard
    std::uint64_t frames_before_ = 0;
    Instant armed_at_{0};
};

}  // namespace galgo::performance
