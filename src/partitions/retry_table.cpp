#include "partitions/retry_table.hpp"

#include <algorithm>
#include <utility>

namespace galgo::partitions {

namespace {

constexpr std::size_t kFirstEntries = 4;
constexpr std::size_t kRoomSteps = 8;

}  // namespace

std::size_t RetryTable::KeyHash::operator()(const Key& key) const noexcept {
    // Session ids are op numbers and keys are packed small numbers: both are spread before they
    // meet.
    return (key.session.value() * 0x9E3779B97F4A7C15ULL) ^
           (key.partition.value() * 0xC2B2AE3D27D4EB4FULL >> 7U);
}

RetryTable::~RetryTable() {
    while (!by_age_.empty()) {
        remove(by_age_.front());
    }
}

RetryTable::Begun RetryTable::begin(const Send& send) {
    if (send.producer.session == SessionId{} || send.producer.request == RequestNumber{}) {
        return {};
    }
    Window& window = window_of(send);
    const std::uint64_t request = send.producer.request.value();
    if (request <= window.highest) {
        for (const Entry& entry : window.entries) {
            if (entry.request != request || entry.checksum != send.checksum ||
                entry.base == kFree) {
                continue;
            }
            if (entry.base == kInFlightBase) {
                return {.found = Found::kInFlight};
            }
            ++answered_;
            return {.found = Found::kConfirmed, .base = Offset{entry.base}};
        }
    }
    const std::optional<std::size_t> place = place_in(window);
    if (!place.has_value()) {
        return {.found = Found::kFull};
    }
    window.highest = std::max(window.highest, request);
    window.entries[*place] = {.request = request, .checksum = send.checksum, .base = kInFlightBase};
    ++window.in_flight;
    make_room();
    return {.found = Found::kNew, .pending = Pending(*this, send, *place)};
}

/// The window of a send, made when need be, as the one used last.
RetryTable::Window& RetryTable::window_of(const Send& send) {
    const Key key{.session = send.producer.session, .partition = send.partition};
    const auto [found, is_new] = windows_.try_emplace(key);
    Window& window = found->second;
    if (is_new) {
        window.key = key;
        window.incarnation = send.incarnation;
        sessions_[key.session].push_back(window);
        bytes_ += kWindowBytes;
    } else if (window.incarnation != send.incarnation) {
        // The partition was purged or made again: offsets of another life answer nothing.
        clear(window);
        window.incarnation = send.incarnation;
    }
    ListLink<AgeTag>& age = window;
    age.unlink();
    by_age_.push_back(window);
    return window;
}

/// The entry for one more send: a new one, or the oldest that is not on its way.
std::optional<std::size_t> RetryTable::place_in(Window& window) {
    if (window.entries.size() < kWindowSize) {
        if (window.entries.size() == window.entries.capacity()) {
            const std::size_t before = window.entries.capacity();
            window.entries.reserve(std::min(std::max(kFirstEntries, 2 * before), kWindowSize));
            bytes_ += (window.entries.capacity() - before) * sizeof(Entry);
        }
        window.entries.emplace_back();
        return window.entries.size() - 1;
    }
    for (std::size_t i = 0; i < kWindowSize; ++i) {
        const std::size_t place = window.next;
        window.next = static_cast<std::uint32_t>((place + 1) % kWindowSize);
        if (window.entries[place].base != kInFlightBase) {
            return place;
        }
    }
    return std::nullopt;
}

/// The window may have ended meanwhile, or begun again with another life of the partition.
void RetryTable::settle(const Send& send, std::size_t entry, std::optional<Offset> base) noexcept {
    const auto found =
        windows_.find(Key{.session = send.producer.session, .partition = send.partition});
    if (found != windows_.end() && found->second.incarnation == send.incarnation &&
        entry < found->second.entries.size()) {
        Entry& settled = found->second.entries[entry];
        if (settled.base == kInFlightBase && settled.checksum == send.checksum &&
            settled.request == send.producer.request.value()) {
            settled.base = base.has_value() ? base->value() : kFree;
            --found->second.in_flight;
        }
    }
    settled_.wake_all();
}

void RetryTable::end_session(SessionId session) noexcept {
    for (auto found = sessions_.find(session); found != sessions_.end();
         found = sessions_.find(session)) {
        remove(found->second.front());  // and the list with its last window
    }
}

void RetryTable::clear(Window& window) noexcept {
    bytes_ -= window.entries.capacity() * sizeof(Entry);
    window.entries = std::vector<Entry>();  // "= {}" would keep the memory
    window.highest = 0;
    window.in_flight = 0;
    window.next = 0;
}

void RetryTable::remove(Window& window) noexcept {
    clear(window);
    bytes_ -= kWindowBytes;
    static_cast<ListLink<AgeTag>&>(window).unlink();
    static_cast<ListLink<SessionTag>&>(window).unlink();
    const Key key = window.key;
    if (const auto session = sessions_.find(key.session); session->second.empty()) {
        sessions_.erase(session);
    }
    windows_.erase(key);
}

/// Windows with a send on its way stay, as if just used: there are no more of them than sends that
/// the pipelines take. A few steps make more room than one send takes.
void RetryTable::make_room() noexcept {
    for (std::size_t step = 0; bytes_ > options_.bytes_max && step < kRoomSteps; ++step) {
        Window& oldest = by_age_.front();
        if (oldest.in_flight == 0) {
            remove(oldest);
        } else {
            static_cast<ListLink<AgeTag>&>(oldest).unlink();
            by_age_.push_back(oldest);
        }
    }
}

}  // namespace galgo::partitions
