#include "storage/read_ahead.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "storage/segment_format.hpp"

namespace galgo::storage {

namespace {

/// A read from memory takes less, the verification of its batches included: so much, and so much a
/// KiB.
constexpr std::uint64_t kWarmNs = 200 * kMicrosecond;
constexpr std::uint64_t kWarmNsPerKib = 500;

}  // namespace

ReadAhead::ReadAhead(runtime::IoBackend& io) noexcept : io_(io) {
    for (Piece& piece : pieces_) {
        piece.complete = [](runtime::IoOp& op, std::int32_t) noexcept {
            static_cast<Piece&>(op).file.reset();  // what fails is read when it is wanted
        };
    }
}

ReadAhead::~ReadAhead() {
    GALGO_CHECK(std::ranges::none_of(pieces_, &Piece::in_flight));
}

/// The reader that goes on at `position`, or reads a part of the same batch again.
ReadAhead::Reader* ReadAhead::find(const Segment& segment, const FileRef& file,
                                   std::uint64_t position) noexcept {
    const auto goes_on = [&](const Reader& reader) {
        return reader.log == segment.log && reader.start == segment.start &&
               position <= reader.next && position + kIndexStrideBytes >= reader.from;
    };
    if (goes_on(readers_[file->reader])) {  // most often
        return &readers_[file->reader];
    }
    for (Reader& reader : readers_) {
        const bool enters = position == 0 && reader.at_end && reader.log == segment.log &&
                            reader.start < segment.start;
        if (enters) {
            reader.start = segment.start;
            reader.from = reader.next = reader.ahead = reader.grown_at = 0;
            reader.at_end = false;
        }
        if (enters || goes_on(reader)) {
            file->reader = static_cast<std::uint8_t>(&reader - readers_.data());
            return &reader;
        }
    }
    return nullptr;
}

ReadAhead::Reader& ReadAhead::oldest() noexcept {
    return *std::ranges::min_element(readers_, {}, &Reader::used_at);
}

void ReadAhead::begin(const Segment& segment, const FileRef& file,
                      std::uint64_t position) noexcept {
    Reader* reader = find(segment, file, position);
    if (reader != nullptr && reader->is_cold) {
        ask(*reader, segment, file);
    }
}

void ReadAhead::end(const Segment& segment, const FileRef& file, std::uint64_t from,
                    std::uint64_t to, std::uint64_t nanoseconds) noexcept {
    Reader* reader = find(segment, file, from);
    if (reader == nullptr) {
        reader = &oldest();
        *reader = {.log = segment.log, .start = segment.start, .ahead = to, .grown_at = to};
        file->reader = static_cast<std::uint8_t>(reader - readers_.data());
    }
    reader->from = from;
    reader->next = std::max(reader->next, to);
    reader->used_at = ++clock_;
    reader->at_end = reader->next >= segment.size_bytes;
    reader->is_cold = reader->is_cold || nanoseconds > kWarmNs + (to - from) / kKiB * kWarmNsPerKib;
}

/// Asks for what lies in the reader's window and was not asked for, when that is worth it.
void ReadAhead::ask(Reader& reader, const Segment& segment, const FileRef& file) noexcept {
    reader.ahead = std::max(reader.ahead, reader.next);
    const std::uint64_t target = std::min(reader.next + reader.window, segment.size_bytes);
    const std::uint64_t step = std::max(kWindowMin, reader.window / 4);
    if (target <= reader.ahead || (target - reader.ahead < step && target != segment.size_bytes)) {
        return;
    }
    while (reader.ahead < target) {
        Piece* piece = free_piece();
        if (piece == nullptr) {
            return;
        }
        const std::uint64_t bytes = std::min(kPieceBytes, target - reader.ahead);
        piece->file = file;
        io_.prefetch(*piece, file.handle(), reader.ahead, bytes);
        reader.ahead += bytes;
        bytes_asked_ += bytes;
    }
    if (reader.next - reader.grown_at >= reader.window / 4) {
        reader.window = std::min(reader.window * 2, kWindowMax);
        reader.grown_at = reader.next;
    }
}

ReadAhead::Piece* ReadAhead::free_piece() noexcept {
    const auto found = std::ranges::find_if_not(pieces_, &Piece::in_flight);
    return found == pieces_.end() ? nullptr : &*found;
}

}  // namespace galgo::storage
