#include "server/signals.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <initializer_list>

#include "base/check.hpp"
#include "observe/log.hpp"

namespace galgo::server {

namespace {

sigset_t set_of(std::initializer_list<int> numbers) noexcept {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : numbers) {
        sigaddset(&set, number);
    }
    return set;
}

bool is_ignored(int number) noexcept {
    struct sigaction now{};
    return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t stop_signals() noexcept {
    return is_ignored(SIGHUP) ? set_of({SIGINT, SIGTERM}) : set_of({SIGINT, SIGTERM, SIGHUP});
}

void mask(int how, const sigset_t& set) noexcept {
    GALGO_CHECK(pthread_sigmask(how, &set, nullptr) == 0);
}

void handle(int number, void (*handler)(int), unsigned flags) noexcept {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(flags);
    sigaction(number, &action, nullptr);
}

/// The default action, also for the first process of a container, which has none.
void end_start(int number) {
    std::raise(number);
    std::_Exit(128 + number);
}

/// Of the stop that is under way, until it came once more.
volatile std::sig_atomic_t stop_signal = 0;

/// A shell that passes Ctrl-C on lets it arrive twice: that is one wish.
void end_stop(int number) {
    if (number == stop_signal) {
        stop_signal = 0;
        observe::log_write_now("galgo-server: it is stopping; one more signal ends it at once\n");
        return;
    }
    observe::log_write_now("galgo-server: one more signal: ended without waiting for the stop\n");
    std::_Exit(1);
}

}  // namespace

Result<runtime::FileHandle> open_signal_file() {
    const sigset_t set = stop_signals();
    if (const int failed = pthread_sigmask(SIG_BLOCK, &set, nullptr); failed != 0) {
        return fail_os(failed);
    }
    std::signal(SIGPIPE, SIG_IGN);
    const int fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (fd < 0) {
        return fail_os(errno);
    }
    return runtime::FileHandle{fd};
}

void let_signals_end_start() noexcept {
    const sigset_t set = stop_signals();
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        if (sigismember(&set, number) == 1) {
            handle(number, end_start, SA_RESETHAND | SA_NODEFER);
        }
    }
    mask(SIG_UNBLOCK, set);
}

void hold_signals() noexcept {
    mask(SIG_BLOCK, stop_signals());
}

void let_signals_end_stop(int began_with) noexcept {
    stop_signal = began_with;
    handle(SIGINT, end_stop, 0);
    handle(SIGTERM, end_stop, 0);
    mask(SIG_UNBLOCK, set_of({SIGINT, SIGTERM}));
}

}  // namespace galgo::server
