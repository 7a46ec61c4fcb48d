#include "crypto/hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "crypto/detail/xxh3_kernels.hpp"

namespace galgo::crypto {
namespace {

std::vector<std::byte> pattern(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::byte>(i * 131 + 7);
    }
    return bytes;
}

// Taken from the shared library of xxHash 0.8.1: one or two sizes on each of its paths.
TEST(Hash, XxhVectors) {
    struct Vector {
        std::size_t size;
        std::uint64_t xxh3;
        std::uint32_t xxh32;
    };
    constexpr Vector kVectors[] = {
        {0, 0x2D06800538D394C2, 0x02CC5D05},    {1, 0x4C5CCA45D0F4811F, 0x002E0D32},
        {3, 0x6E3E2670E61106AC, 0x7D92E8DB},    {4, 0x5C4C63133443D03F, 0xF189EC97},
        {8, 0xF9FD4DD0B04D78F5, 0xC78AA5CD},    {16, 0x86ABF6BACCEA0858, 0x64287C90},
        {17, 0xB58BF5DC5022D071, 0x1C63FDC5},   {128, 0x10D17F72C0CCBA41, 0xE7F121DA},
        {129, 0x1648BDC3DB49D1A2, 0x96BBFD0D},  {240, 0xB6CFAF343FAB81E6, 0x640E7DFD},
        {241, 0x956CAE592C67279E, 0x8888B3F2},  {1000, 0x571D5CBFEF44331B, 0x47C1E8DA},
        {1024, 0x70BD377D9574F4BB, 0xD383FFC6}, {1025, 0x66C4487C41E127A7, 0x4A631E73},
        {5000, 0xE4007929540F095C, 0x867B4B29},
    };
    const std::vector<std::byte> bytes = pattern(5000);
    for (const Vector& vector : kVectors) {
        const ConstBytes part = ConstBytes(bytes).first(vector.size);
        EXPECT_EQ(xxh3_64(part), vector.xxh3) << vector.size;
        EXPECT_EQ(xxh32(part), vector.xxh32) << vector.size;
    }
    EXPECT_EQ(xxh3_64({}), 0x2D06800538D394C2U);
    EXPECT_EQ(xxh32({}), 0x02CC5D05U);
    EXPECT_EQ(xxh3_64(as_bytes("abc")), 0x78AF5F94892F3950U);
    EXPECT_EQ(xxh32(as_bytes("abc")), 0x32D153FFU);
}

TEST(Hash, BothBuildsAgree) {
    const std::vector<std::byte> bytes = pattern(3001);
    const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
    for (std::size_t size = 0; size <= 3000; ++size) {
        const ConstBytes part = ConstBytes(bytes).subspan(size % 2, size);
        const std::uint64_t expected = internal::xxh3_64_baseline(part.data(), part.size());
        ASSERT_EQ(xxh3_64(part), expected) << size;
        if (has_avx2) {
            ASSERT_EQ(internal::xxh3_64_avx2(part.data(), part.size()), expected) << size;
        }
    }
}

TEST(Hash, StreamEqualsOneShotHoweverItIsCut) {
    const std::vector<std::byte> bytes = pattern(5000);
    for (const std::size_t step : {1U, 7U, 64U, 255U, 256U, 257U, 1000U, 4999U, 5000U}) {
        Xxh3Stream stream;
        for (std::size_t at = 0; at < bytes.size(); at += step) {
            stream.update(ConstBytes(bytes).subspan(at, std::min(step, bytes.size() - at)));
            stream.update({});
        }
        EXPECT_EQ(stream.digest(), xxh3_64(bytes)) << step;
    }
}

TEST(Hash, StreamMayGoOnAfterDigestAndBeCopied) {
    const std::vector<std::byte> bytes = pattern(2000);
    Xxh3Stream stream;
    EXPECT_EQ(stream.digest(), xxh3_64({}));
    stream.update(ConstBytes(bytes).first(700));
    EXPECT_EQ(stream.digest(), xxh3_64(ConstBytes(bytes).first(700)));
    Xxh3Stream copy = stream;
    stream.update(ConstBytes(bytes).subspan(700));
    EXPECT_EQ(stream.digest(), xxh3_64(bytes));
    EXPECT_EQ(copy.digest(), xxh3_64(ConstBytes(bytes).first(700)));
    stream.reset();
    stream.update(ConstBytes(bytes).first(10));
    EXPECT_EQ(stream.digest(), xxh3_64(ConstBytes(bytes).first(10)));
}

TEST(Hash, StreamMayPassFromOneBuildToTheOther) {
    if (!__builtin_cpu_supports("avx2")) {
        GTEST_SKIP() << "no AVX2 here";
    }
    const std::vector<std::byte> bytes = pattern(4000);
    alignas(64) Xxh3Stream stream;  // so that its state is at its begin
    for (std::size_t at = 0; at < bytes.size(); at += 1000) {
        const auto update =
            at % 2000 == 0 ? internal::xxh3_update_baseline : internal::xxh3_update_avx2;
        update(&stream, bytes.data() + at, 1000);
    }
    EXPECT_EQ(stream.digest(), xxh3_64(bytes));
}

TEST(Hash, MurmurOfPartitionKeys) {
    struct Vector {
        std::uint64_t key;
        std::uint32_t hash;
    };
    constexpr Vector kVectors[] = {
        {0x0, 0x63852AFC},
        {0x1, 0x53075D44},
        {0x2, 0xC61FA2F4},
        {0x100000000, 0x3AD85688},
        {0x100000, 0x3AF90404},
        {0x70030002A, 0x75ED3ED1},
        {0xFFFFFFFFF423F, 0xC7DE0406},
    };
    for (const Vector& vector : kVectors) {
        EXPECT_EQ(murmur3_32(std::as_bytes(std::span(&vector.key, 1))), vector.hash) << vector.key;
    }
}

// The well-known vectors of MurmurHash3_x86_32: every length of tail, and seeds.
TEST(Hash, MurmurTailsAndSeeds) {
    EXPECT_EQ(murmur3_32({}), 0U);
    EXPECT_EQ(murmur3_32({}, 1), 0x514E28B7U);
    EXPECT_EQ(murmur3_32({}, 0xFFFFFFFF), 0x81F16F39U);
    const auto hex = [](std::initializer_list<unsigned char> bytes, std::uint32_t seed = 0) {
        return murmur3_32(std::as_bytes(std::span(bytes.begin(), bytes.size())), seed);
    };
    EXPECT_EQ(hex({0xFF, 0xFF, 0xFF, 0xFF}), 0x76293B50U);
    EXPECT_EQ(hex({0x21, 0x43, 0x65, 0x87}), 0xF55B516BU);
    EXPECT_EQ(hex({0x21, 0x43, 0x65, 0x87}, 0x5082EDEE), 0x2362F9DEU);
    EXPECT_EQ(hex({0x21, 0x43, 0x65}), 0x7E4A8634U);
    EXPECT_EQ(hex({0x21, 0x43}), 0xA0F7B07AU);
    EXPECT_EQ(hex({0x21}), 0x72661CF4U);
    EXPECT_EQ(murmur3_32(as_bytes("Hello, world!"), 0x9747B28C), 0x24884CBAU);
}

// A coroutine frame gives no more than 16 bytes of alignment, whatever a type asks for.
TEST(Hash, StreamWorksAtAnyPlace) {
    static_assert(alignof(Xxh3Stream) <= 8);
    const std::vector<std::byte> bytes(3000, std::byte{7});
    const ConstBytes all(bytes);
    alignas(64) std::byte room[sizeof(Xxh3Stream) + 64];
    for (std::size_t shift = 0; shift < 64; shift += 8) {
        auto* stream = new (room + shift) Xxh3Stream;
        stream->update(all.first(1000));
        Xxh3Stream copy = *stream;
        stream->update(all.subspan(1000));
        EXPECT_EQ(stream->digest(), xxh3_64(all)) << shift;
        copy.update(all.subspan(1000));
        EXPECT_EQ(copy.digest(), xxh3_64(all)) << shift;
        *stream = Xxh3Stream();
        EXPECT_EQ(stream->digest(), xxh3_64({})) << shift;
        stream->~Xxh3Stream();
    }
}

}  // namespace
}  // namespace galgo::crypto
