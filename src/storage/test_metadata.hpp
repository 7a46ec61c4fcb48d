// For the tests of the metadata group's files: a small state (one number an operation), its
// operations and snapshots, and one simulated process that opens, changes, crashes and opens again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coro/scope.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "storage/metadata_files.hpp"
#include "wire/prepare.hpp"

namespace galgo::storage {

inline const std::string kMetadataDirectory = "/metadata";

/// The state after op n is the n first values.
using TestState = std::vector<std::uint64_t>;

inline std::vector<std::byte> test_entry(OpNumber op, std::uint64_t value, std::size_t body_bytes) {
    std::vector<std::byte> bytes(wire::kPrepareHeaderSize + std::max<std::size_t>(8, body_bytes),
                                 static_cast<std::byte>(op.value()));
    store<std::uint64_t>(bytes, wire::kPrepareHeaderSize, value);
    wire::PrepareHeader header{.op = op, .timestamp = Timestamp(op.value() * 10)};
    const MutableBytes all(bytes);
    wire::encode_prepare_header(all.first(wire::kPrepareHeaderSize), header,
                                all.subspan(wire::kPrepareHeaderSize));
    return bytes;
}

inline SnapshotContents test_snapshot(const TestState& state, std::size_t size) {
    SnapshotContents contents{.op = OpNumber(size), .timestamp = Timestamp(size * 10)};
    for (std::size_t i = 0; i < size; ++i) {
        const auto* from = reinterpret_cast<const std::byte*>(&state[i]);
        contents.payload.insert(contents.payload.end(), from, from + sizeof(state[i]));
    }
    return contents;
}

struct MetadataRig {
    explicit MetadataRig(std::uint64_t seed) : world(seed), node(world.add_node()) {
        options.directory = kMetadataDirectory;
        options.identity.salt = 77;
        options.region_bytes = 4 * kWalBlockBytes;
        options.snapshot_ops = 6;
    }
    ~MetadataRig() { drop(); }

    /// A start. The refusal's text; empty on success.
    std::string open() {
        std::string refusal = open_only();
        if (refusal.empty()) {
            world.run(node, files->sweep());
        }
        return refusal;
    }
    /// Without what a start does once it was accepted.
    std::string open_only() {
        state.clear();
        auto opened = world.run(
            node, MetadataFiles::open(
                      *node.io, node.queue(), options,
                      [this](const SnapshotContents* contents) -> Status {
                          state.clear();
                          if (contents != nullptr) {
                              for (std::size_t at = 0; at < contents->payload.size(); at += 8) {
                                  state.push_back(load<std::uint64_t>(contents->payload, at));
                              }
                          }
                          return {};
                      },
                      [this](const wire::PrepareHeader& header,
                             ConstBytes body) -> std::expected<void, std::string> {
                          // The number of a refused operation is left out: a hole holds 0.
                          EXPECT_GT(header.op.value(), state.size());
                          state.resize(header.op.value() - 1);
                          state.push_back(load<std::uint64_t>(body, 0));
                          return {};
                      }));
        if (!opened.has_value()) {
            return opened.error().text.empty() ? "no text" : opened.error().text;
        }
        files = std::move(*opened);
        return {};
    }
    static coro::Task<Status> append_one(MetadataRig& rig, std::uint64_t value,
                                         std::size_t body_bytes) {
        const OpNumber op(rig.next_op++);
        std::vector<std::byte> entry = test_entry(op, value, body_bytes);
        rig.attempted.resize(std::max<std::size_t>(rig.attempted.size(), op.value()));
        rig.attempted[op.value() - 1] = value;
        const Status status = co_await rig.files->wal().append(op, std::move(entry));
        if (status.has_value()) {
            rig.acknowledged = std::max(rig.acknowledged, op.value());
            rig.acknowledged_ops.insert(op.value());
        }
        co_return status;
    }
    static coro::Task<Status> install(MetadataRig& rig, std::size_t size) {
        SealedSnapshot snapshot = seal_snapshot(test_snapshot(rig.attempted, size));
        const Status status = co_await rig.files->install_snapshot(std::move(snapshot));
        co_return status;
    }
    void append(std::uint64_t value, std::size_t body_bytes = 8) {
        const Status status = world.run(node, append_one(*this, value, body_bytes));
        ASSERT_TRUE(status.has_value()) << to_string(status.error());
    }
    void snapshot() {
        const Status status = world.run(node, install(*this, acknowledged));
        ASSERT_TRUE(status.has_value()) << to_string(status.error());
    }
    /// What the last open found is where the next operation goes.
    void go_on() {
        next_op = state.size() + 1;
        attempted = state;
        acknowledged = state.size();
        acknowledged_ops.clear();
        for (std::size_t i = 0; i < state.size(); ++i) {
            if (state[i] != 0) {
                acknowledged_ops.insert(i + 1);
            }
        }
    }
    void close() {
        world.run(node, files->close());
        files.reset();
    }
    void drop() {
        world.kill(node);
        files.reset();
    }
    void crash(runtime_sim::CrashKind kind,
               runtime_sim::UnsyncedFate fate = runtime_sim::UnsyncedFate::kSeeded) {
        drop();
        world.restart(node, kind, fate);
    }

    runtime_sim::TestWorld world;
    runtime_sim::Node& node;
    MetadataFiles::Options options;
    std::unique_ptr<MetadataFiles> files;
    TestState state;
    TestState attempted;
    std::uint64_t next_op = 1;
    std::uint64_t acknowledged = 0;  ///< the highest
    std::set<std::uint64_t> acknowledged_ops;
};

}  // namespace galgo::storage
