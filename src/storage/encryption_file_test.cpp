// The file ENCRYPTION: which starts it lets through, and what it says to the others.
#include "storage/encryption_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <format>
#include <string>

#include "runtime_sim/test_world.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using testing::HasSubstr;

const std::string kPath = "/data/ENCRYPTION";

struct KeyRig {
    KeyRig() : node(world.add_node()) {
        const Status made = world.run(node, make_root(*node.io));
        EXPECT_TRUE(made.has_value());
    }
    static coro::Task<Status> make_root(runtime::IoBackend& io) {
        GALGO_CO_TRY(co_await runtime::make_directories(io, "/data"));
        co_return co_await runtime::sync_directory(io, "/");
    }
    OrRefusal<void> settle(const DataKey* key, bool is_expected = false) {
        OrRefusal<void> checked = world.run(node, check_key(*node.io, "/data", key, is_expected));
        if (!checked.has_value() || key == nullptr) {
            return checked;
        }
        return world.run(node, write_key_mark(*node.io, "/data", *key));
    }
    std::string refusal(const DataKey* key) {
        const OrRefusal<void> settled = settle(key);
        EXPECT_FALSE(settled.has_value());
        return settled.has_value() ? std::string() : settled.error().text;
    }
    void power_loss() {
        world.kill(node);
        world.restart(node, runtime_sim::CrashKind::kPower, runtime_sim::UnsyncedFate::kLoseAll);
    }

    runtime_sim::TestWorld world{1};
    runtime_sim::Node& node;
};

TEST(EncryptionFile, IsWrittenBeforeAnythingIsEncryptedAndIsStable) {
    KeyRig rig;
    const DataKey key = test_key(0);
    ASSERT_TRUE(rig.settle(&key).has_value());
    rig.power_loss();
    const Result<runtime::FileFacts> facts = rig.node.io->file_facts(kPath);
    ASSERT_TRUE(facts.has_value());
    EXPECT_EQ(facts->size_bytes, kEncryptionFileBytes);
    EXPECT_TRUE(rig.settle(&key).has_value());
}

TEST(EncryptionFile, WithoutAKeyNothingIsWritten) {
    KeyRig rig;
    EXPECT_TRUE(rig.settle(nullptr).has_value());
    EXPECT_FALSE(rig.node.io->file_facts(kPath).has_value());
}

// A directory that was restored without the file.
TEST(EncryptionFile, IsMissedWhereItHasToBe) {
    KeyRig rig;
    const DataKey key = test_key(0);
    for (const DataKey* given : {&key, static_cast<const DataKey*>(nullptr)}) {
        const OrRefusal<void> settled = rig.settle(given, true);
        ASSERT_FALSE(settled.has_value());
        EXPECT_THAT(settled.error().text, HasSubstr(kPath + " is gone, and FORMAT says"));
        EXPECT_FALSE(rig.node.io->file_facts(kPath).has_value());
    }
    ASSERT_TRUE(rig.settle(&key).has_value());
    EXPECT_TRUE(rig.settle(&key, true).has_value());
}

TEST(EncryptionFile, AnotherKeyAndNoneAreRefused) {
    KeyRig rig;
    const DataKey key = test_key(0);
    const DataKey other = test_key(1);
    ASSERT_NE(key.id(), other.id());
    ASSERT_TRUE(rig.settle(&key).has_value());
    EXPECT_THAT(rig.refusal(&other), HasSubstr(kPath + " says"));
    EXPECT_THAT(rig.refusal(&other), HasSubstr("set system.encryption.key"));
    EXPECT_THAT(rig.refusal(&other), HasSubstr(std::format("{:016x}", key.id())));
    EXPECT_THAT(rig.refusal(nullptr), HasSubstr(kPath + " says"));
    EXPECT_THAT(rig.refusal(nullptr), HasSubstr("set system.encryption.enabled"));
    EXPECT_TRUE(rig.settle(&key).has_value());  // nothing was changed
}

TEST(EncryptionFile, DamageIsRefusedWhateverTheKey) {
    const DataKey key = test_key(0);
    for (const std::uint64_t at : {0U, 8U, 12U, 16U, 24U, 40U, 56U, 63U}) {
        KeyRig rig;
        ASSERT_TRUE(rig.settle(&key).has_value());
        ASSERT_TRUE(rig.node.disk->corrupt(kPath, at, 1));
        EXPECT_THAT(rig.refusal(&key), HasSubstr(kPath + " is damaged: restore it")) << at;
        EXPECT_THAT(rig.refusal(nullptr), HasSubstr(kPath + " is damaged")) << at;
    }
}

TEST(EncryptionFile, EveryFlippedBitAndEveryOtherLengthIsDamage) {
    const DataKey key = test_key(0);
    std::array<std::byte, kEncryptionFileBytes> bytes{};
    const KeyMark mark{.key_id = key.id(), .check = key.check()};
    encode_key_mark(bytes, mark);
    EXPECT_EQ(decode_key_mark(bytes), mark);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        EXPECT_FALSE(decode_key_mark(bytes).has_value()) << bit;
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(decode_key_mark(ConstBytes(bytes).first(size)).has_value());
    }
    std::array<std::byte, kEncryptionFileBytes + 1> longer{};
    std::ranges::copy(bytes, longer.begin());
    EXPECT_FALSE(decode_key_mark(longer).has_value());
}

TEST(DataKeyTest, NoDerivedKeyIsTheSame) {
    const DataKey key = test_key(0);
    Salt salt{};
    const KeyBytes first = key.batch_key(salt, PartitionKey{1}, Incarnation{1});
    EXPECT_EQ(first, key.batch_key(salt, PartitionKey{1}, Incarnation{1}));
    EXPECT_NE(first, key.batch_key(salt, PartitionKey{2}, Incarnation{1}));
    EXPECT_NE(first, key.batch_key(salt, PartitionKey{1}, Incarnation{2}));
    salt[15] = std::byte{1};
    EXPECT_NE(first, key.batch_key(salt, PartitionKey{1}, Incarnation{1}));
    EXPECT_NE(first, test_key(1).batch_key(Salt{}, PartitionKey{1}, Incarnation{1}));
}

}  // namespace
}  // namespace galgo::storage
