// Codec of log entry headers. Reserved bytes are covered by the checksum, so a later version may
// use them.
#include "wire/prepare.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "crypto/hash.hpp"

namespace galgo::wire {
namespace {

constexpr std::uint32_t kMagic = 0x4750'5231;  // "1RPG" in the file
constexpr std::uint16_t kVersion = 1;

constexpr std::size_t kChecksumAt = 0;
constexpr std::size_t kChecksumBodyAt = 8;
constexpr std::size_t kParentAt = 16;
constexpr std::size_t kMagicAt = 24;
constexpr std::size_t kVersionAt = 28;
constexpr std::size_t kOperationAt = 30;
constexpr std::size_t kSizeAt = 32;
constexpr std::size_t kViewAt = 36;
constexpr std::size_t kOpAt = 40;
constexpr std::size_t kCommitAt = 48;
constexpr std::size_t kTimestampAt = 56;
constexpr std::size_t kGroupAt = 64;
constexpr std::size_t kClientAt = 80;
constexpr std::size_t kSessionAt = 96;
constexpr std::size_t kRequestAt = 104;
constexpr std::size_t kRequestChecksumAt = 112;
constexpr std::size_t kUserAt = 120;
static_assert(kClientAt % 16 == 0 && kUserAt + 4 <= kPrepareHeaderSize);

}  // namespace

void encode_prepare_header(MutableBytes to, PrepareHeader& header, ConstBytes body) noexcept {
    GALGO_CHECK(to.size() == kPrepareHeaderSize);
    GALGO_CHECK(body.size() <= std::numeric_limits<std::uint32_t>::max() - kPrepareHeaderSize);
    header.size = static_cast<std::uint32_t>(kPrepareHeaderSize + body.size());
    header.checksum_body = crypto::xxh3_64(body);
    std::ranges::fill(to, std::byte{0});
    store<std::uint64_t>(to, kChecksumBodyAt, header.checksum_body);
    store<std::uint64_t>(to, kParentAt, header.parent);
    store<std::uint32_t>(to, kMagicAt, kMagic);
    store<std::uint16_t>(to, kVersionAt, kVersion);
    store<std::uint8_t>(to, kOperationAt, static_cast<std::uint8_t>(header.operation));
    store<std::uint32_t>(to, kSizeAt, header.size);
    store<std::uint32_t>(to, kViewAt, header.view.value());
    store<std::uint64_t>(to, kOpAt, header.op.value());
    store<std::uint64_t>(to, kCommitAt, header.commit.value());
    store<std::uint64_t>(to, kTimestampAt, header.timestamp.value());
    store<std::uint64_t>(to, kGroupAt, header.group);
    store<u128>(to, kClientAt, header.client.value());
    store<std::uint64_t>(to, kSessionAt, header.session.value());
    store<std::uint64_t>(to, kRequestAt, header.request.value());
    store<std::uint64_t>(to, kRequestChecksumAt, header.request_checksum);
    store<std::uint32_t>(to, kUserAt, header.user.value());
    header.checksum = crypto::xxh3_64(to.subspan(kChecksumBodyAt));
    store<std::uint64_t>(to, kChecksumAt, header.checksum);
}

Result<PrepareHeader> decode_prepare_header(ConstBytes bytes) noexcept {
    if (bytes.size() < kPrepareHeaderSize) {
        return fail(ErrorCode::kInvalidFormat);
    }
    bytes = bytes.first(kPrepareHeaderSize);
    const PrepareHeader header{
        .checksum = load<std::uint64_t>(bytes, kChecksumAt),
        .checksum_body = load<std::uint64_t>(bytes, kChecksumBodyAt),
        .parent = load<std::uint64_t>(bytes, kParentAt),
        .size = load<std::uint32_t>(bytes, kSizeAt),
        .operation = static_cast<Operation>(load<std::uint8_t>(bytes, kOperationAt)),
        .view = ViewNumber(load<std::uint32_t>(bytes, kViewAt)),
        .op = OpNumber(load<std::uint64_t>(bytes, kOpAt)),
        .commit = OpNumber(load<std::uint64_t>(bytes, kCommitAt)),
        .timestamp = Timestamp(load<std::uint64_t>(bytes, kTimestampAt)),
        .group = load<std::uint64_t>(bytes, kGroupAt),
        .client = ClientId(load<u128>(bytes, kClientAt)),
        .session = SessionId(load<std::uint64_t>(bytes, kSessionAt)),
        .request = RequestNumber(load<std::uint64_t>(bytes, kRequestAt)),
        .request_checksum = load<std::uint64_t>(bytes, kRequestChecksumAt),
        .user = model::UserId(load<std::uint32_t>(bytes, kUserAt))};
    if (load<std::uint32_t>(bytes, kMagicAt) != kMagic ||
        load<std::uint16_t>(bytes, kVersionAt) != kVersion || header.size < kPrepareHeaderSize ||
        crypto::xxh3_64(bytes.subspan(kChecksumBodyAt)) != header.checksum) {
        return fail(ErrorCode::kInvalidFormat);
    }
    return header;
}

bool prepare_body_matches(const PrepareHeader& header, ConstBytes body) noexcept {
    return body.size() == header.body_size() && crypto::xxh3_64(body) == header.checksum_body;
}

}  // namespace galgo::wire
