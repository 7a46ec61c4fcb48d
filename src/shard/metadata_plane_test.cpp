// The metadata plane of one node on a simulated disk: repeated requests, sessions and their fences,
// what a client may have in flight.
#include "shard/metadata_plane.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "memory/buffer_pool.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "shard/metadata_recovery.hpp"
#include "wire/replies.hpp"
#include "wire/requests.hpp"

namespace galgo::shard {
namespace {

using coro::Task;
using wire::EvictionReason;
using wire::Operation;
using E = ErrorCode;

constexpr ShardIndex kShard{0};

ClientId client(std::uint32_t number) {
    return ClientId(u128{number});
}

std::vector<std::byte> rejection(E code) {
    const auto body = wire::rejection_body(code);
    return {body.begin(), body.end()};
}

template <class Request>
std::vector<std::byte> encoded(const Request& request) {
    ByteWriter to;
    request.encode(to);
    return std::move(to).take();
}

std::vector<std::byte> create_stream(std::string_view name) {
    return encoded(wire::CreateStreamRequest{.name = name, .options = {}});
}
std::vector<std::byte> delete_stream(std::string_view name) {
    return encoded(wire::StreamRequest{wire::Identifier::named(name)});
}

/// A node whose root is there, and whose plane serves.
class MetadataPlaneTest : public testing::Test {
 protected:
    explicit MetadataPlaneTest(std::size_t sessions_max = 4)
        : node_(world_.add_node()),
          pool_(memory::PoolOptions{.budget_bytes = 16 * kMiB}),
          sessions_max_(sessions_max) {
        world_.run(node_, runtime::make_directories(*node_.io, "/metadata"));
        node_.disk->sync_all();
        open();
        EXPECT_TRUE(
            world_.run(node_, plane_->propose_own(metadata::make_create_root("iggy", "hash")))
                .has_value());
    }
    ~MetadataPlaneTest() override { close(); }

    void open() {
        trash_ = std::make_unique<storage::Trash>("/trash");
        auto found = world_.run(
            node_, recover_metadata(*node_.io, node_.queue(),
                                    {.directory = "/metadata", .snapshot_ops = snapshot_ops_},
                                    {.sessions_max = sessions_max_}, registry_, *trash_));
        ASSERT_TRUE(found.has_value()) << found.error().text;
        files_ = std::move(found->files);
        world_.run(node_, files_->sweep());
        clients_ = std::move(found->clients);
        pair_ = std::make_unique<MetadataPair>(
            1, MetadataCopy{.state = std::move(found->state), .registry = &registry_});
        pair_->attach(kShard, *node_.loop);
        plane_ = std::make_unique<MetadataPlane>(
            *node_.loop, *pair_, *clients_, *files_,
            MetadataPlane::Options{
                .head = found->head,
                .last_timestamp = found->last_timestamp,
                .on_changes =
                    [this](const std::vector<metadata::Change>& changes) { on_changes(changes); },
                .trash = trash_.get()});
        plane_->start();
    }
    void close() {
        world_.run(node_, plane_->stop());
        world_.run(node_, files_->close());
        world_.kill(node_);
    }
    /// The next life of the process, without what server/ does at a start: sessions stay.
    void restart() {
        end_life();
        open();
    }
    void end_life() {
        close();
        plane_.reset();
        files_.reset();
        pair_.reset();
        world_.restart(node_, runtime_sim::CrashKind::kPower);
    }
    /// What is known of ended lives, as shard.cpp tells it.
    void on_changes(const std::vector<metadata::Change>& changes) {
        for (const metadata::Change& change : changes) {
            changes_.push_back(change);
            if (change.kind == metadata::ChangeKind::kPartitionDeleted ||
                change.kind == metadata::ChangeKind::kPartitionPurged) {
                trash_->note_retired(change.partition, change.incarnation_before);
            }
        }
    }

    [[nodiscard]] const metadata::State& state() const { return pair_->read(kShard).state; }

