#include "config/detail/assembly.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <format>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "model/text.hpp"

namespace galgo::config::detail {
namespace {

constexpr std::string_view kPrefix = "IGGY_";
constexpr std::size_t kElementIndexMax = 255;
constexpr std::size_t kNamedKeysBytesMax = 600;     // a line of the log has 1024
constexpr std::uint32_t kRingCapacityMax = 32'768;  // IORING_MAX_ENTRIES of the kernel
constexpr std::uint32_t kEventIntervalMax = std::numeric_limits<std::uint32_t>::max();

/// Read elsewhere, or here for themselves: never a key of the file.
constexpr auto kOutsideSchema = std::to_array<std::string_view>(
    {"IGGY_CONFIG_PATH", "IGGY_ENV_PATH", "IGGY_ROOT_USERNAME", "IGGY_ROOT_PASSWORD",
     "IGGY_DISPLAY_CONFIG", "IGGY_SHARD_RUNTIME_CAPACITY", "IGGY_SHARD_EVENT_INTERVAL"});

Node text_node(std::string_view text) {
    Node node;
    node.kind = Node::Kind::kText;
    node.text = text;
    return node;
}

std::unexpected<ConfigFault> fault(std::string_view key, std::string_view value,
                                   std::string_view requirement, std::string_view origin) {
    return std::unexpected(ConfigFault{
        one_line(std::format("config: {} = {}: {} (from {})", key, value, requirement, origin))});
}

std::string relocated_text(const RelocatedKey& relocated) {
    if (relocated.option.empty()) {
        return "removed, delete it";
    }
    return std::format("moved, use the topic option {}", relocated.option);
}

const RelocatedKey* find_relocated(std::string_view key) {
    for (const RelocatedKey& relocated : relocated_keys()) {
        if (key == relocated.key ||
            (key.starts_with(relocated.key) && key[relocated.key.size()] == '.')) {
            return &relocated;
        }
    }
    return nullptr;
}

const RelocatedKey* find_relocated_variable(std::string_view name) {
    for (const RelocatedKey& relocated : relocated_keys()) {
        const std::string derived = variable_name(relocated.key);
        if (name == derived || (name.starts_with(derived) && name[derived.size()] == '_')) {
            return &relocated;
        }
    }
    return nullptr;
}

bool is_table_of_ours(std::string_view path) {
    return std::ranges::any_of(properties(), [path](const Property& property) {
        return property.key.size() > path.size() && property.key.starts_with(path) &&
               property.key[path.size()] == '.';
    });
}

/// "12_REST" -> 12, leaving "REST".
std::optional<std::size_t> take_index(std::string_view& tail) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(tail.data(), tail.data() + tail.size(), index);
    if (error != std::errc{} || index > kElementIndexMax || end == tail.data() + tail.size() ||
        *end != '_') {
        return std::nullopt;
    }
    tail.remove_prefix(static_cast<std::size_t>(end - tail.data()) + 1);
    return index;
}

bool holds_same(const FieldRef& left, const FieldRef& right) {
    return std::visit(
        [&right](const auto* value) {
            const auto* other = std::get_if<std::remove_cvref_t<decltype(*value)>*>(&right);
            return other != nullptr && *value == **other;
        },
        left);
}

Node array_node(std::map<std::size_t, Node>& elements) {
    Node array;
    array.kind = Node::Kind::kArray;
    array.items.resize(elements.empty() ? 0 : elements.rbegin()->first + 1);  // gaps stay empty
    for (auto& [index, element] : elements) {
        array.items[index] = std::move(element);
    }
    return array;
}

}  // namespace

std::string variable_name(std::string_view key) {
    std::string name(kPrefix);
    for (const char c : key) {
        name += c == '.' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
    }
    return name;
}

Assembly::Assembly() {
    for (const Property& property : properties()) {
        if (property.kind == Kind::kTables || property.kind == Kind::kOptionalSize) {
            continue;
        }
        const auto outcome =
            assign(property.kind, property.field(config_), text_node(property.fallback), warnings_);
        GALGO_CHECK(outcome.has_value());  // the table is ours
    }
}

