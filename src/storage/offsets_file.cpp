// Checkpoints of consumer offsets.
#include "storage/offsets_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <tuple>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/keep_copy.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage {

using coro::Task;
using detail::FileKind;

namespace {

constexpr std::string_view kCheckpoint = "checkpoint";

std::string directory_of(const std::string& partition_directory, OffsetOwner owner) {
    return partition_directory +
           (owner == OffsetOwner::kConsumer ? "/offsets/consumers" : "/offsets/groups");
}

/// What a file's checksum names besides its value.
struct Place {
    FileKind kind;
    FileKind unbound_kind;  ///< of the form before, which names nothing else
    std::uint32_t id = 0;
};

constexpr Place kMark{.kind = FileKind::kOffsetMark, .unbound_kind = FileKind::kUnboundOffsetMark};

Place place_of(OffsetOwner owner, std::uint32_t id) noexcept {
    if (owner == OffsetOwner::kGroup) {
        return {.kind = FileKind::kGroupOffset,
                .unbound_kind = FileKind::kUnboundGroupOffset,
                .id = id};
    }
    return {.kind = FileKind::kConsumerOffset,
            .unbound_kind = FileKind::kUnboundConsumerOffset,
            .id = id};
}

std::uint64_t checksum_of(const OffsetsHome& home, const Place& place,
                          std::uint64_t value) noexcept {
    std::byte bytes[32];
    store<std::uint32_t>(bytes, 0, static_cast<std::uint32_t>(place.kind));
    store<std::uint32_t>(bytes, 4, place.id);
    store<std::uint64_t>(bytes, 8, home.partition.value());
    store<std::uint64_t>(bytes, 16, home.incarnation.value());
    store<std::uint64_t>(bytes, 24, value);
    return detail::checksum(bytes);
}

std::array<std::byte, kOffsetFileBytes> encode(const OffsetsHome& home, const Place& place,
                                               std::uint64_t value) noexcept {
    std::array<std::byte, kOffsetFileBytes> bytes{};
    store<std::uint64_t>(bytes, 0, value);
    store<std::uint64_t>(bytes, 8, checksum_of(home, place, value));
    return bytes;
}

std::optional<std::uint64_t> decode(const OffsetsHome& home, const Place& place,
                                    ConstBytes bytes) noexcept {
    if (bytes.size() != kOffsetFileBytes) {
        return std::nullopt;
    }
    const auto value = load<std::uint64_t>(bytes, 0);
    const auto check = load<std::uint64_t>(bytes, 8);
    return check == checksum_of(home, place, value) ||
                   check == detail::kind_checksum(place.unbound_kind, value)
               ? std::optional(value)
               : std::nullopt;
}

std::optional<std::uint32_t> parse_id(std::string_view name) noexcept {
    std::uint32_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc{} || end != name.data() + name.size()) {
        return std::nullopt;
    }
    return id;
}

/// Empty: the file does not verify.
Task<Result<std::optional<std::uint64_t>>> read_file(runtime::IoBackend& io,
                                                     const OffsetsHome& home,
                                                     const std::string& path, Place place) {
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(io, path, runtime::OpenMode::kRead));
    std::byte bytes[kOffsetFileBytes + 1];
    const Result<std::size_t> got = co_await runtime::read(io, file, bytes, 0);
    (void)co_await runtime::close(io, file);
    GALGO_CO_TRY(got);
    co_return decode(home, place, ConstBytes(bytes, *got));
}

Task<Status> load_directory(runtime::IoBackend& io, const OffsetsHome& home, OffsetOwner owner,
                            LoadedOffsets& loaded) {
    const std::string directory = directory_of(home.directory, owner);
    const auto entries = io.list_directory(directory);
    if (!entries.has_value()) {
        if (entries.error().os_errno == ENOENT) {
            co_return Status{};
        }
        co_return std::unexpected(entries.error());
    }
    for (const runtime::DirectoryEntry& entry : *entries) {
        const std::string path = directory + '/' + entry.name;
        if (entry.name.ends_with(detail::kTemporary)) {
            (void)co_await runtime::unlink(io, path);
            continue;
        }
        const auto id = parse_id(entry.name);
        if (!id.has_value()) {
            continue;
        }
        GALGO_CO_TRY_ASSIGN(const std::optional<std::uint64_t> offset,
                            co_await read_file(io, home, path, place_of(owner, *id)));
        if (offset.has_value()) {
            loaded.offsets.push_back({.owner = owner, .id = *id, .offset = Offset{*offset}});
        } else {
            loaded.damaged.push_back({.owner = owner, .id = *id});
        }
    }
    co_return Status{};
}

}  // namespace

