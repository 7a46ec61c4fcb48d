// What was answered to each client, so that a repeated request gets the same bytes and is not
// executed twice. Fed with committed operations in log order; asked before a request enters the
// log. Shard 0 only; never read by other shards, so not part of State.
//
// Per client: epoch (session), user, watermark (highest committed request number) with its
// operation and checksum, and the last kRepliesPerClient replies. Request numbers have gaps
// (partition operations take numbers too): the watermark decides, not contiguity.
//
// Bounds: the number of clients is that of the sessions in State, whose evictions arrive here as
// changes; all cached replies together stay within `reply_bytes_max`, beyond it the oldest go
// first, and their repetition is answered with 59 (applied, reply gone).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <vector>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "metadata/operation.hpp"
#include "model/ids.hpp"

namespace galgo::metadata {

// wire: reply ring of the reference server.
inline constexpr std::size_t kRepliesPerClient = 5;
inline constexpr std::size_t kReplyBytesMaxDefault = std::size_t{64} << 20U;

class ClientTable {
 public:
    enum class Verdict : std::uint8_t {
        kExecute,        ///< new: put it into the log
        kReplay,         ///< answer `reply` again, byte for byte
        kApplied,        ///< answer result entry 59: it took effect, the reply is gone
        kNoSession,      ///< evict with reason 1
        kSessionTooLow,  ///< evict with reason 7
        kDrop,           ///< a faulty client: no answer
    };
    struct Classification {
        Verdict verdict = Verdict::kDrop;
        ConstBytes reply{};  ///< kReplay only; valid until the next change of the table
        OpNumber op{};       ///< kReplay only: where in the log the request was carried out
    };

    explicit ClientTable(std::size_t reply_bytes_max = kReplyBytesMaxDefault)
        : reply_bytes_max_(reply_bytes_max) {}
    ClientTable(const ClientTable&) = delete;
    ClientTable& operator=(const ClientTable&) = delete;

    /// What to do with a metadata request. `checksum` 0 = unstamped; requests of one number are
    /// told apart by their operation then. The caller has dealt with a replica that cannot serve
    /// (58) and a prepare of this client in flight (57) before.
    [[nodiscard]] Classification classify(ClientId client, SessionId session, RequestNumber request,
                                          LogOperation operation, u128 checksum) const noexcept;

    /// A Register of `client` was committed: whatever was known of it is replaced.
    void start_session(ClientId client, SessionId epoch, model::UserId user);
    /// Its session ended (logout, disconnect, eviction). Unknown clients are fine.
    void end_session(ClientId client);
    /// A request of the client was committed at `op`, successful or refused; `reply` is what is
    /// sent for it (the table does not look inside). Without an entry of this epoch nothing
    /// happens: the session ended in the meantime.
    void record(ClientId client, SessionId session, RequestNumber request, LogOperation operation,
                u128 checksum, OpNumber op, ConstBytes reply);

    [[nodiscard]] std::size_t client_count() const noexcept { return entries_.size(); }
    [[nodiscard]] std::size_t reply_bytes() const noexcept { return reply_bytes_; }

 private:
    friend class ClientTableCodec;

    /// What a request is known by, besides its number.
    struct Stamp {
        LogOperation operation{};
        u128 checksum = 0;  ///< of the client's body; 0: it had none, or it must not be kept
    };
    struct CachedReply {
        ClientId client;
        RequestNumber request;
        OpNumber op;
        Stamp stamp;
        std::vector<std::byte> bytes;
    };
    using ReplyList = std::list<CachedReply>;
    struct Entry {
        SessionId epoch;
        model::UserId user;
        RequestNumber watermark;
        Stamp watermark_stamp{};
        std::deque<ReplyList::iterator> replies;  ///< oldest first, at most kRepliesPerClient
    };

    [[nodiscard]] static bool differ(const Stamp& left, const Stamp& right) noexcept;
    void drop_oldest_reply(Entry& entry);

    std::size_t reply_bytes_max_;
    std::size_t reply_bytes_ = 0;
    std::map<ClientId, Entry> entries_;
    ReplyList replies_;  ///< of all clients, oldest first
};

}  // namespace galgo::metadata
