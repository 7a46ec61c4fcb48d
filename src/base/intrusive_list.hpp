// An intrusive doubly linked list: no allocation, O(1) unlink from the element itself.
// The element outlives its membership; destroying a linked element is a programmer error (checked).
#pragma once

#include <cstddef>

#include "base/check.hpp"

namespace galgo {

/// Base of an element. An element that is in several lists derives from links with different tags.
template <class Tag = void>
class ListLink {
 public:
    ListLink() noexcept = default;
    ListLink(const ListLink&) = delete;
    ListLink& operator=(const ListLink&) = delete;
    ~ListLink() { GALGO_DCHECK(!is_linked()); }

    [[nodiscard]] bool is_linked() const noexcept { return next_ != nullptr; }
    void unlink() noexcept {
        if (is_linked()) {
            previous_->next_ = next_;
            next_->previous_ = previous_;
            previous_ = next_ = nullptr;
        }
    }

 private:
    template <class, class>
    friend class IntrusiveList;
    ListLink* previous_ = nullptr;
    ListLink* next_ = nullptr;
};

template <class T, class Tag = void>
class IntrusiveList {
    using Link = ListLink<Tag>;

 public:
    IntrusiveList() noexcept { head_.previous_ = head_.next_ = &head_; }
    IntrusiveList(const IntrusiveList&) = delete;
    IntrusiveList& operator=(const IntrusiveList&) = delete;
    ~IntrusiveList() {
        GALGO_DCHECK(empty());
        head_.previous_ = head_.next_ = nullptr;
    }

    [[nodiscard]] bool empty() const noexcept { return head_.next_ == &head_; }
    [[nodiscard]] T& front() noexcept { return *static_cast<T*>(head_.next_); }

    void push_back(T& element) noexcept { insert_before(head_, element); }
    void push_front(T& element) noexcept { insert_before(*head_.next_, element); }
    T& pop_front() noexcept {
        GALGO_DCHECK(!empty());
        T& element = front();
        static_cast<Link&>(element).unlink();
        return element;
    }
    /// Calls f(element) for each; f may unlink the element it is given, and no other.
    template <class F>
    void for_each(F&& f) {
        for (Link* link = head_.next_; link != &head_;) {
            Link* next = link->next_;
            f(*static_cast<T*>(link));
            link = next;
        }
    }

 private:
    static void insert_before(Link& place, T& element) noexcept {
        Link& link = element;
        GALGO_DCHECK(!link.is_linked());
        link.previous_ = place.previous_;
        link.next_ = &place;
        place.previous_->next_ = &link;
        place.previous_ = &link;
    }

    Link head_;
};

}  // namespace galgo
