// Snapshot files of the metadata group.
#include "storage/snapshot_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <format>

#include "crypto/hash.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/paths.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint32_t kMagic = 0x31505347;  // "GSP1"
constexpr std::uint16_t kVersion = 1;
constexpr std::string_view kPrefix = "snapshot.";
constexpr std::size_t kDigits = 20;

// Byte positions within the header.
enum At : std::size_t {
    kAtChecksum = 0,
    kAtMagic = 8,
    kAtVersion = 12,
    kAtOp = 16,
    kAtTimestamp = 24,
    kAtPayloadBytes = 32,
    kAtDigest = 40,
    kAtTableChecksum = 48,
};

std::string name_of(OpNumber op) {
    return std::format("{}{:0{}}", kPrefix, op.value(), kDigits);
}

std::size_t chunk_count(std::uint64_t payload_bytes) {
    return static_cast<std::size_t>((payload_bytes + kSnapshotChunkBytes - 1) /
                                    kSnapshotChunkBytes);
}

ConstBytes chunk_of(ConstBytes payload, std::size_t index) {
    const std::size_t begin = index * kSnapshotChunkBytes;
    return payload.subspan(begin, std::min(kSnapshotChunkBytes, payload.size() - begin));
}

std::unexpected<Refusal> damaged(const std::string& path, std::string_view what) {
    return refuse(fail(ErrorCode::kStateFileCorrupted).error(),
                  std::format("{} is damaged: {}", path, what));
}

}  // namespace

std::string snapshot_path(const std::string& directory, OpNumber op) {
    return directory + '/' + name_of(op);
}

std::optional<OpNumber> snapshot_op(std::string_view file_name) {
    const std::optional<std::uint64_t> op = detail::numbered(file_name, kPrefix, kDigits);
    return op.has_value() ? std::optional(OpNumber(*op)) : std::nullopt;
}

SealedSnapshot seal_snapshot(SnapshotContents contents) {
    const ConstBytes payload(contents.payload);
    crypto::Xxh3Stream digest;
    std::vector<std::byte> table(chunk_count(payload.size()) * sizeof(std::uint64_t));
    for (std::size_t i = 0; i < chunk_count(payload.size()); ++i) {
        const ConstBytes chunk = chunk_of(payload, i);
        digest.update(chunk);
        store<std::uint64_t>(table, i * sizeof(std::uint64_t), crypto::xxh3_64(chunk));
    }
    const SnapshotRef ref{
        .op = contents.op, .digest = digest.digest(), .size_bytes = payload.size()};
    std::vector<std::byte> header(kSnapshotHeaderBytes);
    store<std::uint32_t>(header, kAtMagic, kMagic);
    store<std::uint16_t>(header, kAtVersion, kVersion);
    store<std::uint64_t>(header, kAtOp, contents.op.value());
    store<std::uint64_t>(header, kAtTimestamp, contents.timestamp.value());
    store<std::uint64_t>(header, kAtPayloadBytes, ref.size_bytes);
    store<std::uint64_t>(header, kAtDigest, ref.digest);
    store<std::uint64_t>(header, kAtTableChecksum, crypto::xxh3_64(table));
    store<std::uint64_t>(header, kAtChecksum,
                         crypto::xxh3_64(ConstBytes(header).subspan(kAtMagic)));
    return {.contents = std::move(contents),
            .ref = ref,
            .header = std::move(header),
            .table = std::move(table)};
}

Task<Status> write_snapshot(runtime::IoBackend& io, const std::string& directory,
                            const SealedSnapshot& snapshot) {
    const ConstBytes payload(snapshot.contents.payload);
    std::vector<ConstBytes> pieces{snapshot.header};
    for (std::size_t i = 0; i < chunk_count(payload.size()); ++i) {
        pieces.push_back(chunk_of(payload, i));
    }
    pieces.emplace_back(snapshot.table);
    GALGO_CO_TRY(co_await detail::replace_private_file(io, directory, name_of(snapshot.contents.op),
                                                       pieces));
    co_return co_await runtime::sync_directory(io, directory);
}

