// The options of a stored topic from its two blocks, as the log and the snapshot carry them.
// Between them the blocks name every key, so the values do not depend on the defaults of the build
// that reads them.
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "wire/options.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::metadata::detail {

/// Errors: kInvalidCommand (a block does not parse) and those of resolve_topic_options.
[[nodiscard]] inline Result<wire::ResolvedTopicOptions> stored_topic_options(
    ConstBytes explicit_block, ConstBytes derived_block) {
    GALGO_TRY_ASSIGN(const auto named, wire::OptionBlock::parse(explicit_block));
    GALGO_TRY_ASSIGN(const auto derived, wire::OptionBlock::parse(derived_block));
    wire::OptionBlockBuilder merged;
    merged.put_all(derived);
    merged.put_all(named);
    const std::vector<std::byte> all = merged.encode();
    GALGO_TRY_ASSIGN(const auto block, wire::OptionBlock::parse(all));
    // Count 0: what a preallocating topic may reserve was decided when it was created.
    GALGO_TRY_ASSIGN(auto resolved, wire::resolve_topic_options(block, 0));
    return wire::ResolvedTopicOptions{
        .values = resolved.values,
        .explicit_block = {explicit_block.begin(), explicit_block.end()},
        .derived_block = {derived_block.begin(), derived_block.end()}};
}

}  // namespace galgo::metadata::detail
