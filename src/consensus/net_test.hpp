// A cluster in a test: replicas of one group, their logs in memory, a network that loses, doubles
// and reorders, and the laws that must hold after every event. One generator of random numbers, so
// a seed is a run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "consensus/replica.hpp"

namespace galgo::consensus {

inline constexpr GroupId kTestGroup{9};
inline constexpr Incarnation kTestIncarnation{4};
inline constexpr ClusterId kTestCluster{u128{77}};

struct Faults {
    unsigned loss_percent = 0;
    unsigned double_percent = 0;
    bool reorder = false;
};

class TestNet {
 public:
    struct Flying {
        ReplicaIndex from;
        ReplicaIndex to;
        Frame frame;
    };
    struct Node {
        ReplicaOptions options;
        std::unique_ptr<Replica> replica;
        std::map<OpNumber, Prepare> log;  ///< durable entries
        std::vector<Prepare> appending;
        std::vector<OpNumber> reading;
        std::optional<SuperblockState> superblock;
        std::optional<SuperblockState> persisting;
        std::vector<Head> committed;  ///< in order of their Commits
        std::vector<Note> notes;
        std::vector<Fatal> fatals;
        bool unreadable = false;       ///< reads of the log find it faulty
        unsigned append_failures = 0;  ///< of the next appends
    };

    TestNet(std::uint8_t count, std::uint64_t seed, ReplicaOptions base = {})
        : random_(seed), nodes_(count) {
        for (std::uint8_t i = 0; i < count; ++i) {
            Node& node = nodes_[i];
            node.options = base;
            node.options.cluster = kTestCluster;
            node.options.replica = ReplicaIndex{i};
            node.options.replica_count = count;
            node.options.marks = &marks;
        }
    }
#ifdef GALGO_PLANTED_BUGS
    Mutations mutations;
#endif

    void boot(bool finish_superblocks = true) {
        for (std::uint8_t i = 0; i < nodes_.size(); ++i) {
            boot_node(i);
        }
        if (finish_superblocks) {
            for (std::uint8_t i = 0; i < nodes_.size(); ++i) {
                end_persist(i, true);
            }
        }
    }
    /// The node loses its disk and comes back as if it were new; what is in the air is lost.
    void wipe(std::size_t index) {
        flying_.clear();
        appended_[index].clear();
        nodes_[index] = Node{.options = nodes_[index].options};
        boot_node(index);
        end_persist(index, true);
    }

    [[nodiscard]] Node& node(std::size_t index) { return nodes_[index]; }
    [[nodiscard]] Replica& replica(std::size_t index) { return *nodes_[index].replica; }
    [[nodiscard]] std::vector<Flying>& flying() { return flying_; }
    /// What is on its way to that replica gets lost.
    void lose_to(ReplicaIndex to) {
        std::erase_if(flying_, [&](const Flying& flying) { return flying.to == to; });
    }
    [[nodiscard]] std::mt19937_64& random() { return random_; }

    /// One event and all that it causes at once; checks the laws.
    void step(std::size_t index, const Event& event) {
        Node& node = nodes_[index];
        EffectList effects;
        node.replica->step(event, effects);
        for (const Effect& effect : effects.view()) {
            std::visit([&](const auto& one) { carry_out(index, one); }, effect);
        }
        node.replica->check_invariants();
    }