    struct Asked {
        ClientId client{};
        SessionId session{};
        std::uint64_t request = 0;
        Operation operation = Operation::kNone;
        std::vector<std::byte> body;
        model::UserId user = model::kRootUserId;
        std::optional<metadata::Sealed> sealed{};
        std::uint64_t stamp = 0;
    };
    MetadataCommand command(const Asked& asked) {
        memory::BufRef body = *pool_.acquire(std::max<std::size_t>(asked.body.size(), 1));
        std::ranges::copy(asked.body, body.mutable_bytes().begin());
        return {.operation = asked.operation,
                .client = asked.client,
                .session = asked.session,
                .request = RequestNumber(asked.request),
                .request_checksum = asked.stamp,
                .user = asked.user,
                .body = body.slice(0, asked.body.size()),
                .sealed = asked.sealed};
    }
    MetadataReply ask(const Asked& asked) {
        return world_.run(node_, plane_->submit(command(asked)));
    }
    MetadataReply try_login(ClientId who, model::UserId user = model::kRootUserId) {
        return world_.run(node_, plane_->register_client(who, login_of(user)));
    }
    SessionId login(ClientId who, model::UserId user = model::kRootUserId) {
        const MetadataReply registered = try_login(who, user);
        EXPECT_FALSE(registered.eviction.has_value());
        EXPECT_TRUE(registered.body.empty());
        EXPECT_EQ(registered.commit, registered.op);
        return SessionId(registered.op.value());
    }
    [[nodiscard]] metadata::Login login_of(model::UserId user) const {
        return metadata::login_by_password(*state().users().find(user));
    }
    /// Makes a user with these permissions.
    model::UserId add_user(std::string_view name, const model::Permissions& permissions) {
        const SessionId session = login(client(999));
        const MetadataReply made =
            ask({.client = client(999),
                 .session = session,
                 .request = 1,
                 .operation = Operation::kCreateUser,
                 .body = encoded(wire::CreateUserRequest{.username = name,
                                                         .password = "password",
                                                         .status = wire::UserStatus::kActive,
                                                         .permissions = permissions,
                                                         .options = {}}),
                 .sealed = metadata::Sealed{.password_hash = "hash"}});
        EXPECT_EQ(made.status, E::kOk);
        end_session(client(999), session);
        return state().find_user_by_name(name)->id;
    }
    /// What the log holds. Ends the plane and begins the next life.
    std::vector<wire::PrepareHeader> logged() {
        std::vector<wire::PrepareHeader> headers;
        end_life();
        auto opened =
            world_.run(node_, storage::MetadataFiles::open(
                                  *node_.io, node_.queue(), {.directory = "/metadata"},
                                  [](const storage::SnapshotContents*) -> Status { return {}; },
                                  [&headers](const wire::PrepareHeader& header,
                                             ConstBytes) -> std::expected<void, std::string> {
                                      headers.push_back(header);
                                      return {};
                                  }));
        EXPECT_TRUE(opened.has_value());
        world_.run(node_, (*opened)->close());
        opened->reset();
        open();
        return headers;
    }
    MetadataReply end_session(ClientId who, SessionId session) {
        return world_.run(node_, plane_->end_session(who, session));
    }

