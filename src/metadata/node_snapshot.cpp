#include "metadata/node_snapshot.hpp"

#include "base/check.hpp"
#include "metadata/client_table_snapshot.hpp"
#include "metadata/detail/sealed.hpp"
#include "metadata/snapshot.hpp"
#include "wire/primitives.hpp"

namespace galgo::metadata {

namespace {

constexpr detail::SealedKind kKind{.magic = 0x534E'4D47, .version = 1};  // "GMNS"

}  // namespace

std::vector<std::byte> encode_node_snapshot(const State& state, const ClientTable& clients,
                                            std::span<const EndedLife> ended_lives) {
    GALGO_CHECK(ended_lives.size() <= kEndedLivesMax);
    ByteWriter to = detail::begin_sealed(kKind);
    wire::put_block32(to, encode_snapshot(state));
    wire::put_block32(to, encode_client_table(clients));
    to.put<std::uint32_t>(static_cast<std::uint32_t>(state.sessions().sessions_max()));
    to.put<std::uint32_t>(static_cast<std::uint32_t>(ended_lives.size()));
    for (const auto& [partition, incarnation] : ended_lives) {
        to.put<std::uint64_t>(partition.value());
        to.put<std::uint64_t>(incarnation.value());
    }
    return detail::seal(std::move(to));
}

Result<NodeSnapshot> decode_node_snapshot(ConstBytes bytes, PartitionStatsRegistry& registry) {
    GALGO_TRY_ASSIGN(const ConstBytes content, detail::open_sealed(bytes, kKind));
    wire::FieldReader from(content);
    const ConstBytes state = from.block32();
    const ConstBytes clients = from.block32();
    const std::uint32_t sessions_max = from.u32();
    const std::uint32_t life_count = from.u32();
    if (from.failed() || sessions_max == 0 || life_count > kEndedLivesMax ||
        from.remaining() != life_count * 2 * sizeof(std::uint64_t)) {
        return detail::corrupted(detail::kSealedHeadSize + from.position());
    }
    GALGO_TRY_ASSIGN(State decoded,
                     decode_snapshot(state, registry, {.sessions_max = sessions_max}));
    NodeSnapshot snapshot{
        .state = std::move(decoded), .clients = std::make_unique<ClientTable>(), .ended_lives = {}};
    GALGO_TRY(decode_client_table(clients, *snapshot.clients));
    snapshot.ended_lives.reserve(life_count);
    for (std::uint32_t i = 0; i < life_count; ++i) {
        const auto partition = from.id<PartitionKey>();
        const auto incarnation = from.id<Incarnation>();
        if (incarnation.value() >= snapshot.state.op().value()) {
            return detail::corrupted(detail::kSealedHeadSize + from.position());
        }
        snapshot.ended_lives.emplace_back(partition, incarnation);
    }
    return snapshot;
}

}  // namespace galgo::metadata
