// Suggestions for a misspelt name: Levenshtein distance of at most 3, or of 30 % of the longer
// name.
#include <algorithm>
#include <numeric>

#include "config/detail/property.hpp"

namespace galgo::config::detail {
namespace {

constexpr std::size_t kNameMax = 128;  // longer names get no suggestion: the cost is quadratic

std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row[b.size()];
}

}  // namespace

std::vector<std::string> nearest(std::string_view name,
                                 const std::vector<std::string>& candidates) {
    constexpr std::size_t kSuggestionsMax = 3;
    std::vector<std::pair<std::size_t, std::string>> found;
    if (name.size() <= kNameMax) {
        for (const std::string& candidate : candidates) {
            const std::size_t longer = std::max(name.size(), candidate.size());
            const std::size_t d = distance(name, candidate);
            if (d <= std::max<std::size_t>(3, longer * 3 / 10)) {
                found.emplace_back(d, candidate);
            }
        }
    }
    std::ranges::sort(found);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < found.size() && i < kSuggestionsMax; ++i) {
        names.push_back(std::move(found[i].second));
    }
    return names;
}

}  // namespace galgo::config::detail
