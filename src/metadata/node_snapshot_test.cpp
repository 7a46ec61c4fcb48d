#include "metadata/node_snapshot.hpp"

#include <random>

#include "crypto/hash.hpp"
#include "gmock/gmock.h"
#include "metadata/client_table_snapshot.hpp"
#include "test_node.hpp"

namespace galgo::metadata::test {
namespace {

using E = ErrorCode;
using O = Operation;

void seal(Bytes& bytes) {
    const std::size_t size = bytes.size() - 8;
    store<std::uint64_t>(bytes, size, crypto::xxh3_64(ConstBytes(bytes).first(size)));
}

/// A node with a topic, a client that made it, and lives that ended.
class NodeSnapshotTest : public testing::Test {
 protected:
    NodeSnapshotTest() {
        node_.login({});
        node_.request(O::kCreateStream, create_stream("s"));
        node_.request(O::kCreateTopic, create_topic(id(0), "t", 3));
        const ApplyOutcome purged = node_.request(O::kPurgeTopic, topic_body(id(0), id(0)));
        for (const Change& change : purged.changes) {
            if (change.kind == ChangeKind::kPartitionPurged) {
                lives_.emplace_back(change.partition, change.incarnation_before);
            }
        }
        EXPECT_EQ(lives_.size(), 3U);
        bytes_ = encode_node_snapshot(node_.state(), node_.table(), lives_);
    }
    [[nodiscard]] static E decoded(const Bytes& bytes) {
        PartitionStatsRegistry registry;
        const Result<NodeSnapshot> got = decode_node_snapshot(bytes, registry);
        return got.has_value() ? E::kOk : got.error().code;
    }

    Node node_;
    std::vector<EndedLife> lives_;
    Bytes bytes_;
};

TEST_F(NodeSnapshotTest, GivesBackAllParts) {
    PartitionStatsRegistry registry;
    const Result<NodeSnapshot> got = decode_node_snapshot(bytes_, registry);
    ASSERT_TRUE(got.has_value());
    got->state.check_invariants();
    EXPECT_EQ(digest(got->state), digest(node_.state()));
    EXPECT_EQ(encode_client_table(*got->clients), encode_client_table(node_.table()));
    EXPECT_EQ(got->clients->client_count(), 1U);
    EXPECT_EQ(got->ended_lives, lives_);
    EXPECT_EQ(encode_node_snapshot(got->state, *got->clients, got->ended_lives), bytes_);
}

TEST_F(NodeSnapshotTest, KeepsTheBoundThatTheLogBrought) {
    node_.commit(make_reset_sessions(3), {});
    PartitionStatsRegistry registry;
    const Result<NodeSnapshot> got =
        decode_node_snapshot(encode_node_snapshot(node_.state(), node_.table(), {}), registry);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->state.sessions().sessions_max(), 3U);
}

TEST_F(NodeSnapshotTest, AnEmptyNode) {
    const Bytes bytes = encode_node_snapshot(State(), ClientTable(), {});
    PartitionStatsRegistry registry;
    const Result<NodeSnapshot> got = decode_node_snapshot(bytes, registry);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->state.op(), OpNumber(0));
    EXPECT_TRUE(got->ended_lives.empty());
}

TEST_F(NodeSnapshotTest, EveryCutAndEveryDamagedByteIsRefused) {
    for (std::size_t size = 0; size < bytes_.size(); ++size) {
        EXPECT_EQ(decoded(Bytes(bytes_.begin(), bytes_.begin() + static_cast<long>(size))),
                  E::kStateFileCorrupted);
        Bytes damaged = bytes_;
        damaged[size] ^= std::byte{1};
        EXPECT_EQ(decoded(damaged), E::kStateFileCorrupted) << size;
    }
}

TEST_F(NodeSnapshotTest, WhatIsSealedAnewIsCheckedPartByPart) {
    std::mt19937 random(7);
    for (int i = 0; i < 2000; ++i) {
        Bytes damaged = bytes_;
        damaged[random() % (damaged.size() - 8)] ^= static_cast<std::byte>(1 + random() % 255);
        seal(damaged);
        PartitionStatsRegistry registry;
        const Result<NodeSnapshot> got = decode_node_snapshot(damaged, registry);
        if (!got.has_value()) {
            EXPECT_THAT(got.error().code,
                        testing::AnyOf(E::kStateFileCorrupted, E::kInvalidVersion));
        } else {  // a life's numbers say nothing about themselves
            EXPECT_EQ(encode_node_snapshot(got->state, *got->clients, got->ended_lives), damaged);
        }
    }
}

TEST_F(NodeSnapshotTest, ANewerVersionIsToldFromDamage) {
    store<std::uint16_t>(bytes_, 4, 2);
    seal(bytes_);
    EXPECT_EQ(decoded(bytes_), E::kInvalidVersion);
}

TEST_F(NodeSnapshotTest, ALifeCannotHaveBegunBehindTheStateThatEndedIt) {
    lives_.emplace_back(PartitionKey(1), Incarnation(node_.op().value()));
    EXPECT_EQ(decoded(encode_node_snapshot(node_.state(), node_.table(), lives_)),
              E::kStateFileCorrupted);
}

}  // namespace
}  // namespace galgo::metadata::test
