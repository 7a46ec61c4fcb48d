// Passwords at rest: argon2id in the PHC string form,
//   $argon2id$v=19$m=19456,t=2,p=1$<salt, 16 bytes>$<hash, 32 bytes>      (base64 without padding)
//
// NEVER ON A SHARD LOOP: one call takes tens of milliseconds of CPU and 19 MiB of memory, on
// purpose. It belongs on the offload thread. Starts no thread of its own, whatever p says.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace galgo::crypto {

/// The longest password that is hashed, in bytes.
inline constexpr std::size_t kPasswordBytesMax = 4096;

/// The PHC string of `password` with a fresh salt. Fails with kInvalidPassword when it is too long,
/// and with kError when there is no memory for the computation.
[[nodiscard]] Result<std::string> hash_password(std::string_view password);

/// Does `password` match `phc`? False too for strings that are no PHC string of argon2id v=19, or
/// whose parameters pass our bounds (256 MiB, 16 passes, 16 lanes): they may come from disk, and
/// must neither crash nor occupy the machine. A malformed or empty string costs the same time as a
/// real one, so that asking for a user who does not exist looks like a wrong password:
/// verify_password("", password).
[[nodiscard]] bool verify_password(std::string_view phc, std::string_view password);

}  // namespace galgo::crypto
