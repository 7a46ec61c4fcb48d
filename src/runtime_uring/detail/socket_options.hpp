// Socket options and addresses of the socket operations.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/error.hpp"
#include "runtime/io.hpp"

namespace galgo::runtime_uring::detail {

inline void set_no_delay(int fd) noexcept {
    const int on = 1;
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// A peer that lost its power says nothing more. When it was idle, probes find that out after 35 s;
// when something was on the way to it, the user timeout does. That also ends a peer which keeps its
// window shut for so long, so it lies above the 30 s that the transports grant a reader.
inline constexpr int kKeepAliveIdleS = 10;
inline constexpr int kKeepAliveIntervalS = 5;
inline constexpr int kKeepAliveProbes = 5;
inline constexpr unsigned kUserTimeoutMs = 36'000;

/// Has the kernel end the connection when its peer is gone. What cannot be set is left.
inline void set_keep_alive(int fd) noexcept {
    const int on = 1;
    (void)::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveIdleS, sizeof(kKeepAliveIdleS));
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepAliveIntervalS,
                       sizeof(kKeepAliveIntervalS));
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kKeepAliveProbes, sizeof(kKeepAliveProbes));
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof(kUserTimeoutMs));
}

/// EINVAL when `address.ip` is no IP literal. Returns the length to pass to bind or connect.
[[nodiscard]] Result<socklen_t> to_sockaddr(const runtime::SocketAddress& address,
                                            sockaddr_storage& out);
[[nodiscard]] runtime::SocketAddress from_sockaddr(const sockaddr_storage& address);

}  // namespace galgo::runtime_uring::detail
