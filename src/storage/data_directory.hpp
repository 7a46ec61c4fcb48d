// DataDirectory: the root of everything a node stores. Taken before anything else is touched: an
// exclusive flock on
// `{path}/LOCK` for as long as the object lives. The descriptor is exposed so that every ring can
// hold it too: the lock then outlives I/O that is still in flight when the process is killed.
//
// `FORMAT` names version and layout as text; a directory of another version is refused, but for the
// two before, whose name stays until finish_upgrade(). Directories are made with mode 0750,
// metadata with 0700.
//
// This file alone uses plain system calls: it runs in main() before any ring exists.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace galgo::storage {

inline constexpr std::uint32_t kDataFormatVersion = 4;
/// The oldest one that is upgraded in place: entries of its indexes have no check, and are rebuilt
/// when their partitions are opened. Format 3 had no ledgers and lists of journals: a server that
/// does not write them would leave them behind as they were, and they would tell of losses.
inline constexpr std::uint32_t kDataFormatUpgradable = 2;

struct DataDirectoryOptions {
    std::string path;
    bool fresh = false;  ///< delete all but LOCK first; refused for a folder of other files
    std::uint32_t lock_wait_ms = 10'000;
};

class DataDirectory {
 public:
    /// Makes, locks and checks the directory. The error is one line for the operator.
    static std::expected<DataDirectory, std::string> open(const DataDirectoryOptions& options);

    /// For a look at a directory that no server uses: makes and changes nothing, refuses what
    /// open() refuses. Without a LOCK, or with one that may not be opened, it is not locked:
    /// lock_descriptor() is -1 then. An absent FORMAT counts as one of the present format.
    static std::expected<DataDirectory, std::string> inspect(const DataDirectoryOptions& options);

    DataDirectory(DataDirectory&& other) noexcept;
    DataDirectory& operator=(DataDirectory&& other) noexcept;
    DataDirectory(const DataDirectory&) = delete;
    DataDirectory& operator=(const DataDirectory&) = delete;
    ~DataDirectory();

    /// All of it is of the present format now: FORMAT says so. Nothing is done when it does
    /// already. Blocks for a write and two syncs. The error is one line; the next start tries
    /// again.
    [[nodiscard]] std::string finish_upgrade();

    /// FORMAT says from now on that there are encrypted messages, so that a restored directory
    /// without the file ENCRYPTION does not look like a plain one. Blocks as above; the error is
    /// one line.
    [[nodiscard]] std::string note_encryption();
    [[nodiscard]] bool is_encrypted() const noexcept { return encrypted_; }

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] bool is_upgrading() const noexcept { return version_ < kDataFormatVersion; }
    [[nodiscard]] int lock_descriptor() const noexcept { return lock_; }
    [[nodiscard]] std::string metadata() const { return path_ + "/metadata"; }
    [[nodiscard]] std::string state() const { return path_ + "/state"; }
    [[nodiscard]] std::string trash() const { return path_ + "/trash"; }
    [[nodiscard]] std::string partition(std::uint32_t stream, std::uint32_t topic,
                                        std::uint32_t partition) const;

 private:
    DataDirectory(std::string path, int lock) noexcept;
    std::string path_;
    int lock_ = -1;
    std::uint32_t version_ = kDataFormatVersion;  ///< as FORMAT says
    bool encrypted_ = false;                      ///< the same
};

}  // namespace galgo::storage
