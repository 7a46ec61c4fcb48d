// What opening the metadata log learns before it changes anything: of the file that is being read,
// and of all that were read. For wal_recovery.cpp and wal_heal.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/wal.hpp"

namespace galgo::storage {

namespace detail {

/// A part of a file. Zeros stand for what could not be read, or lies behind the end.
struct WalPart {
    std::vector<std::byte> bytes;
    std::vector<std::uint64_t> unreadable;  ///< begins of blocks, ascending
    std::uint64_t present = 0;              ///< bytes that lie before the end of the file
};

}  // namespace detail

/// What has to be rewritten in a file once all of the log was read.
struct Wal::Repair {
    std::uint64_t generation = 0;
    std::uint64_t file_bytes = 0;  ///< that a whole file has
    std::uint64_t found_bytes = 0;
    struct Piece {
        std::uint64_t position = 0;
        std::vector<std::byte> bytes;
    };
    std::vector<Piece> pieces;
};

struct Wal::Reading {
    std::uint64_t generation = 0;
    std::string path;
    std::uint64_t size_bytes = 0;
    std::uint64_t region = 0;  ///< bytes of one
    std::array<detail::WalPart, 2> parts{};
    Repair repair{};
    std::uint64_t position = kWalBlockBytes;  ///< of the next batch, within a region
};

struct Wal::Scan {
    bool first_batch = true;  ///< any sequence may come: older generations are gone
    std::string end_path;     ///< where the file before ended, for the text of a refusal
    std::uint64_t end_position = 0;
    bool clean_end = true;  ///< nothing but zeros where the last file ends
    std::vector<Repair> repairs;
    struct Last {
        std::uint64_t generation = 0;
        std::array<std::uint64_t, 2> positions{};  ///< of its copies, in the file
        std::vector<std::byte> bytes;
    };
    std::optional<Last> last;  ///< batch
    std::optional<File> next;  ///< made ahead, whole and unused
};

}  // namespace galgo::storage
