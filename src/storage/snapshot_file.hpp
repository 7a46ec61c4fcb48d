// A snapshot of the metadata group as a file, `metadata/snapshot.{op:020}`: a header of 4 KiB, the
// payload (metadata/node_snapshot.hpp made it), a table with a checksum for each 256 KiB of the
// payload. Written once, under another name, synced and renamed; never changed. Shard 0.
// docs/formats/snapshot.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"
#include "storage/refusal.hpp"
#include "storage/superblock.hpp"

namespace galgo::storage {

inline constexpr std::size_t kSnapshotHeaderBytes = 4096;
inline constexpr std::size_t kSnapshotChunkBytes = std::size_t{256} << 10U;
/// A payload above that is damage.
inline constexpr std::uint64_t kSnapshotBytesMax = std::uint64_t{4} << 30U;

struct SnapshotContents {
    OpNumber op;          ///< last operation that is in it
    Timestamp timestamp;  ///< its stamp
    std::vector<std::byte> payload;
};

[[nodiscard]] std::string snapshot_path(const std::string& directory, OpNumber op);
/// The op of a file name, if it is one of a snapshot.
[[nodiscard]] std::optional<OpNumber> snapshot_op(std::string_view file_name);

/// Contents and what a file has around them.
struct SealedSnapshot {
    SnapshotContents contents;
    SnapshotRef ref;
    std::vector<std::byte> header;
    std::vector<std::byte> table;
};
/// Reads all of the payload twice: not on a shard's loop, when it is large. Pure.
[[nodiscard]] SealedSnapshot seal_snapshot(SnapshotContents contents);

/// Writes, syncs and renames; the directory is synced too. Suspends after each chunk. An existing
/// file of that op is replaced.
[[nodiscard]] coro::Task<Status> write_snapshot(runtime::IoBackend& io,
                                                const std::string& directory,
                                                const SealedSnapshot& snapshot);

/// Reads and verifies the file that `ref` names. A refusal names the file and the place.
[[nodiscard]] coro::Task<OrRefusal<SnapshotContents>> read_snapshot(runtime::IoBackend& io,
                                                                    const std::string& directory,
                                                                    SnapshotRef ref);

}  // namespace galgo::storage
