#include "shard/metadata_plane.hpp"

#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "base/units.hpp"
#include "crypto/hash.hpp"
#include "metadata/node_snapshot.hpp"
#include "observe/histogram.hpp"
#include "observe/log.hpp"
#include "wire/prepare.hpp"
#include "wire/replies.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

/// Commands that wait for a place in the pipeline; each is of another client.
constexpr std::uint32_t kWaitingMax = 4096;
/// Between a snapshot that failed and the next try.
constexpr std::uint64_t kSnapshotRetryNs = kSecond;
constexpr std::uint64_t kNoRoomLineNs = 10 * kSecond;
constexpr ShardIndex kMetadataShard{0};
static_assert(storage::Trash::kLivesMax <= metadata::kEndedLivesMax);

std::vector<std::byte> rejection(ErrorCode code) {
    const auto body = wire::rejection_body(code);
    return {body.begin(), body.end()};
}

/// Over all that the log entry says besides its place in the log.
consensus::BodyDigest digest_of(const metadata::PrepareView& prepare,
                                const metadata::Admitted& admitted) {
    std::array<std::byte, 64> hashed{};
    const MutableBytes bytes(hashed);
    store<u128>(bytes, 0, prepare.client.value());
    store<std::uint64_t>(bytes, 16, prepare.session.value());
    store<std::uint64_t>(bytes, 24, prepare.request.value());
    store<std::uint64_t>(bytes, 32, static_cast<std::uint64_t>(prepare.request_checksum));
    store<std::uint64_t>(bytes, 40, crypto::xxh3_64(admitted.body));
    store<std::uint64_t>(bytes, 48, admitted.body.size());
    store<std::uint32_t>(bytes, 56, prepare.user.value());
    store<std::uint8_t>(bytes, 60, static_cast<std::uint8_t>(admitted.operation));
    return consensus::BodyDigest(crypto::xxh3_64(bytes));
}

}  // namespace

MetadataPlane::MetadataPlane(runtime::Loop& loop, MetadataPair& pair,
                             metadata::ClientTable& clients, storage::MetadataFiles& files,
                             Options options)
    : loop_(loop),
      pair_(pair),
      clients_(clients),
      files_(files),
      options_(std::move(options)),
      group_options_{.pipeline_max = options_.pipeline_max},
      driver_(
          pipelines_, group_options_, consensus::kMetadataGroup, Incarnation{0},
          {.head = {.op = options_.head}, .commit = {}, .last_timestamp = options_.last_timestamp}),
      work_(loop.ready()),
      places_(loop.ready(), options_.pipeline_max),
      head_(options_.head),
      tail_count_(files.tail_count()),
      applied_count_(files.tail_count()),
      applied_(options_.head),
      applied_timestamp_(options_.last_timestamp),
      tail_moved_(loop.ready()),
      publishable_(loop.ready()),
      scope_(loop.ready()) {}

MetadataPlane::~MetadataPlane() = default;

void MetadataPlane::start() {
    publishable_.set();
    scope_.spawn(publish_loop, coro::Anchor<MetadataPlane>(*this));
}

Task<void> MetadataPlane::stop() {
    stopping_ = true;
    work_.set();
    co_await scope_.close();
}

MetadataReply MetadataPlane::transient(ErrorCode code) const {
    return {.commit = commit(), .body = rejection(code)};
}

Task<MetadataReply> MetadataPlane::submit(MetadataCommand command) {
    if (stopping_ || clients_held_) {
        co_return transient(ErrorCode::kTransientNotAccepted);
    }
    if (clients_in_flight_.contains(command.client)) {
        co_return transient(ErrorCode::kTransientNotCommitted);
    }
    using Verdict = metadata::ClientTable::Verdict;
    const metadata::ClientTable::Classification known =
        clients_.classify(command.client, command.session, command.request,
                          metadata::LogOperation{static_cast<std::uint8_t>(command.operation)},
                          command.request_checksum);
    switch (known.verdict) {
        case Verdict::kExecute:
            break;
        case Verdict::kReplay:
            co_return MetadataReply{.op = known.op,
                                    .commit = known.op,
                                    .body = {known.reply.begin(), known.reply.end()}};
        case Verdict::kApplied:
            co_return transient(ErrorCode::kRequestAlreadyApplied);
        case Verdict::kNoSession:
            co_return MetadataReply{.eviction = wire::EvictionReason::kNoSession};
        case Verdict::kSessionTooLow:
            co_return MetadataReply{.eviction = wire::EvictionReason::kSessionTooLow};
        case Verdict::kDrop:
            co_return MetadataReply{.drop = true};
    }

    Result<metadata::Admitted> admitted =
        metadata::admit(pair_.read(kMetadataShard).state,
                        {.operation = command.operation,
                         .body = command.body.bytes(),
                         .user = command.user,
                         .sealed = command.sealed.has_value() ? &*command.sealed : nullptr,
                         .tokens_per_user_max = options_.tokens_per_user_max});
    if (!admitted.has_value()) {
        co_return MetadataReply{.status = admitted.error().code, .commit = commit()};
    }
    command.body.reset();

    InFlight in_flight(loop_.ready());
    in_flight.operation.prepare = {
        .client = command.client,
        .session = command.session,
        .request = command.request,
        .request_checksum = admitted->keeps_checksum ? command.request_checksum : 0,
        .user = command.user};
    const ErrorCode error = co_await propose_for_client(in_flight, *std::move(admitted));
    if (error != ErrorCode::kOk) {
        co_return transient(error);
    }
    // Its own place, not that of the log's end: the repetition must say the same.
    const OpNumber op = in_flight.operation.prepare.op;
    co_return MetadataReply{.op = op, .commit = op, .body = std::move(in_flight.applied.payload)};
}

