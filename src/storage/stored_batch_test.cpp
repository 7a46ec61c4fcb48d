// Both forms of a stored batch: the encrypted one to the byte, through all sizes around the borders
// of its chunks, and against every flipped bit.
#include "storage/stored_batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "storage/detail/checksum.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

constexpr Incarnation kLife{3};

Salt test_salt(std::uint8_t seed) {
    Salt salt{};
    for (std::size_t i = 0; i < salt.size(); ++i) {
        salt[i] = static_cast<std::byte>(seed + i);
    }
    return salt;
}

struct Ciphers {
    DataKey key = test_key(0);
    BatchCipher cipher{key, kTestKey, kLife, test_salt(0xa0)};
};

std::vector<std::byte> encrypted_of(BatchCipher& cipher, const std::vector<std::byte>& plain) {
    std::vector<std::byte> stored(encrypted_size(plain.size()));
    BatchCipher::Encryption job = cipher.encrypt(plain, stored);
    while (!job.step()) {
    }
    stamp_encrypted(stored, {.partition = kTestPartition,
                             .base_offset = Offset(load<std::uint64_t>(plain, 8)),
                             .base_timestamp = Timestamp(load<std::uint64_t>(plain, 16))});
    return stored;
}

Result<std::vector<std::byte>> decrypted_of(BatchCipher& cipher,
                                            const std::vector<std::byte>& stored) {
    GALGO_TRY(decode_stored_header(stored));
    std::vector<std::byte> plain(decrypted_size(stored));
    GALGO_TRY_ASSIGN(BatchCipher::Decryption job, cipher.decrypt(stored, plain));
    while (true) {
        GALGO_TRY_ASSIGN(const bool done, job.step());
        if (done) {
            return plain;
        }
    }
}

std::string hex(ConstBytes bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
        text += kDigits[std::to_integer<unsigned>(byte) & 15U];
    }
    return text;
}