    runtime_sim::TestWorld world_{1};
    runtime_sim::Node& node_;
    memory::BufferPool pool_;
    std::size_t sessions_max_;
    std::uint64_t snapshot_ops_ = 512;
    metadata::PartitionStatsRegistry registry_;
    std::unique_ptr<storage::Trash> trash_;
    std::unique_ptr<storage::MetadataFiles> files_;
    std::unique_ptr<metadata::ClientTable> clients_;
    std::unique_ptr<MetadataPair> pair_;
    std::unique_ptr<MetadataPlane> plane_;
    std::vector<metadata::Change> changes_;
};

void expect_same(const MetadataReply& again, const MetadataReply& first) {
    EXPECT_EQ(again.status, first.status);
    EXPECT_EQ(again.eviction, first.eviction);
    EXPECT_EQ(again.drop, first.drop);
    EXPECT_EQ(again.op, first.op);
    EXPECT_EQ(again.commit, first.commit);
    EXPECT_EQ(again.body, first.body);
}

TEST_F(MetadataPlaneTest, ARepeatedRequestGetsTheSameReplyWhateverHappenedSince) {
    const SessionId mine = login(client(1));
    const SessionId others = login(client(2));
    const Asked create{.client = client(1),
                       .session = mine,
                       .request = 1,
                       .operation = Operation::kCreateStream,
                       .body = create_stream("s")};
    Asked twice = create;
    twice.request = 2;
    const MetadataReply created = ask(create);
    const MetadataReply refused = ask(twice);
    EXPECT_EQ(created.commit, created.op);
    EXPECT_EQ(refused.body, rejection(E::kStreamNameAlreadyExists));
    const MetadataReply deleted = ask({.client = client(2),
                                       .session = others,
                                       .request = 1,
                                       .operation = Operation::kDeleteStream,
                                       .body = delete_stream("s")});
    EXPECT_GT(deleted.op, refused.op);
    expect_same(ask(create), created);
    expect_same(ask(twice), refused);
    EXPECT_EQ(state().find_stream(wire::Identifier::named("s")), nullptr) << "executed again";
}

TEST_F(MetadataPlaneTest, RequestNumbersMayHaveGapsAndTheWatermarkDecides) {
    const SessionId session = login(client(1));
    Asked create{.client = client(1),
                 .session = session,
                 .request = 7,
                 .operation = Operation::kCreateStream,
                 .body = create_stream("seven")};
    EXPECT_EQ(ask(create).body.size() > wire::kResultOk.size(), true);
    create.request = 5;
    create.body = create_stream("five");
    EXPECT_EQ(ask(create).body, rejection(E::kRequestAlreadyApplied));
    EXPECT_EQ(state().find_stream(wire::Identifier::named("five")), nullptr);
    for (std::uint64_t request = 8; request < 8 + metadata::kRepliesPerClient; ++request) {
        create.request = request;
        create.body = create_stream("s" + std::to_string(request));
        EXPECT_EQ(ask(create).status, E::kOk);
    }
    create.request = 7;
    create.body = create_stream("seven");
    EXPECT_EQ(ask(create).body, rejection(E::kRequestAlreadyApplied)) << "its reply is gone";
}

TEST_F(MetadataPlaneTest, SessionsFenceTheOlderOnes) {
    Asked create{.client = client(1),
                 .session = SessionId(1),
                 .request = 1,
                 .operation = Operation::kCreateStream,
                 .body = create_stream("s")};
    EXPECT_EQ(ask(create).eviction, EvictionReason::kNoSession);
    const SessionId first = login(client(1));
    const SessionId second = login(client(1));
    EXPECT_GT(second, first);
    create.session = first;
    EXPECT_EQ(ask(create).eviction, EvictionReason::kSessionTooLow);
    create.session = SessionId(second.value() + 1);
    EXPECT_TRUE(ask(create).drop);
    EXPECT_EQ(end_session(client(1), first).status, E::kOk);
    create.session = second;
    EXPECT_EQ(ask(create).status, E::kOk) << "a logout of the old session ends the new one";
    EXPECT_EQ(end_session(client(1), second).status, E::kOk);
    EXPECT_EQ(ask(create).eviction, EvictionReason::kNoSession);
}

TEST_F(MetadataPlaneTest, AFullTableEvictsWhoCommittedLongestAgo) {
    std::vector<SessionId> sessions;
    for (std::uint32_t number = 1; number <= 4; ++number) {
        sessions.push_back(login(client(number)));
    }
    Asked create{.client = client(1),
                 .session = sessions[0],
                 .request = 1,
                 .operation = Operation::kCreateStream,
                 .body = create_stream("s")};
    const MetadataReply created = ask(create);
    changes_.clear();
    login(client(5));
    ASSERT_EQ(changes_.size(), 2U);
    EXPECT_EQ(changes_[0].kind, metadata::ChangeKind::kSessionEnded);
    EXPECT_EQ(changes_[0].client, client(2));
    EXPECT_EQ(changes_[0].session, sessions[1]);
    expect_same(ask(create), created);
    create.client = client(2);
    create.session = sessions[1];
    EXPECT_EQ(ask(create).eviction, EvictionReason::kNoSession);
}

TEST_F(MetadataPlaneTest, ARegisterForTheClientIdOfAnotherUserLeavesItsSessionAlone) {
    const model::UserId mallory = add_user("mallory", {});
    const SessionId session = login(client(1));
    Asked create{.client = client(1),
                 .session = session,
                 .request = 1,
                 .operation = Operation::kCreateStream,
                 .body = create_stream("s")};
    const MetadataReply created = ask(create);
    changes_.clear();
    EXPECT_EQ(try_login(client(1), mallory).eviction, EvictionReason::kSessionError);
    EXPECT_TRUE(changes_.empty());
    EXPECT_EQ(state().sessions().find(client(1))->user, model::kRootUserId);
    expect_same(ask(create), created);
}

TEST_F(MetadataPlaneTest, ATokenIsToldOnce) {
    const SessionId session = login(client(1));
    const Asked create{.client = client(1),
                       .session = session,
                       .request = 1,
                       .operation = Operation::kCreatePersonalAccessToken,
                       .body = encoded(wire::CreateTokenRequest{.name = "laptop", .expiry_us = 0}),
                       .sealed = metadata::Sealed{.token_hash = {std::byte{1}}}};
    const MetadataReply created = ask(create);
    EXPECT_TRUE(std::ranges::equal(created.body, wire::kResultOk));
    // The edge makes another token for the repetition, which nobody will know.
    Asked again = create;
    again.sealed = metadata::Sealed{.token_hash = {std::byte{2}}};
    const MetadataReply refused = ask(again);
    EXPECT_EQ(refused.body, rejection(E::kPersonalAccessTokenAlreadyExists));
    EXPECT_EQ(refused.op, created.op);
    EXPECT_EQ(refused.commit, created.commit);
    EXPECT_TRUE(state().find_token(create.sealed->token_hash).has_value());
    EXPECT_FALSE(state().find_token(again.sealed->token_hash).has_value());
}

// The stamp is a hash of the body, and so of the password: who has the log could try passwords.
TEST_F(MetadataPlaneTest, TheStampOfAPasswordDoesNotEnterTheLog) {
    constexpr std::uint64_t kStamp = 0x1234'5678'9ABC'DEF0;
    const SessionId session = login(client(1));
    Asked asked{.client = client(1),
                .session = session,
                .request = 1,
                .operation = Operation::kCreateUser,
                .body = encoded(wire::CreateUserRequest{
                    .username = "alice", .password = "password", .options = {}}),
                .sealed = metadata::Sealed{.password_hash = "hash", .verified_hash = "hash"},
                .stamp = kStamp};
    const MetadataReply created = ask(asked);
    EXPECT_EQ(created.status, E::kOk);
    expect_same(ask(asked), created);
    asked.operation = Operation::kDeleteStream;
    asked.body = delete_stream("s");
    EXPECT_TRUE(ask(asked).drop) << "another request under its number";

    asked.request = 2;
    asked.operation = Operation::kChangePassword;
    asked.body = encoded(wire::ChangePasswordRequest{.user = wire::Identifier::named("alice"),
                                                     .current_password = "password",
                                                     .new_password = "another"});
    EXPECT_EQ(ask(asked).status, E::kOk);
    asked.request = 3;
    asked.operation = Operation::kCreateStream;
    asked.body = create_stream("s");
    EXPECT_EQ(ask(asked).status, E::kOk);

    std::map<Operation, std::uint64_t> stamps;
    for (const wire::PrepareHeader& header : logged()) {
        stamps[header.operation] = header.request_checksum;
    }
    EXPECT_EQ(stamps.at(Operation::kCreateUser), 0U);
    EXPECT_EQ(stamps.at(Operation::kChangePassword), 0U);
    EXPECT_EQ(stamps.at(Operation::kCreateStream), kStamp) << "the others keep theirs";
}

// Whoever lost its connection asks until the session is ended or cannot be.
TEST_F(MetadataPlaneTest, AFencedLogRefusesTheEndOfASessionForGood) {
    const SessionId session = login(client(1));
    node_.disk->add_fault(
        {.op = runtime_sim::DiskOp::kSync, .path_contains = "journal.wal", .times = 1});
    const MetadataReply failed = end_session(client(1), session);
    EXPECT_TRUE(plane_->fenced());
    EXPECT_EQ(failed.status, E::kIoError) << "the one that met the failure";
    EXPECT_EQ(end_session(client(1), session).status, E::kIoError);
    EXPECT_EQ(ask({.client = client(1),
                   .session = session,
                   .request = 1,
                   .operation = Operation::kCreateStream,
                   .body = create_stream("s")})
                  .body,
              rejection(E::kTransientNotCommitted));
}

TEST_F(MetadataPlaneTest, AFullDiskRefusesTheEndOfASessionForAWhile) {
    const SessionId session = login(client(1));
    node_.disk->set_capacity(node_.disk->used_bytes());
    MetadataReply reply;
    for (std::uint64_t request = 1;
         request < 2000 && reply.body != rejection(E::kTransientNotAccepted); ++request) {
        reply = ask({.client = client(1),
                     .session = session,
                     .request = request,
                     .operation = Operation::kCreateStream,
                     .body = create_stream("s" + std::to_string(request))});
    }
    EXPECT_EQ(reply.body, rejection(E::kTransientNotAccepted));
    EXPECT_EQ(end_session(client(1), session).status, E::kTransientNotAccepted);
    EXPECT_FALSE(plane_->fenced());
    node_.disk->set_capacity(1ULL << 40U);
    for (int second = 0; second < 3;
         ++second) {  // a snapshot and a file of the log are tried again
        plane_->tick();
        world_.run_for(kSecond);
    }
    EXPECT_TRUE(plane_->faults().empty());
    EXPECT_EQ(end_session(client(1), session).status, E::kOk);
}

// A start that could not end the sessions of the last run yet.
TEST_F(MetadataPlaneTest, ClientsThatAreHeldAreToldToAskAgain) {
    const SessionId session = login(client(1));
    const Asked create{.client = client(1),
                       .session = session,
                       .request = 1,
                       .operation = Operation::kCreateStream,
                       .body = create_stream("s")};
    plane_->hold_clients();
    EXPECT_EQ(try_login(client(2)).body, rejection(E::kTransientNotAccepted));
    EXPECT_EQ(ask(create).body, rejection(E::kTransientNotAccepted));
    EXPECT_TRUE(
        world_.run(node_, plane_->propose_own(metadata::make_reset_sessions(8))).has_value());
    plane_->accept_clients();
    EXPECT_EQ(ask(create).eviction, EvictionReason::kNoSession);
    login(client(2));
}

TEST_F(MetadataPlaneTest, APasswordThatChangedSinceItWasVerifiedIsRefused) {
    const model::UserId alice = add_user("alice", {});
    const metadata::Login late = login_of(alice);
    const SessionId root = login(client(1));
    EXPECT_EQ(
        ask({.client = client(1),
             .session = root,
             .request = 1,
             .operation = Operation::kChangePassword,
             .body = encoded(wire::ChangePasswordRequest{.user = wire::Identifier::named("alice"),
                                                         .current_password = "password",
                                                         .new_password = "another"}),
             .sealed = metadata::Sealed{.password_hash = "new", .verified_hash = "hash"}})
            .status,
        E::kOk);
    EXPECT_EQ(world_.run(node_, plane_->register_client(client(2), late)).eviction,
              EvictionReason::kInvalidCredentials);
    login(client(2), alice);
}

// By the log alone, and by a snapshot with the log behind it.
TEST_F(MetadataPlaneTest, ARestartKnowsWhatWasAnsweredAndWhichLivesEnded) {
    for (const std::uint64_t snapshot_ops : {512U, 4U}) {
        SCOPED_TRACE(snapshot_ops);
        snapshot_ops_ = snapshot_ops;
        restart();
        const SessionId session = login(client(1));
        const auto request = [&](std::uint64_t number, Operation operation, auto&& body) {
            return Asked{.client = client(1),
                         .session = session,
                         .request = number,
                         .operation = operation,
                         .body = body};
        };
        const auto stream = wire::Identifier::named("s");
        const auto topic = wire::Identifier::named("t");
        const Asked create = request(1, Operation::kCreateStream, create_stream("s"));
        const MetadataReply created = ask(create);
        EXPECT_GT(created.body.size(), wire::kResultOk.size());
        EXPECT_EQ(
            ask(request(2, Operation::kCreateTopic,
                        encoded(wire::CreateTopicRequest{
                            .stream = stream, .partitions_count = 2, .name = "t", .options = {}})))
                .status,
            E::kOk);
        changes_.clear();
        ask(request(3, Operation::kPurgeTopic, encoded(wire::TopicRequest{stream, topic})));
        ask(request(4, Operation::kDeletePartitions,
                    encoded(wire::PartitionsRequest{stream, topic, 1})));
        ask(request(
            5, Operation::kUpdateStream,
            encoded(wire::UpdateStreamRequest{.stream = stream, .name = "new", .options = {}})));
        std::vector<storage::Trash::Life> ended;
        for (const metadata::Change& change : changes_) {
            if (change.kind == metadata::ChangeKind::kPartitionPurged ||
                change.kind == metadata::ChangeKind::kPartitionDeleted) {
                ended.emplace_back(change.partition, change.incarnation_before);
            }
        }
        EXPECT_EQ(ended.size(), 3U);
        restart();
        EXPECT_EQ(files_->loaded_snapshot_op() > OpNumber{0}, snapshot_ops == 4);
        expect_same(ask(create), created);
        for (const auto& [partition, incarnation] : ended) {
            EXPECT_TRUE(trash_->is_retired(partition, incarnation));
            // It began before the snapshot and nobody knows it: that proves nothing.
            EXPECT_FALSE(trash_->is_retired(partition, Incarnation(1)));
        }
        ask(request(6, Operation::kDeleteStream, delete_stream("new")));
        end_session(client(1), session);
    }
}

struct Two {
    MetadataReply first;
    MetadataReply second;
};
template <class First, class Second>
Task<Two> together(First first, Second second) {
    auto [a, b] = co_await coro::all(first(), second());
    co_return Two{.first = std::move(a), .second = std::move(b)};
}

/// What is refused while another operation of the client is on its way.
class InFlightTest : public MetadataPlaneTest {
 protected:
    Task<MetadataReply> create(std::uint64_t request) {
        return plane_->submit(command({.client = client(1),
                                       .session = session_,
                                       .request = request,
                                       .operation = Operation::kCreateStream,
                                       .body = create_stream("s" + std::to_string(request))}));
    }
    Task<MetadataReply> log_in(std::uint32_t number) {
        return plane_->register_client(client(number), login_of(model::kRootUserId));
    }
    Task<MetadataReply> log_out() { return plane_->end_session(client(1), session_); }
    /// Both begin in the same turn, in this order.
    template <class First, class Second>
    Two run(First first, Second second) {
        return world_.run(node_, together(first, second));
    }
    [[nodiscard]] std::optional<SessionId> epoch() const {
        const metadata::Session* session = state().sessions().find(client(1));
        return session == nullptr ? std::nullopt : std::optional(session->epoch);
    }

