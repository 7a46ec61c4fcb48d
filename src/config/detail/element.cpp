// Arrays of tables: cluster.nodes, their advertised_addresses, http.jwt.trusted_issuers. The fields
// of each element type are declared once, like the properties.
#include <algorithm>
#include <array>
#include <charconv>
#include <format>
#include <utility>

#include "config/detail/property.hpp"

namespace galgo::config::detail {
namespace {

using Outcome = std::expected<void, std::string>;
using Issuer = HTTPConfig::TrustedIssuer;

constexpr std::size_t kElementsMax = 256;

template <class T>
struct ElementField {
    std::string_view path;
    Kind kind;
    FieldRef (*field)(T&);
    std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
};

template <class T>
std::span<const ElementField<T>> fields_of();

#define FIELD(type, member) [](type& element) -> FieldRef { return &element.member; }

constexpr std::uint64_t kPortMax = 65'535;
constexpr auto kPort = Kind::kOptionalCount;
constexpr auto kNodeFields = std::to_array<ElementField<ClusterNode>>({
    {"name", Kind::kString, FIELD(ClusterNode, name)},
    {"ip", Kind::kString, FIELD(ClusterNode, ip)},
    {"replica_id", Kind::kCount, FIELD(ClusterNode, replica_id), 255},
    {"advertised_address", Kind::kString, FIELD(ClusterNode, advertised_address)},
    {"ports.tcp", kPort, FIELD(ClusterNode, tcp_port), kPortMax},
    {"ports.quic", kPort, FIELD(ClusterNode, quic_port), kPortMax},
    {"ports.http", kPort, FIELD(ClusterNode, http_port), kPortMax},
    {"ports.websocket", kPort, FIELD(ClusterNode, websocket_port), kPortMax},
    {"ports.tcp_replica", kPort, FIELD(ClusterNode, tcp_replica_port), kPortMax},
    {"advertised_addresses", Kind::kTables, FIELD(ClusterNode, advertised_addresses)},
});
constexpr auto kAddressFields = std::to_array<ElementField<AdvertisedAddress>>({
    {"client_cidr", Kind::kString, FIELD(AdvertisedAddress, client_cidr)},
    {"address", Kind::kString, FIELD(AdvertisedAddress, address)},
});
constexpr auto kIssuerFields = std::to_array<ElementField<Issuer>>({
    {"issuer", Kind::kString, FIELD(Issuer, issuer)},
    {"audience", Kind::kString, FIELD(Issuer, audience)},
    {"jwks_url", Kind::kString, FIELD(Issuer, jwks_url)},
    {"user_id", Kind::kCount, FIELD(Issuer, user_id), 4'294'967'295},
});
#undef FIELD

template <>
std::span<const ElementField<ClusterNode>> fields_of() {
    return kNodeFields;
}
template <>
std::span<const ElementField<AdvertisedAddress>> fields_of() {
    return kAddressFields;
}
template <>
std::span<const ElementField<Issuer>> fields_of() {
    return kIssuerFields;
}

template <class T>
Outcome assign_element(T& element, const Node& table, const std::string& prefix,
                       Warnings& warnings) {
    if (table.kind != Node::Kind::kTable) {
        return std::unexpected(std::string("must be a list of tables"));
    }
    for (const Node& member : table.items) {
        const std::string path = prefix + member.name;
        const auto field = std::ranges::find(fields_of<T>(), path, &ElementField<T>::path);
        if (field != fields_of<T>().end()) {
            const FieldRef target = field->field(element);
            if (auto outcome = assign(field->kind, target, member, warnings); !outcome) {
                return std::unexpected(
                    std::format("{} = {}: {}", path, show(member), outcome.error()));
            }
            std::optional<std::uint64_t> number;
            if (const auto* plain = std::get_if<std::uint64_t*>(&target)) {
                number = **plain;
            } else if (const auto* port = std::get_if<std::optional<std::uint64_t>*>(&target)) {
                number = **port;
            }
            if (number && *number > field->max) {
                return std::unexpected(
                    std::format("{} = {}: must be at most {}", path, show(member), field->max));
            }
        } else if (member.kind == Node::Kind::kTable && prefix.empty()) {
            if (auto outcome = assign_element(element, member, path + ".", warnings); !outcome) {
                return outcome;
            }
        } else {
            warnings.push_back(std::format("unknown key {} in a list of tables", quoted(path)));
        }
    }
    return {};
}

template <class T>
Outcome assign_all(std::vector<T>& elements, const Node& node, Warnings& warnings) {
    if (node.kind != Node::Kind::kArray) {
        return std::unexpected(std::string("must be a list of tables"));
    }
    if (node.items.size() > kElementsMax) {
        return std::unexpected(std::format("must have at most {} elements", kElementsMax));
    }
    elements.clear();
    for (const Node& item : node.items) {
        T element;
        if (auto outcome = assign_element(element, item, "", warnings); !outcome) {
            return std::unexpected(
                std::format("[{}] {}", elements.size(), std::move(outcome.error())));
        }
        elements.push_back(std::move(element));
    }
    return {};
}

template <class T>
std::string print_inline(T element) {
    std::string text;
    for (const ElementField<T>& field : fields_of<T>()) {
        text += std::format("{}{} = {}", text.empty() ? "{ " : ", ", field.path,
                            literal(field.kind, field.field(element)));
    }
    return text + " }";
}

template <class T>
std::string print_all(std::string_view key, std::vector<T>& elements) {
    std::string out;
    for (T& element : elements) {
        out += std::format("\n[[{}]]\n", key);
        for (const ElementField<T>& field : fields_of<T>()) {
            const FieldRef target = field.field(element);
            std::string text;
            if (field.kind == Kind::kTables) {
                const auto& selectors = *std::get<std::vector<AdvertisedAddress>*>(target);
                for (const AdvertisedAddress& selector : selectors) {
                    text += (text.empty() ? "[" : ", ") + print_inline(selector);
                }
                text += text.empty() ? "" : "]";
            } else {
                text = literal(field.kind, target);
                if (field.path == "advertised_address" && text == R"("")") {
                    text.clear();
                }
            }
            if (!text.empty()) {
                out += std::format("{} = {}\n", field.path, text);
            }
        }
    }
    return out;
}

template <class T>
std::optional<std::string> path_of(std::string_view tail) {
    for (const ElementField<T>& field : fields_of<T>()) {
        // The names of a variable carry a prefix of 5 that a field has not.
        const std::string name = variable_name(field.path).substr(5);
        if (name == tail && field.kind != Kind::kTables) {
            return std::string(field.path);
        }
    }
    return std::nullopt;
}

}  // namespace

Outcome assign_elements(const FieldRef& field, const Node& node, Warnings& warnings) {
    if (const auto* nodes = std::get_if<std::vector<ClusterNode>*>(&field)) {
        return assign_all(**nodes, node, warnings);
    }
    if (const auto* selectors = std::get_if<std::vector<AdvertisedAddress>*>(&field)) {
        return assign_all(**selectors, node, warnings);
    }
    return assign_all(*std::get<std::vector<Issuer>*>(field), node, warnings);
}

std::string print_elements(std::string_view key, const FieldRef& field) {
    if (const auto* nodes = std::get_if<std::vector<ClusterNode>*>(&field)) {
        return print_all(key, **nodes);
    }
    return print_all(key, *std::get<std::vector<Issuer>*>(field));
}

std::optional<std::string> element_path(const FieldRef& field, std::string_view tail) {
    if (std::holds_alternative<std::vector<ClusterNode>*>(field)) {
        return path_of<ClusterNode>(tail);
    }
    if (std::holds_alternative<std::vector<AdvertisedAddress>*>(field)) {
        return path_of<AdvertisedAddress>(tail);
    }
    return path_of<Issuer>(tail);
}

}  // namespace galgo::config::detail
