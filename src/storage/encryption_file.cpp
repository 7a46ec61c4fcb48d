#include "storage/encryption_file.hpp"

#include <algorithm>
#include <array>
#include <format>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint64_t kMagic = 0x314b'454f'474c'4147;  // "GALGOEK1"
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kAlgorithm = 1;  // AES-256-GCM

constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kAlgorithmAt = 12;
constexpr std::size_t kKeyIdAt = 16;
constexpr std::size_t kCheckAt = 24;
constexpr std::size_t kZeroAt = 40;
constexpr std::size_t kChecksumAt = kEncryptionFileBytes - 8;

Task<Result<std::optional<std::string>>> read_bytes(runtime::IoBackend& io, std::string path) {
    const Result<runtime::FileHandle> opened =
        co_await runtime::open(io, path, runtime::OpenMode::kRead);
    if (!opened.has_value() && opened.error().os_errno == ENOENT) {
        co_return std::nullopt;
    }
    GALGO_CO_TRY(opened);
    std::array<std::byte, kEncryptionFileBytes + 1> bytes{};  // one more shows a longer file
    const Result<std::size_t> got = co_await runtime::read(io, *opened, bytes, 0);
    (void)co_await runtime::close(io, *opened);
    GALGO_CO_TRY(got);
    co_return std::string(reinterpret_cast<const char*>(bytes.data()), *got);
}

}  // namespace

void encode_key_mark(MutableBytes to, const KeyMark& mark) noexcept {
    GALGO_CHECK(to.size() == kEncryptionFileBytes);
    std::ranges::fill(to, std::byte{0});
    store<std::uint64_t>(to, kMagicAt, kMagic);
    store<std::uint32_t>(to, kVersionAt, kVersion);
    store<std::uint32_t>(to, kAlgorithmAt, kAlgorithm);
    store<std::uint64_t>(to, kKeyIdAt, mark.key_id);
    std::ranges::copy(mark.check, to.subspan(kCheckAt).begin());
    store<std::uint64_t>(to, kChecksumAt, detail::checksum(to.first(kChecksumAt)));
}

std::optional<KeyMark> decode_key_mark(ConstBytes bytes) noexcept {
    if (bytes.size() != kEncryptionFileBytes || load<std::uint64_t>(bytes, kMagicAt) != kMagic ||
        load<std::uint32_t>(bytes, kVersionAt) != kVersion ||
        load<std::uint32_t>(bytes, kAlgorithmAt) != kAlgorithm ||
        load<std::uint64_t>(bytes, kZeroAt) != 0 || load<std::uint64_t>(bytes, kZeroAt + 8) != 0 ||
        load<std::uint64_t>(bytes, kChecksumAt) != detail::checksum(bytes.first(kChecksumAt))) {
        return std::nullopt;
    }
    KeyMark mark{.key_id = load<std::uint64_t>(bytes, kKeyIdAt)};
    std::ranges::copy(bytes.subspan(kCheckAt, mark.check.size()), mark.check.begin());
    return mark;
}

Task<OrRefusal<void>> check_key(runtime::IoBackend& io, std::string directory, const DataKey* key,
                                bool is_expected) {
    const std::string path = directory + '/' + kEncryptionFileName;
    const Result<std::optional<std::string>> bytes = co_await read_bytes(io, path);
    if (!bytes.has_value()) {
        co_return refuse(bytes.error(), std::format("{} cannot be read: {}; {}", path,
                                                    to_string(bytes.error()), kDiskRemedy));
    }
    const Error error{.code = ErrorCode::kInvalidEncryptionKey};
    const std::string_view remedy =
        "restore it from a backup, or, when system.encryption.key is surely the key that was used "
        "before, delete it and the line \"encryption: ...\" of FORMAT, and the next start writes "
        "both again";
    if (!bytes->has_value()) {
        if (is_expected) {
            co_return refuse(error, std::format("{} is gone, and FORMAT says that messages in this "
                                                "directory are encrypted: {}",
                                                path, remedy));
        }
        co_return {};
    }
    const std::optional<KeyMark> mark = decode_key_mark(as_bytes(**bytes));
    if (!mark.has_value()) {
        co_return refuse(error, std::format("{} is damaged: {}", path, remedy));
    }
    if (key == nullptr) {
        co_return refuse(error,
                         std::format("{} says that messages in this directory are encrypted, "
                                     "but encryption is off: set system.encryption.enabled, "
                                     "and system.encryption.key to the key with the id "
                                     "{:016x}",
                                     path, mark->key_id));
    }
    if (*mark != KeyMark{.key_id = key->id(), .check = key->check()}) {
        co_return refuse(
            error, std::format("{} says that messages in this directory are encrypted with "
                               "another key: set system.encryption.key to the one with the id "
                               "{:016x} (the present one has {:016x})",
                               path, mark->key_id, key->id()));
    }
    co_return {};
}

Task<OrRefusal<void>> write_key_mark(runtime::IoBackend& io, std::string directory,
                                     const DataKey& key) {
    const std::string path = directory + '/' + kEncryptionFileName;
    Status written;
    const Result<runtime::FileFacts> facts = io.file_facts(path);
    if (!facts.has_value()) {
        std::array<std::byte, kEncryptionFileBytes> fresh{};
        encode_key_mark(fresh, {.key_id = key.id(), .check = key.check()});
        const std::array pieces{ConstBytes(fresh)};
        written = co_await detail::replace_private_file(io, directory, kEncryptionFileName, pieces);
    }
    // Always: a start that was killed may have written it and not come this far.
    if (written.has_value()) {
        written = co_await runtime::sync_directory(io, directory);
    }
    if (!written.has_value()) {
        co_return refuse(written.error(),
                         std::format("{} cannot be written: {}; {}", path,
                                     to_string(written.error()), remedy_of(written.error())));
    }
    observe::log_info("storage", "messages are encrypted at rest",
                      {{"key_id", std::format("{:016x}", key.id())}});
    co_return {};
}

}  // namespace galgo::storage
