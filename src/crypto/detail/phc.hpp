// The PHC string of an argon2id hash as values:
//   $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash>       (base64 without padding)
// Parsed here and not by the argon2 library: the library takes any cost from the string and starts
// one thread a lane. The strings come from disk: every byte may be anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace galgo::crypto::internal {

struct PasswordCost {
    std::uint32_t memory_kib = 19456;
    std::uint32_t passes = 2;
    std::uint32_t lanes = 1;

    bool operator==(const PasswordCost&) const noexcept = default;
};
/// What a string may ask for at most.
inline constexpr PasswordCost kPasswordCostMax{.memory_kib = 256 * 1024, .passes = 16, .lanes = 16};

struct PhcField {
    static constexpr std::size_t kBytesMax = 64;
    std::array<std::uint8_t, kBytesMax> bytes{};
    std::size_t size = 0;
};

struct Phc {
    PasswordCost cost;
    PhcField salt;  ///< at least 8 bytes
    PhcField hash;  ///< at least 16 bytes
};

/// Empty for anything but the exact form within the bounds above: no leading zeros, no padding,
/// nothing behind.
[[nodiscard]] std::optional<Phc> parse_phc(std::string_view text) noexcept;

/// The inverse of parse_phc.
[[nodiscard]] std::string format_phc(const Phc& phc);

}  // namespace galgo::crypto::internal
