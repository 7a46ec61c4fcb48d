// galgo-message-cost: what a message costs the server, on the simulated back end.
//
//   galgo-message-cost                     allocator calls of every case, with their rare events
//   galgo-message-cost --trap CASE         stops (SIGTRAP) at the first counted call of a case
//   valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no \
//     galgo-message-cost --instructions    one dump a case; tools/instructions.py reads them
//
// Prints one line a case: name, requests, messages, allocator calls, virtual milliseconds. Not a
// part of the server, and installed nowhere.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "message_cases.hpp"
#include "message_world.hpp"

namespace {

using galgo::performance::Case;
using galgo::performance::Cost;
using galgo::performance::MessageWorld;

void print(const std::string& name, const Cost& cost) {
    std::printf(
        "%-40s requests %6llu messages %8llu calls %6llu bytes %9llu frames %6llu ms %llu\n",
        name.c_str(), static_cast<unsigned long long>(cost.requests),
        static_cast<unsigned long long>(cost.messages),
        static_cast<unsigned long long>(cost.allocator_calls),
        static_cast<unsigned long long>(cost.allocator_bytes),
        static_cast<unsigned long long>(cost.frame_calls),
        static_cast<unsigned long long>(cost.virtual_ns / 1'000'000));
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "--instructions") {
        for (const Case& what : galgo::performance::instruction_cases()) {
            MessageWorld world;
            print(what.name, world.run(what, true));
        }
        return 0;
    }
    if (mode == "--trap" && argc == 3) {
        for (const Case& what : galgo::performance::allocation_cases()) {
            if (what.name == argv[2]) {
                galgo::performance::t_account.trap = true;
                MessageWorld world;
                print(what.name, world.run(what));
                return 0;
            }
        }
        return 1;
    }
    std::uint64_t calls = 0;
    for (const Case& what : galgo::performance::allocation_cases()) {
        MessageWorld world;
        const Cost cost = world.run(what);
        print(what.name, cost);
        calls += cost.allocator_calls;
    }
    MessageWorld world;
    print("idle for 10 s", world.run_idle(10 * galgo::kSecond));
    return calls == 0 ? 0 : 1;
}
