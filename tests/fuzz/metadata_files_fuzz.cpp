// Any bytes as the other files of the metadata group. Byte 0 modulo 3 says what the rest is:
//   0 a copy of the superblock; 1 the header of a log file; both are filled up with zeros;
//   2 a snapshot file: its first 64 bytes begin the header, the rest follows at 4096.
// Laws: what is accepted is the same again when it is written and read once more, and what is
// refused is refused with one of the errors that the header names; a refused snapshot is one line
// that names the file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "crypto/hash.hpp"
#include "fuzz_target.hpp"
#include "runtime_sim/test_world.hpp"
#include "seal.hpp"
#include "storage/snapshot_file.hpp"
#include "storage/superblock.hpp"
#include "storage/wal_format.hpp"

namespace galgo {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kSnapshotHeadBytes = 64;
const std::string kDirectory = "/data";

Bytes block_of(ConstBytes input) {
    Bytes block(storage::kSuperblockCopyBytes);
    std::ranges::copy(input.first(std::min(input.size(), block.size())), block.begin());
    return block;
}

void check_superblock(ConstBytes input) {
    const auto decoded = storage::decode_superblock(block_of(input));
    if (!decoded.has_value()) {
        GALGO_CHECK(decoded.error().code == ErrorCode::kInvalidFormat ||
                    decoded.error().code == ErrorCode::kInvalidVersion);
        return;
    }
    const auto again =
        storage::decode_superblock(storage::encode_superblock(decoded->state, decoded->sequence));
    GALGO_CHECK(again.has_value() && again->state == decoded->state &&
                again->sequence == decoded->sequence);
}

void check_log_header(ConstBytes input) {
    const auto region = storage::decode_wal_header(block_of(input), fuzz::kWalSeal);
    if (!region.has_value()) {
        GALGO_CHECK(region.error().code == ErrorCode::kInvalidFormat ||
                    region.error().code == ErrorCode::kInvalidVersion ||
                    region.error().code == ErrorCode::kStateFileCorrupted);
        return;
    }
    GALGO_CHECK(*region <= storage::kWalRegionBytesMax && *region % storage::kWalBlockBytes == 0);
    const auto again = storage::decode_wal_header(
        storage::encode_wal_header(fuzz::kWalSeal, *region), fuzz::kWalSeal);
    GALGO_CHECK(again.has_value() && *again == *region);
}

void check_snapshot(ConstBytes input) {
    const ConstBytes head = input.first(std::min(input.size(), kSnapshotHeadBytes));
    Bytes file(storage::kSnapshotHeaderBytes);
    std::ranges::copy(head, file.begin());
    file.insert(file.end(), input.begin() + static_cast<std::ptrdiff_t>(head.size()), input.end());
    // Named as the header says, so that its own checks are reached.
    storage::SnapshotRef ref{.op = OpNumber(load<std::uint64_t>(file, 16)),
                             .digest = load<std::uint64_t>(file, 40),
                             .size_bytes = load<std::uint64_t>(file, 32)};
    runtime_sim::TestWorld world(1);
    runtime_sim::Node& node = world.add_node();
    const std::string path = storage::snapshot_path(kDirectory, ref.op);
    node.disk->write_file(path, file);
    const auto contents = world.run(node, storage::read_snapshot(*node.io, kDirectory, ref));
    if (!contents.has_value()) {
        GALGO_CHECK(contents.error().text.find(path) != std::string::npos);
        GALGO_CHECK(contents.error().text.find('\n') == std::string::npos);
        return;
    }
    GALGO_CHECK(contents->op == ref.op && contents->payload.size() == ref.size_bytes);
    const storage::SealedSnapshot sealed = storage::seal_snapshot(*contents);
    GALGO_CHECK(sealed.ref == ref);
    GALGO_CHECK(world.run(node, storage::write_snapshot(*node.io, kDirectory, sealed)).has_value());
    const auto again = world.run(node, storage::read_snapshot(*node.io, kDirectory, ref));
    GALGO_CHECK(again.has_value() && again->payload == contents->payload &&
                again->timestamp == contents->timestamp);
}

/// The checksum of a block of 4096 bytes, of which `rest` are the first, stands in front of it.
void seal_block(MutableBytes rest) {
    if (rest.size() < 16) {
        return;
    }
    const Bytes block = block_of(rest);
    store<std::uint64_t>(rest, 0, crypto::xxh3_64(ConstBytes(block).subspan(8)));
}

}  // namespace
}  // namespace galgo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0 || size > 64 * galgo::kKiB) {
        return 0;
    }
    const auto rest = std::as_bytes(std::span(data, size).subspan(1));
    switch (data[0] % 3U) {
        case 0:
            galgo::check_superblock(rest);
            break;
        case 1:
            galgo::check_log_header(rest);
            break;
        default:
            galgo::check_snapshot(rest);
            break;
    }
    return 0;
}

extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure) {
    using namespace galgo;
    if (size < 17) {
        return;
    }
    const MutableBytes rest = std::as_writable_bytes(std::span(data, size).subspan(1));
    if (data[0] % 3U == 2 && rest.size() >= kSnapshotHeadBytes) {
        const MutableBytes head = rest.first(kSnapshotHeadBytes);
        const ConstBytes behind = rest.subspan(kSnapshotHeadBytes);
        if (structure && behind.size() >= sizeof(std::uint64_t)) {
            const ConstBytes payload = behind.first(behind.size() - sizeof(std::uint64_t));
            store<std::uint64_t>(rest, rest.size() - sizeof(std::uint64_t),
                                 crypto::xxh3_64(payload));
            store<std::uint64_t>(head, 32, payload.size());
            store<std::uint64_t>(head, 40, crypto::xxh3_64(payload));
            store<std::uint64_t>(head, 48, crypto::xxh3_64(behind.last(sizeof(std::uint64_t))));
        }
        seal_block(head);
        return;
    }
    seal_block(rest.first(std::min(rest.size(), storage::kSuperblockCopyBytes)));
}
