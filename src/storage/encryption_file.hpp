// `{path}/ENCRYPTION`: which key the messages of a data directory are encrypted with, without
// telling it (docs/formats/encryption.md). Written and synced before the first of them, then FORMAT
// says that it has to be there; read at every start: a start with another key, or with none, is
// refused, because nothing that was acknowledged could be served. Before the shards run.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"
#include "storage/data_key.hpp"
#include "storage/refusal.hpp"

namespace galgo::storage {

inline constexpr const char* kEncryptionFileName = "ENCRYPTION";
inline constexpr std::size_t kEncryptionFileBytes = 64;

/// What the file says.
struct KeyMark {
    std::uint64_t key_id = 0;
    KeyCheck check{};

    bool operator==(const KeyMark&) const noexcept = default;
};

/// Writes 64 bytes.
void encode_key_mark(MutableBytes to, const KeyMark& mark) noexcept;
/// Empty when the bytes do not verify.
[[nodiscard]] std::optional<KeyMark> decode_key_mark(ConstBytes bytes) noexcept;

/// Compares `key` (null: encryption is off) with what the file in `directory` says. An absent one
/// is fine unless it `is_expected`. Changes nothing.
coro::Task<OrRefusal<void>> check_key(runtime::IoBackend& io, std::string directory,
                                      const DataKey* key, bool is_expected);
/// After check_key(): writes the file when it is absent. It is stable when this returns.
coro::Task<OrRefusal<void>> write_key_mark(runtime::IoBackend& io, std::string directory,
                                           const DataKey& key);

}  // namespace galgo::storage