Assembly::Outcome Assembly::set(const Property& property, const Node& node,
                                std::string_view origin) {
    const std::size_t warnings_before = warnings_.size();
    const auto outcome = assign(property.kind, property.field(config_), node, warnings_);
    for (std::size_t i = warnings_before; i < warnings_.size(); ++i) {
        warnings_[i] = std::format("config: {}: {} (from {})", property.key, warnings_[i], origin);
    }
    if (!outcome) {
        const std::string value = property.kind == Kind::kSecret ? R"("******")" : show(node);
        return fault(property.key, value, outcome.error(), origin);
    }
    origins_[property.key] = origin;
    return {};
}

Assembly::Outcome Assembly::apply_file(const Node& root, std::string_view source) {
    return walk_table(root, "", source);
}

Assembly::Outcome Assembly::walk_table(const Node& table, const std::string& prefix,
                                       std::string_view source) {
    for (const Node& item : table.items) {
        const std::string path = prefix + item.name;
        if (const RelocatedKey* relocated = find_relocated(path)) {
            return fault(path, show(item), relocated_text(*relocated), source);
        }
        if (const Property* property = find_property(path)) {
            if (auto outcome = set(*property, item, source); !outcome) {
                return outcome;
            }
        } else if (is_table_of_ours(path)) {
            if (item.kind != Node::Kind::kTable) {
                return fault(path, show(item), "must be a table", source);
            }
            if (auto outcome = walk_table(item, path + ".", source); !outcome) {
                return outcome;
            }
        } else {
            std::vector<std::string> keys;
            for (const Property& known : properties()) {
                keys.emplace_back(known.key);
            }
            warn_unknown("key", path, source, keys);
        }
    }
    return {};
}

Assembly::Outcome Assembly::apply_environment(const Environment& environment) {
    Arrays arrays;
    std::map<std::string_view, bool> seen;  // the first of two variables of a name wins
    for (const auto& [name, value] : environment) {
        if (!name.starts_with(kPrefix) || value.empty() || seen[name]) {
            continue;
        }
        seen[name] = true;
        if (auto outcome = apply_variable(name, value, arrays); !outcome) {
            return outcome;
        }
    }
    // Whole arrays: what the environment says of one replaces the array of the file.
    for (auto& [key, elements] : arrays) {
        const Property* property = find_property(key);
        GALGO_CHECK(property != nullptr);
        const std::string origin = variable_name(key) + "_*";
        if (auto outcome = set(*property, array_node(elements), origin); !outcome) {
            return outcome;
        }
    }
    return {};
}

Assembly::Outcome Assembly::apply_variable(const std::string& name, const std::string& value,
                                           Arrays& arrays) {
    if (name == "IGGY_SHARD_RUNTIME_CAPACITY") {
        read_runtime_variable(name, value, kRingCapacityMax, config_.runtime.ring_capacity);
    } else if (name == "IGGY_SHARD_EVENT_INTERVAL") {
        read_runtime_variable(name, value, kEventIntervalMax, config_.runtime.event_interval);
    }
    if (std::ranges::find(kOutsideSchema, name) != kOutsideSchema.end()) {
        return {};
    }
    if (const RelocatedKey* relocated = find_relocated_variable(name)) {
        return fault(relocated->key, quoted(value), relocated_text(*relocated), name);
    }
    // Like the file; what is printed could not be read again otherwise.
    const bool is_text = model::is_valid_utf8(value);
    for (const Property& property : properties()) {
        if (property.kind != Kind::kTables && variable_name(property.key) == name) {
            return is_text ? set(property, text_node(value), name)
                           : fault(property.key, "...", "must be UTF-8", name);
        }
    }
    if (collect_element(name, value, arrays)) {
        return is_text ? Outcome{} : fault(name, "...", "must be UTF-8", "the environment");
    }
    std::vector<std::string> names;
    for (const Property& property : properties()) {
        names.push_back(variable_name(property.key));
    }
    warn_unknown("variable", name, "the environment", names);
    return {};
}

