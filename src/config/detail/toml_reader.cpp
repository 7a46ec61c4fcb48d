// The one place that includes toml++. Its exceptions are turned into values here. toml++ descends and
// destroys by recursion, and dotted keys may nest at will: a line with more than 128 dots is refused
// before it is parsed (no key of ours has more than four), which bounds the depth.
#include <algorithm>
#include <exception>
#include <format>
#include <sstream>
#include <stdexcept>
#include <utility>

// toml++ 3.3 asserts where some malformed keys are met: that must refuse the file, not end the process.
#define TOML_ASSERT(condition)                        \
    do {                                              \
        if (!(condition)) {                           \
            throw std::runtime_error("malformed key or value"); \
        }                                             \
    } while (false)
#include <toml++/toml.h>

#include "config/detail/node.hpp"

namespace galgo::config::detail {
namespace {

constexpr std::ptrdiff_t kDotsPerLineMax = 128;
constexpr std::uint32_t kDepthMax = 16;

std::expected<Node, std::string> convert(const toml::node& from, std::string_view name,
                                         std::uint32_t depth);

std::expected<void, std::string> convert_items(const toml::node& from, Node& to,
                                               std::uint32_t depth) {
    if (depth >= kDepthMax) {
        return std::unexpected(std::format("nested more than {} levels deep", kDepthMax));
    }
    if (const toml::table* table = from.as_table()) {
        for (const auto& [key, value] : *table) {
            auto item = convert(value, key.str(), depth + 1);
            if (!item) {
                return std::unexpected(std::move(item.error()));
            }
            to.items.push_back(std::move(*item));
        }
        return {};
    }
    for (const toml::node& value : *from.as_array()) {
        auto item = convert(value, "", depth + 1);
        if (!item) {
            return std::unexpected(std::move(item.error()));
        }
        to.items.push_back(std::move(*item));
    }
    return {};
}

std::expected<Node, std::string> convert(const toml::node& from, std::string_view name,
                                         std::uint32_t depth) {
    Node to;
    to.name = name;
    if (from.is_table() || from.is_array()) {
        to.kind = from.is_table() ? Node::Kind::kTable : Node::Kind::kArray;
        if (auto items = convert_items(from, to, depth); !items) {
            return std::unexpected(std::move(items.error()));
        }
    } else if (const auto* text = from.as_string()) {
        to.kind = Node::Kind::kString;
        to.text = text->get();
    } else if (const auto* integer = from.as_integer()) {
        to.kind = Node::Kind::kInteger;
        to.integer = integer->get();
    } else if (const auto* boolean = from.as_boolean()) {
        to.kind = Node::Kind::kBool;
        to.boolean = boolean->get();
    } else {
        to.kind = Node::Kind::kOther;
        std::ostringstream shown;
        from.visit([&shown](const auto& value) { shown << value; });
        to.text = shown.str();
    }
    return to;
}

bool has_overlong_path(std::string_view toml) {
    while (!toml.empty()) {
        const std::size_t end = std::min(toml.find('\n'), toml.size());
        const std::string_view line = toml.substr(0, end);
        if (std::ranges::count(line, '.') > kDotsPerLineMax) {
            return true;
        }
        toml.remove_prefix(std::min(end + 1, toml.size()));
    }
    return false;
}

}  // namespace

std::expected<Node, std::string> read_toml(std::string_view toml) {
    if (has_overlong_path(toml)) {
        return std::unexpected(std::format("a line has more than {} dots", kDotsPerLineMax));
    }
    try {
        const toml::table root = toml::parse(toml);
        return convert(root, "", 0);
    } catch (const toml::parse_error& error) {
        return std::unexpected(
            std::format("line {}: {}", error.source().begin.line, error.description()));
    } catch (const std::exception& error) {
        return std::unexpected(std::string(error.what()));
    }
}

}  // namespace galgo::config::detail
