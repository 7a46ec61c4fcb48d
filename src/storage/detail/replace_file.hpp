// Small files that are replaced as a whole: a crash leaves the old bytes or the new ones, and files
// that nothing names, which a start deletes.
// On the shard that owns them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/unique_function.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"

namespace galgo::storage::detail {

/// What a replacement that was cut short leaves behind `name`.
inline constexpr std::string_view kTemporary = ".tmp";

/// Writes `directory`/`name` anew; makes the directory when it is absent. The bytes are stable when
/// it returns, the entry of the directory is for the caller to sync. `bytes`: never shorter than
/// what an earlier call for that name had, or nothing of a `.tmp` is there.
coro::Task<Status> replace_file(runtime::IoBackend& io, std::string directory, std::string name,
                                ConstBytes bytes);
/// The same without a sync, for a format that passes bytes behind its end: after a loss of power
/// the file may be the old one, the new one, or neither.
coro::Task<Status> replace_unsynced(runtime::IoBackend& io, std::string directory, std::string name,
                                    ConstBytes bytes);
/// replace_file() of a file for the server's user alone, one piece after the other.
coro::Task<Status> replace_private_file(runtime::IoBackend& io, std::string directory,
                                        std::string name, std::span<const ConstBytes> pieces);

/// What a sweeper thinks of a name, without kTemporary at its end.
enum class Stray : std::uint8_t {
    kForeign,  ///< somebody else's
    kStays,    ///< but not what a replacement of it left behind
    kGoes,
};
/// Deletes the files of `directory` that `judge` does not want, and what replacements of its files
/// left behind. What cannot be deleted is logged: nothing refers to it.
coro::Task<void> remove_strays(runtime::IoBackend& io, std::string directory,
                               UniqueFunction<Stray(std::string_view name)> judge);

}  // namespace galgo::storage::detail
