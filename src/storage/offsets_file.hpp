// Checkpoints of consumer offsets: one file of 16 bytes a consumer, `offsets/consumers/{id}` and
// `offsets/groups/{id}` below the partition's directory: offset u64, checksum u64 over the offset
// and whose it is. Replaced by rename, so that a crash leaves the old or the new one.
// `offsets/checkpoint`, of the same layout and a kind of its own, is the mark: changes with an op
// up to it are in the files, later ones in the shard's journal. Without it a record that outlives
// its checkpoint, in a journal file that another partition holds, would undo newer changes at the
// next start. docs/formats/offsets.md. On the partition's shard.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"

namespace galgo::storage {

inline constexpr std::size_t kOffsetFileBytes = 16;

enum class OffsetOwner : std::uint8_t { kConsumer = 1, kGroup = 2 };

struct ConsumerOffset {
    OffsetOwner owner = OffsetOwner::kConsumer;
    std::uint32_t id = 0;
    Offset offset;
    bool operator==(const ConsumerOffset&) const noexcept = default;
};

/// Whose offsets, and where: files of another partition or of an earlier life do not verify there.
struct OffsetsHome {
    std::string directory;  ///< of the partition
    PartitionKey partition;
    Incarnation incarnation;
};

struct LoadedOffsets {
    OpNumber checkpoint;                  ///< changes up to it are in the files; 0 = no mark
    std::vector<ConsumerOffset> offsets;  ///< by owner and id, ascending
    std::vector<ConsumerOffset>
        damaged;  ///< files that do not verify; left where they are, offset unset
};

[[nodiscard]] std::array<std::byte, kOffsetFileBytes> encode_offset_file(
    const OffsetsHome& home, const ConsumerOffset& offset) noexcept;
/// Empty when size or checksum are wrong, or it is a file of another kind, consumer or life.
/// Files of the form before this one say nothing but their kind, and are believed.
[[nodiscard]] std::optional<Offset> decode_offset_file(const OffsetsHome& home, OffsetOwner owner,
                                                       std::uint32_t id, ConstBytes bytes) noexcept;
[[nodiscard]] std::string offset_file_path(const std::string& partition_directory,
                                           OffsetOwner owner, std::uint32_t id);

/// Replaces the file of one consumer; makes the directories when they are absent. `sync`: stable
/// when it returns, with the entries below the partition's directory and of `offsets` in it; those
/// above are the log's (PartitionLog::prepare_directory).
coro::Task<Status> write_offset_file(runtime::IoBackend& io, OffsetsHome home,
                                     ConsumerOffset offset, bool sync);
/// Replaces the mark: every change with an op up to `op` is in the files.
coro::Task<Status> write_offset_checkpoint(runtime::IoBackend& io, OffsetsHome home, OpNumber op,
                                           bool sync);
/// An absent file is success. `sync`: it stays away after a loss of power, too.
coro::Task<Status> remove_offset_file(runtime::IoBackend& io, std::string partition_directory,
                                      OffsetOwner owner, std::uint32_t id, bool sync);
/// Keeps a copy of a damaged file, before it is replaced or removed, as the first free
/// `{id}.damaged-{n}`, which nothing reads or replaces. An absent file is success.
coro::Task<Status> keep_damaged_offset(runtime::IoBackend& io, std::string partition_directory,
                                       OffsetOwner owner, std::uint32_t id);
/// All files below the partition's directory; absent directories are empty. Names that are no
/// number are skipped, leftovers of an interrupted replacement are deleted. A damaged mark counts
/// as none: then every record of the journals is applied.
coro::Task<Result<LoadedOffsets>> load_offsets(runtime::IoBackend& io, OffsetsHome home);

}  // namespace galgo::storage
