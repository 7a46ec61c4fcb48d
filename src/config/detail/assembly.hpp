// One load under way: the values so far, where each came from, and the first fault. Sources are
// applied in order, later ones win; `finish` checks the whole.
#pragma once

#include <cstddef>
#include <expected>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/detail/property.hpp"
#include "config/loader.hpp"

namespace galgo::config::detail {

class Assembly {
 public:
    using Outcome = std::expected<void, ConfigFault>;

    /// Starts from the defaults of the table.
    Assembly();

    [[nodiscard]] Outcome apply_file(const Node& root, std::string_view source);
    [[nodiscard]] Outcome apply_environment(const Environment& environment);
    [[nodiscard]] std::expected<Loaded, ConfigFault> finish() &&;

    [[nodiscard]] Config& config() noexcept { return config_; }

 private:
    using Arrays = std::map<std::string_view, std::map<std::size_t, Node>>;

    [[nodiscard]] Outcome set(const Property& property, const Node& node, std::string_view origin);
    [[nodiscard]] Outcome walk_table(const Node& table, const std::string& prefix,
                                     std::string_view source);
    [[nodiscard]] Outcome apply_variable(const std::string& name, const std::string& value,
                                         Arrays& arrays);
    [[nodiscard]] bool collect_element(const std::string& name, const std::string& value,
                                       Arrays& arrays);
    void read_runtime_variable(std::string_view name, std::string_view value, std::uint32_t max,
                               std::uint64_t& field);
    void warn_unknown(std::string_view what, std::string_view name, std::string_view origin,
                      const std::vector<std::string>& candidates);
    void warn_not_acted_upon();

    Config config_;
    std::map<std::string_view, std::string> origins_;  ///< by key; absent = default
    Warnings warnings_;
};

}  // namespace galgo::config::detail
