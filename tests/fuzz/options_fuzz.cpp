// Fuzzes option blocks, the topic option catalogue, permission records and units as text. Laws: a
// resolved block resolves to itself again; together the explicit and derived blocks name the whole
// catalogue.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "fuzz_target.hpp"
#include "model/units_text.hpp"
#include "wire/options.hpp"
#include "wire/permissions.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::wire {
namespace {

constexpr std::ptrdiff_t kCatalogueSize = 9;

std::ptrdiff_t entry_count(ConstBytes bytes) {
    const auto block = OptionBlock::parse(bytes);
    GALGO_CHECK(block.has_value());
    return std::ranges::distance(block->begin(), block->end());
}

void run_options(ConstBytes bytes) {
    const auto block = OptionBlock::parse(bytes);
    if (!block) {
        return;
    }
    OptionBlockBuilder builder;
    builder.put_all(*block);
    GALGO_CHECK(builder.encode().size() == bytes.size());
    (void)refuse_options(*block);
    if (const auto resolved = resolve_topic_options(*block, 3)) {
        GALGO_CHECK(entry_count(resolved->explicit_block) + entry_count(resolved->derived_block) ==
                    kCatalogueSize);
        const auto canonical = OptionBlock::parse(resolved->explicit_block);
        GALGO_CHECK(canonical.has_value());
        const auto again = resolve_topic_options(*canonical, 3);
        GALGO_CHECK(again.has_value());
        GALGO_CHECK(again->values == resolved->values);
        GALGO_CHECK(again->explicit_block == resolved->explicit_block);
    }
    const auto defaults = resolve_topic_options({}, 3);
    GALGO_CHECK(defaults.has_value());
    if (const auto updated = update_topic_options(*defaults, *block)) {
        GALGO_CHECK(validate_topic_update(*block).has_value());
        GALGO_CHECK(entry_count(updated->explicit_block) + entry_count(updated->derived_block) ==
                    kCatalogueSize);
    }
}

void run(ConstBytes bytes) {
    run_options(bytes);
    if (const auto permissions = decode_permissions(bytes)) {
        ByteWriter writer;
        put_permissions(writer, *permissions);
        const auto again = decode_permissions(writer.bytes());
        GALGO_CHECK(again.has_value());
        GALGO_CHECK(*again == *permissions);
    }
    (void)model::parse_byte_size(as_text(bytes));
    (void)model::parse_duration_us(as_text(bytes));
    (void)model::parse_expiry_us(as_text(bytes));
}

}  // namespace
}  // namespace galgo::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    galgo::wire::run(std::as_bytes(std::span(data, size)));
    return 0;
}
