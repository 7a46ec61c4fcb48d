// Random operations: both copies and a replay stay equal, names and ids follow a simple model, a
// snapshot gives the same state back, and damaged snapshots are refused without harm.
#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "metadata/read_replies.hpp"
#include "test_node.hpp"

namespace galgo::metadata::test {
namespace {

using O = Operation;
using E = ErrorCode;

/// Names by id, with the lowest free id next: what a stream table must do.
struct NameModel {
    std::map<std::uint32_t, std::string> names;

    std::uint32_t vacant() const {
        std::uint32_t number = 0;
        while (names.contains(number)) {
            ++number;
        }
        return number;
    }
    bool has(const std::string& name) const {
        return std::ranges::any_of(names, [&](const auto& row) { return row.second == name; });
    }
};

class RandomOperations : public testing::TestWithParam<std::uint32_t> {
 protected:
    std::uint32_t below(std::uint32_t bound) {
        return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random_);
    }
    std::string name() { return std::string(1, static_cast<char>('a' + below(6))); }

    void step(Node& node) {
        const Node::Who who{.client = client(below(5))};
        const Identifier stream = id(below(4));
        const Identifier topic = id(below(3));
        const Identifier group = id(below(3));
        switch (below(16)) {
            case 0: {
                const std::string wanted = name();
                const E expected = streams_.has(wanted) ? E::kStreamNameAlreadyExists : E::kOk;
                ASSERT_EQ(node.result(O::kCreateStream, create_stream(wanted), who), expected);
                if (expected == E::kOk) {
                    streams_.names[streams_.vacant()] = wanted;
                }
                break;
            }
            case 1: {
                const bool known = streams_.names.contains(stream.number());
                ASSERT_EQ(node.result(O::kDeleteStream, stream_body(stream), who),
                          known ? E::kOk : E::kStreamIdNotFound);
                streams_.names.erase(stream.number());
                break;
            }
            case 2: {
                const std::string wanted = name();
                const auto row = streams_.names.find(stream.number());
                const bool taken =
                    streams_.has(wanted) && (row == streams_.names.end() || row->second != wanted);
                const E expected = row == streams_.names.end() ? E::kStreamIdNotFound
                                   : taken                     ? E::kStreamNameAlreadyExists
                                                               : E::kOk;
                ASSERT_EQ(node.result(O::kUpdateStream, update_stream(stream, wanted), who),
                          expected);
                if (expected == E::kOk) {
                    row->second = wanted;
                }
                break;
            }
            case 3:
                node.request(O::kPurgeStream, stream_body(stream), who);
                break;
            case 4:
            case 5:
                node.request(O::kCreateTopic, create_topic(stream, name(), below(5)), who);
                break;
            case 6:
                node.request(O::kDeleteTopic, topic_body(stream, topic), who);
                break;
            case 7: {
                wire::OptionBlockBuilder options;
                options.put_u64("message_expiry", below(3));
                if (below(2) == 0) {
                    options.put_string("compression_algorithm", "gzip");
                }
                node.request(O::kUpdateTopic, update_topic(stream, topic, name(), options.encode()),
                             who);
                break;
            }
            case 8:
                node.request(O::kCreatePartitions, partitions_body(stream, topic, 1 + below(3)),
                             who);
                break;
            case 9:
                node.request(O::kDeletePartitions, partitions_body(stream, topic, 1 + below(3)),
                             who);
                break;
            case 10:
                node.request(O::kCreateConsumerGroup, create_group(stream, topic, name()), who);
                break;
            case 11:
                node.request(O::kDeleteConsumerGroup, group_body(stream, topic, group), who);
                break;
            case 12:
            case 13:
                node.request(O::kJoinConsumerGroup, group_body(stream, topic, group), who);
                break;
            case 14:
                node.request(O::kLeaveConsumerGroup, group_body(stream, topic, group), who);
                break;
            default:
                switch (below(8)) {
                    case 0:
                        node.commit(make_logout(), who);
                        break;
                    case 1:
                        node.commit(below(4) == 0 ? make_reset_sessions() : make_logout(), who);
                        break;
                    default:
                        node.login(who);
                        break;
                }
                break;
        }
    }

    void check(const State& state) const {
        ASSERT_EQ(state.streams().size(), streams_.names.size());
        for (const auto& [number, bearer] : streams_.names) {
            const Stream* by_id = state.find_stream(id(number));
            ASSERT_NE(by_id, nullptr);
            ASSERT_EQ(by_id->name, bearer);
            ASSERT_EQ(state.find_stream(named(bearer)), by_id);
        }
    }