Task<MetadataReply> MetadataPlane::register_client(ClientId client, metadata::Login login) {
    if (stopping_ || clients_held_) {
        co_return transient(ErrorCode::kTransientNotAccepted);
    }
    InFlight in_flight(loop_.ready());
    in_flight.operation.prepare = {.client = client, .user = login.user};
    const ErrorCode error = co_await propose_for_client(in_flight, metadata::make_register(login));
    if (error != ErrorCode::kOk) {
        co_return transient(error);
    }
    switch (in_flight.applied.result) {
        case ErrorCode::kOk:
            break;
        case ErrorCode::kInvalidCredentials:
            co_return MetadataReply{.eviction = wire::EvictionReason::kInvalidCredentials};
        case ErrorCode::kInvalidPersonalAccessToken:
            co_return MetadataReply{.eviction = wire::EvictionReason::kInvalidToken};
        default:  // the client id is another user's
            co_return MetadataReply{.eviction = wire::EvictionReason::kSessionError};
    }
    const OpNumber op = in_flight.operation.prepare.op;
    co_return MetadataReply{.op = op, .commit = op};
}

Task<MetadataReply> MetadataPlane::end_session(ClientId client, SessionId session) {
    InFlight in_flight(loop_.ready());
    in_flight.operation.prepare = {.client = client, .session = session};
    const ErrorCode error = co_await propose_for_client(in_flight, metadata::make_logout());
    // A fenced log ends no session before a restart, which ends all: nobody should ask again.
    co_return MetadataReply{
        .status = error != ErrorCode::kOk && fenced_ ? ErrorCode::kIoError : error,
        .op = in_flight.operation.prepare.op,
        .commit = commit()};
}

Task<Status> MetadataPlane::propose_own(metadata::Admitted admitted) {
    if (stopping_) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    InFlight in_flight(loop_.ready());
    in_flight.operation.prepare = {.user = model::kRootUserId};
    const ErrorCode error = co_await propose(in_flight, std::move(admitted));
    if (error != ErrorCode::kOk) {
        co_return fail(error);
    }
    if (in_flight.applied.result != ErrorCode::kOk) {
        co_return fail(in_flight.applied.result);
    }
    co_return Status{};
}

/// A client has one operation on its way at most, Register and Logout among them: what was let in
/// under a session is carried out under it, and the table knows every request before the next one.
Task<ErrorCode> MetadataPlane::propose_for_client(InFlight& in_flight,
                                                  metadata::Admitted admitted) {
    const ClientId client = in_flight.operation.prepare.client;
    if (!clients_in_flight_.insert(client).second) {
        co_return ErrorCode::kTransientNotCommitted;
    }
    const ErrorCode error = co_await propose(in_flight, std::move(admitted));
    clients_in_flight_.erase(client);
    co_return error;
}