    /// The next token, on replica `index`. True: admitted.
    bool request(std::size_t index = 0, std::uint64_t wall = 0) {
        const std::uint64_t token = ++tokens_;
        const std::size_t before = rejects;
        step(index, ClientRequest{.token = Token{token},
                                  .wall = Timestamp{wall == 0 ? now_ * 10'000 : wall},
                                  .body = BodyDigest{token * 31}});
        return rejects == before;
    }

    void tick(std::uint64_t count = 1) {
        for (std::uint64_t i = 0; i < count; ++i) {
            ++now_;
            for (std::size_t index = 0; index < nodes_.size(); ++index) {
                step(index, Tick{.now = TickCount{now_}, .random = random_ticks ? random_() : 0});
            }
        }
    }

    /// Ends the append at this place of the list.
    void end_append(std::size_t index, std::size_t place = 0) {
        Node& node = nodes_[index];
        const Prepare prepare = node.appending[place];
        node.appending.erase(node.appending.begin() + static_cast<std::ptrdiff_t>(place));
        AppendStatus status = AppendStatus::kDurable;
        if (node.append_failures > 0) {
            --node.append_failures;
            status = AppendStatus::kFailed;
        } else {
            node.log[prepare.op] = prepare;
        }
        step(index, AppendDone{.op = prepare.op, .identity = prepare.identity, .status = status});
    }
    void end_read(std::size_t index, std::size_t place = 0) {
        Node& node = nodes_[index];
        const OpNumber op = node.reading[place];
        node.reading.erase(node.reading.begin() + static_cast<std::ptrdiff_t>(place));
        ReadDone done{.op = op};
        if (node.unreadable) {
            done.status = ReadStatus::kFaulty;
        } else if (const auto found = node.log.find(op); found != node.log.end()) {
            done = {.op = op, .status = ReadStatus::kPresent, .prepare = found->second};
        } else {
            // Not written yet: its body is still in memory.
            for (const Prepare& prepare : node.appending) {
                if (prepare.op == op) {
                    done = {.op = op, .status = ReadStatus::kPresent, .prepare = prepare};
                }
            }
        }
        step(index, done);
    }
    void end_persist(std::size_t index, bool written) {
        Node& node = nodes_[index];
        if (!node.persisting.has_value()) {
            return;
        }
        const SuperblockState state = *std::exchange(node.persisting, std::nullopt);
        if (written) {
            node.superblock = state;
        }
        step(index, SuperblockDone{.state = state, .written = written});
    }
    void deliver(std::size_t place) {
        const Flying frame = flying_[place];
        flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(place));
        step(frame.to.value(), Received{.peer = frame.from, .frame = frame.frame});
    }

    /// One random thing of all that may happen next.
    void random_event(const Faults& faults, unsigned request_percent) {
        const unsigned dice = static_cast<unsigned>(random_() % 100);
        if (dice < request_percent) {
            static_cast<void>(request());
        } else if (dice < request_percent + 5) {
            tick();
        } else if (dice < request_percent + 45) {
            const std::size_t index = random_() % nodes_.size();
            Node& node = nodes_[index];
            if (!node.appending.empty()) {
                end_append(index, random_() % node.appending.size());
            }
            if (!node.reading.empty()) {
                end_read(index, random_() % node.reading.size());
            }
        } else if (!flying_.empty()) {
            const std::size_t place = faults.reorder ? random_() % flying_.size() : 0;
            if (random_() % 100 < faults.double_percent) {
                flying_.push_back(flying_[place]);
            }
            if (random_() % 100 < faults.loss_percent) {
                flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(place));
            } else {
                deliver(place);
            }
        }
    }

    /// Everything under way ends well, in order, without time passing.
    void drain() {
        for (int rounds = 0; rounds < 100'000; ++rounds) {
            bool any = false;
            for (std::size_t index = 0; index < nodes_.size(); ++index) {
                while (!nodes_[index].appending.empty()) {
                    end_append(index);
                    any = true;
                }
                while (!nodes_[index].reading.empty()) {
                    end_read(index);
                    any = true;
                }
            }
            if (!flying_.empty()) {
                deliver(0);
                any = true;
            }
            if (!any) {
                return;
            }
        }
        ADD_FAILURE() << "frames without end";
    }
    /// Time without faults, until every replica has carried out everything.
    [[nodiscard]] bool settle(std::uint64_t ticks_max = 5000) {
        for (std::uint64_t i = 0; i < ticks_max; ++i) {
            drain();
            const OpNumber head = nodes_[0].replica->head();
            if (std::ranges::all_of(nodes_, [&](const Node& node) {
                    return node.replica->commit() == head && node.replica->head() == head;
                })) {
                return true;
            }
            tick();
        }
        return false;
    }

    Marks marks;
    std::vector<Flying> sent;  ///< all that was ever sent, when `keep_sent`
    bool keep_sent = false;
    bool random_ticks = false;
    std::size_t rejects = 0;
    std::vector<Abandon> abandoned;
    std::size_t answered = 0;
    std::vector<std::string> violations;

