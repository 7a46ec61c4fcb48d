#include "coro/frame_pool.hpp"

#include <array>
#include <new>

namespace galgo::coro {

namespace {

constexpr std::size_t kClassBytes = 64;
constexpr std::size_t kClassCount = 64;  // up to 4 KiB
constexpr std::uint32_t kFreePerClassMax = 1024;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kUseLists = false;
#else
constexpr bool kUseLists = true;
#endif
#else
constexpr bool kUseLists = true;
#endif

struct FreeFrame {
    FreeFrame* next;
};

struct FrameLists {
    struct List {
        FreeFrame* head = nullptr;
        std::uint32_t count = 0;
    };
    std::array<List, kClassCount> lists;
    std::uint64_t outside = 0;

    ~FrameLists() {
        for (List& list : lists) {
            while (FreeFrame* frame = list.head) {
                list.head = frame->next;
                ::operator delete(frame);
            }
        }
    }
};

// A second thread-local beside this_shard(): the lists must die with their thread.
thread_local FrameLists t_frames;

std::size_t class_of(std::size_t bytes) noexcept {
    return (bytes + kClassBytes - 1) / kClassBytes - 1;
}

}  // namespace

void* allocate_frame(std::size_t bytes) {
    FrameLists& frames = t_frames;
    const std::size_t size_class = class_of(bytes);
    if (kUseLists && size_class < kClassCount) {
        FrameLists::List& list = frames.lists[size_class];
        if (FreeFrame* frame = list.head) {
            list.head = frame->next;
            --list.count;
            return frame;
        }
        ++frames.outside;
        return ::operator new((size_class + 1) * kClassBytes);
    }
    ++frames.outside;
    return ::operator new(bytes);
}

void free_frame(void* frame, std::size_t bytes) noexcept {
    const std::size_t size_class = class_of(bytes);
    if (kUseLists && size_class < kClassCount) {
        FrameLists::List& list = t_frames.lists[size_class];
        if (list.count < kFreePerClassMax) {
            auto* free_node = static_cast<FreeFrame*>(frame);
            free_node->next = list.head;
            list.head = free_node;
            ++list.count;
            return;
        }
    }
    ::operator delete(frame);
}

std::uint64_t frames_allocated_outside_lists() noexcept {
    return t_frames.outside;
}

}  // namespace galgo::coro
