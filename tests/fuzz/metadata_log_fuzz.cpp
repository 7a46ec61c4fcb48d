// Any bytes as the metadata log: opened, applied entry by entry, snapshot taken. Byte 0 modulo 3
// says what the rest is:
//   0 the entries of one batch, whose header is made for them;
//   1 what stands behind the header of a file, in both of its copies;
//   2 the same in the first copy alone, the other one is zeros.
// Laws:
//   * entries come in ascending order, each with the body that its header names; a log that is
//     refused is left as it was, and the refusal is one line;
//   * a second opening gives the same entries and finds nothing to heal; an append comes behind
//     them, and nothing of what is there is written over;
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
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "seal.hpp"
#include "storage/metadata_files.hpp"

namespace galgo {
namespace {

using coro::Task;

constexpr std::size_t kInputBytesMax = 64 * kKiB;
const std::string kDirectory = "/data/metadata";

using Bytes = std::vector<std::byte>;

struct Entry {
    wire::PrepareHeader header;
    Bytes body;
    bool operator==(const Entry&) const noexcept = default;
};

struct Opened {
    bool refused = false;
    std::vector<Entry> entries;
    std::uint64_t healed_count = 0;
    OpNumber head;
};

Bytes encode(Entry entry) {
    Bytes bytes(wire::kPrepareHeaderSize + entry.body.size());
    wire::encode_prepare_header(MutableBytes(bytes).first(wire::kPrepareHeaderSize), entry.header,
                                entry.body);
    std::ranges::copy(entry.body, bytes.begin() + wire::kPrepareHeaderSize);
    return bytes;
}

/// Opens, appends `appended` when there is something, closes without a mark being of account.
Task<Opened> open_log(runtime_sim::Node& node, Entry appended) {
    const auto entries = std::make_shared<std::vector<Entry>>();
    auto files = co_await storage::MetadataFiles::open(
        *node.io, node.queue(), {.directory = kDirectory, .region_bytes = 64 * kKiB},
        [](const storage::SnapshotContents*) { return Status{}; },
        [entries](const wire::PrepareHeader& header,
                  ConstBytes body) -> std::expected<void, std::string> {
            entries->push_back({.header = header, .body = Bytes(body.begin(), body.end())});
            return {};
        });
    Opened opened{.refused = !files.has_value(), .entries = std::move(*entries)};
    if (!files.has_value()) {
        GALGO_CHECK(files.error().text.find('\n') == std::string::npos);
        GALGO_CHECK(files.error().text.find(kDirectory) != std::string::npos);
        co_return opened;
    }
    storage::Wal& wal = (*files)->wal();
    opened.healed_count = wal.healed_count();
    opened.head = wal.head();
    if (!appended.body.empty()) {
        appended.header.op = wal.head().next();
        const OpNumber op = appended.header.op;
        const Status done = co_await wal.append(op, encode(std::move(appended)));
        GALGO_CHECK(done.has_value());
    }
    co_await (*files)->close();
    co_return opened;
}

/// The input as the bytes of a region behind its header.
Bytes region_of(ConstBytes input, unsigned kind) {
    if (kind != 0) {
        return {input.begin(), input.end()};
    }
    Bytes batch(storage::kWalBatchHeaderBytes);
    batch.insert(batch.end(), input.begin(), input.end());
    storage::WalBatch facts{.sequence = 1, .size_bytes = static_cast<std::uint32_t>(batch.size())};
    std::size_t at = storage::kWalBatchHeaderBytes;
    while (at < batch.size()) {
        const auto header = wire::decode_prepare_header(ConstBytes(batch).subspan(at));
        if (!header.has_value()) {
            break;
        }
        facts.op_first = facts.entry_count == 0 ? header->op : facts.op_first;
        facts.op_last = header->op;
        ++facts.entry_count;
        at += header->size;
    }
    batch.resize(facts.padded_bytes());
    storage::seal_wal_batch(batch, facts, fuzz::kWalSeal);
    return batch;
}

void write_files(runtime_sim::SimDisk& disk, ConstBytes content, bool both) {
    const storage::SuperblockCopy copy =
        storage::encode_superblock({.salt = fuzz::kWalSeal.salt, .wal_first = 1, .wal_last = 1}, 5);
    Bytes superblock;
    for (std::size_t i = 0; i < storage::kSuperblockCopies; ++i) {
        superblock.insert(superblock.end(), copy.begin(), copy.end());
    }
    disk.write_file(kDirectory + "/superblock", superblock);
    // Room for one batch more.
    const std::size_t region =
        3 * storage::kWalBlockBytes + storage::padded_to_blocks(content.size());
    const Bytes header = storage::encode_wal_header(fuzz::kWalSeal, region);
    Bytes file(2 * region);
    for (const std::size_t at : {std::size_t{0}, region}) {
        std::ranges::copy(header, file.begin() + static_cast<std::ptrdiff_t>(at));
        if (at == 0 || both) {
            std::ranges::copy(
                content, file.begin() + static_cast<std::ptrdiff_t>(at + storage::kWalBlockBytes));
        }
    }
    disk.write_file(storage::wal_path(kDirectory, fuzz::kWalSeal.generation), file);
}

/// The entries that were given, also those in front of what made it refuse.
std::vector<Entry> check_log(unsigned kind, ConstBytes input) {
    runtime_sim::TestWorld world(1);
    runtime_sim::Node& node = world.add_node();
    const std::string path = storage::wal_path(kDirectory, fuzz::kWalSeal.generation);
    write_files(*node.disk, region_of(input, kind), kind != 2);
    const auto before = node.disk->read_file(path);
    const auto open = [&](Entry appended) {
        return world.run(node, open_log(node, std::move(appended)));
    };
    Opened first = open({});
    OpNumber op;
    for (const Entry& entry : first.entries) {
        GALGO_CHECK(entry.header.size == wire::kPrepareHeaderSize + entry.body.size());
        GALGO_CHECK(wire::prepare_body_matches(entry.header, entry.body));
        GALGO_CHECK(entry.header.op > op);
        op = entry.header.op;
    }
    if (first.refused) {
        GALGO_CHECK(node.disk->read_file(path) == before);
        return std::move(first.entries);
    }
    if (first.head.value() > ~std::uint64_t{0} - 2) {
        return std::move(first.entries);  // no number is left for a change
    }
    const Entry next{.header = {.operation = wire::Operation::kLogout},
                     .body = Bytes(3, std::byte{7})};
    const Opened second = open(next);
    GALGO_CHECK(!second.refused && second.healed_count == 0 && second.entries == first.entries);
    const Opened third = open({});
    GALGO_CHECK(!third.refused && third.healed_count == 0);
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
        GALGO_CHECK(left.sessions().size() <= left.sessions().sessions_max());
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
    if (size > 0 && size <= galgo::kInputBytesMax) {
        const auto rest = std::as_bytes(std::span(data, size).subspan(1));
        galgo::check_states(galgo::check_log(data[0] % 3U, rest));
    }
    return 0;
}

extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure) {
    if (size == 0) {
        return;
    }
    const auto rest = std::as_writable_bytes(std::span(data, size).subspan(1));
    if (data[0] % 3U == 0) {
        galgo::fuzz::seal_entries(rest, structure);
    } else {
        galgo::fuzz::seal_wal(rest, structure);
    }
}