bool Assembly::collect_element(const std::string& name, const std::string& value, Arrays& arrays) {
    constexpr std::string_view kSelectors = "ADVERTISED_ADDRESSES_";
    for (const Property& property : properties()) {
        const std::string prefix = variable_name(property.key) + "_";
        if (property.kind != Kind::kTables || !name.starts_with(prefix)) {
            continue;
        }
        std::string_view tail = std::string_view(name).substr(prefix.size());
        const auto index = take_index(tail);
        if (!index) {
            return false;
        }
        const FieldRef field = property.field(config_);
        if (auto path = element_path(field, tail)) {
            Node node = text_node(value);
            node.name = std::move(*path);
            arrays[property.key][*index].items.push_back(std::move(node));
            return true;
        }
        if (!std::holds_alternative<std::vector<ClusterNode>*>(field) ||
            !tail.starts_with(kSelectors)) {
            return false;
        }
        tail.remove_prefix(kSelectors.size());
        const auto selector = take_index(tail);
        std::vector<AdvertisedAddress>* none = nullptr;
        auto path = element_path(FieldRef(none), tail);
        if (!selector || !path) {
            return false;
        }
        std::vector<Node>& members = arrays[property.key][*index].items;
        auto list = std::ranges::find(members, "advertised_addresses", &Node::name);
        if (list == members.end()) {
            Node array;
            array.kind = Node::Kind::kArray;
            array.name = "advertised_addresses";
            list = members.insert(members.end(), std::move(array));
        }
        if (list->items.size() <= *selector) {
            list->items.resize(*selector + 1);
        }
        Node node = text_node(value);
        node.name = std::move(*path);
        list->items[*selector].items.push_back(std::move(node));
        return true;
    }
    return false;
}

void Assembly::read_runtime_variable(std::string_view name, std::string_view value,
                                     std::uint32_t max, std::uint64_t& field) {
    std::uint32_t number = 0;
    const std::string_view text = model::trimmed(value);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number == 0 || number > max) {
        warnings_.push_back(std::format("config: {} = {}: must be in 1..={}; {} is used", name,
                                        quoted(value), max, field));
        return;
    }
    field = number;
}

void Assembly::warn_unknown(std::string_view what, std::string_view name, std::string_view origin,
                            const std::vector<std::string>& candidates) {
    std::string line =
        std::format("config: unknown {} {} in {} is ignored", what, quoted(name), origin);
    const std::vector<std::string> names = nearest(name, candidates);
    for (std::size_t i = 0; i < names.size(); ++i) {
        line += (i == 0 ? "; did you mean " : i + 1 == names.size() ? " or " : ", ") + names[i];
    }
    warnings_.push_back(line + (names.empty() ? "" : "?"));
}

/// One line for all keys that somebody set to something else than the default, and that change
/// nothing in this version: a setting must not be lost in silence.
void Assembly::warn_not_acted_upon() {
    Assembly defaults;
    std::string keys;
    std::size_t unnamed = 0;
    for (const Property& property : properties()) {
        if (property.field.is_acted_upon || !origins_.contains(property.key) ||
            holds_same(property.field(config_), property.field(defaults.config_))) {
            continue;
        }
        if (keys.size() + property.key.size() > kNamedKeysBytesMax) {
            ++unnamed;
            continue;
        }
        keys += std::format("{}{}", keys.empty() ? "" : ", ", property.key);
    }
    if (unnamed != 0) {
        keys += std::format(" and {} more", unnamed);
    }
    if (!keys.empty()) {
        warnings_.push_back("config: not yet acted upon in this version: " + keys);
    }
}

std::expected<Loaded, ConfigFault> Assembly::finish() && {
    if (const std::optional<Violation> violation = validate(config_)) {
        std::string value = violation->value;
        std::string_view origin_key = violation->key;
        origin_key = origin_key.substr(0, origin_key.find('['));
        if (const Property* property = find_property(violation->key); property && value.empty()) {
            value = literal(property->kind, property->field(config_));
        }
        const auto origin = origins_.find(origin_key);
        return fault(violation->key, value, violation->requirement,
                     origin == origins_.end() ? "the defaults" : origin->second);
    }
    if (!config_.system.memory_pool.enabled) {
        warnings_.emplace_back(
            "config: system.memory_pool.enabled = false has no effect: the memory of message "
            "buffers is always bounded");
    }
    warn_not_acted_upon();
    for (std::string& warning : warnings_) {
        warning = one_line(warning);
    }
    return Loaded{
        .config = std::move(config_), .warnings = std::move(warnings_), .source_path = {}};
}

}  // namespace galgo::config::detail
