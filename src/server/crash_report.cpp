#include "server/crash_report.hpp"

#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/check.hpp"
#include "base/this_shard.hpp"
#include "base/units.hpp"
#include "observe/log.hpp"
#include "server/version.hpp"

namespace galgo::server {

namespace {

constexpr int kFramesMax = 64;
/// The unwinder and a saved register set of any size fit; what is not used costs nothing.
constexpr std::size_t kCrashStackBytes = 256 * kKiB;

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitizerReports = true;  // and says more
#else
constexpr bool kSanitizerReports = false;
#endif

std::array<char, 2 * 20 + 1> g_build_id{};
std::atomic<bool> g_reporting{false};

/// The build id note of the executable, as hex; empty when the linker made none.
int find_build_id(dl_phdr_info* info, std::size_t, void*) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type != PT_NOTE) {
            continue;
        }
        const char* note = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
        const char* end = note + header.p_memsz;
        while (note + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) head;
            std::memcpy(&head, note, sizeof(head));
            const char* name = note + sizeof(head);
            const char* data = name + ((head.n_namesz + 3) & ~3U);
            if (head.n_type == NT_GNU_BUILD_ID && head.n_descsz <= 20) {
                for (std::uint32_t k = 0; k < head.n_descsz; ++k) {
                    std::snprintf(g_build_id.data() + 2 * k, 3, "%02x",
                                  static_cast<unsigned>(static_cast<unsigned char>(data[k])));
                }
                return 1;
            }
            note = data + ((head.n_descsz + 3) & ~3U);
        }
    }
    return 1;  // the first object is the executable
}

void report(const char* what) noexcept {
    if (g_reporting.exchange(true)) {
        return;
    }
    std::array<char, 256> line;
    const int length = std::snprintf(
        line.data(), line.size(), "galgo: crash: %s, version %s, build %s, shard %u\n", what,
        kVersion, g_build_id.data(), static_cast<unsigned>(this_shard().value()));
    observe::log_write_now({line.data(), static_cast<std::size_t>(length)});
    std::array<void*, kFramesMax> frames;
    const int count = backtrace(frames.data(), kFramesMax);
    backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
    for (int i = 0; i < count; ++i) {
        const int n = std::snprintf(line.data(), line.size(), "galgo: crash: #%d %p\n", i,
                                    frames[static_cast<std::size_t>(i)]);
        observe::log_write_now({line.data(), static_cast<std::size_t>(n)});
    }
}

void on_fatal_signal(int number) {
    report(sigabbrev_np(number) == nullptr ? "signal" : sigabbrev_np(number));
    std::signal(number, SIG_DFL);
    std::raise(number);
}

}  // namespace

void install_crash_report() {
    dl_iterate_phdr(find_build_id, nullptr);
    std::array<void*, 2> warm;
    backtrace(warm.data(), 2);  // loads the unwinder now rather than inside a crash
    set_crash_hook([]() noexcept { report("failed check"); });
    if (kSanitizerReports) {
        return;
    }
    for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
        struct sigaction action{};
        action.sa_handler = on_fatal_signal;
        action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
        sigaction(number, &action, nullptr);
    }
}

CrashStack::CrashStack() noexcept {
    if (kSanitizerReports) {
        return;
    }
    void* memory = ::mmap(nullptr, kCrashStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return;
    }
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = kCrashStackBytes;
    if (::sigaltstack(&stack, &before_) != 0) {
        ::munmap(memory, kCrashStackBytes);
        return;
    }
    memory_ = memory;
}

CrashStack::~CrashStack() {
    if (memory_ != nullptr) {
        ::sigaltstack(&before_, nullptr);
        ::munmap(memory_, kCrashStackBytes);
    }
}

}  // namespace galgo::server
