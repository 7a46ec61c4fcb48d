// One entry of the simulated metadata log: what the core knows of it (a Prepare), the operation,
// and the bytes of both, as they stand on the simulated disk and travel beside a prepare frame.
//
// Layout, little-endian: size u16 | body_size u16 | view u32 | op u64 | timestamp u64 | parent u64
// | digest u64 | identity u64 | commit op u64 | commit identity u64 | user u32 | operation u32
// | client u128 | session u64 | request u64 | request_checksum u64 | body, padded to 8. The digest
// covers user to body, which the core does not know; the batch or the frame around it has a
// checksum of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "consensus/head.hpp"
#include "metadata/operation.hpp"
#include "model/ids.hpp"

namespace galgo::sim {

/// All of an entry but its body.
struct LogEntryHead {
    consensus::Prepare prepare;
    ViewNumber view;
    consensus::Head commit;
    metadata::LogOperation operation{};
    ClientId client;
    SessionId session;
    RequestNumber request;
    std::uint64_t request_checksum = 0;
    model::UserId user;
    std::uint16_t body_size = 0;
};

struct LogEntry : LogEntryHead {
    static constexpr std::size_t kHeadBytes = 112;
    static constexpr std::size_t kBodyMax = 768;
    static constexpr std::size_t kBytesMax = kHeadBytes + kBodyMax;

    std::array<std::byte, kBodyMax> body_bytes;

    // Of the body only what is in use is set or copied: most are small, and entries are copied at
    // every hop.
    LogEntry() noexcept {}
    LogEntry(const LogEntry& other) noexcept : LogEntryHead(other) { copy_body(other); }
    LogEntry& operator=(const LogEntry& other) noexcept {
        if (this != &other) {
            static_cast<LogEntryHead&>(*this) = other;
            copy_body(other);
        }
        return *this;
    }
    ~LogEntry() = default;

    [[nodiscard]] ConstBytes body() const noexcept {
        return ConstBytes(body_bytes).first(body_size);
    }
    void set_body(ConstBytes body) noexcept;
    [[nodiscard]] metadata::PrepareView view_for_apply() const noexcept;

 private:
    void copy_body(const LogEntry& other) noexcept {
        std::memcpy(body_bytes.data(), other.body_bytes.data(), other.body_size);
    }
};

/// Digest over operation, client, session, request, its checksum, user and body.
[[nodiscard]] consensus::BodyDigest digest_of(const LogEntry& entry) noexcept;

[[nodiscard]] std::size_t encoded_size(const LogEntry& entry) noexcept;
/// Writes encoded_size() bytes to the front of `to`; that many.
std::size_t encode(const LogEntry& entry, MutableBytes to) noexcept;
/// The entry at the front of `bytes`, and its size; false when it is none or its digest is wrong.
[[nodiscard]] bool decode(ConstBytes bytes, LogEntry& entry, std::size_t& size) noexcept;

}  // namespace galgo::sim
