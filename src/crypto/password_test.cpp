#include "crypto/password.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <random>
#include <string>

#include "crypto/detail/phc.hpp"

namespace galgo::crypto {
namespace {

// Made by the argon2 library's own encoder: password "secret", salts "0123456789abcdef" and
// "saltsalt".
constexpr std::string_view kOurCost =
    "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$"
    "8qPpaWig0H31wvibKAgpght2Ry2M8rtRQYtZ93ooMus";
constexpr std::string_view kCheap =
    "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw";

TEST(Password, HashesAndVerifies) {
    const auto phc = hash_password("correct horse");
    ASSERT_TRUE(phc);
    EXPECT_TRUE(phc->starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
    EXPECT_EQ(phc->size(), kOurCost.size());
    EXPECT_TRUE(verify_password(*phc, "correct horse"));
    EXPECT_FALSE(verify_password(*phc, "correct hors"));
    EXPECT_FALSE(verify_password(*phc, ""));
}

TEST(Password, SaltIsFresh) {
    const auto first = hash_password("same");
    const auto second = hash_password("same");
    ASSERT_TRUE(first && second);
    EXPECT_NE(*first, *second);
}

TEST(Password, VerifiesWhatTheLibraryMade) {
    EXPECT_TRUE(verify_password(kOurCost, "secret"));
    EXPECT_FALSE(verify_password(kOurCost, "Secret"));
    EXPECT_TRUE(verify_password(kCheap, "secret"));
    EXPECT_FALSE(verify_password(kCheap, "secret "));
}

TEST(Password, AnyBytesMakeAPassword) {
    const std::string odd("\0\xFF\0 x", 5);
    const auto phc = hash_password(odd);
    ASSERT_TRUE(phc);
    EXPECT_TRUE(verify_password(*phc, odd));
    EXPECT_FALSE(verify_password(*phc, odd.substr(0, 1)));
    const auto empty = hash_password("");
    ASSERT_TRUE(empty);
    EXPECT_TRUE(verify_password(*empty, {}));
    EXPECT_FALSE(verify_password(*empty, "x"));
}

TEST(Password, TooLong) {
    const std::string longest(kPasswordBytesMax, 'p');
    const auto refused = hash_password(longest + "p");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidPassword);
    EXPECT_FALSE(verify_password(kCheap, longest + "p"));
    const auto phc = hash_password(longest);
    ASSERT_TRUE(phc);
    EXPECT_TRUE(verify_password(*phc, longest));
}

TEST(Password, MalformedStringsAreFalse) {
    constexpr std::string_view kBad[] = {
        "",
        "$",
        "secret",
        "$argon2i$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=16$m=64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$m=064,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$m=+64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$m=,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$m=64,t=0,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$m=64,t=1,p=0$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$m=16,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$t=1,m=64,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$m=64,t=1,p=4",
        "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ",
        "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$",
        "$argon2id$v=19$m=64,t=1,p=4$c2Fsd$49+Uax1MSvDJP+KZqCOOaw",
        "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw==",
        "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOax",
        "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOa",
        "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw$",
        "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOO*w",
    };
    for (const std::string_view phc : kBad) {
        EXPECT_FALSE(internal::parse_phc(phc)) << phc;
    }
    EXPECT_FALSE(internal::parse_phc(std::string(kCheap) + std::string(1, '\0')));
    EXPECT_FALSE(internal::parse_phc(std::string(100'000, '$')));
    EXPECT_FALSE(verify_password(kBad[0], "secret"));
    EXPECT_FALSE(verify_password(kBad[4], "secret"));
    EXPECT_FALSE(verify_password("", ""));
}

// Nobody learns from the time of a refused login whether the user exists.
TEST(Password, NoHashCostsAsMuchAsAHash) {
    const auto phc = hash_password("secret");
    ASSERT_TRUE(phc);
    const auto cpu_time = [](std::string_view hash) {
        std::clock_t best = std::numeric_limits<std::clock_t>::max();
        for (int i = 0; i < 3; ++i) {
            const std::clock_t began = std::clock();
            EXPECT_FALSE(verify_password(hash, "another"));
            best = std::min(best, std::clock() - began);
        }
        return best;
    };
    const std::clock_t with_hash = cpu_time(*phc);
    const std::clock_t without = cpu_time("");
    EXPECT_GT(without * 2, with_hash);
    EXPECT_LT(without, with_hash * 2);
}

TEST(Password, ParseAndFormatAreInverse) {
    for (const std::string_view text : {kOurCost, kCheap}) {
        const auto phc = internal::parse_phc(text);
        ASSERT_TRUE(phc);
        EXPECT_EQ(internal::format_phc(*phc), text);
    }
    const auto cheap = internal::parse_phc(kCheap);
    EXPECT_EQ(cheap->cost, (internal::PasswordCost{.memory_kib = 64, .passes = 1, .lanes = 4}));
    EXPECT_EQ(cheap->salt.size, 8U);
    EXPECT_EQ(cheap->hash.size, 16U);
    // Fields of 64 bytes fit, 65 do not.
    const std::string head = "$argon2id$v=19$m=64,t=1,p=4$c2FsdHNhbHQ$";
    EXPECT_TRUE(internal::parse_phc(head + std::string(86, 'A')));
    EXPECT_FALSE(internal::parse_phc(head + std::string(87, 'A')));
}

// Costs that would occupy the machine are refused before the work: this test would not end
// otherwise.
TEST(Password, AbsurdCostsAreFalse) {
    for (const std::string_view cost :
         {"m=4294967295,t=1,p=1", "m=64,t=4294967295,p=1", "m=64,t=1,p=4294967295",
          "m=99999999999999999999,t=1,p=1", "m=262145,t=1,p=1", "m=262144,t=17,p=1"}) {
        const std::string phc =
            "$argon2id$v=19$" + std::string(cost) + "$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw";
        EXPECT_FALSE(internal::parse_phc(phc)) << phc;
    }
    EXPECT_TRUE(internal::parse_phc(
        "$argon2id$v=19$m=262144,t=16,p=16$c2FsdHNhbHQ$49+Uax1MSvDJP+KZqCOOaw"));
}

TEST(Password, DamagedStringsNeverCrash) {
    std::minstd_rand random(20);
    int well_formed = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::string text(kCheap);
        for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
            text[random() % text.size()] = static_cast<char>(random());
        }
        text.resize(text.size() - random() % 3);
        const auto phc = internal::parse_phc(text);
        if (phc) {  // then it is a string that could have been written
            ++well_formed;
            ASSERT_EQ(internal::format_phc(*phc), text);
        }
    }
    EXPECT_GT(well_formed, 100);
}

}  // namespace
}  // namespace galgo::crypto
