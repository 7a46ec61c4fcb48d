#include "metadata/authorise.hpp"

#include "wire/command_table.hpp"

namespace galgo::metadata {
namespace {

Status authorise_row(const State& state, model::UserId user, const wire::CommandRow* row,
                     const Target& target) {
    if (row == nullptr) {
        return fail(ErrorCode::kInvalidCommand);
    }
    if (row->access == wire::Access::kAnyone) {
        return {};
    }
    const User* who = state.users().find(user);
    if (who == nullptr ||
        (who->status != wire::UserStatus::kActive && user != model::kRootUserId)) {
        return fail(ErrorCode::kUnauthenticated);
    }
    const bool needs_right = row->access == wire::Access::kRule ||
                             (row->access == wire::Access::kSelfOrRule && target.user != user);
    if (needs_right && !state.allows(user, row->rule, target.stream, target.topic)) {
        return fail(ErrorCode::kUnauthorized);
    }
    return {};
}

}  // namespace

Status authorise(const State& state, model::UserId user, wire::CommandCode command,
                 const Target& target) {
    return authorise_row(state, user, wire::find_command(command), target);
}

Status authorise(const State& state, model::UserId user, wire::Operation operation,
                 const Target& target) {
    return authorise_row(state, user, wire::find_command(operation), target);
}

}  // namespace galgo::metadata