    SessionId session_ = login(client(1));
};

TEST_F(InFlightTest, AnotherRequestIsRefused) {
    const Two replies = run([&] { return create(1); }, [&] { return create(2); });
    EXPECT_EQ(replies.first.status, E::kOk);
    EXPECT_EQ(replies.second.body, rejection(E::kTransientNotCommitted));
    EXPECT_EQ(world_.run(node_, create(2)).status, E::kOk);
}

TEST_F(InFlightTest, ALoginIsRefusedAndTheSessionGoesOn) {
    const Two replies = run([&] { return create(1); }, [&] { return log_in(1); });
    EXPECT_EQ(replies.second.body, rejection(E::kTransientNotCommitted));
    EXPECT_EQ(epoch(), session_);
    expect_same(world_.run(node_, create(1)), replies.first);
    EXPECT_TRUE(world_.run(node_, log_in(1)).body.empty());
    EXPECT_GT(epoch(), session_);
}

TEST_F(InFlightTest, ALogoutIsRefusedUntilTheRequestIsAnswered) {
    const Two replies = run([&] { return create(1); }, [&] { return log_out(); });
    EXPECT_EQ(replies.second.status, E::kTransientNotCommitted);
    EXPECT_EQ(epoch(), session_);
    EXPECT_EQ(world_.run(node_, log_out()).status, E::kOk);
    EXPECT_EQ(epoch(), std::nullopt);
}

TEST_F(InFlightTest, NothingIsLetInUnderASessionThatIsAboutToEnd) {
    Two replies = run([&] { return log_out(); }, [&] { return create(1); });
    EXPECT_EQ(replies.first.status, E::kOk);
    EXPECT_EQ(replies.second.body, rejection(E::kTransientNotCommitted));
    EXPECT_EQ(world_.run(node_, create(1)).eviction, EvictionReason::kNoSession);
    session_ = login(client(1));
    replies = run([&] { return log_in(1); }, [&] { return create(1); });
    EXPECT_TRUE(replies.first.body.empty());
    EXPECT_EQ(replies.second.body, rejection(E::kTransientNotCommitted));
    EXPECT_EQ(world_.run(node_, create(1)).eviction, EvictionReason::kSessionTooLow);
    EXPECT_EQ(state().find_stream(wire::Identifier::named("s1")), nullptr);
}

TEST_F(InFlightTest, TwoLoginsOfOneClientComeOneAfterTheOther) {
    const Two same = run([&] { return log_in(1); }, [&] { return log_in(1); });
    EXPECT_TRUE(same.first.body.empty());
    EXPECT_EQ(same.second.body, rejection(E::kTransientNotCommitted));
    EXPECT_EQ(epoch(), SessionId(same.first.op.value()));
    const Two others = run([&] { return log_in(2); }, [&] { return log_in(3); });
    EXPECT_TRUE(others.first.body.empty());
    EXPECT_TRUE(others.second.body.empty());
}

}  // namespace
}  // namespace galgo::shard
