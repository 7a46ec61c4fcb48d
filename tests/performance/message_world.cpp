#include "message_world.hpp"

#include <sys/uio.h>

#include <array>
#include <cstdio>

#include "coro/frame_pool.hpp"
#include "crypto/hash.hpp"
#include "crypto/password.hpp"
#include "metadata/operation.hpp"
#include "model/ids.hpp"
#include "runtime/io_await.hpp"
#include "wire/header.hpp"
#include "wire/message_requests.hpp"
#include "wire/options.hpp"
#include "wire/placement.hpp"
#include "wire/replies.hpp"
#include "wire/reply_decoders.hpp"
#include "wire/requests.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::performance {

using coro::Task;
using runtime_sim::Node;
using wire::CommandCode;
using wire::Operation;

namespace {

constexpr std::uint16_t kShardCount = 2;
constexpr std::uint16_t kPort = 8090;
constexpr const char* kDataPath = "/data";
constexpr const char* kPassword = "secret-of-root";
constexpr const char* kTopic = "topic";
constexpr std::uint32_t kPartitionCount = 16;  // some belong to either shard
constexpr ClientId kClient{7};
/// A checkpoint begins lists anew: the first requests behind it are not counted either.
constexpr std::uint32_t kAfterHousekeeping = 3;

Task<Status> make_directories(runtime::IoBackend& io) {
    for (const char* name : {"/state", "/metadata", "/trash", "/streams"}) {
        GALGO_CO_TRY(co_await runtime::make_directories(io, std::string(kDataPath) + name));
    }
    co_return Status{};
}

using Recovered = storage::OrRefusal<shard::RecoveredMetadata>;

Task<Status> add_root(shard::MetadataPlane& plane, std::string hash) {
    GALGO_CO_TRY(co_await plane.propose_own(metadata::make_create_root("iggy", hash)));
    co_return co_await plane.propose_own(
        metadata::make_reset_sessions(metadata::kSessionsMaxDefault));
}

Task<std::int32_t> connect(runtime::IoBackend& io, std::string ip) {
    const runtime::SocketAddress address{.ip = std::move(ip), .port = kPort};
    co_return co_await runtime::io_await([&](runtime::IoOp& op) { io.connect(op, address); });
}

/// An operation of the client: no coroutine, so that it takes no frame from the lists.
struct ClientOp : runtime::IoOp {
    ClientOp() {
        complete = [](runtime::IoOp& op, std::int32_t value) noexcept {
            auto& self = static_cast<ClientOp&>(op);
            self.result = value;
            self.done = true;
        };
    }
    bool done = false;
    std::int32_t result = 0;
};

iovec part_of(ConstBytes bytes) {
    return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

template <class Body>
std::vector<std::byte> encoded(const Body& body) {
    ByteWriter writer;
    body.encode(writer);
    return std::move(writer).take();
}

std::vector<std::byte> make_batch(const Case& what) {
    const std::vector<std::byte> payload(what.payload_bytes, std::byte{0x5A});
    wire::BatchBuilder builder;
    builder.reset(1);
    for (std::uint32_t i = 0; i < what.batch_size; ++i) {
        builder.add({.id = i + 1, .timestamp_us = 1, .payload = payload});
    }
    const ConstBytes bytes = builder.finish();
    return {bytes.begin(), bytes.end()};
}

void expect(bool fine, const char* what, const std::string& where) {
    if (!fine) {
        std::fprintf(stderr, "message world: %s (%s)\n", what, where.c_str());
        std::abort();
    }
}

}  // namespace

MessageWorld::MessageWorld()
    : world_(kSeed),
      nodes_{&world_.add_node(), nullptr},
      pool_({.budget_bytes = 512 * kMiB, .shard_count = kShardCount}),
      mesh_({.shard_count = kShardCount}),
      offload_(kShardCount, 16, [this](ShardIndex shard) { nodes_[shard.value()]->io->wake_up(); }),
      trash_(std::string(kDataPath) + "/trash"),
      header_(wire::kHeaderSize),
      reply_(8 * kMiB) {
    nodes_[1] = &world_.add_shard(*nodes_[0]);
    client_ = &world_.add_node();
    for (std::size_t i = 0; i < kShardCount; ++i) {
        backends_[i] = std::make_unique<CountingBackend>(*nodes_[i]->io);
        nodes_[i]->loop = std::make_unique<runtime::Loop>(*backends_[i], runtime::LoopOptions{});
        nodes_[i]->loop->add_turn_start([this, i] {
            run_offloaded();
            if (planted_[i] != 0 && t_account.armed) {
                --planted_[i];
                void* memory = ::operator new(64);
                asm volatile("" : : "g"(memory) : "memory");
                ::operator delete(memory);
            }
            return false;
        });
    }
    offload_.stop();  // nobody waits in it: run_worker() does what is there and returns
    expect(allocator_is_watched(), "the allocator cannot be watched", "");
    boot();
    log_in();
}

MessageWorld::~MessageWorld() {
    stop();
}

/// As server/node.cpp does it, without its threads.
void MessageWorld::boot() {
    Node& first = *nodes_[0];
    runtime::IoBackend& io = *backends_[0];
    expect(world_.run(first, make_directories(io)).has_value(), "directories", "");
    Recovered metadata = world_.run(
        first, shard::recover_metadata(
                   io, first.queue(),
                   {.directory = std::string(kDataPath) + "/metadata", .identity = {.salt = 1}}, {},
                   stats_, trash_));
    expect(metadata.has_value(), "metadata files", "");
    clients_ = std::move(metadata->clients);
    metadata_files_ = std::move(metadata->files);
    Result<storage::JournalReplay> replay =
        world_.run(first, storage::replay_journals(io, std::string(kDataPath) + "/state"));
    expect(replay.has_value(), "journals", "");
    replay_ = *std::move(replay);
    metadata_ = std::make_unique<shard::MetadataPair>(
        kShardCount, shard::MetadataCopy{.state = std::move(metadata->state), .registry = &stats_});
    facts_.server_version = "message world";
    facts_.data_path = kDataPath;
    process_ = std::make_unique<shard::Process>(shard::Process{.pool = pool_,
                                                               .mesh = mesh_,
                                                               .metadata = *metadata_,
                                                               .clients = *clients_,
                                                               .offload = offload_,
                                                               .node = facts_,
                                                               .disk_room = disk_room_,
                                                               .data_path = kDataPath,
                                                               .trash = trash_,
                                                               .replay = &replay_});
    // Times are recorded as in the server; all into one histogram, which nobody reads.
    observe::Histogram& times =
        metrics_.histogram({"world_seconds", "Times."}, observe::HistogramUnit::kNanoseconds, {});
    process_->times.assign(kShardCount, {.partition_commit = &times,
                                         .metadata_commit = &times,
                                         .journal_sync = &times,
                                         .segment_sync = &times});
    for (std::uint16_t i = 0; i < kShardCount; ++i) {
        set_this_shard(ShardIndex{i});
        shards_[i] = std::make_unique<shard::Shard>(*process_, ShardIndex{i}, *nodes_[i]->loop,
                                                    i == 0 ? metadata_files_.get() : nullptr);
        world_.run(*nodes_[i], shards_[i]->start());
        expect(shards_[i]->recovered(), "start of a shard", "");
    }
    // Once a process: it costs more than many a case.
    static const Result<std::string> hash = crypto::hash_password(kPassword);
    expect(hash.has_value() && world_.run(first, add_root(*shards_[0]->plane(), *hash)).has_value(),
           "root", "");
    listener_ = std::make_unique<net::TcpListener>(*first.loop);
    const Status listening = world_.run(first, listener_->listen({.ip = first.ip, .port = kPort}));
    expect(listening.has_value(), "listen", "");
    set_this_shard(ShardIndex{0});
    listener_->start([this](runtime::SocketHandle socket, runtime::SocketAddress) {
        shards_[0]->place_connection(ShardIndex{0}, socket,
                                     {.id = model::ConnectionId{1}, .peer = "client"});
    });
}

void MessageWorld::stop() {
    client_->io->close_socket(socket_);
    world_.run_for(10 * kMillisecond);
    world_.run(*nodes_[0], listener_->stop());
    const bool clean = world_.run(*nodes_[0], shards_[0]->stop_all());
    expect(clean, "stop", "");
    world_.run(*nodes_[0], metadata_files_->close());
    world_.run_for(100 * kMillisecond);  // files that were let go of are closed in the background
    listener_.reset();
    for (std::uint16_t i = 0; i < kShardCount; ++i) {
        set_this_shard(ShardIndex{i});
        metadata_->park(ShardIndex{i});
        shards_[i].reset();
        pool_.stop_shard();
        nodes_[i]->loop = std::make_unique<runtime::Loop>(*nodes_[i]->io, runtime::LoopOptions{});
        backends_[i].reset();
    }
    set_this_shard(ShardIndex{0});
}

void MessageWorld::log_in() {
    const std::int32_t socket = world_.run(*client_, connect(*client_->io, nodes_[0]->ip));
    expect(socket >= 0, "connect", "");
    socket_ = runtime::SocketHandle{socket};
    call(Operation::kRegister, {},
         encoded(wire::LoginRequest{.prefix = {.protocol_version = wire::kProtocolVersion,
                                               .sdk_name = "world",
                                               .sdk_version = "1"},
                                    .username = "iggy",
                                    .password = kPassword,
                                    .context = {}}));
    const Result<wire::LoginReply> login = wire::decode_login_reply(payload_);
    expect(login.has_value(), "login", "");
    session_ = login->session;
    next_request_ = RequestNumber{1};
}

/// A stream and a topic, and of its partitions one that belongs to the wanted shard.
MessageWorld::Target MessageWorld::make_partition(const Case& what) {
    Target target{.stream = "stream-" + std::to_string(++topic_count_)};
    call(Operation::kCreateStream, {}, encoded(wire::CreateStreamRequest{.name = target.stream}));
    wire::OptionBlockBuilder builder;
    builder.put_string(wire::kOptionDurability, what.persisted ? "persisted" : "replicated");
    const Bytes block = builder.encode();
    const Result<wire::OptionBlock> options = wire::OptionBlock::parse(block);
    expect(options.has_value(), "options", what.name);
    call(Operation::kCreateTopic, {},
         encoded(wire::CreateTopicRequest{.stream = wire::Identifier::named(target.stream),
                                          .partitions_count = kPartitionCount,
                                          .name = kTopic,
                                          .options = *options}));
    const metadata::State& state = metadata_->read(ShardIndex{0}).state;
    const metadata::Stream* stream = state.find_stream(wire::Identifier::named(target.stream));
    expect(stream != nullptr, "the stream is there", what.name);
    const metadata::Topic* topic = stream->find_topic(wire::Identifier::named(kTopic));
    expect(topic != nullptr, "the topic is there", what.name);
    const ShardIndex owner{static_cast<std::uint16_t>(what.owner == Owner::kLocal ? 0 : 1)};
    while (wire::shard_of(model::pack_partition_key(stream->id, topic->id,
                                                    model::PartitionId{target.partition}),
                          kShardCount) != owner) {
        ++target.partition;
        expect(target.partition < kPartitionCount, "a partition of that shard", what.name);
    }
    return target;
}

Cost MessageWorld::run(const Case& what, bool collect) {
    const Target target = make_partition(what);
    const sdk::PartitionRef partition{.stream = wire::Identifier::named(target.stream),
                                      .topic = wire::Identifier::named(kTopic),
                                      .partition = model::PartitionId{target.partition}};
    sdk::SendTarget to(partition);
    sdk::PollTarget from({.id = wire::Identifier::numbered(1)}, partition);
    const Bytes batch = make_batch(what);
    const auto send = [&] {
        call(Operation::kSendMessages, {}, to.metadata_for(what.batch_size), batch);
    };
    std::uint64_t stored = 0;  // messages in the partition
    std::uint64_t next = 0;    // where the next poll by offset begins
    std::uint64_t polled = 0;
    const auto poll = [&] {
        sdk::PollSpec spec{.strategy = {.kind = wire::PollingKind::kNext},
                           .count = what.poll_count,
                           .auto_commit = what.auto_commit};
        if (!what.auto_commit) {
            next = next + what.poll_count > stored ? 0 : next;
            spec.strategy = {.kind = wire::PollingKind::kOffset, .value = next};
        }
        call(Operation::kNonReplicated, CommandCode::kPollMessages, from.body_for(spec));
        const Result<wire::PollReplyReader> reader = wire::PollReplyReader::begin(payload_);
        expect(reader.has_value() && reader->prefix().messages_count == what.poll_count,
               "a poll gives what it asked for", what.name);
        next += what.poll_count;
        polled += what.poll_count;
    };
    // A log that rests lets go of the memory of its tail: it is as large again after the batches of
    // one flush.
    const std::uint32_t after_housekeeping = what.poll ? kAfterHousekeeping : what.warm_up;
    const std::uint64_t requests = std::uint64_t{what.warm_up} + after_housekeeping + what.measured;
    if (what.poll) {
        const std::uint64_t wanted = requests * what.poll_count;
        // A poll by offset goes round; "next" only goes on.
        const std::uint64_t round = std::uint64_t{what.poll_count} * 64;
        while (stored < (what.auto_commit ? wanted : std::min(wanted, round))) {
            send();
            stored += what.batch_size;
        }
    }
    for (std::uint32_t i = 0; i < what.warm_up; ++i) {
        what.poll ? poll() : send();
    }
    pass_housekeeping();
    for (std::uint32_t i = 0; i < after_housekeeping; ++i) {
        what.poll ? poll() : send();
    }
    planted_[what.owner == Owner::kLocal ? 0 : 1] = what.planted;
    if (collect) {
        callgrind_start();
    }
    arm(collect);
    for (std::uint32_t i = 0; i < what.measured; ++i) {
        what.poll ? poll() : send();
    }
    Cost cost = disarm();
    cost.requests = what.measured;
    cost.messages = std::uint64_t{what.measured} * (what.poll ? what.poll_count : what.batch_size);
    return cost;
}

/// Each shard does its housekeeping once a second, and may allocate then: waits until both have
/// just done it, so that the next second is free of it. When it is, is seen by what it allocates
/// while nothing else happens.
void MessageWorld::pass_housekeeping() {
    Instant last{0};
    const Instant end = world_.clock().now().plus(kSecond + kSecond / 10);
    while (world_.clock().now() < end) {
        const Cost cost = run_idle(kMillisecond);
        if (cost.allocator_calls != 0) {
            last = world_.clock().now();
        }
    }
    if (last != Instant{0}) {
        run_idle(last.plus(kSecond + 5 * kMillisecond).value() - world_.clock().now().value());
    }
}

Cost MessageWorld::run_idle(std::uint64_t nanoseconds) {
    arm(false);
    const Instant end = world_.clock().now().plus(nanoseconds);
    runtime::Timer alarm([](runtime::Timer&) noexcept {});  // so that the world has an end to reach
    client_->loop->timers().arm(alarm, end);
    turn_until([&] { return world_.clock().now() >= end; });
    client_->loop->timers().cancel(alarm);
    return disarm();
}

void MessageWorld::arm(bool collect) {
    frames_before_ = coro::frames_allocated_outside_lists();
    armed_at_ = world_.clock().now();
    t_account = {.armed = true, .collect = collect, .trap = t_account.trap};
}

Cost MessageWorld::disarm() {
    t_account.armed = false;
    if (t_account.collect) {
        t_account.collect = false;
        callgrind_dump();
        callgrind_stop();
    }
    return {.allocator_calls = t_account.calls,
            .allocator_bytes = t_account.bytes,
            .frame_calls = coro::frames_allocated_outside_lists() - frames_before_,
            .virtual_ns = world_.clock().now().value() - armed_at_.value()};
}

/// Sends a frame and takes its reply, which must be of status 0; see payload_.
void MessageWorld::call(Operation operation, CommandCode code, ConstBytes body, ConstBytes rest) {
    const bool is_register = operation == Operation::kRegister;
    const bool stamped =
        operation != Operation::kNonReplicated && !wire::is_partition_operation(operation);
    wire::encode_request_header(
        header_, {.size = static_cast<std::uint32_t>(wire::kHeaderSize + body.size() + rest.size()),
                  .operation = operation,
                  .code = code,
                  .client = kClient,
                  .session = session_,
                  .request = is_register ? RequestNumber{0} : next_request_,
                  .request_checksum = stamped ? u128{crypto::xxh3_64(body)} : u128{0}});
    if (operation != Operation::kNonReplicated && !is_register) {
        next_request_ = next_request_.next();
    }
    const std::array<iovec, 3> parts{part_of(header_), part_of(body), part_of(rest)};
    ClientOp sent;
    client_->io->send(sent, socket_, std::span(parts).first(rest.empty() ? 2 : 3));
    turn_until([&] { return sent.done; });
    const std::size_t size = wire::kHeaderSize + body.size() + rest.size();
    expect(sent.result == static_cast<std::int32_t>(size), "send", std::to_string(sent.result));
    reply_size_ = wire::kHeaderSize;
    fill(reply_);
    const Result<wire::ReplyHeader> header =
        wire::decode_reply_header(ConstBytes(reply_).first(wire::kHeaderSize));
    expect(header.has_value(), "a reply", std::to_string(static_cast<int>(operation)));
    expect(header->status == ErrorCode::kOk, "a reply of status 0",
           std::to_string(static_cast<int>(header->status)));
    reply_size_ = header->body_size();
    expect(reply_size_ <= reply_.size(), "a reply that fits", "");
    fill(reply_);
    const Result<ConstBytes> payload =
        wire::reply_payload(*header, ConstBytes(reply_).first(reply_size_));
    expect(payload.has_value(), "a reply that is no rejection",
           payload.has_value() ? "" : to_string(payload.error()));
    payload_ = *payload;
}

/// The next reply_size_ bytes of the connection.
void MessageWorld::fill(Bytes& into) {
    std::size_t filled = 0;
    while (filled < reply_size_) {
        ClientOp received;
        client_->io->receive(received, socket_,
                             MutableBytes(into).subspan(filled, reply_size_ - filled));
        turn_until([&] { return received.done; });
        expect(received.result > 0, "the connection is open", std::to_string(received.result));
        filled += static_cast<std::size_t>(received.result);
    }
}

template <class Done>
void MessageWorld::turn_until(const Done& done) {
    for (std::uint64_t turns = 0; !done(); ++turns) {
        if (turns == runtime_sim::TestWorld::kTurnsMax) {
            world_.fail_hang("too many turns");
        }
        turn();
    }
}

/// Has this shard anything to do? A real one would block otherwise, and its empty turns would be
/// charged to the messages.
bool MessageWorld::is_due(const Node& node) {
    const Instant now = world_.clock().now();
    return !t_account.armed || node.io->next_event() <= now || node.loop->next_wake() <= now ||
           mesh_.port(node.shard).has_work();
}

/// The offload threads are no part of the message path.
void MessageWorld::run_offloaded() {
    if (!t_account.armed) {
        offload_.run_worker(runtime::OffloadLane::kUrgent);
        offload_.run_worker(runtime::OffloadLane::kBackground);
    }
}

/// One turn of each shard that is due, with the bracket open, and one of the client without. When
/// all are at rest time moves on, as in TestWorld::turn.
void MessageWorld::turn() {
    bool worked = false;
    Instant next = runtime_sim::kNever;
    for (Node* node : nodes_) {
        if (is_due(*node)) {
            set_this_shard(node->shard);
            const Inside server;
            worked = node->loop->run_turn() || worked;
        }
        next = std::min(next, node->loop->next_wake());
    }
    set_this_shard(client_->shard);
    worked = client_->loop->run_turn() || worked;
    next = std::min(next, client_->loop->next_wake());
    set_this_shard(ShardIndex{0});
    run_offloaded();
    if (!worked && next > world_.clock().now()) {
        expect(world_.clock().advance_to_event(next), "something is left to happen", "");
    }
}

}  // namespace galgo::performance
