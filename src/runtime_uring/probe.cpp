#include "runtime_uring/probe.hpp"

#include <cerrno>
#include <cstring>

#include "runtime_uring/ring.hpp"

namespace galgo::runtime_uring {

Status probe() {
    Ring ring;
    return ring.open({.sq_entries = 8, .cq_entries = 16});
}

std::string explain_setup_failure(std::int32_t os_errno) {
    switch (os_errno) {
        case ENOSYS:
            return "io_uring is missing here: Linux 6.1 or newer is needed; in a container it may "
                   "be the seccomp filter that hides it (allow io_uring_setup, io_uring_enter and "
                   "io_uring_register, or run with --security-opt seccomp=unconfined), or a "
                   "sandbox without it such as gVisor";
        case EPERM:
        case EACCES:
            return "io_uring is forbidden here: if this is a container, its seccomp filter blocks "
                   "it (allow "
                   "io_uring_setup, io_uring_enter and io_uring_register, or run with "
                   "--security-opt seccomp=unconfined); otherwise set sysctl "
                   "kernel.io_uring_disabled=0";
        case EINVAL:
            return "this kernel's io_uring lacks SINGLE_ISSUER and DEFER_TASKRUN: Linux 6.1 or "
                   "newer "
                   "is needed";
        case ENOMEM:
            return "no memory may be locked for io_uring: raise the limit of locked memory (ulimit "
                   "-l, or "
                   "LimitMEMLOCK=infinity in the service unit, or --ulimit memlock=-1 for a "
                   "container)";
        case EMFILE:
        case ENFILE:
            return "no file descriptor is left for io_uring: raise the limit of open files (ulimit "
                   "-n, or "
                   "LimitNOFILE in the service unit)";
        default:
            return std::string("io_uring cannot be set up: ") + std::strerror(os_errno);
    }
}

}  // namespace galgo::runtime_uring