    std::mt19937 random_{GetParam()};
    NameModel streams_;
};

TEST_P(RandomOperations, KeepCopiesReplaysAndSnapshotsEqual) {
    Node node({.sessions_max = 4});
    node.login({});
    for (int i = 0; i < 600; ++i) {
        ASSERT_NO_FATAL_FAILURE(step(node)) << "seed " << GetParam() << " step " << i;
        ASSERT_NO_FATAL_FAILURE(check(node.state()));
    }
    PartitionStatsRegistry registry;
    const State replayed = node.replayed(registry);
    replayed.check_invariants();
    EXPECT_EQ(digest(replayed), digest(node.state()));
    EXPECT_EQ(registry.size(), node.registry().size());
    EXPECT_EQ(registry.size(), totals_of(replayed).partition_count) << "no line is left behind";

    const std::vector<std::byte> bytes = encode_snapshot(node.state());
    PartitionStatsRegistry other;
    Result<State> restored = decode_snapshot(bytes, other, {.sessions_max = 4});
    ASSERT_TRUE(restored.has_value());
    restored->check_invariants();
    EXPECT_EQ(encode_snapshot(*restored), bytes);
    EXPECT_EQ(other.size(), registry.size());
    for (const Stream& stream : node.state().streams().rows()) {
        for (const Topic& topic : stream.topics.rows()) {
            EXPECT_EQ(
                restored->find_topic(id(stream.id.value()), named(topic.name))->options.values,
                topic.options.values);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOperations, testing::Range(1U, 9U));

class SnapshotTest : public testing::Test {
 protected:
    SnapshotTest() {
        node_.login({.client = client(1)});
        node_.login({.client = client(2)});
        node_.request(O::kCreateStream, create_stream("s"));
        node_.request(O::kCreateStream, create_stream("gone"));
        node_.request(O::kCreateStream, create_stream("t"));
        node_.request(O::kDeleteStream, stream_body(named("gone")));
        node_.request(O::kCreateTopic, create_topic(id(0), "topic", 3));
        node_.request(O::kCreateConsumerGroup, create_group(id(0), id(0), "g"));
        node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
        bytes_ = encode_snapshot(node_.state());
    }

    Node node_;
    std::vector<std::byte> bytes_;
};

TEST_F(SnapshotTest, GoesOnLikeTheOriginal) {
    PartitionStatsRegistry registry;
    Result<State> restored = decode_snapshot(bytes_, registry);
    ASSERT_TRUE(restored.has_value());
    node_.request(O::kCreateStream, create_stream("new"));
    const Admitted admitted = *admit({.operation = O::kCreateStream, .body = create_stream("new")});
    const ApplyOutcome outcome = apply(*restored, registry,
                                       {.operation = admitted.operation,
                                        .op = node_.op(),
                                        .timestamp = node_.now(),
                                        .client = client(1),
                                        .session = node_.state().sessions().find(client(1))->epoch,
                                        .body = admitted.body});
    EXPECT_EQ(outcome.result, E::kOk);
    EXPECT_EQ(restored->find_stream(named("new"))->id, model::StreamId(1));
    EXPECT_EQ(digest(*restored), digest(node_.state()));
}

TEST_F(SnapshotTest, ASmallerSessionTableBootsAndShrinksWithTheNextLogin) {
    PartitionStatsRegistry registry;
    Result<State> restored = decode_snapshot(bytes_, registry, {.sessions_max = 1});
    ASSERT_TRUE(restored.has_value());
    EXPECT_EQ(restored->sessions().size(), 2U);
    const Admitted login = make_register(model::kRootUserId);
    const ApplyOutcome outcome = apply(*restored, registry,
                                       {.operation = login.operation,
                                        .op = node_.op().next(),
                                        .timestamp = node_.now(),
                                        .client = client(3),
                                        .body = login.body});
    EXPECT_EQ(outcome.result, E::kOk);
    EXPECT_EQ(restored->sessions().size(), 1U);
    restored->check_invariants();
}

TEST_F(SnapshotTest, TruncatedOrProlongedIsRefused) {
    for (std::size_t size = 0; size < bytes_.size(); ++size) {
        PartitionStatsRegistry registry;
        const Result<State> restored = decode_snapshot(ConstBytes(bytes_).first(size), registry);
        ASSERT_FALSE(restored.has_value()) << size;
        EXPECT_EQ(restored.error().code, E::kStateFileCorrupted);
    }
    bytes_.push_back(std::byte{0});
    PartitionStatsRegistry registry;
    EXPECT_FALSE(decode_snapshot(bytes_, registry).has_value());
}

TEST_F(SnapshotTest, FlippedBytesAreRefusedOrGiveAConsistentState) {
    for (std::size_t position = 0; position < bytes_.size(); ++position) {
        for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
            std::vector<std::byte> damaged = bytes_;
            damaged[position] ^= std::byte{static_cast<unsigned char>(flip)};
            PartitionStatsRegistry registry;
            const Result<State> restored = decode_snapshot(damaged, registry);
            if (restored.has_value()) {
                restored->check_invariants();
            }
        }
    }
}

TEST_F(SnapshotTest, DigestSeesEverySmallDifference) {
    const std::uint64_t before = digest(node_.state());
    node_.request(O::kPurgeTopic, topic_body(id(0), id(0)));
    EXPECT_NE(digest(node_.state()), before);
}

}  // namespace
}  // namespace galgo::metadata::test
