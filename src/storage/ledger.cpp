#include "storage/ledger.hpp"

#include <algorithm>
#include <charconv>
#include <format>
#include <optional>
#include <string_view>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint64_t kMagic = 0x31474C4F474C4147ULL;  // "GALGOLG1"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 48;
constexpr std::size_t kRowBytes = 64;  // and its offsets behind it
constexpr std::size_t kOffsetBytes = 8;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::uint32_t kOffsetsStable = 1;
/// Of one ledger: a bound for what a start reads into memory.
constexpr std::uint64_t kLedgerBytesMax = 256ULL << 20;
constexpr std::string_view kPrefix = "ledger-";

bool is_owner(std::uint32_t value) noexcept {
    return value == static_cast<std::uint32_t>(OffsetOwner::kConsumer) ||
           value == static_cast<std::uint32_t>(OffsetOwner::kGroup);
}

std::optional<ShardIndex> parse_ledger_name(std::string_view name) noexcept {
    if (!name.starts_with(kPrefix)) {
        return std::nullopt;
    }
    name.remove_prefix(kPrefix.size());
    std::uint16_t shard = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), shard);
    return error == std::errc{} && end == name.data() + name.size()
               ? std::optional(ShardIndex(shard))
               : std::nullopt;
}

Task<Result<std::vector<std::byte>>> read_whole(runtime::IoBackend& io, std::string path) {
    GALGO_CO_TRY_ASSIGN(const runtime::FileFacts facts, io.file_facts(path));
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(io, path, runtime::OpenMode::kRead));
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(std::min(facts.size_bytes, kLedgerBytesMax)));
    Result<std::size_t> got = std::size_t{0};
    if (!bytes.empty()) {
        got = co_await runtime::read(io, file, bytes, 0);
    }
    (void)co_await runtime::close(io, file);
    GALGO_CO_TRY(got);
    bytes.resize(*got);
    co_return bytes;
}

}  // namespace

std::vector<std::byte> encode_ledger(const Ledger& ledger) {
    std::size_t size = kHeaderBytes + kChecksumBytes;
    for (const LedgerRow& row : ledger.rows) {
        size += kRowBytes + row.offsets.size() * kOffsetBytes;
    }
    std::vector<std::byte> bytes(size);
    const MutableBytes to(bytes);
    store<std::uint64_t>(to, 0, kMagic);
    store<std::uint32_t>(to, 8, kVersion);
    store<std::uint32_t>(to, 12, ledger.shard.value());
    store<std::uint64_t>(to, 16, ledger.epoch);
    store<std::uint64_t>(to, 24, ledger.boot);
    store<std::uint64_t>(to, 32, ledger.rows.size());
    store<std::uint64_t>(to, 40, size);
    std::size_t at = kHeaderBytes;
    for (const LedgerRow& row : ledger.rows) {
        store<std::uint64_t>(to, at, row.partition.value());
        store<std::uint64_t>(to, at + 8, row.incarnation.value());
        store<std::uint64_t>(to, at + 16, row.written.files.value());
        store<std::uint64_t>(to, at + 24, row.written.all.value());
        store<std::uint64_t>(to, at + 32, row.stable.files.value());
        store<std::uint64_t>(to, at + 40, row.stable.all.value());
        store<std::uint32_t>(to, at + 48, row.offsets_stable ? kOffsetsStable : 0);
        store<std::uint32_t>(to, at + 52, static_cast<std::uint32_t>(row.offsets.size()));
        store<std::uint64_t>(to, at + 56, row.offsets_op.value());
        at += kRowBytes;
        for (const OffsetFileId& offset : row.offsets) {
            store<std::uint32_t>(to, at, static_cast<std::uint32_t>(offset.owner));
            store<std::uint32_t>(to, at + 4, offset.id);
            at += kOffsetBytes;
        }
    }
    store<std::uint64_t>(to, at, detail::checksum(ConstBytes(bytes).first(at)));
    return bytes;
}

