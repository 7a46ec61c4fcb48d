// Randomness of the operating system (getrandom), good for secrets. A system call each: not for the
// message path. Deterministic parts of the program get their random numbers as arguments instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.hpp"

namespace galgo::crypto {

/// Fills `bytes`. Any thread. Aborts if the system has no randomness to give, which a running Linux
/// does not report for valid arguments.
void random_bytes(MutableBytes bytes) noexcept;

[[nodiscard]] std::uint64_t random_u64() noexcept;

/// `length` characters of [0-9A-Za-z], each equally likely (5.95 bits a character).
[[nodiscard]] std::string random_alphanumeric(std::size_t length);

}  // namespace galgo::crypto
