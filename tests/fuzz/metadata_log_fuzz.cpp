// Any bytes as the metadata log: opened, applied entry by entry, snapshot taken. Laws:
//   * entries come in the order of their bytes, each whole, and their sizes add up to the log's;
//   what
//     is cut is the rest, kept aside; a log that is refused is left as it was;
//   * a second opening gives the same entries and cuts nothing; an append comes behind them;
//   * whatever was logged, two copies of the state agree on outcome and digest and keep their
//     invariants, and a snapshot gives the same state again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "fuzz_target.hpp"
#include "metadata/apply.hpp"
#include "metadata/client_table.hpp"
#include "metadata/snapshot.hpp"
#include "runtime_sim/test_world.hpp"
#include "seal.hpp"
#include "storage/wal.hpp"

namespace galgo {
namespace {

using coro::Task;

constexpr std::size_t kInputBytesMax = 64 * kKiB;
const std::string kPath = "/data/journal.wal";

using Bytes = std::vector<std::byte>;

struct Entry {
    wire::PrepareHeader header;
    Bytes body;
    bool operator==(const Entry&) const noexcept = default;
};

struct Opened {
    bool refused = false;
    std::vector<Entry> entries;
    std::uint64_t size_bytes = 0;
    std::uint64_t cut_bytes = 0;
};

Bytes encode(Entry entry) {
    Bytes bytes(wire::kPrepareHeaderSize + entry.body.size());
    wire::encode_prepare_header(MutableBytes(bytes).first(wire::kPrepareHeaderSize), entry.header,
                                entry.body);
    std::ranges::copy(entry.body, bytes.begin() + wire::kPrepareHeaderSize);
    return bytes;
}

/// Opens, appends `appended` when there is something, closes.
Task<Opened> open_log(runtime_sim::Node& node, Bytes appended) {
    const auto entries = std::make_shared<std::vector<Entry>>();
    auto wal = co_await storage::Wal::open(
        *node.io, node.queue(), kPath,
        [entries](const wire::PrepareHeader& header, ConstBytes body) -> Status {
            entries->push_back({.header = header, .body = Bytes(body.begin(), body.end())});
            return {};
        });
    Opened opened{.refused = !wal.has_value(), .entries = std::move(*entries)};
    if (!wal.has_value()) {
        GALGO_CHECK(wal.error().error.code == ErrorCode::kInvalidFormat);
        GALGO_CHECK(wal.error().text.find('\n') == std::string::npos);
        co_return opened;
    }
    opened.size_bytes = (*wal)->size_bytes();
    opened.cut_bytes = (*wal)->cut_bytes();
    if (!appended.empty()) {
        const Status done = co_await (*wal)->append(std::move(appended));
        GALGO_CHECK(done.has_value());
    }
    co_await (*wal)->close();
    co_return opened;
}

/// The entries that were given, also those in front of what made it refuse.
std::vector<Entry> check_log(ConstBytes bytes) {
    runtime_sim::TestWorld world(1);
    runtime_sim::Node& node = world.add_node();
    node.disk->write_file(kPath, bytes);
    const auto open = [&](Bytes appended) {
        return world.run(node, open_log(node, std::move(appended)));
    };
    Opened first = open({});
    std::size_t at = 0;
    for (const Entry& entry : first.entries) {
        GALGO_CHECK(entry.header.size == wire::kPrepareHeaderSize + entry.body.size());
        GALGO_CHECK(std::ranges::equal(
            bytes.subspan(at + wire::kPrepareHeaderSize, entry.body.size()), entry.body));
        at += entry.header.size;
    }
    if (first.refused) {
        GALGO_CHECK(std::ranges::equal(*node.disk->read_file(kPath), bytes));
        return std::move(first.entries);
    }
    GALGO_CHECK(first.size_bytes == at);
    GALGO_CHECK(first.cut_bytes == bytes.size() - at);
    if (first.cut_bytes != 0) {
        GALGO_CHECK(
            std::ranges::equal(*node.disk->read_file(kPath + ".torn-1"), bytes.subspan(at)));
    }
    const Entry next{.header = {.operation = wire::Operation::kLogout, .op = OpNumber(7)},
                     .body = Bytes(3, std::byte{7})};
    const Opened second = open(encode(next));
    GALGO_CHECK(!second.refused && second.cut_bytes == 0 && second.entries == first.entries);
    const Opened third = open({});
    GALGO_CHECK(!third.refused && third.cut_bytes == 0);
    GALGO_CHECK(third.entries.size() == first.entries.size() + 1);
    GALGO_CHECK(third.entries.back().body == next.body);
    GALGO_CHECK(third.entries.back().header.operation == next.header.operation);
    return std::move(first.entries);
}

void check_states(const std::vector<Entry>& entries) {
    metadata::PartitionStatsRegistry registry;
    const metadata::StateOptions options{.sessions_max = 3};
    metadata::State left(options);
    metadata::State right(options);
    metadata::ClientTable clients(1000);
    for (const Entry& entry : entries) {
        if (entry.header.op <= left.op()) {
            break;  // the server refuses to start here
        }
        const metadata::PrepareView prepare = metadata::view_prepare(entry.header, entry.body);
        if (!metadata::may_be_logged(clients, prepare)) {
            continue;
        }
        const metadata::ApplyOutcome outcome = metadata::apply(left, registry, prepare);
        GALGO_CHECK(metadata::apply(right, registry, prepare) == outcome);
        metadata::record_commit(clients, prepare, outcome, outcome.payload);
        GALGO_CHECK(clients.reply_bytes() <= 1000);
        GALGO_CHECK(clients.client_count() == left.sessions().size());
        GALGO_CHECK(left.sessions().size() <= options.sessions_max);
    }
    left.check_invariants();
    const Bytes snapshot = metadata::encode_snapshot(left);
    GALGO_CHECK(metadata::encode_snapshot(right) == snapshot);
    metadata::PartitionStatsRegistry other;
    const auto restored = metadata::decode_snapshot(snapshot, other, options);
    GALGO_CHECK(restored.has_value());
    restored->check_invariants();
    GALGO_CHECK(metadata::encode_snapshot(*restored) == snapshot);
}

}  // namespace
}  // namespace galgo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size <= galgo::kInputBytesMax) {
        galgo::check_states(galgo::check_log(std::as_bytes(std::span(data, size))));
    }
    return 0;
}

extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure) {
    galgo::fuzz::seal_entries(std::as_writable_bytes(std::span(data, size)), structure);
}
