#include "server/shard_observer.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "observe/log.hpp"

namespace galgo::server {

namespace {

/// Leaves the rest of a log line (1024 bytes) to the other fields.
constexpr std::size_t kBacktraceBytesMax = 800;

/// What can be said without a symbol table and without a lock or an allocation; frames that do not
/// fit are left out.
std::string_view describe(std::span<void* const> frames,
                          std::array<char, kBacktraceBytesMax>& out) noexcept {
    std::size_t size = 0;
    const link_map* before = nullptr;
    for (void* frame : frames) {
        std::array<char, 128> text;
        dl_find_object found{};
        int length = 0;
        if (_dl_find_object(frame, &found) != 0) {
            length = std::snprintf(text.data(), text.size(), ",%p", frame);
            before = nullptr;
        } else {
            const link_map* module = found.dlfo_link_map;
            const char* name = "";
            if (module != before) {
                const char* slash = std::strrchr(module->l_name, '/');
                // The executable has no name here.
                name = *module->l_name == '\0' ? program_invocation_short_name
                       : slash != nullptr      ? slash + 1
                                               : module->l_name;
                before = module;
            }
            length = std::snprintf(text.data(), text.size(), ",%s+%#zx", name,
                                   reinterpret_cast<std::uintptr_t>(frame) - module->l_addr);
        }
        const std::size_t skip = size == 0 ? 1 : 0;  // the first comma
        const std::size_t bytes = static_cast<std::size_t>(length) - skip;
        if (length <= 0 || static_cast<std::size_t>(length) >= text.size() ||
            size + bytes > out.size()) {
            break;
        }
        std::memcpy(out.data() + size, text.data() + skip, bytes);
        size += bytes;
    }
    return {out.data(), size};
}

}  // namespace

void ShardObserver::on_slow_turn(std::uint64_t duration_ns, const char* task,
                                 std::span<void* const> backtrace) noexcept {
    std::array<char, kBacktraceBytesMax> text;
    observe::log_warn("loop", "a turn took too long",
                      {{"microseconds", duration_ns / 1000},
                       {"task", task},
                       {"frames", backtrace.size()},
                       {"backtrace", describe(backtrace, text)}});
}

}  // namespace galgo::server
