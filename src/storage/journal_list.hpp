// Which files the journal of a shard consists of, said outside of them: a journal file that is
// deleted looks like one that was released. docs/formats/journal.md. Bytes are pure; the two
// functions with I/O run on their shard.
//
// Not synced: it counts for starts on the same boot of the machine alone, where what was written
// stands in the page cache, in the order it was written. The list is written before a file gets its
// first record, and before a name goes: so each file that it names is there, unless somebody took
// it away.
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

namespace galgo::storage {

/// Of the machine; 0: not known, and no boot is the same as it.
using BootNumber = std::uint64_t;

struct JournalList {
    /// A file that is used again goes from `former` to `sequence` by a rename: it stands under one
    /// of the two names.
    struct Entry {
        std::uint64_t sequence = 0;
        std::uint64_t former = 0;  ///< 0: it was made under this name; or kPoisoned
        bool operator==(const Entry&) const noexcept = default;
    };
    /// A write or sync of the file failed: it is there, whatever is in it.
    static constexpr std::uint64_t kPoisoned = ~std::uint64_t{0};

    ShardIndex shard{0};
    std::uint64_t epoch = 0;  ///< start of the server that wrote the files
    BootNumber boot = 0;
    std::uint64_t file_bytes = 0;  ///< of each of them
    std::vector<Entry> entries;    ///< at most kJournalListMax
    bool operator==(const JournalList&) const noexcept = default;
};

/// Those in use, and those set aside.
inline constexpr std::size_t kJournalListMax = 128;

[[nodiscard]] std::vector<std::byte> encode_journal_list(const JournalList& list);
/// Empty when magic, version, bounds or checksum are not ours. Bytes behind its end are passed.
[[nodiscard]] std::optional<JournalList> decode_journal_list(ConstBytes from);

/// "journals-3-0000000000000002.list": shard and epoch.
[[nodiscard]] std::string journal_list_name(ShardIndex shard, std::uint64_t epoch);
[[nodiscard]] bool is_journal_list_name(std::string_view name) noexcept;

/// Replaces the list of that shard and epoch in `directory`.
coro::Task<Status> write_journal_list(runtime::IoBackend& io, std::string directory,
                                      JournalList list);
/// Empty when it is absent, does not verify, or cannot be read: then it says nothing.
coro::Task<std::optional<JournalList>> read_journal_list(runtime::IoBackend& io, std::string path);

}  // namespace galgo::storage