namespace {

/// The part of reading that has an open file.
Task<OrRefusal<SnapshotContents>> read_open(runtime::IoBackend& io, runtime::FileHandle file,
                                            const std::string& path, SnapshotRef ref,
                                            std::uint64_t file_bytes) {
    const auto unreadable = [&path](const Error& error) {
        return refuse(error, std::format("cannot read {}: {}", path, to_string(error)));
    };
    std::vector<std::byte> header(kSnapshotHeaderBytes);
    const Result<std::size_t> head = co_await runtime::read(io, file, header, 0);
    if (!head.has_value()) {
        co_return unreadable(head.error());
    }
    if (*head != header.size() || load<std::uint32_t>(header, kAtMagic) != kMagic ||
        load<std::uint64_t>(header, kAtChecksum) !=
            crypto::xxh3_64(ConstBytes(header).subspan(kAtMagic))) {
        co_return damaged(path, "its header at position 0 does not verify");
    }
    if (load<std::uint16_t>(header, kAtVersion) != kVersion) {
        co_return refuse(fail(ErrorCode::kInvalidVersion).error(),
                         std::format("{} was written by another version", path));
    }
    const std::uint64_t payload_bytes = load<std::uint64_t>(header, kAtPayloadBytes);
    if (load<std::uint64_t>(header, kAtOp) != ref.op.value() || payload_bytes != ref.size_bytes ||
        payload_bytes > kSnapshotBytesMax || load<std::uint64_t>(header, kAtDigest) != ref.digest) {
        co_return damaged(path, "its header is that of another snapshot");
    }
    const std::size_t chunks = chunk_count(payload_bytes);
    const std::uint64_t whole = kSnapshotHeaderBytes + payload_bytes + chunks * sizeof(ref.digest);
    if (file_bytes < whole) {
        co_return damaged(path, std::format("it ends at {} of {} bytes", file_bytes, whole));
    }
    std::vector<std::byte> table(chunks * sizeof(std::uint64_t));
    const Result<std::size_t> table_got =
        co_await runtime::read(io, file, table, kSnapshotHeaderBytes + payload_bytes);
    if (!table_got.has_value()) {
        co_return unreadable(table_got.error());
    }
    const bool table_whole =
        load<std::uint64_t>(header, kAtTableChecksum) == crypto::xxh3_64(table);
    SnapshotContents contents{.op = ref.op,
                              .timestamp = Timestamp(load<std::uint64_t>(header, kAtTimestamp))};
    contents.payload.resize(static_cast<std::size_t>(payload_bytes));
    crypto::Xxh3Stream digest;
    for (std::size_t i = 0; i < chunks; ++i) {
        const std::size_t begin = i * kSnapshotChunkBytes;
        const MutableBytes chunk =
            MutableBytes(contents.payload)
                .subspan(begin, std::min(kSnapshotChunkBytes, contents.payload.size() - begin));
        const Result<std::size_t> got =
            co_await runtime::read(io, file, chunk, kSnapshotHeaderBytes + begin);
        if (!got.has_value()) {
            co_return unreadable(got.error());
        }
        digest.update(chunk);
        if (table_whole &&
            load<std::uint64_t>(table, i * sizeof(std::uint64_t)) != crypto::xxh3_64(chunk)) {
            co_return damaged(path, std::format("chunk {} of {}, at position {}, does not verify",
                                                i + 1, chunks, kSnapshotHeaderBytes + begin));
        }
    }
    // The table only tells where damage is: without it the digest of the whole decides.
    if (digest.digest() != ref.digest) {
        co_return damaged(path, "its payload does not verify");
    }
    co_return contents;
}

}  // namespace

Task<OrRefusal<SnapshotContents>> read_snapshot(runtime::IoBackend& io,
                                                const std::string& directory, SnapshotRef ref) {
    const std::string path = snapshot_path(directory, ref.op);
    const Result<runtime::FileFacts> facts = io.file_facts(path);
    if (!facts.has_value()) {
        co_return refuse(facts.error(),
                         facts.error().os_errno == ENOENT
                             ? std::format("{} is missing", path)
                             : std::format("cannot read {}: {}", path, to_string(facts.error())));
    }
    const Result<runtime::FileHandle> file =
        co_await runtime::open(io, path, runtime::OpenMode::kRead);
    if (!file.has_value()) {
        co_return refuse(file.error(),
                         std::format("cannot open {}: {}", path, to_string(file.error())));
    }
    OrRefusal<SnapshotContents> contents =
        co_await read_open(io, *file, path, ref, facts->size_bytes);
    (void)co_await runtime::close(io, *file);
    co_return contents;
}

}  // namespace galgo::storage
