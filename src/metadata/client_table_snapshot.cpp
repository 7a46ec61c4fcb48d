#include "metadata/client_table_snapshot.hpp"

#include <iterator>

#include "base/check.hpp"
#include "metadata/detail/sealed.hpp"
#include "wire/primitives.hpp"

namespace galgo::metadata {
namespace {

constexpr detail::SealedKind kKind{.magic = 0x5443'4D47, .version = 1};  // "GMCT"

}  // namespace

/// Sees the private parts of ClientTable to write and to rebuild them.
class ClientTableCodec {
 public:
    static std::vector<std::byte> encode(const ClientTable& table) {
        ByteWriter to = detail::begin_sealed(kKind);
        to.put<std::uint32_t>(static_cast<std::uint32_t>(table.entries_.size()));
        for (const auto& [client, entry] : table.entries_) {
            to.put<u128>(client.value());
            to.put<std::uint64_t>(entry.epoch.value());
            to.put<std::uint32_t>(entry.user.value());
            to.put<std::uint64_t>(entry.watermark.value());
            put_stamp(to, entry.watermark_stamp);
        }
        to.put<std::uint32_t>(static_cast<std::uint32_t>(table.replies_.size()));
        for (const ClientTable::CachedReply& reply : table.replies_) {
            to.put<u128>(reply.client.value());
            to.put<std::uint64_t>(reply.request.value());
            to.put<std::uint64_t>(reply.op.value());
            put_stamp(to, reply.stamp);
            wire::put_block32(to, reply.bytes);
        }
        return detail::seal(std::move(to));
    }

    static bool decode(ConstBytes content, ClientTable& table) {
        wire::FieldReader from(content);
        const std::uint32_t client_count = from.u32();
        for (std::uint32_t i = 0; i < client_count && !from.failed(); ++i) {
            if (!decode_client(from, table)) {
                return false;
            }
        }
        const std::uint32_t reply_count = from.u32();
        OpNumber last_op;
        for (std::uint32_t i = 0; i < reply_count && !from.failed(); ++i) {
            if (!decode_reply(from, table, last_op)) {
                return false;
            }
        }
        return !from.failed() && from.remaining() == 0;
    }

    static void clear(ClientTable& table) {
        table.entries_.clear();
        table.replies_.clear();
        table.reply_bytes_ = 0;
    }

 private:
    static void put_stamp(ByteWriter& to, const ClientTable::Stamp& stamp) {
        to.put<std::uint8_t>(static_cast<std::uint8_t>(stamp.operation));
        to.put<u128>(stamp.checksum);
    }
    static ClientTable::Stamp take_stamp(wire::FieldReader& from) {
        const LogOperation operation{from.u8()};
        return {.operation = operation, .checksum = from.number<u128>()};
    }

    static bool decode_client(wire::FieldReader& from, ClientTable& table) {
        const auto client = from.id<ClientId>();
        ClientTable::Entry entry;
        entry.epoch = from.id<SessionId>();
        entry.user = from.id<model::UserId>();
        entry.watermark = from.id<RequestNumber>();
        entry.watermark_stamp = take_stamp(from);
        const bool ascends = table.entries_.empty() || table.entries_.rbegin()->first < client;
        if (from.failed() || !ascends) {
            return false;
        }
        table.entries_.emplace_hint(table.entries_.end(), client, std::move(entry));
        return true;
    }

    static bool decode_reply(wire::FieldReader& from, ClientTable& table, OpNumber& last_op) {
        ClientTable::CachedReply reply;
        reply.client = from.id<ClientId>();
        reply.request = from.id<RequestNumber>();
        reply.op = from.id<OpNumber>();
        reply.stamp = take_stamp(from);
        const ConstBytes bytes = from.block32();
        const auto owner = table.entries_.find(reply.client);
        if (from.failed() || owner == table.entries_.end()) {
            return false;
        }
        ClientTable::Entry& entry = owner->second;
        if (reply.op <= last_op || reply.op.value() <= entry.epoch.value()) {
            return false;
        }
        last_op = reply.op;
        if (reply.request > entry.watermark || entry.replies.size() == kRepliesPerClient ||
            (!entry.replies.empty() && reply.request <= entry.replies.back()->request)) {
            return false;
        }
        reply.bytes.assign(bytes.begin(), bytes.end());
        table.reply_bytes_ += bytes.size();
        table.replies_.push_back(std::move(reply));
        entry.replies.push_back(std::prev(table.replies_.end()));
        while (table.reply_bytes_ > table.reply_bytes_max_) {
            table.drop_oldest_reply(table.entries_.find(table.replies_.front().client)->second);
        }
        return true;
    }
};

std::vector<std::byte> encode_client_table(const ClientTable& table) {
    return ClientTableCodec::encode(table);
}

Status decode_client_table(ConstBytes bytes, ClientTable& table) {
    GALGO_CHECK(table.client_count() == 0);
    GALGO_TRY_ASSIGN(const ConstBytes content, detail::open_sealed(bytes, kKind));
    if (!ClientTableCodec::decode(content, table)) {
        ClientTableCodec::clear(table);
        return fail(ErrorCode::kStateFileCorrupted);
    }
    return {};
}

}  // namespace galgo::metadata
