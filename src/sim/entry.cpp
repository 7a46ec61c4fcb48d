#include "sim/entry.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "crypto/hash.hpp"

namespace galgo::sim {
namespace {

constexpr std::size_t kHashedFrom = 64;  // user .. body are hashed where they stand

std::size_t padded(std::size_t size) noexcept {
    return (size + 7) / 8 * 8;
}

void put_own_fields(const LogEntry& entry, MutableBytes to) noexcept {
    store<std::uint32_t>(to, 64, entry.user.value());
    store<std::uint32_t>(to, 68, static_cast<std::uint32_t>(entry.operation));
    store<u128>(to, 72, entry.client.value());
    store<std::uint64_t>(to, 88, entry.session.value());
    store<std::uint64_t>(to, 96, entry.request.value());
    store<std::uint64_t>(to, 104, entry.request_checksum);
    std::ranges::copy(entry.body(), to.begin() + LogEntry::kHeadBytes);
}

}  // namespace

void LogEntry::set_body(ConstBytes body) noexcept {
    GALGO_CHECK(body.size() <= kBodyMax);
    body_size = static_cast<std::uint16_t>(body.size());
    std::ranges::copy(body, body_bytes.begin());
}

metadata::PrepareView LogEntry::view_for_apply() const noexcept {
    return {.operation = operation,
            .op = prepare.op,
            .timestamp = prepare.timestamp,
            .client = client,
            .session = session,
            .request = request,
            .request_checksum = request_checksum,
            .user = user,
            .body = body()};
}

consensus::BodyDigest digest_of(const LogEntry& entry) noexcept {
    std::array<std::byte, LogEntry::kBytesMax> bytes;
    put_own_fields(entry, bytes);
    const std::size_t end = LogEntry::kHeadBytes + entry.body_size;
    return consensus::BodyDigest(
        crypto::xxh3_64(ConstBytes(bytes).subspan(kHashedFrom, end - kHashedFrom)));
}

std::size_t encoded_size(const LogEntry& entry) noexcept {
    return padded(LogEntry::kHeadBytes + entry.body_size);
}

std::size_t encode(const LogEntry& entry, MutableBytes to) noexcept {
    const std::size_t size = encoded_size(entry);
    store<std::uint16_t>(to, 0, static_cast<std::uint16_t>(size));
    store<std::uint16_t>(to, 2, entry.body_size);
    store<std::uint32_t>(to, 4, entry.view.value());
    store<std::uint64_t>(to, 8, entry.prepare.op.value());
    store<std::uint64_t>(to, 16, entry.prepare.timestamp.value());
    store<std::uint64_t>(to, 24, entry.prepare.parent.value());
    store<std::uint64_t>(to, 32, entry.prepare.body.value());
    store<std::uint64_t>(to, 40, entry.prepare.identity.value());
    store<std::uint64_t>(to, 48, entry.commit.op.value());
    store<std::uint64_t>(to, 56, entry.commit.identity.value());
    put_own_fields(entry, to);
    std::fill(to.begin() + LogEntry::kHeadBytes + entry.body_size,
              to.begin() + static_cast<std::ptrdiff_t>(size), std::byte{0});
    return size;
}

bool decode(ConstBytes bytes, LogEntry& entry, std::size_t& size) noexcept {
    if (bytes.size() < LogEntry::kHeadBytes) {
        return false;
    }
    size = load<std::uint16_t>(bytes, 0);
    entry.body_size = load<std::uint16_t>(bytes, 2);
    if (entry.body_size > LogEntry::kBodyMax ||
        size != padded(LogEntry::kHeadBytes + entry.body_size) || size > bytes.size()) {
        return false;
    }
    entry.view = ViewNumber(load<std::uint32_t>(bytes, 4));
    entry.prepare.op = OpNumber(load<std::uint64_t>(bytes, 8));
    entry.prepare.timestamp = Timestamp(load<std::uint64_t>(bytes, 16));
    entry.prepare.parent = consensus::Identity(load<std::uint64_t>(bytes, 24));
    entry.prepare.body = consensus::BodyDigest(load<std::uint64_t>(bytes, 32));
    entry.prepare.identity = consensus::Identity(load<std::uint64_t>(bytes, 40));
    entry.commit = {.op = OpNumber(load<std::uint64_t>(bytes, 48)),
                    .identity = consensus::Identity(load<std::uint64_t>(bytes, 56))};
    entry.user = model::UserId(load<std::uint32_t>(bytes, 64));
    entry.operation = static_cast<metadata::LogOperation>(load<std::uint32_t>(bytes, 68) & 0xffU);
    entry.client = ClientId(load<u128>(bytes, 72));
    entry.session = SessionId(load<std::uint64_t>(bytes, 88));
    entry.request = RequestNumber(load<std::uint64_t>(bytes, 96));
    entry.request_checksum = load<std::uint64_t>(bytes, 104);
    const ConstBytes body = bytes.subspan(LogEntry::kHeadBytes, entry.body_size);
    std::ranges::copy(body, entry.body_bytes.begin());
    const std::size_t end = LogEntry::kHeadBytes + entry.body_size;
    return crypto::xxh3_64(bytes.subspan(kHashedFrom, end - kHashedFrom)) ==
           entry.prepare.body.value();
}

}  // namespace galgo::sim
