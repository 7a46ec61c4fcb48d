// Any bytes as a snapshot of the metadata. Laws: what is refused is refused with
// kStateFileCorrupted, or as another version; what is accepted keeps the invariants of a state,
// encodes to the same bytes again, and goes on working: clients log in, change things and leave.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "crypto/hash.hpp"
#include "fuzz_target.hpp"
#include "metadata/apply.hpp"
#include "metadata/snapshot.hpp"
#include "wire/requests.hpp"

namespace galgo::metadata {
namespace {

using Bytes = std::vector<std::byte>;
using wire::Identifier;
using wire::Operation;

class Client {
 public:
    Client(State& state, PartitionStatsRegistry& registry) : state_(state), registry_(registry) {}

    void run() {
        (void)commit(make_create_root("iggy", "hash"));  // unless it is there
        const User* root = state_.users().find(model::kRootUserId);
        (void)commit(make_register(login_by_password(*root)));
        session_ = SessionId(state_.op().value());
        users();
        request(Operation::kCreateStream, wire::CreateStreamRequest{.name = "new", .options = {}});
        const Identifier stream = Identifier::numbered(0);
        request(Operation::kCreateTopic,
                wire::CreateTopicRequest{
                    .stream = stream, .partitions_count = 2, .name = "new", .options = {}});
        for (std::uint32_t topic = 0; topic < 2; ++topic) {
            const Identifier id = Identifier::numbered(topic);
            request(Operation::kCreatePartitions, wire::PartitionsRequest{stream, id, 3});
            request(Operation::kJoinConsumerGroup,
                    wire::GroupRequest{stream, id, Identifier::numbered(0)});
            request(Operation::kDeletePartitions, wire::PartitionsRequest{stream, id, 1});
            request(Operation::kPurgeTopic, wire::TopicRequest{stream, id});
        }
        request(Operation::kDeleteTopic, wire::TopicRequest{stream, Identifier::numbered(0)});
        request(Operation::kPurgeStream, wire::StreamRequest{stream});
        (void)commit(make_logout());
        (void)commit(make_reset_sessions(8));
        request(Operation::kDeleteStream, wire::StreamRequest{stream});
    }

 private:
    void users() {
        request(
            Operation::kCreateUser,
            wire::CreateUserRequest{.username = "newcomer", .password = "password", .options = {}});
        request(Operation::kCreatePersonalAccessToken,
                wire::CreateTokenRequest{.name = "new", .expiry_us = 7});
        for (std::uint32_t number = 0; number < 3; ++number) {
            const Identifier user = Identifier::numbered(number);
            request(Operation::kUpdatePermissions,
                    wire::UpdatePermissionsRequest{.user = user,
                                                   .permissions = model::all_permissions()});
            request(Operation::kChangePassword,
                    wire::ChangePasswordRequest{
                        .user = user, .current_password = "password", .new_password = "another"});
        }
        (void)commit(make_expire_tokens(2));
        request(Operation::kDeletePersonalAccessToken, wire::DeleteTokenRequest{.name = "new"});
        request(Operation::kDeleteUser, wire::UserRequest{.user = Identifier::numbered(1)});
    }

    template <class Request>
    void request(Operation operation, const Request& body) {
        ByteWriter to;
        body.encode(to);
        const Sealed sealed{
            .password_hash = "hash", .verified_hash = "hash", .token_hash = {std::byte{1}}};
        const auto admitted =
            admit(state_, {.operation = operation, .body = to.bytes(), .sealed = &sealed});
        if (operation == Operation::kCreatePersonalAccessToken && !admitted) {
            return;  // as many as a user may have
        }
        GALGO_CHECK(admitted.has_value());
        (void)commit(*admitted);
    }
    ApplyOutcome commit(const Admitted& admitted) {
        ApplyOutcome outcome = apply(state_, registry_,
                                     {.operation = admitted.operation,
                                      .op = state_.op().next(),
                                      .timestamp = Timestamp(1),
                                      .client = ClientId(77),
                                      .session = session_,
                                      .user = model::kRootUserId,
                                      .body = admitted.body});
        state_.check_invariants();
        return outcome;
    }

    State& state_;
    PartitionStatsRegistry& registry_;
    SessionId session_;
};

void run(ConstBytes bytes) {
    PartitionStatsRegistry registry;
    auto state = decode_snapshot(bytes, registry);
    if (!state) {
        GALGO_CHECK(state.error().code == ErrorCode::kStateFileCorrupted ||
                    state.error().code == ErrorCode::kInvalidVersion);
        return;
    }
    state->check_invariants();
    const Bytes encoded = encode_snapshot(*state);
    GALGO_CHECK(std::ranges::equal(encoded, bytes));
    PartitionStatsRegistry other;
    const auto again = decode_snapshot(encoded, other);
    GALGO_CHECK(again.has_value());
    GALGO_CHECK(encode_snapshot(*again) == encoded);
    if (state->op().value() < ~std::uint64_t{0} - 100) {
        Client(*state, registry).run();
    }
}

}  // namespace
}  // namespace galgo::metadata

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    galgo::metadata::run(std::as_bytes(std::span(data, size)));
    return 0;
}

extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool /*structure*/) {
    const galgo::MutableBytes bytes = std::as_writable_bytes(std::span(data, size));
    if (size >= 8) {
        galgo::store<std::uint64_t>(bytes, size - 8, galgo::crypto::xxh3_64(bytes.first(size - 8)));
    }
}
