// SegmentCursor: walks the batches of one segment file, through a window of pooled memory. Batches
// that are wanted come out as slices of that window, contiguous and without a copy; headers of the
// others are looked at only. Also: look-up in an index file, verification of one batch, search for
// the next whole batch behind damage.
//
// Bytes of the file are never trusted: a header that does not decode, a batch that leaves the file,
// or a sector that cannot be read is a step of kind kDamaged, not an error; errors are the other
// ones of the system and of the pool.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "coro/ready_queue.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "runtime/io.hpp"
#include "storage/segment_format.hpp"
#include "wire/batch.hpp"

namespace galgo::storage {

enum class StepKind : std::uint8_t { kBatch, kEnd, kDamaged };

struct SegmentStep {
    StepKind kind = StepKind::kEnd;
    std::uint64_t position = 0;  ///< of this batch, of the damage, or the end
    wire::BatchHeader header;    ///< kBatch; kDamaged when header_decoded
    bool header_decoded = false;
    bool unreadable = false;  ///< kDamaged: the disk could not read it (EIO)
    memory::BufRef bytes;     ///< kBatch, when wanted: the whole batch
};

class SegmentCursor {
 public:
    /// `size_bytes`: how far the file may be read. `window_bytes`: first read; later ones are up to
    /// 1 MiB.
    SegmentCursor(runtime::IoBackend& io, memory::BufferPool& pool, memory::AcquireClass admission,
                  runtime::FileHandle file, std::uint64_t size_bytes, std::uint64_t position,
                  std::size_t window_bytes) noexcept;

    /// The batch at the cursor, which moves behind it (it stays at damage). Its bytes come along
    /// when the batch ends behind `wanted_from`.
    coro::Task<Result<SegmentStep>> next(Offset wanted_from);

    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    void seek(std::uint64_t position) noexcept { position_ = position; }

 private:
    coro::Task<Result<std::size_t>> fill(std::size_t wanted_bytes);
    [[nodiscard]] std::size_t available() const noexcept;

    runtime::IoBackend& io_;
    memory::BufferPool& pool_;
    memory::AcquireClass admission_;
    runtime::FileHandle file_;
    std::uint64_t size_bytes_;
    std::uint64_t position_;
    std::size_t window_bytes_;
    memory::BufRef window_;
    std::uint64_t window_at_ = 0;
    bool unreadable_ = false;  ///< what the last fill() met
};

/// Layout and all checksums of one batch; yields between slices of 1 MiB.
coro::Task<Status> verify_batch(coro::ReadyQueue& ready, const memory::BufRef& batch);

/// An index file to look into.
struct IndexFile {
    runtime::FileHandle file;
    std::uint64_t seed = 0;       ///< of its entries (index_seed())
    std::uint64_t places = 0;     ///< of entries in it
    std::uint64_t log_bytes = 0;  ///< what the log has: entries behind it do not count
};
/// Position of the last entry of the file with offset <= key (or timestamp < key, or before
/// `position`), as far as its entries verify; 0 when there is none.
coro::Task<Result<std::uint64_t>> find_by_offset(runtime::IoBackend& io, IndexFile index,
                                                 Offset key);
coro::Task<Result<std::uint64_t>> find_before_position(runtime::IoBackend& io, IndexFile index,
                                                       std::uint64_t position);
coro::Task<Result<std::uint64_t>> find_before_timestamp(runtime::IoBackend& io, IndexFile index,
                                                        Timestamp key);

/// The first position at or behind `from` where a whole valid batch with base_offset >=
/// `offset_min` stands. `work_left`: bytes that may be read and hashed for candidates, counted
/// down; at 0 the search gives up, so that hostile bytes cannot hold a start. What cannot be read
/// ends it, too.
coro::Task<Result<std::optional<std::uint64_t>>> find_valid_batch(
    runtime::IoBackend& io, memory::BufferPool& pool, runtime::FileHandle file, std::uint64_t from,
    std::uint64_t size_bytes, Offset offset_min, std::uint64_t& work_left);

}  // namespace galgo::storage