std::optional<Ledger> decode_ledger(ConstBytes from) {
    if (from.size() < kHeaderBytes + kChecksumBytes || load<std::uint64_t>(from, 0) != kMagic ||
        load<std::uint32_t>(from, 8) != kVersion || load<std::uint32_t>(from, 12) > 0xFFFF) {
        return std::nullopt;
    }
    const std::uint64_t size = load<std::uint64_t>(from, 40);
    if (size < kHeaderBytes + kChecksumBytes || size > from.size()) {
        return std::nullopt;
    }
    ConstBytes rest = from.first(static_cast<std::size_t>(size) - kChecksumBytes);
    if (load<std::uint64_t>(from, rest.size()) != detail::checksum(rest)) {
        return std::nullopt;
    }
    Ledger ledger{.shard = ShardIndex(static_cast<std::uint16_t>(load<std::uint32_t>(from, 12))),
                  .epoch = load<std::uint64_t>(from, 16),
                  .boot = load<std::uint64_t>(from, 24),
                  .rows = {}};
    rest = rest.subspan(kHeaderBytes);
    while (!rest.empty()) {
        if (rest.size() < kRowBytes) {
            return std::nullopt;
        }
        LedgerRow row{.partition = PartitionKey(load<std::uint64_t>(rest, 0)),
                      .incarnation = Incarnation(load<std::uint64_t>(rest, 8)),
                      .written = {.files = Offset(load<std::uint64_t>(rest, 16)),
                                  .all = Offset(load<std::uint64_t>(rest, 24))},
                      .stable = {.files = Offset(load<std::uint64_t>(rest, 32)),
                                 .all = Offset(load<std::uint64_t>(rest, 40))},
                      .offsets_stable = (load<std::uint32_t>(rest, 48) & kOffsetsStable) != 0,
                      .offsets_op = OpNumber(load<std::uint64_t>(rest, 56)),
                      .offsets = {}};
        const std::size_t count = load<std::uint32_t>(rest, 52);
        rest = rest.subspan(kRowBytes);
        if (rest.size() / kOffsetBytes < count) {
            return std::nullopt;
        }
        for (std::size_t i = 0; i < count; ++i) {
            const auto owner = load<std::uint32_t>(rest, i * kOffsetBytes);
            if (!is_owner(owner)) {
                return std::nullopt;
            }
            row.offsets.push_back({.owner = static_cast<OffsetOwner>(owner),
                                   .id = load<std::uint32_t>(rest, i * kOffsetBytes + 4)});
        }
        rest = rest.subspan(count * kOffsetBytes);
        ledger.rows.push_back(std::move(row));
    }
    if (ledger.rows.size() != load<std::uint64_t>(from, 32)) {
        return std::nullopt;
    }
    return ledger;
}

std::string ledger_name(ShardIndex shard) {
    return std::format("{}{}", kPrefix, shard.value());
}

LedgerClaims claims_of(const std::vector<Ledger>& ledgers, BootNumber boot) {
    std::vector<const Ledger*> by_start;
    for (const Ledger& ledger : ledgers) {
        by_start.push_back(&ledger);
    }
    std::ranges::stable_sort(by_start, {}, &Ledger::epoch);
    LedgerClaims claims;
    for (const Ledger* ledger : by_start) {
        const bool same_boot = boot != 0 && ledger->boot == boot;
        for (const LedgerRow& row : ledger->rows) {
            LedgerRow claim = row;
            if (same_boot) {
                claim.offsets_op = OpNumber{~std::uint64_t{0}};
            } else {
                claim.written = row.stable;
                if (!row.offsets_stable) {
                    claim.offsets.clear();
                }
            }
            claims[{row.partition, row.incarnation}] = std::move(claim);
        }
    }
    std::erase_if(claims, [](const auto& entry) { return entry.second.empty(); });
    return claims;
}

Task<LedgerClaims> load_ledgers(runtime::IoBackend& io, std::string directory, BootNumber boot) {
    std::vector<Ledger> ledgers;
    const auto entries = io.list_directory(directory);
    for (std::size_t i = 0; entries.has_value() && i < entries->size(); ++i) {
        if (!parse_ledger_name((*entries)[i].name).has_value()) {
            continue;
        }
        const std::string path = directory + '/' + (*entries)[i].name;
        const Result<std::vector<std::byte>> bytes = co_await read_whole(io, path);
        std::optional<Ledger> ledger = bytes.has_value() ? decode_ledger(*bytes) : std::nullopt;
        if (ledger.has_value()) {
            ledgers.push_back(*std::move(ledger));
        } else {
            observe::log_warn("storage",
                              "a ledger is damaged and says nothing of the files of partitions",
                              {{"file", path}});
        }
    }
    co_return claims_of(ledgers, boot);
}

Task<Status> write_ledger(runtime::IoBackend& io, std::string directory, Ledger ledger) {
    const std::string name = ledger_name(ledger.shard);
    const std::vector<std::byte> bytes = encode_ledger(ledger);
    const Status written = co_await detail::replace_unsynced(io, directory, name, bytes);
    if (!written.has_value()) {
        (void)co_await runtime::unlink(io, directory + '/' + name);
    }
    co_return written;
}

Task<void> remove_ledgers(runtime::IoBackend& io, std::string directory, ShardIndex first) {
    const auto entries = io.list_directory(directory);
    for (std::size_t i = 0; entries.has_value() && i < entries->size(); ++i) {
        const std::optional<ShardIndex> shard = parse_ledger_name((*entries)[i].name);
        if (shard.has_value() && *shard >= first) {
            (void)co_await runtime::unlink(io, directory + '/' + (*entries)[i].name);
        }
    }
}

}  // namespace galgo::storage
