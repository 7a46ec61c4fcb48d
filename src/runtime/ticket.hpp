// Ticket: names, as a value, the place on a shard where the result of a command is awaited. It
// travels with the request to another shard and comes back with the reply; TicketTable turns it
// into the resumption of the waiting coroutine. A slot counts generations, so a reply that comes
// after its ticket was given up, or twice, is recognised and ignored.
//
//   std::optional<Ticket> ticket = table.open();      // none: the table is full, refuse
//   (retryable)
//   ... port.try_send(owner, Request{..., *ticket}) ...  (false: table.abandon(*ticket))
//   Reply reply = co_await table.wait(*ticket);       // resumes through the ready queue
//
// One table belongs to one shard. All memory is taken at construction.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "coro/ready_queue.hpp"
#include "runtime/shard_portable.hpp"

namespace galgo::runtime {

struct Ticket {
    static constexpr bool kShardPortable = true;
    ShardIndex shard;  ///< the shard that waits
    std::uint32_t slot = 0;
    std::uint32_t generation = 0;  ///< 0 never names an open slot
    bool operator==(const Ticket&) const noexcept = default;
};

template <class Reply>
class TicketTable {
 public:
    /// At most `capacity` tickets are open at a time.
    TicketTable(ShardIndex self, std::size_t capacity, coro::ReadyQueue& ready)
        : self_(self), ready_(ready), slots_(capacity) {
        free_.reserve(capacity);
        for (std::size_t i = capacity; i-- > 0;) {
            free_.push_back(static_cast<std::uint32_t>(i));
        }
    }
    TicketTable(const TicketTable&) = delete;
    TicketTable& operator=(const TicketTable&) = delete;
    ~TicketTable() {
        for (const Slot& slot : slots_) {
            GALGO_CHECK(!slot.waiting);
        }
    }

    /// None when all slots are open. Each ticket is awaited once or abandoned.
    [[nodiscard]] std::optional<Ticket> open() noexcept {
        if (free_.empty()) {
            return std::nullopt;
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        slots_[index].open = true;
        return Ticket{.shard = self_, .slot = index, .generation = slots_[index].generation};
    }

    /// Stores the reply and readies the waiter. False: stale or foreign ticket, the reply is
    /// dropped.
    bool complete(const Ticket& ticket, Reply&& reply) {
        Slot* slot = find(ticket);
        if (slot == nullptr || slot->reply.has_value()) {
            return false;
        }
        slot->reply.emplace(std::move(reply));
        if (slot->waiting) {
            ready_.push(slot->node);
        }
        return true;
    }

    /// Gives up a ticket that nobody waits for; a reply that still comes is ignored.
    void abandon(const Ticket& ticket) noexcept {
        Slot* slot = find(ticket);
        GALGO_CHECK(slot != nullptr && !slot->waiting);
        release(*slot, ticket.slot);
    }

    class [[nodiscard]] Awaiter {
     public:
        Awaiter(TicketTable& table, Ticket ticket) noexcept : table_(table), ticket_(ticket) {}
        [[nodiscard]] bool await_ready() const noexcept { return slot().reply.has_value(); }
        void await_suspend(std::coroutine_handle<> handle) noexcept {
            Slot& mine = slot();
            GALGO_CHECK(!mine.waiting);
            mine.waiting = true;
            mine.node.handle = handle;
        }
        [[nodiscard]] Reply await_resume() {
            Slot& mine = slot();
            Reply reply = std::move(*mine.reply);
            mine.waiting = false;
            table_.release(mine, ticket_.slot);
            return reply;
        }

     private:
        [[nodiscard]] auto& slot() const noexcept {
            Slot* found = table_.find(ticket_);
            GALGO_CHECK(found != nullptr);
            return *found;
        }
        TicketTable& table_;
        Ticket ticket_;
    };

    /// Suspends until complete(); yields the reply and frees the slot. The ticket is open
    /// (checked).
    [[nodiscard]] Awaiter wait(const Ticket& ticket) noexcept { return Awaiter(*this, ticket); }

    [[nodiscard]] std::size_t open_count() const noexcept { return slots_.size() - free_.size(); }
    [[nodiscard]] std::size_t capacity() const noexcept { return slots_.size(); }

 private:
    struct Slot {
        std::uint32_t generation = 1;
        bool open = false;
        bool waiting = false;
        coro::ReadyNode node;
        std::optional<Reply> reply;
    };

    [[nodiscard]] Slot* find(const Ticket& ticket) noexcept {
        if (ticket.shard != self_ || ticket.slot >= slots_.size()) {
            return nullptr;
        }
        Slot& slot = slots_[ticket.slot];
        return slot.open && slot.generation == ticket.generation ? &slot : nullptr;
    }
    void release(Slot& slot, std::uint32_t index) noexcept {
        slot.reply.reset();
        slot.open = false;
        if (++slot.generation == 0) {
            slot.generation = 1;
        }
        free_.push_back(index);
    }

    ShardIndex self_;
    coro::ReadyQueue& ready_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
};

}  // namespace galgo::runtime