/// Takes an admitted operation through the log and waits until it is published.
Task<ErrorCode> MetadataPlane::propose(InFlight& in_flight, metadata::Admitted admitted) {
    if (waiting_count_ >= kWaitingMax) {
        co_return ErrorCode::kTransientNotAccepted;
    }
    ++waiting_count_;
    co_await places_.acquire();
    // A snapshot makes room in the tail, and covers what is published; the place is kept meanwhile.
    while (!fenced_ && !files_.tail_has_room(tail_count_) &&
           (start_snapshot() || applied_count_ != tail_count_)) {
        co_await tail_moved_.wait();
    }
    --waiting_count_;
    // From here to the append nothing suspends: ops enter the log in the order of their numbers.
    if (fenced_ || !has_room(wire::kPrepareHeaderSize + admitted.body.size())) {
        places_.release();
        work_.set();  // stop() may wait for the last one
        if (!fenced_) {
            note_no_room();
        }
        co_return fenced_ ? ErrorCode::kTransientNotCommitted : ErrorCode::kTransientNotAccepted;
    }
    const Instant began = loop_.io().now();
    if (const Status taken = driver_.admit(in_flight, loop_.wall_now(),
                                           digest_of(in_flight.operation.prepare, admitted));
        !taken.has_value()) {
        places_.release();
        work_.set();
        co_return taken.error().code;
    }
    head_ = in_flight.op();
    ++tail_count_;
    metadata::PrepareView& prepare = in_flight.operation.prepare;
    prepare.operation = admitted.operation;
    prepare.op = in_flight.op();
    prepare.timestamp = in_flight.timestamp();
    in_flight.operation.body = std::move(admitted.body);
    wire::PrepareHeader header{
        .operation = static_cast<wire::Operation>(prepare.operation),
        .view = driver_.group().view(),
        .op = prepare.op,
        .commit = commit(),
        .timestamp = prepare.timestamp,
        .client = prepare.client,
        .session = prepare.session,
        .request = prepare.request,
        .request_checksum = static_cast<std::uint64_t>(prepare.request_checksum),
        .user = prepare.user};
    std::vector<std::byte> entry(wire::kPrepareHeaderSize + in_flight.operation.body.size());
    wire::encode_prepare_header(MutableBytes(entry).first(wire::kPrepareHeaderSize), header,
                                in_flight.operation.body);
    std::ranges::copy(in_flight.operation.body, entry.begin() + wire::kPrepareHeaderSize);
    const Status written = co_await files_.wal().append(prepare.op, std::move(entry));
    if (!written.has_value()) {
        --tail_count_;  // only its number is gone
        tail_has_moved();
        if (files_.poisoned()) {
            fence(written.error());
        }
    } else {
        lacks_room_ = false;
    }
    driver_.appended(in_flight, written.has_value(), [this](replication::Proposal& proposal) {
        on_commit(static_cast<InFlight&>(proposal));
    });
    places_.release();
    if (stopping_) {
        work_.set();  // a failed one has nothing to publish, and may be the last that the stop
                      // awaits
    }
    co_await in_flight.settled();
    if (in_flight.outcome() == ErrorCode::kOk) {
        observe::record_time(options_.commit_times, began, loop_.io().now());
        co_return ErrorCode::kOk;
    }
    if (!written.has_value() && !fenced_) {
        note_no_room();
        co_return ErrorCode::kTransientNotAccepted;  // nothing of it is left: ask again
    }
    // Written or not, nobody knows: the client may ask again and will be told the same.
    co_return ErrorCode::kTransientNotCommitted;
}

void MetadataPlane::fence(const Error& error) {
    if (!fenced_) {
        fenced_ = true;
        tail_has_moved();
        observe::log_error("metadata",
                           "the files of the metadata cannot be written; changes are refused until "
                           "a restart",
                           {{"path", files_.directory()}, {"error", to_string(error)}});
    }
}

/// The client repeats its request: one line for many.
void MetadataPlane::note_no_room() {
    lacks_room_ = true;
    const Instant now = loop_.now();
    if (now >= next_room_line_at_ && !stopping_) {
        next_room_line_at_ = now.plus(kNoRoomLineNs);
        observe::log_error(
            "metadata",
            "no room for the metadata log, its next file or snapshot could not be written; changes "
            "are refused until that works, which is tried again",
            {{"path", files_.directory()}, {"head", head_}, {"snapshot", files_.snapshot_op()}});
    }
}

void MetadataPlane::tail_has_moved() noexcept {
    tail_moved_.set();
    tail_moved_.clear();
}

void MetadataPlane::tick() {
    files_.wal().tick();
    (void)start_snapshot();  // one that failed, or one that heals
    if (lacks_room_ && has_room(wire::kPrepareHeaderSize)) {
        lacks_room_ = false;
    }
}

std::vector<std::string> MetadataPlane::faults() const {
    std::vector<std::string> faults;
    if (fenced_) {
        faults.emplace_back("the metadata log cannot be written");
    } else if (clients_held_) {
        faults.emplace_back(
            "the metadata log cannot grow (no room, or its files cannot be made): nobody can log "
            "in");
    } else if (lacks_room_) {
        faults.emplace_back(
            "the metadata log cannot grow (no room, or its files cannot be made): changes are "
            "refused");
    }
    return faults;
}

void MetadataPlane::on_commit(InFlight& in_flight) {
    if (fenced_) {
        in_flight.settle(ErrorCode::kTransientNotCommitted);
        return;
    }
    committed_.push_back(&in_flight);
    work_.set();
}

