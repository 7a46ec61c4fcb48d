#include <gtest/gtest.h>

#include <memory>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/intrusive_list.hpp"
#include "base/unique_function.hpp"

namespace galgo {
namespace {

TEST(Error, NamesCodeAndErrno) {
    EXPECT_EQ(to_string(Error{.code = ErrorCode::kIoError, .os_errno = 28}),
              "IoError (13000): No space left on device");
    EXPECT_EQ(error_name(static_cast<ErrorCode>(999999)), "unknown");
    EXPECT_EQ(fail(ErrorCode::kTransientNotAccepted).error().retry, RetryClass::kSameNode);
    EXPECT_EQ(fail(ErrorCode::kInvalidCommand).error().retry, RetryClass::kNever);
}

Result<int> half(int value) {
    if (value % 2 != 0) {
        return fail(ErrorCode::kInvalidNumberValue);
    }
    return value / 2;
}
Result<int> quarter(int value) {
    GALGO_TRY_ASSIGN(const int halved, half(value));
    GALGO_TRY(half(halved));
    return halved / 2;
}

TEST(Error, TryReturnsEarly) {
    EXPECT_EQ(quarter(8), 2);
    EXPECT_EQ(quarter(6).error().code, ErrorCode::kInvalidNumberValue);
    EXPECT_EQ(quarter(7).error().code, ErrorCode::kInvalidNumberValue);
}

TEST(ByteReader, StopsAtTheEnd) {
    ByteWriter writer;
    writer.put<std::uint16_t>(0x0201);
    writer.put<std::uint64_t>(7);
    writer.put_text("ab");
    ByteReader reader(writer.bytes());
    EXPECT_EQ(reader.take<std::uint8_t>(), 1);
    EXPECT_EQ(reader.take<std::uint8_t>(), 2);
    EXPECT_EQ(reader.take<std::uint64_t>(), 7u);
    EXPECT_EQ(reader.take<std::uint32_t>(), std::nullopt);
    EXPECT_EQ(reader.remaining(), 2u);
    EXPECT_FALSE(reader.take_bytes(3).has_value());
    EXPECT_EQ(as_text(*reader.take_bytes(2)), "ab");
}

struct Item : ListLink<> {
    explicit Item(int v) : value(v) {}
    int value;
};

TEST(IntrusiveList, KeepsOrderAndUnlinks) {
    Item a(1);
    Item b(2);
    Item c(3);
    IntrusiveList<Item> list;
    list.push_back(b);
    list.push_back(c);
    list.push_front(a);
    b.unlink();
    EXPECT_EQ(list.pop_front().value, 1);
    EXPECT_EQ(list.pop_front().value, 3);
    EXPECT_TRUE(list.empty());
}

TEST(UniqueFunction, MovesItsState) {
    auto owned = std::make_unique<int>(5);
    UniqueFunction<int(int)> add = [p = std::move(owned)](int x) { return *p + x; };
    UniqueFunction<int(int)> moved = std::move(add);
    EXPECT_FALSE(add);  // NOLINT(bugprone-use-after-move): the moved-from state is what is tested
    EXPECT_EQ(moved(2), 7);
}

TEST(Check, StopsTheProcess) {
    EXPECT_DEATH(GALGO_CHECK(1 == 2), "check failed: 1 == 2");
}

}  // namespace
}  // namespace galgo
