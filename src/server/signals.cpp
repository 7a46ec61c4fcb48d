#include "server/signals.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>

namespace galgo::server {

Result<runtime::FileHandle> open_signal_file() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
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

}  // namespace galgo::server
