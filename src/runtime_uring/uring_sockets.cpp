// The socket operations of UringBackend.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "runtime_uring/detail/abi.hpp"
#include "runtime_uring/detail/socket_options.hpp"
#include "runtime_uring/detail/tags.hpp"
#include "runtime_uring/uring_backend.hpp"

namespace galgo::runtime_uring {

using detail::OpKind;
using runtime::ReceivedChunk;

namespace {
constexpr std::size_t kPartsMax = 1024;
constexpr std::size_t kBytesMax = 0x7FFFF000;
}  // namespace

namespace detail {

Result<socklen_t> to_sockaddr(const runtime::SocketAddress& address, sockaddr_storage& out) {
    std::memset(&out, 0, sizeof(out));
    sockaddr_in v4{};
    if (::inet_pton(AF_INET, address.ip.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(address.port);
        std::memcpy(&out, &v4, sizeof(v4));
        return socklen_t{sizeof(v4)};
    }
    sockaddr_in6 v6{};
    if (::inet_pton(AF_INET6, address.ip.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(address.port);
        std::memcpy(&out, &v6, sizeof(v6));
        return socklen_t{sizeof(v6)};
    }
    return fail_os(EINVAL);
}

runtime::SocketAddress from_sockaddr(const sockaddr_storage& address) {
    char text[INET6_ADDRSTRLEN] = {};
    if (address.ss_family == AF_INET) {
        sockaddr_in v4{};
        std::memcpy(&v4, &address, sizeof(v4));
        ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
        return {.ip = text, .port = ntohs(v4.sin_port)};
    }
    if (address.ss_family == AF_INET6) {
        sockaddr_in6 v6{};
        std::memcpy(&v6, &address, sizeof(v6));
        ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
        return {.ip = text, .port = ntohs(v6.sin6_port)};
    }
    return {};
}

}  // namespace detail

Result<UringBackend::SocketHandle> UringBackend::listen(const SocketAddress& address) {
    sockaddr_storage storage;
    GALGO_TRY_ASSIGN(const socklen_t bytes, detail::to_sockaddr(address, storage));
    const int fd = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return fail_os(errno);
    }
    const int on = 1;
    if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        ::bind(fd, reinterpret_cast<const sockaddr*>(&storage), bytes) != 0 ||
        ::listen(fd, static_cast<int>(options_.listen_backlog)) != 0) {
        const int error = errno;
        ::close(fd);
        return fail_os(error);
    }
    return SocketHandle{fd};
}

UringBackend::SocketAddress UringBackend::local_address(SocketHandle socket) {
    sockaddr_storage storage{};
    socklen_t bytes = sizeof(storage);
    if (::getsockname(socket.value(), reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) {
        return {};
    }
    return detail::from_sockaddr(storage);
}

UringBackend::SocketAddress UringBackend::peer_address(SocketHandle socket) {
    sockaddr_storage storage{};
    socklen_t bytes = sizeof(storage);
    if (::getpeername(socket.value(), reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) {
        return {};
    }
    return detail::from_sockaddr(storage);
}

void UringBackend::accept(IoOp& op, SocketHandle listener) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_ACCEPT, listener.value(), OpKind::kAccept)) {
        sqe->accept_flags = SOCK_CLOEXEC;
    }
}

void UringBackend::connect(IoOp& op, const SocketAddress& address) {
    sockaddr_storage storage;
    const Result<socklen_t> bytes = detail::to_sockaddr(address, storage);
    int result = bytes.has_value() ? 0 : -bytes.error().os_errno;
    int fd = -1;
    if (result == 0 && !closing_) {
        fd = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        result = fd < 0 ? -errno : 0;
    }
    if (result < 0) {
        begin(op);
        complete_later(op, result);
        return;
    }
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_CONNECT, fd, OpKind::kConnect)) {
        op.backend_words[3] = static_cast<std::uint64_t>(fd);
        SideData& side = side_[ring_.index_of(sqe)];
        side.address = storage;
        sqe->addr = reinterpret_cast<std::uint64_t>(&side.address);
        sqe->off = *bytes;
    }
}

void UringBackend::receive_any(IoOp& op, SocketHandle socket) {
    op.chunk = {};
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_RECV, socket.value(), OpKind::kReceiveAny)) {
        sqe->len = options_.chunk_bytes;
        sqe->flags = IOSQE_BUFFER_SELECT;
        sqe->buf_group = BufferRing::kGroup;
    }
}

void UringBackend::return_chunk(const ReceivedChunk& chunk) {
    GALGO_DCHECK(chunk.data == buffers_.chunk(chunk.id));
    buffers_.give_back(chunk.id);
}

void UringBackend::receive(IoOp& op, SocketHandle socket, MutableBytes into) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_RECV, socket.value())) {
        sqe->addr = reinterpret_cast<std::uint64_t>(into.data());
        sqe->len = static_cast<std::uint32_t>(std::min(into.size(), kBytesMax));
    }
}

// MSG_WAITALL makes the kernel go on after a short send by itself.
void UringBackend::send(IoOp& op, SocketHandle socket, std::span<const iovec> parts) {
    GALGO_CHECK(parts.size() <= kPartsMax);
    const bool is_single = parts.size() == 1 && parts[0].iov_len <= kBytesMax;
    io_uring_sqe* sqe = prepare(op, is_single ? IORING_OP_SEND : IORING_OP_SENDMSG, socket.value());
    if (sqe == nullptr) {
        return;
    }
    sqe->msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
    if (is_single) {
        sqe->addr = reinterpret_cast<std::uint64_t>(parts[0].iov_base);
        sqe->len = static_cast<std::uint32_t>(parts[0].iov_len);
        return;
    }
    SideData& side = side_[ring_.index_of(sqe)];
    side.message = {};
    side.message.msg_iov = const_cast<iovec*>(parts.data());
    side.message.msg_iovlen = parts.size();
    sqe->addr = reinterpret_cast<std::uint64_t>(&side.message);
    sqe->len = 1;
}

void UringBackend::shutdown_socket(SocketHandle socket) {
    (void)::shutdown(socket.value(), SHUT_RDWR);
}

void UringBackend::close_socket(SocketHandle socket) {
    (void)::close(socket.value());
}

}  // namespace galgo::runtime_uring
