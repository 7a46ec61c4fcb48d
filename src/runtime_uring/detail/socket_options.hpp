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

/// EINVAL when `address.ip` is no IP literal. Returns the length to pass to bind or connect.
[[nodiscard]] Result<socklen_t> to_sockaddr(const runtime::SocketAddress& address,
                                            sockaddr_storage& out);
[[nodiscard]] runtime::SocketAddress from_sockaddr(const sockaddr_storage& address);

}  // namespace galgo::runtime_uring::detail