Task<void> MetadataPlane::publish_loop(coro::Anchor<MetadataPlane> plane) {
    MetadataPlane& self = *plane;
    for (;;) {
        co_await self.work_.wait();
        self.work_.clear();
        while (!self.committed_.empty()) {
            // Asked together, and nothing suspends before the publish.
            while (!self.publishable_.is_set() || !self.pair_.old_copy_free()) {
                co_await self.publishable_.wait();
                co_await self.pair_.until_writable(self.loop_);
            }
            self.publish_committed();
            (void)self.start_snapshot();
        }
        if (self.stopping_ && self.driver_.group().in_flight() == 0 && self.waiting_count_ == 0) {
            co_return;
        }
    }
}

void MetadataPlane::publish_committed() {
    const std::size_t count = committed_.size();
    for (std::size_t i = 0; i < count; ++i) {
        InFlight& in_flight = *committed_[i];
        LoggedOperation operation{.prepare = in_flight.operation.prepare,
                                  .body = std::move(in_flight.operation.body)};
        const metadata::PrepareView prepare = in_flight.operation.prepare;
        in_flight.applied = pair_.apply(std::move(operation));
        if (prepare.operation != metadata::LogOperation::kRegister &&
            prepare.operation != metadata::LogOperation::kLogout) {
            in_flight.applied.payload = metadata::reply_body(prepare.operation, in_flight.applied);
        }
        metadata::record_commit(clients_, prepare, in_flight.applied, in_flight.applied.payload);
    }
    applied_ = committed_.back()->operation.prepare.op;
    applied_count_ += count;
    applied_timestamp_ = committed_.back()->operation.prepare.timestamp;
    pair_.publish();
    tail_has_moved();
    for (std::size_t i = 0; i < count; ++i) {
        InFlight& in_flight = *committed_.front();
        committed_.pop_front();
        if (!in_flight.applied.changes.empty() && options_.on_changes) {
            options_.on_changes(in_flight.applied.changes);
        }
        in_flight.settle(ErrorCode::kOk);
    }
}

/// For one more entry in the log, and for it behind the last snapshot?
bool MetadataPlane::has_room(std::size_t entry_bytes) {
    return files_.tail_has_room(tail_count_) && files_.wal().has_room(entry_bytes);
}

/// Is one being taken, now or already? None is while the last one failed a moment ago.
bool MetadataPlane::start_snapshot() {
    if (!snapshot_running_ && !fenced_ && !stopping_ && loop_.now() >= next_snapshot_at_ &&
        files_.snapshot_due(applied_count_)) {
        snapshot_running_ = true;
        scope_.spawn(take_snapshot, coro::Anchor<MetadataPlane>(*this));
    }
    return snapshot_running_;
}

Task<void> MetadataPlane::settle_snapshot() {
    for (bool running = start_snapshot(); running; running = snapshot_running_) {
        co_await tail_moved_.wait();
    }
}

/// Encodes what is published and installs it. The caller has set snapshot_running_.
Task<void> MetadataPlane::take_snapshot(coro::Anchor<MetadataPlane> plane) {
    MetadataPlane& self = *plane;
    const std::uint64_t covered = self.applied_count_;
    const OpNumber op = self.applied_;
    std::vector<metadata::EndedLife> lives;
    if (self.options_.trash != nullptr) {
        lives = self.options_.trash->retired_lives();
    }
    // Nothing is published before this is encoded: the published copy stays as it is, and so does
    // the client table.
    const auto encode = [&state = self.pair_.read(kMetadataShard).state, &clients = self.clients_,
                         &lives, op, timestamp = self.applied_timestamp_] {
        return storage::seal_snapshot(
            {.op = op,
             .timestamp = timestamp,
             .payload = metadata::encode_node_snapshot(state, clients, lives)});
    };
    Result<storage::SealedSnapshot> sealed = storage::SealedSnapshot{};
    if (self.options_.offload == nullptr) {
        sealed = encode();
    } else {
        // Nothing is published meanwhile: not behind password hashes, nor at their priority.
        self.publishable_.clear();
        sealed = co_await runtime::offload_urgent(*self.options_.offload, encode);
        self.publishable_.set();
    }
    Status status;
    if (sealed.has_value()) {
        status = co_await self.files_.install_snapshot(*std::move(sealed));
    } else {
        status = std::unexpected(sealed.error());
    }
    if (status.has_value()) {
        self.applied_count_ -= covered;
        self.tail_count_ -= covered;
    } else {
        self.next_snapshot_at_ = self.loop_.now().plus(kSnapshotRetryNs);
        observe::log_warn("metadata", "no snapshot of the metadata could be written",
                          {{"op", op}, {"error", to_string(status.error())}});
        if (self.files_.poisoned()) {
            self.fence(status.error());
        }
    }
    self.snapshot_running_ = false;
    self.tail_has_moved();
}

}  // namespace galgo::shard
