#include "metadata/client_table.hpp"

#include <iterator>

#include "base/check.hpp"

namespace galgo::metadata {

ClientTable::Classification ClientTable::classify(ClientId client, SessionId session,
                                                  RequestNumber request, LogOperation operation,
                                                  u128 checksum) const noexcept {
    const Stamp stamp{.operation = operation, .checksum = checksum};
    const auto found = entries_.find(client);
    if (found == entries_.end()) {
        return {.verdict = Verdict::kNoSession};
    }
    const Entry& entry = found->second;
    if (session < entry.epoch) {
        return {.verdict = Verdict::kSessionTooLow};
    }
    if (session > entry.epoch) {
        return {.verdict = Verdict::kDrop};
    }
    if (request > entry.watermark) {
        return {.verdict = Verdict::kExecute};
    }
    if (request == entry.watermark && differ(stamp, entry.watermark_stamp)) {
        return {.verdict = Verdict::kDrop};
    }
    for (const auto& reply : entry.replies) {
        if (reply->request != request) {
            continue;
        }
        if (differ(stamp, reply->stamp)) {
            return {.verdict = Verdict::kDrop};
        }
        return {.verdict = Verdict::kReplay, .reply = reply->bytes, .op = reply->op};
    }
    return {.verdict = Verdict::kApplied};
}

void ClientTable::start_session(ClientId client, SessionId epoch, model::UserId user) {
    end_session(client);
    Entry entry;
    entry.epoch = epoch;
    entry.user = user;
    entries_.emplace(client, std::move(entry));
}

void ClientTable::end_session(ClientId client) {
    const auto found = entries_.find(client);
    if (found == entries_.end()) {
        return;
    }
    while (!found->second.replies.empty()) {
        drop_oldest_reply(found->second);
    }
    entries_.erase(found);
}

void ClientTable::record(ClientId client, SessionId session, RequestNumber request,
                         LogOperation operation, u128 checksum, OpNumber op, ConstBytes reply) {
    const auto found = entries_.find(client);
    if (found == entries_.end() || found->second.epoch != session) {
        return;
    }
    Entry& entry = found->second;
    GALGO_CHECK(request > entry.watermark);  // classify() let nothing else into the log
    entry.watermark = request;
    entry.watermark_stamp = {.operation = operation, .checksum = checksum};
    if (entry.replies.size() == kRepliesPerClient) {
        drop_oldest_reply(entry);
    }
    replies_.push_back(CachedReply{.client = client,
                                   .request = request,
                                   .op = op,
                                   .stamp = entry.watermark_stamp,
                                   .bytes = {reply.begin(), reply.end()}});
    entry.replies.push_back(std::prev(replies_.end()));
    reply_bytes_ += reply.size();
    while (reply_bytes_ > reply_bytes_max_) {
        // The oldest reply of all is the oldest of its client.
        const auto owner = entries_.find(replies_.front().client);
        GALGO_CHECK(owner != entries_.end());
        drop_oldest_reply(owner->second);
    }
}

bool ClientTable::differ(const Stamp& left, const Stamp& right) noexcept {
    const bool both_stamped = left.checksum != 0 && right.checksum != 0;
    return left.operation != right.operation || (both_stamped && left.checksum != right.checksum);
}

void ClientTable::drop_oldest_reply(Entry& entry) {
    const ReplyList::iterator reply = entry.replies.front();
    reply_bytes_ -= reply->bytes.size();
    entry.replies.pop_front();
    replies_.erase(reply);
}

}  // namespace galgo::metadata
