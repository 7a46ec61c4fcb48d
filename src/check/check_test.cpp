// The check on the simulated disk: what it says of segments whose metadata is gone, and that it
// changes nothing. What it says of whole directories: tests/blackbox/check_test.py.
#include "check/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "check/finding.hpp"
#include "model/ids.hpp"
#include "runtime_sim/test_world.hpp"
#include "wire/batch.hpp"

namespace galgo::check {
namespace {

const std::string kLog = "/data/streams/1/topics/2/partitions/3/00000000000000000000.log";

/// A stamped batch of two messages.
std::vector<std::byte> make_batch(std::uint64_t base) {
    wire::BatchBuilder builder;
    builder.reset(1000 + base);
    const std::vector<std::byte> payload(100, static_cast<std::byte>(base));
    for (std::uint64_t i = 0; i < 2; ++i) {
        builder.add({.id = base + i + 1, .timestamp_us = 1000 + base, .payload = payload});
    }
    const ConstBytes built = builder.finish();
    std::vector<std::byte> bytes(built.begin(), built.end());
    (void)wire::stamp_batch(MutableBytes(bytes), {.partition = model::PartitionId{3},
                                                  .base_offset = Offset(base),
                                                  .base_timestamp = Timestamp(1000 + base)});
    return bytes;
}

/// A directory with one segment of ten batches and no metadata.
struct CheckRig {
    CheckRig() : world(11), node(world.add_node()), pool({.budget_bytes = 256 * kMiB}) {
        for (std::uint64_t i = 0; i < 10; ++i) {
            const std::vector<std::byte> batch = make_batch(i * 2);
            batch_bytes = batch.size();
            log.insert(log.end(), batch.begin(), batch.end());
        }
        node.disk->write_file(kLog, log);
        node.loop.reset();
        overlay = std::make_unique<OverlayBackend>(*node.io);
        node.loop = std::make_unique<runtime::Loop>(*overlay, runtime::LoopOptions{});
    }
    ~CheckRig() {
        world.kill(node);
        node.loop = std::make_unique<runtime::Loop>(*node.io, runtime::LoopOptions{});
        overlay.reset();
    }
    std::map<std::string, std::vector<std::byte>> image() {
        std::map<std::string, std::vector<std::byte>> files;
        for (const std::string& path : node.disk->list_all()) {
            files[path] =
                path.ends_with('/') ? std::vector<std::byte>{} : *node.disk->read_file(path);
        }
        return files;
    }
    void check() {
        const auto before = image();
        report = {};
        world.run(node, check_directory(*node.loop, *overlay, pool, {.path = "/data"}, report, {}));
        EXPECT_EQ(image(), before) << "the check changed something";
        EXPECT_EQ(overlay->open_file_count(), 0U);
    }
    const Finding* find(Severity severity, const std::string& file) {
        const auto found = std::ranges::find_if(report.findings(), [&](const Finding& finding) {
            return finding.severity == severity && finding.file.find(file) != std::string::npos;
        });
        return found == report.findings().end() ? nullptr : &*found;
    }

    runtime_sim::TestWorld world;
    runtime_sim::Node& node;
    memory::BufferPool pool;
    std::unique_ptr<OverlayBackend> overlay;
    std::vector<std::byte> log;
    std::size_t batch_bytes = 0;
    Report report;
};

TEST(Check, SegmentsAreVerifiedAlsoWhenTheStartIsRefused) {
    CheckRig rig;
    rig.check();
    EXPECT_NE(rig.find(Severity::kRefusal, "metadata"), nullptr);
    EXPECT_EQ(rig.find(Severity::kDamage, ".log"), nullptr);
    EXPECT_EQ(rig.report.counts.batches, 10U);
    EXPECT_EQ(rig.report.counts.messages, 20U);
    EXPECT_EQ(rig.report.counts.bytes, rig.log.size());
    EXPECT_EQ(rig.report.verdict(), Verdict::kDamaged);
}

TEST(Check, EachFlippedByteIsTold) {
    CheckRig rig;
    for (std::size_t at = 3 * rig.batch_bytes; at < 4 * rig.batch_bytes; at += 37) {
        ASSERT_TRUE(rig.node.disk->corrupt(kLog, at, 0x10));
        rig.check();
        const Finding* finding = rig.find(Severity::kDamage, ".log");
        ASSERT_NE(finding, nullptr) << at;
        EXPECT_EQ(finding->byte, 3 * rig.batch_bytes) << at;
        EXPECT_EQ(finding->offsets, std::pair(Offset{6}, Offset{8})) << at;
        EXPECT_EQ(rig.report.counts.batches, 9U) << at;
        ASSERT_TRUE(rig.node.disk->corrupt(kLog, at, 0x10));
    }
}

TEST(Check, WhatTheDiskCannotReadIsTold) {
    CheckRig rig;
    ASSERT_TRUE(rig.node.disk->make_unreadable(kLog, 5 * rig.batch_bytes + 10));
    rig.check();
    const Finding* finding = rig.find(Severity::kDamage, ".log");
    ASSERT_NE(finding, nullptr);
    EXPECT_GT(rig.report.counts.batches, 3U);
    EXPECT_LT(rig.report.counts.batches, 10U);
}

TEST(Check, ASegmentOfAnotherPlaceIsTold) {
    CheckRig rig;
    const std::string other = "/data/streams/1/topics/2/partitions/4/00000000000000000000.log";
    rig.node.disk->write_file(other, rig.log);
    rig.check();
    EXPECT_NE(rig.find(Severity::kDamage, "partitions/4"), nullptr);
    EXPECT_EQ(rig.find(Severity::kDamage, "partitions/3"), nullptr);
}

TEST(Check, FilesThatNobodyKnowsAreNoted) {
    CheckRig rig;
    rig.node.disk->write_file("/data/notes", rig.log);
    rig.node.disk->write_file("/data/streams/99999999999/x", rig.log);  // a number past all limits
    rig.node.disk->write_file(kLog + ".torn-1", rig.log);
    rig.check();
    EXPECT_NE(rig.find(Severity::kNote, "notes"), nullptr);
    EXPECT_NE(rig.find(Severity::kNote, "99999999999"), nullptr);
    EXPECT_NE(rig.find(Severity::kNote, "torn-1"), nullptr);
}

TEST(Finding, ALineSaysAllAndIsOneLine) {
    EXPECT_EQ(line_of({.severity = Severity::kDamage,
                       .file = "a\nb",
                       .byte = 7,
                       .offsets = std::pair(Offset{3}, Offset{5}),
                       .what = "w",
                       .start = "s",
                       .remedy = "r"}),
              "damage: a?b, byte 7, offsets 3 to 4: w; a start: s; you can: r");
}

}  // namespace
}  // namespace galgo::check
