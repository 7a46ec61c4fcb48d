// Rows under dense numeric ids: a new row takes the lowest free id, a removed id becomes free
// again. Iteration is by ascending id, so every replica that saw the same calls walks the same
// order. Pointers to rows are valid until the next insert or erase. Pure.
//
// Rows lie in pages of 16, and free ids are kept as runs: a table whose ids have wide holes (one
// row is left of many, or a snapshot says so) costs a few bytes a page, not a row an id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
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
        return Id(free_.empty() ? end_ : free_.begin()->first);
    }
    /// `row.id` must be vacant_id().
    Row& insert(Row row) {
        GALGO_CHECK(row.id == vacant_id());
        if (free_.empty()) {
            ++end_;
        } else {
            const auto [begin, end] = *free_.begin();
            free_.erase(free_.begin());
            if (begin + 1 != end) {
                free_.emplace(begin + 1, end);
            }
        }
        return place(std::move(row));
    }
    /// Puts a stored row back at its own id, at or behind end_id(). The ids between become free
    /// ones.
    Row& restore(Row row) {
        const std::uint32_t slot = row.id.value();
        GALGO_CHECK(slot >= end_);
        if (slot != end_) {
            free_.emplace(end_, slot);
        }
        end_ = slot + 1;
        return place(std::move(row));
    }
    void erase(Id id) {
        GALGO_CHECK(find(id) != nullptr);
        const std::uint32_t slot = id.value();
        pages_[slot / kPageRows][slot % kPageRows].reset();
        --count_;
        if (slot + 1 == end_) {
            shrink_to(slot);
        } else {
            add_free(slot);
        }
    }

    [[nodiscard]] const Row* find(Id id) const noexcept {
        const std::uint32_t slot = id.value();
        if (slot >= end_) {
            return nullptr;
        }
        const Page& page = pages_[slot / kPageRows];
        const std::uint32_t index = slot % kPageRows;
        return index < page.size() && page[index].has_value() ? &*page[index] : nullptr;
    }
    [[nodiscard]] Row* find(Id id) noexcept {
        return const_cast<Row*>(std::as_const(*this).find(id));
    }
    /// One behind the highest id in use.
    [[nodiscard]] Id end_id() const noexcept { return Id(end_); }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

    /// Rows by ascending id.
    [[nodiscard]] auto rows() const noexcept {
        return pages_ | std::views::join |
               std::views::filter([](const auto& slot) { return slot.has_value(); }) |
               std::views::transform([](const auto& slot) -> const Row& { return *slot; });
    }
    [[nodiscard]] auto rows() noexcept {
        return pages_ | std::views::join |
               std::views::filter([](const auto& slot) { return slot.has_value(); }) |
               std::views::transform([](auto& slot) -> Row& { return *slot; });
    }

 private:
    static constexpr std::uint32_t kPageRows = 16;
    /// Up to its highest row that was ever in use.
    using Page = std::vector<std::optional<Row>>;

    Row& place(Row row) {
        const std::uint32_t slot = row.id.value();
        if (pages_.size() <= slot / kPageRows) {
            pages_.resize(slot / kPageRows + 1);
        }
        Page& page = pages_[slot / kPageRows];
        if (page.size() <= slot % kPageRows) {
            page.resize(slot % kPageRows + 1);
        }
        ++count_;
        return page[slot % kPageRows].emplace(std::move(row));
    }

    void add_free(std::uint32_t slot) {
        std::uint32_t begin = slot;
        std::uint32_t end = slot + 1;
        const auto next = free_.upper_bound(slot);
        if (next != free_.begin() && std::prev(next)->second == slot) {
            begin = std::prev(next)->first;
            free_.erase(std::prev(next));
        }
        if (next != free_.end() && next->first == end) {
            end = next->second;
            free_.erase(next);
        }
        free_.emplace(begin, end);
    }

    /// Free ids at the end are not kept: the table's size follows the highest id in use.
    void shrink_to(std::uint32_t end) {
        end_ = end;
        if (!free_.empty() && std::prev(free_.end())->second == end_) {
            end_ = std::prev(free_.end())->first;
            free_.erase(std::prev(free_.end()));
        }
        pages_.resize((end_ + kPageRows - 1) / kPageRows);
        if (end_ % kPageRows != 0 && pages_.back().size() > end_ % kPageRows) {
            pages_.back().resize(end_ % kPageRows);
        }
    }

    std::vector<Page> pages_;
    std::map<std::uint32_t, std::uint32_t> free_;  ///< runs of free ids, begin to end; none touch
    std::uint32_t end_ = 0;
    std::uint32_t count_ = 0;
};

}  // namespace galgo::metadata