std::array<std::byte, kOffsetFileBytes> encode_offset_file(const OffsetsHome& home,
                                                           const ConsumerOffset& offset) noexcept {
    return encode(home, place_of(offset.owner, offset.id), offset.offset.value());
}

std::optional<Offset> decode_offset_file(const OffsetsHome& home, OffsetOwner owner,
                                         std::uint32_t id, ConstBytes bytes) noexcept {
    const std::optional<std::uint64_t> value = decode(home, place_of(owner, id), bytes);
    return value.has_value() ? std::optional(Offset{*value}) : std::nullopt;
}

std::string offset_file_path(const std::string& partition_directory, OffsetOwner owner,
                             std::uint32_t id) {
    return directory_of(partition_directory, owner) + '/' + std::to_string(id);
}

Task<Status> write_offset_file(runtime::IoBackend& io, OffsetsHome home, ConsumerOffset offset,
                               bool sync) {
    const std::string directory = directory_of(home.directory, offset.owner);
    GALGO_CO_TRY(co_await detail::replace_file(io, directory, std::to_string(offset.id),
                                               encode_offset_file(home, offset)));
    if (sync) {
        GALGO_CO_TRY(co_await runtime::sync_directory(io, directory));
        // The directories may be new.
        GALGO_CO_TRY(co_await runtime::sync_directory(io, home.directory + "/offsets"));
        GALGO_CO_TRY(co_await runtime::sync_directory(io, home.directory));
    }
    co_return Status{};
}

Task<Status> write_offset_checkpoint(runtime::IoBackend& io, OffsetsHome home, OpNumber op,
                                     bool sync) {
    const std::string directory = home.directory + "/offsets";
    GALGO_CO_TRY(co_await detail::replace_file(io, directory, std::string(kCheckpoint),
                                               encode(home, kMark, op.value())));
    if (sync) {
        GALGO_CO_TRY(co_await runtime::sync_directory(io, directory));
        GALGO_CO_TRY(co_await runtime::sync_directory(io, home.directory));
    }
    co_return Status{};
}

Task<Status> remove_offset_file(runtime::IoBackend& io, std::string partition_directory,
                                OffsetOwner owner, std::uint32_t id, bool sync) {
    const std::string directory = directory_of(partition_directory, owner);
    const std::string path = offset_file_path(partition_directory, owner, id);
    const Status removed = co_await runtime::unlink(io, path);
    if (!removed.has_value() && removed.error().os_errno != ENOENT) {
        co_return removed;
    }
    if (sync) {
        // Also when it was absent: an earlier attempt may have failed here.
        const Status synced = co_await runtime::sync_directory(io, directory);
        if (!synced.has_value() && synced.error().os_errno != ENOENT) {
            co_return synced;
        }
    }
    co_return Status{};
}

Task<Status> keep_damaged_offset(runtime::IoBackend& io, std::string partition_directory,
                                 OffsetOwner owner, std::uint32_t id) {
    co_return co_await detail::keep_copy(io, directory_of(partition_directory, owner),
                                         std::to_string(id));
}

Task<Result<LoadedOffsets>> load_offsets(runtime::IoBackend& io, OffsetsHome home) {
    LoadedOffsets loaded;
    GALGO_CO_TRY(co_await load_directory(io, home, OffsetOwner::kConsumer, loaded));
    GALGO_CO_TRY(co_await load_directory(io, home, OffsetOwner::kGroup, loaded));
    const std::string checkpoint = home.directory + "/offsets/" + std::string(kCheckpoint);
    const Result<std::optional<std::uint64_t>> mark =
        co_await read_file(io, home, checkpoint, kMark);
    if (mark.has_value() && mark->has_value()) {
        loaded.checkpoint = OpNumber{**mark};
    } else if (mark.has_value()) {
        observe::log_error("storage",
                           "the mark of stored offsets is damaged; what the journals still tell of "
                           "them is applied, newer or not",
                           {{"file", checkpoint}});
    } else if (!mark.has_value() && mark.error().os_errno != ENOENT) {
        co_return std::unexpected(mark.error());
    }
    const auto order = [](const ConsumerOffset& offset) {
        return std::tuple(offset.owner, offset.id);
    };
    std::ranges::sort(loaded.offsets, {}, order);
    std::ranges::sort(loaded.damaged, {}, order);
    co_return loaded;
}

}  // namespace galgo::storage
