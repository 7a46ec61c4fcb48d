#include "storage/journal_list.hpp"

#include <algorithm>
#include <array>
#include <format>

#include "base/check.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint64_t kMagic = 0x314C4A4F474C4147ULL;  // "GALGOJL1"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 48;
constexpr std::size_t kEntryBytes = 16;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kBytesMax = kHeaderBytes + kJournalListMax * kEntryBytes + kChecksumBytes;
constexpr std::string_view kPrefix = "journals-";
constexpr std::string_view kSuffix = ".list";

}  // namespace

std::vector<std::byte> encode_journal_list(const JournalList& list) {
    GALGO_CHECK(list.entries.size() <= kJournalListMax);
    std::vector<std::byte> bytes(kHeaderBytes + list.entries.size() * kEntryBytes + kChecksumBytes);
    const MutableBytes to(bytes);
    store<std::uint64_t>(to, 0, kMagic);
    store<std::uint32_t>(to, 8, kVersion);
    store<std::uint32_t>(to, 12, list.shard.value());
    store<std::uint64_t>(to, 16, list.epoch);
    store<std::uint64_t>(to, 24, list.boot);
    store<std::uint64_t>(to, 32, list.file_bytes);
    store<std::uint64_t>(to, 40, list.entries.size());
    std::size_t at = kHeaderBytes;
    for (const JournalList::Entry& entry : list.entries) {
        store<std::uint64_t>(to, at, entry.sequence);
        store<std::uint64_t>(to, at + 8, entry.former);
        at += kEntryBytes;
    }
    store<std::uint64_t>(to, at, detail::checksum(ConstBytes(bytes).first(at)));
    return bytes;
}

std::optional<JournalList> decode_journal_list(ConstBytes from) {
    if (from.size() < kHeaderBytes + kChecksumBytes || load<std::uint64_t>(from, 0) != kMagic ||
        load<std::uint32_t>(from, 8) != kVersion || load<std::uint32_t>(from, 12) > 0xFFFF ||
        load<std::uint64_t>(from, 40) > kJournalListMax) {
        return std::nullopt;
    }
    const auto count = static_cast<std::size_t>(load<std::uint64_t>(from, 40));
    const std::size_t end = kHeaderBytes + count * kEntryBytes;
    if (from.size() < end + kChecksumBytes ||
        load<std::uint64_t>(from, end) != detail::checksum(from.first(end))) {
        return std::nullopt;
    }
    JournalList list{.shard = ShardIndex(static_cast<std::uint16_t>(load<std::uint32_t>(from, 12))),
                     .epoch = load<std::uint64_t>(from, 16),
                     .boot = load<std::uint64_t>(from, 24),
                     .file_bytes = load<std::uint64_t>(from, 32),
                     .entries = {}};
    for (std::size_t at = kHeaderBytes; at < end; at += kEntryBytes) {
        list.entries.push_back({.sequence = load<std::uint64_t>(from, at),
                                .former = load<std::uint64_t>(from, at + 8)});
    }
    return list;
}

std::string journal_list_name(ShardIndex shard, std::uint64_t epoch) {
    return std::format("{}{}-{:016}{}", kPrefix, shard.value(), epoch, kSuffix);
}

bool is_journal_list_name(std::string_view name) noexcept {
    return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

Task<Status> write_journal_list(runtime::IoBackend& io, std::string directory, JournalList list) {
    const std::string name = journal_list_name(list.shard, list.epoch);
    const std::vector<std::byte> bytes = encode_journal_list(list);
    co_return co_await detail::replace_unsynced(io, std::move(directory), name, bytes);
}

Task<std::optional<JournalList>> read_journal_list(runtime::IoBackend& io, std::string path) {
    const Result<runtime::FileHandle> file =
        co_await runtime::open(io, path, runtime::OpenMode::kRead);
    if (!file.has_value()) {
        co_return std::nullopt;
    }
    std::array<std::byte, kBytesMax> bytes{};
    const Result<std::size_t> got = co_await runtime::read(io, *file, bytes, 0);
    (void)co_await runtime::close(io, *file);
    if (!got.has_value()) {
        co_return std::nullopt;
    }
    co_return decode_journal_list(ConstBytes(bytes).first(*got));
}

}  // namespace galgo::storage
