// ReadAhead: has the system read what a consumer that catches up will want next, so that the disk
// works while the shard verifies and sends. It knows the readers of segment files that go forward
// and met the disk (a read that took longer than one from memory does), and names the part of the
// file before each of them once, in pieces. The part grows from 1 MiB to 8 MiB. What is read from
// the tail or from the system's cache costs a look at one slot.
//
// Bounded: 32 readers a shard, least recently used out first, so at most 256 MiB are named ahead;
// 32 pieces on their way, the next reads name what found no room. Nothing behind the part of a
// segment that the plan of a read knows. One shard; allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "runtime/io.hpp"
#include "storage/file_cache.hpp"

namespace galgo::storage {

class ReadAhead {
 public:
    static constexpr std::size_t kReadersMax = 32;
    static constexpr std::size_t kPiecesMax = 32;
    static constexpr std::uint64_t kWindowMin = 1 * kMiB;
    static constexpr std::uint64_t kWindowMax = 8 * kMiB;
    /// The kernel cuts one such request to what its device takes at a time.
    static constexpr std::uint64_t kPieceBytes = 256 * kKiB;

    /// A part of a segment's file, which holds `size_bytes` for its readers.
    struct Segment {
        std::uint64_t log = 0;  ///< number of the partition log in this process
        Offset start;
        std::uint64_t size_bytes = 0;
    };

    explicit ReadAhead(runtime::IoBackend& io) noexcept;
    ~ReadAhead();
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;

    /// A read begins at `position`. Goes it on from an earlier one, what follows is asked for.
    void begin(const Segment& segment, const FileRef& file, std::uint64_t position) noexcept;
    /// It began at `from`, needs nothing before `to` any more, and took `nanoseconds`.
    void end(const Segment& segment, const FileRef& file, std::uint64_t from, std::uint64_t to,
             std::uint64_t nanoseconds) noexcept;

    /// Asked of the system so far.
    [[nodiscard]] std::uint64_t bytes_asked() const noexcept { return bytes_asked_; }

 private:
    struct Reader {
        std::uint64_t log = 0;
        Offset start;
        std::uint64_t from = 0;   ///< of its last read
        std::uint64_t next = 0;   ///< where it goes on
        std::uint64_t ahead = 0;  ///< asked for up to here
        std::uint64_t window = kWindowMin;
        std::uint64_t grown_at = 0;  ///< `next` when the window grew
        std::uint64_t used_at = 0;
        bool is_cold = false;  ///< a read of it met the disk
        bool at_end = false;   ///< of its segment
    };
    struct Piece : runtime::IoOp {
        FileRef file;  ///< of one on its way
    };

    [[nodiscard]] Reader* find(const Segment& segment, const FileRef& file,
                               std::uint64_t position) noexcept;
    [[nodiscard]] Reader& oldest() noexcept;
    void ask(Reader& reader, const Segment& segment, const FileRef& file) noexcept;
    [[nodiscard]] Piece* free_piece() noexcept;

    runtime::IoBackend& io_;
    std::array<Reader, kReadersMax> readers_;
    std::array<Piece, kPiecesMax> pieces_;
    std::uint64_t clock_ = 0;
    std::uint64_t bytes_asked_ = 0;
};

}  // namespace galgo::storage