 private:
    void boot_node(std::size_t index) {
        Node& node = nodes_[index];
#ifdef GALGO_PLANTED_BUGS
        node.replica =
            std::make_unique<Replica>(pool_, node.options, kTestGroup, kTestIncarnation, mutations);
#else
        node.replica = std::make_unique<Replica>(pool_, node.options, kTestGroup, kTestIncarnation);
#endif
        step(index, Boot{.fresh = true});
    }
    void carry_out(std::size_t index, const Append& append) {
        Node& node = nodes_[index];
        if (appended_[index].contains(append.prepare.op)) {
            violations.push_back("an op was given twice on a replica");
        }
        appended_[index].insert(append.prepare.op);
        node.appending.push_back(append.prepare);
    }
    void carry_out(std::size_t index, const Send& send) {
        const Frame& frame = send.frame.values();
        const Node& node = nodes_[index];
        if (!node.superblock.has_value() || node.superblock->view != frame.header.view) {
            violations.push_back("a frame of a view that is not durable");
        }
        if (const auto* ok = std::get_if<PrepareOkFrame>(&frame.payload)) {
            for (OpNumber op{1}; op <= ok->durable.op; op = op.next()) {
                if (!node.log.contains(op)) {
                    violations.push_back("acknowledged and not in the log");
                    break;
                }
            }
        }
        for (std::uint8_t i = 0; i < nodes_.size(); ++i) {
            if (send.to.contains(ReplicaIndex{i})) {
                const Flying flying{.from = ReplicaIndex{static_cast<std::uint8_t>(index)},
                                    .to = ReplicaIndex{i},
                                    .frame = frame};
                flying_.push_back(flying);
                if (keep_sent) {
                    sent.push_back(flying);
                }
            }
        }
    }
    void carry_out(std::size_t index, const Read& read) {
        nodes_[index].reading.push_back(read.op);
    }
    void carry_out(std::size_t index, const PersistSuperblock& persist) {
        nodes_[index].persisting = persist.state;
    }
    void carry_out(std::size_t index, const Commit& commit) {
        Node& node = nodes_[index];
        const OpNumber last = node.committed.empty() ? OpNumber{0} : node.committed.back().op;
        if (commit.head.op != last.next()) {
            violations.push_back("carried out across a gap");
        }
        node.committed.push_back(commit.head);
        const auto [known, fresh] = canonical_.emplace(commit.head.op, commit.head.identity);
        if (!fresh && known->second != commit.head.identity) {
            violations.push_back("two entries committed under one op");
        }
        std::size_t copies = 0;
        for (const Node& each : nodes_) {
            const auto found = each.log.find(commit.head.op);
            copies +=
                found != each.log.end() && found->second.identity == commit.head.identity ? 1 : 0;
        }
        if (copies < quorums_of(static_cast<std::uint8_t>(nodes_.size())).replication) {
            violations.push_back("committed with fewer copies than a quorum");
        }
        answered += commit.token != Token{0} ? 1 : 0;
    }
    void carry_out(std::size_t, const Abandon& abandon) { abandoned.push_back(abandon); }
    void carry_out(std::size_t, const Reject&) { ++rejects; }
    void carry_out(std::size_t index, const Note& note) { nodes_[index].notes.push_back(note); }
    void carry_out(std::size_t index, const Fatal& fatal) { nodes_[index].fatals.push_back(fatal); }

    PipelinePool pool_;
    std::mt19937_64 random_;
    std::vector<Node> nodes_;
    std::vector<Flying> flying_;
    std::map<std::size_t, std::set<OpNumber>> appended_;
    std::map<OpNumber, Identity> canonical_;
    std::uint64_t now_ = 1;
    std::uint64_t tokens_ = 0;
};

[[nodiscard]] inline bool has_note(const TestNet::Node& node, NoteKind kind) {
    return std::ranges::any_of(node.notes, [&](const Note& note) { return note.kind == kind; });
}

inline void expect_lawful(const TestNet& net) {
    EXPECT_TRUE(net.violations.empty()) << net.violations.front();
}

}  // namespace galgo::consensus
