// Rows under dense numeric ids: a new row takes the lowest free id, a removed id becomes free
// again. Iteration is by ascending id, so every replica that saw the same calls walks the same
// order. Pointers to rows are valid until the next insert or erase. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace galgo::metadata {

/// `Row` has a member `id` of type `Id`.
template <class Id, class Row>
class SlotTable {
 public:
    /// The id that the next insert takes.
    [[nodiscard]] Id vacant_id() const noexcept {
        return free_.empty() ? Id(static_cast<std::uint32_t>(slots_.size())) : Id(*free_.begin());
    }
    /// `row.id` must be vacant_id().
    Row& insert(Row row) {
        GALGO_CHECK(row.id == vacant_id());
        return place(std::move(row));
    }
    /// Puts a stored row back at its own id, at or behind end_id(). The ids between become free
    /// ones.
    Row& restore(Row row) {
        const std::uint32_t slot = row.id.value();
        GALGO_CHECK(slot >= slots_.size());
        while (slots_.size() < slot) {
            free_.insert(static_cast<std::uint32_t>(slots_.size()));
            slots_.emplace_back();
        }
        return place(std::move(row));
    }
    void erase(Id id) {
        GALGO_CHECK(find(id) != nullptr);
        slots_[id.value()].reset();
        free_.insert(id.value());
        // Free ids at the end are not kept: the table's size follows the highest id in use.
        while (!slots_.empty() && !slots_.back().has_value()) {
            free_.erase(static_cast<std::uint32_t>(slots_.size() - 1));
            slots_.pop_back();
        }
    }

    [[nodiscard]] const Row* find(Id id) const noexcept {
        return id.value() < slots_.size() && slots_[id.value()].has_value() ? &*slots_[id.value()]
                                                                            : nullptr;
    }
    [[nodiscard]] Row* find(Id id) noexcept {
        return const_cast<Row*>(std::as_const(*this).find(id));
    }
    /// One behind the highest id in use.
    [[nodiscard]] Id end_id() const noexcept {
        return Id(static_cast<std::uint32_t>(slots_.size()));
    }
    [[nodiscard]] std::size_t size() const noexcept { return slots_.size() - free_.size(); }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }

    /// Rows by ascending id.
    [[nodiscard]] auto rows() const noexcept {
        return slots_ | std::views::filter([](const auto& slot) { return slot.has_value(); }) |
               std::views::transform([](const auto& slot) -> const Row& { return *slot; });
    }
    [[nodiscard]] auto rows() noexcept {
        return slots_ | std::views::filter([](const auto& slot) { return slot.has_value(); }) |
               std::views::transform([](auto& slot) -> Row& { return *slot; });
    }

 private:
    Row& place(Row row) {
        const std::uint32_t slot = row.id.value();
        if (slot == slots_.size()) {
            slots_.emplace_back(std::move(row));
        } else {
            slots_[slot].emplace(std::move(row));
            free_.erase(slot);
        }
        return *slots_[slot];
    }

    std::vector<std::optional<Row>> slots_;
    std::set<std::uint32_t> free_;  ///< empty slots below slots_.size()
};

}  // namespace galgo::metadata
