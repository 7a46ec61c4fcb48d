// A client table as bytes, beside the snapshot of the State at the same operation: what a replica
// that takes over needs in order to answer repeated requests as the one before would have.
// Canonical: equal tables give equal bytes. Layout, little-endian, lists preceded by a u32 count:
//   magic u32 "GMCT" | version u16 = 1 | 0 u16
//   clients { client u128, epoch u64, user u32, watermark u64, stamp of that request } by client
//   replies { client u128, request u64, op u64, stamp of the request, bytes block32 } oldest first
//   stamp: operation u8 (0: no request yet), checksum u128
//   checksum u64: XXH3-64 of all before
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "metadata/client_table.hpp"

namespace galgo::metadata {

[[nodiscard]] std::vector<std::byte> encode_client_table(const ClientTable& table);

/// Fills `table`, which is empty. Where it may hold less than the stored one did, the oldest
/// replies are left out. Errors, after which the table is empty again: kStateFileCorrupted;
/// kInvalidVersion, whole but of another version.
[[nodiscard]] Status decode_client_table(ConstBytes bytes, ClientTable& table);

}  // namespace galgo::metadata
