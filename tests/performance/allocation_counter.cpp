// Sees every call of the general allocator of this process. Without sanitizers malloc and its
// family are defined here in front of glibc's; with one, its own hooks report the same. operator
// new ends in one of them, so it needs no definition and is counted once.
#include <sanitizer/allocator_interface.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "account.hpp"

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GALGO_SANITIZER_HOOKS 1
#else
#define GALGO_SANITIZER_HOOKS 0
#endif

namespace galgo::performance {

void note_allocation(std::uint64_t bytes) noexcept {
    Account& account = t_account;
    if (account.inside) {
        ++account.calls;
        account.bytes += bytes;
        if (account.trap) {
            __builtin_trap();
        }
    }
}

namespace {

/// A client request as valgrind defines it for amd64: a sequence of instructions without effect on
/// a processor. Spelled out here, so that no header of valgrind is needed to build.
void callgrind_request(std::uint64_t number) noexcept {
    constexpr std::uint64_t kToolBase = std::uint64_t{'C'} << 24U | std::uint64_t{'T'} << 16U;
    const std::uint64_t arguments[6] = {kToolBase + number, 0, 0, 0, 0, 0};
    std::uint64_t result = 0;
    asm volatile(
        "rolq $3, %%rdi\n\t"
        "rolq $13, %%rdi\n\t"
        "rolq $61, %%rdi\n\t"
        "rolq $51, %%rdi\n\t"
        "xchgq %%rbx, %%rbx"
        : "=d"(result)
        : "a"(&arguments[0]), "0"(result)
        : "cc", "memory");
}

}  // namespace

void callgrind_start() noexcept {
    callgrind_request(4);
}
void callgrind_stop() noexcept {
    callgrind_request(5);
}
void callgrind_toggle() noexcept {
    callgrind_request(2);
}
void callgrind_dump() noexcept {
    callgrind_request(0);
}

}  // namespace galgo::performance

#if GALGO_SANITIZER_HOOKS

namespace galgo::performance {

bool allocator_is_watched() noexcept {
    static const bool kInstalled =
        __sanitizer_install_malloc_and_free_hooks(
            [](const volatile void*, std::size_t bytes) { note_allocation(bytes); },
            [](const volatile void*) {}) != 0;
    return kInstalled;
}

}  // namespace galgo::performance

#else

namespace galgo::performance {
bool allocator_is_watched() noexcept {
    return true;
}
}  // namespace galgo::performance

// glibc's own, under the names that it keeps for those who define malloc. NOLINTBEGIN
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
    galgo::performance::note_allocation(bytes);
    return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
    galgo::performance::note_allocation(count * bytes);
    return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
    galgo::performance::note_allocation(bytes);
    return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
    galgo::performance::note_allocation(bytes);
    return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
    galgo::performance::note_allocation(bytes);
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
    galgo::performance::note_allocation(bytes);
    *memory = __libc_memalign(alignment, bytes);
    return *memory == nullptr ? ENOMEM : 0;
}
}
// NOLINTEND

#endif
