// Published vectors, and that nothing but the right bytes opens.
#include "crypto/aead.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace galgo::crypto {
namespace {

std::vector<std::byte> from_hex(std::string_view text) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes.push_back(
            static_cast<std::byte>(std::stoul(std::string(text.substr(i, 2)), nullptr, 16)));
    }
    return bytes;
}

template <class Array>
Array array_of(std::string_view hex) {
    const std::vector<std::byte> bytes = from_hex(hex);
    Array array{};
    EXPECT_EQ(bytes.size(), array.size());
    std::ranges::copy(bytes, array.begin());
    return array;
}

struct Vector {
    const char* key;
    const char* nonce;
    const char* plain;
    const char* associated;
    const char* sealed;  ///< ciphertext and tag
};

constexpr const char* kKey = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
constexpr const char* kZeros = "0000000000000000000000000000000000000000000000000000000000000000";
constexpr const char* kPlain =
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";

// The test cases 13 to 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega), which are
// those with keys of 256 bits and nonces of 96.
const Vector kVectors[] = {
    {kZeros, "000000000000000000000000", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {kZeros, "000000000000000000000000", "00000000000000000000000000000000", "",
     "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"},
    {kKey, "cafebabefacedbaddecaf888", kPlain, "",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
     "b094dac5d93471bdec1a502270e3cc6c"},
    {kKey, "cafebabefacedbaddecaf888",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
     "76fc6ece0f4e1768cddf8853bb2d551b"}};

TEST(Aead, IsAvailable) {
    EXPECT_TRUE(Aes256Gcm::is_available());
}

TEST(Aead, PublishedVectors) {
    for (const Vector& vector : kVectors) {
        Aes256Gcm cipher(array_of<AeadKey>(vector.key));
        const auto nonce = array_of<AeadNonce>(vector.nonce);
        const auto plain = from_hex(vector.plain);
        const auto associated = from_hex(vector.associated);
        std::vector<std::byte> sealed(plain.size() + kAeadTagSize);
        cipher.seal(nonce, associated, plain, sealed);
        EXPECT_EQ(sealed, from_hex(vector.sealed));
        std::vector<std::byte> opened(plain.size());
        EXPECT_TRUE(cipher.open(nonce, associated, sealed, opened));
        EXPECT_EQ(opened, plain);
    }
}

TEST(Aead, AnyFlippedBitIsFound) {
    const Vector& vector = kVectors[3];
    Aes256Gcm cipher(array_of<AeadKey>(vector.key));
    auto nonce = array_of<AeadNonce>(vector.nonce);
    auto associated = from_hex(vector.associated);
    auto sealed = from_hex(vector.sealed);
    std::vector<std::byte> opened(sealed.size() - kAeadTagSize);
    const auto finds = [&](MutableBytes bytes) {
        for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
            bytes[bit / 8] ^= std::byte{1} << (bit % 8);
            EXPECT_FALSE(cipher.open(nonce, associated, sealed, opened)) << bit;
            bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        }
    };
    finds(MutableBytes(nonce));
    finds(MutableBytes(associated));
    finds(MutableBytes(sealed));
    EXPECT_TRUE(cipher.open(nonce, associated, sealed, opened));
}

TEST(Aead, AnotherKeyDoesNotOpen) {
    AeadKey key = array_of<AeadKey>(kKey);
    Aes256Gcm first(key);
    key[31] ^= std::byte{1};
    Aes256Gcm other(key);
    const AeadNonce nonce{};
    const std::vector<std::byte> plain(1000, std::byte{5});
    std::vector<std::byte> sealed(plain.size() + kAeadTagSize);
    std::vector<std::byte> opened(plain.size());
    first.seal(nonce, {}, plain, sealed);
    EXPECT_FALSE(other.open(nonce, {}, sealed, opened));
    Aes256Gcm moved(std::move(first));
    EXPECT_TRUE(moved.open(nonce, {}, sealed, opened));
    other = std::move(moved);
    EXPECT_TRUE(other.open(nonce, {}, sealed, opened));
}

}  // namespace
}  // namespace galgo::crypto