// docs/formats/encryption.md: the used part of the header, and what follows it.
TEST(StoredBatch, GoldenBytes) {
    Ciphers all;
    (void)encrypted_of(all.cipher, make_batch(Offset(0), 1, 1, 1, 1));  // counter 0
    const auto plain = make_batch(Offset(41), 2, 5, 1'700'000'000'000'000, 9);
    const auto stored = encrypted_of(all.cipher, plain);
    EXPECT_EQ(hex(ConstBytes(stored).first(108)),
              "0700000000000000290000000000000000401e18240a060000401e18240a06007a0100000000"
              "00009962188cdc73a8bb0200000047454e3101010000282c7f72b0119b83a0a1a2a3a4a5a6a7"
              "a8a9aaabacadaeaf01000000000000006a00000000000000d8d6ccf7faf8dc7d");
    EXPECT_TRUE(std::ranges::all_of(ConstBytes(stored).subspan(108, 148),
                                    [](std::byte byte) { return byte == std::byte{0}; }));
    EXPECT_EQ(hex(ConstBytes(stored).subspan(256)),
              "aa0c40f0f5cca063eb57d4f368c71807ded6700b2874e92187356f8faed0d5467b85c037141d"
              "82734562388a09aedabbec7d84814f878a41049d086fec6d228398454f74a529685e09116a7d"
              "ca85e1e39caf5ba88d27d16342d122844031f7bd67c066f1ba086f3f1ad5b1d376c7ca293d4a"
              "90ae0908b4436445");
}

TEST(StoredBatch, EncryptsAndDecryptsAroundTheBordersOfChunks) {
    Ciphers all;
    BatchCipher later(all.key, kTestKey, kLife, test_salt(0xb0));
    constexpr std::size_t kFrame = wire::kFrameHeaderSize;
    for (const std::size_t frames :
         {kFrame, kFrame + 1, kCipherChunkBytes - 1, kCipherChunkBytes, kCipherChunkBytes + 1,
          2 * kCipherChunkBytes, 3 * kCipherChunkBytes + 17}) {
        const auto plain = make_batch(Offset(7), 1, frames - kFrame, 1'000, 3);
        const auto stored = encrypted_of(all.cipher, plain);
        const std::size_t tags = (frames + kCipherChunkBytes - 1) / kCipherChunkBytes;
        EXPECT_EQ(stored.size(), plain.size() + 16 * tags);
        EXPECT_TRUE(is_encrypted(stored));
        EXPECT_FALSE(is_encrypted(plain));
        const Result<wire::BatchHeader> header = validate_stored(stored);
        ASSERT_TRUE(header.has_value()) << frames;
        EXPECT_EQ(header->batch_length, stored.size());
        EXPECT_EQ(header->base_offset, 7U);
        EXPECT_EQ(header->message_count, 1U);
        for (BatchCipher* cipher : {&all.cipher, &later}) {
            const auto again = decrypted_of(*cipher, stored);
            ASSERT_TRUE(again.has_value()) << frames;
            EXPECT_EQ(*again, plain);
        }
    }
}

TEST(StoredBatch, TheSameBatchNeverGivesTheSameBytes) {
    Ciphers all;
    const auto plain = make_batch(Offset(7), 3, 100, 1'000, 3);
    const auto first = encrypted_of(all.cipher, plain);
    const auto second = encrypted_of(all.cipher, plain);
    BatchCipher later(all.key, kTestKey, kLife, test_salt(0xb0));
    const auto third = encrypted_of(later, plain);
    const auto body = [](const auto& stored) { return hex(ConstBytes(stored).subspan(256)); };
    EXPECT_NE(body(first), body(second));
    EXPECT_NE(body(first), body(third));
    EXPECT_NE(body(second), body(third));
}

TEST(StoredBatch, AnotherKeyPartitionOrLifeDoesNotDecrypt) {
    Ciphers all;
    const auto stored = encrypted_of(all.cipher, make_batch(Offset(7), 3, 100, 1'000, 3));
    const DataKey other = test_key(1);
    BatchCipher with_other(other, kTestKey, kLife, test_salt(0xa0));
    BatchCipher elsewhere(all.key, PartitionKey{8}, kLife, test_salt(0xa0));
    BatchCipher reborn(all.key, kTestKey, Incarnation{4}, test_salt(0xa0));
    for (BatchCipher* cipher : {&with_other, &elsewhere, &reborn}) {
        const auto plain = decrypted_of(*cipher, stored);
        ASSERT_FALSE(plain.has_value());
        EXPECT_EQ(plain.error().code, ErrorCode::kCannotDecryptData);
    }
}

TEST(StoredBatch, EveryFlippedBitFailsTheChecksum) {
    Ciphers all;
    auto stored = encrypted_of(all.cipher, make_batch(Offset(7), 2, 10, 1'000, 3));
    ASSERT_TRUE(validate_stored(stored).has_value());
    for (std::size_t bit = 0; bit < stored.size() * 8; ++bit) {
        const std::byte mask = std::byte{1} << (bit % 8);
        stored[bit / 8] ^= mask;
        EXPECT_FALSE(validate_stored(stored).has_value()) << bit;
        stored[bit / 8] ^= mask;
    }
}

// What somebody makes who writes to the disk and knows the checksum: a bit, and all sums right
// again. The tag finds it, but in what gets its value after the encryption, and in the hash itself.
TEST(StoredBatch, EveryFlippedBitThatTheTagCoversFailsIt) {
    Ciphers all;
    const auto plain = make_batch(Offset(7), 2, 10, 1'000, 3);
    const auto sound = encrypted_of(all.cipher, plain);
    for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
        auto stored = sound;
        stored[bit / 8] ^= std::byte{1} << (bit % 8);
        const std::size_t at = bit / 8;
        if (!is_encrypted(stored)) {
            EXPECT_FALSE(validate_stored(stored).has_value());
            continue;
        }
        store<std::uint64_t>(stored, 100, detail::checksum(ConstBytes(stored).subspan(256)));
        stamp_encrypted(stored, {.partition = kTestPartition,
                                 .base_offset = Offset(7),
                                 .base_timestamp = Timestamp(1'000)});
        const bool restored = at < 24 || (at >= 40 && at < 48) || (at >= 100 && at < 108);
        const auto again = decrypted_of(all.cipher, stored);
        EXPECT_EQ(again.has_value(), restored) << at;
        if (again.has_value()) {
            EXPECT_EQ(*again, plain);
        }
    }
}

TEST(StoredBatch, HeadersThatSayOtherLengths) {
    Ciphers all;
    const auto sound = encrypted_of(all.cipher, make_batch(Offset(7), 2, 10, 1'000, 3));
    const auto changed = [&](std::size_t at, std::uint64_t value) {
        auto stored = sound;
        store<std::uint64_t>(stored, at, value);
        return decode_stored_header(stored).has_value();
    };
    EXPECT_TRUE(changed(32, sound.size()));
    for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{255}, std::uint64_t{256},
                                       sound.size() - 1, sound.size() + 1, ~std::uint64_t{0}}) {
        EXPECT_FALSE(changed(32, length)) << length;
    }
    const std::uint64_t frames = sound.size() - 256 - 16;
    EXPECT_TRUE(changed(92, frames));
    for (const std::uint64_t size : {std::uint64_t{0}, frames - 1, frames + 1, frames + 16,
                                     ~std::uint64_t{0}, ~std::uint64_t{0} - 15}) {
        EXPECT_FALSE(changed(92, size)) << size;
    }
    auto stored = sound;
    store<std::uint32_t>(stored, 48, 3);  // more messages than the frames have room for
    EXPECT_FALSE(decode_stored_header(stored).has_value());
    store<std::uint32_t>(stored, 48, 0);
    EXPECT_FALSE(decode_stored_header(stored).has_value());
    for (std::size_t size = 0; size < sound.size(); ++size) {
        EXPECT_FALSE(validate_stored(ConstBytes(sound).first(size)).has_value()) << size;
    }
    // The wire knows no such form.
    EXPECT_FALSE(wire::decode_batch_header(sound).has_value());
}

TEST(StoredBatch, FirstPartOfBothForms) {
    Ciphers all;
    const auto plain = make_batch(Offset(7), 2, 10, 1'000, 3);
    const auto encrypted = encrypted_of(all.cipher, plain);
    for (const auto& sound : {plain, encrypted}) {
        const Result<wire::BatchHeader> header = decode_stored_header(sound);
        ASSERT_TRUE(header.has_value());
        std::uint64_t hashed = 0;
        EXPECT_TRUE(first_part_fits(sound, *header, hashed));
        EXPECT_GT(hashed, 0U);
        auto damaged = sound;
        damaged[is_encrypted(sound) ? 70 : 310] ^= std::byte{1};
        EXPECT_FALSE(first_part_fits(damaged, *header, hashed));
    }
}

}  // namespace
}  // namespace galgo::storage
