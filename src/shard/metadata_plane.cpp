#include "shard/metadata_plane.hpp"

#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "crypto/hash.hpp"
#include "observe/histogram.hpp"
#include "observe/log.hpp"
#include "wire/prepare.hpp"
#include "wire/replies.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

constexpr std::uint64_t kFullDiskLineNs = 10 * kSecond;
constexpr ShardIndex kMetadataShard{0};

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

MetadataPlane::MetadataPlane(runtime::Loop& loop, MetadataPair& pair, storage::Wal& wal,
                             Options options)
    : loop_(loop),
      pair_(pair),
      wal_(wal),
      options_(std::move(options)),
      group_options_{.pipeline_max = options_.pipeline_max},
      driver_(
          pipelines_, group_options_, consensus::kMetadataGroup, Incarnation{0},
          {.head = {.op = options_.head}, .commit = {}, .last_timestamp = options_.last_timestamp}),
      work_(loop.ready()),
      scope_(loop.ready()) {}

MetadataPlane::~MetadataPlane() = default;

void MetadataPlane::start() {
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
    if (stopping_) {
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
    if (stopping_) {
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
    if (fenced_) {
        co_return ErrorCode::kTransientNotCommitted;
    }
    const Instant began = loop_.io().now();
    if (const Status taken = driver_.admit(in_flight, loop_.wall_now(),
                                           digest_of(in_flight.operation.prepare, admitted));
        !taken.has_value()) {
        co_return taken.error().code;
    }
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
    const Status written = co_await wal_.append(std::move(entry));
    if (!written.has_value() && !fenced_ && wal_.poisoned()) {
        fenced_ = true;
        observe::log_error(
            "metadata", "the metadata log cannot be written; changes are refused until a restart",
            {{"error", to_string(written.error())}});
    }
    driver_.appended(in_flight, written.has_value(), [this](replication::Proposal& proposal) {
        on_commit(static_cast<InFlight&>(proposal));
    });
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
        note_full_disk(written.error());
        co_return ErrorCode::kTransientNotAccepted;  // nothing of it is left: ask again
    }
    // Written or not, nobody knows: the client may ask again and will be told the same.
    co_return ErrorCode::kTransientNotCommitted;
}

/// The client repeats its request: one line for many.
void MetadataPlane::note_full_disk(const Error& error) {
    const Instant now = loop_.now();
    if (now >= next_full_disk_line_at_) {
        next_full_disk_line_at_ = now.plus(kFullDiskLineNs);
        observe::log_error("metadata", "no room for the metadata log; changes are refused for now",
                           {{"error", to_string(error)}});
    }
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
            co_await self.pair_.until_writable(self.loop_);
            self.publish_committed();
        }
        if (self.stopping_ && self.driver_.group().in_flight() == 0) {
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
    pair_.publish();
    for (std::size_t i = 0; i < count; ++i) {
        InFlight& in_flight = *committed_.front();
        committed_.pop_front();
        if (!in_flight.applied.changes.empty() && options_.on_changes) {
            options_.on_changes(in_flight.applied.changes);
        }
        in_flight.settle(ErrorCode::kOk);
    }
}

}  // namespace galgo::shard
