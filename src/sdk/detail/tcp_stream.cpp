// Blocking sockets with the kernel's own timeouts (SO_RCVTIMEO, SO_SNDTIMEO), so that a request
// costs two system calls.
#include "sdk/detail/tcp_stream.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

namespace galgo::sdk::detail {
namespace {

/// EAGAIN is how a socket with a timeout says that the time is over.
std::unexpected<Error> fail_socket(int os_errno) noexcept {
    return fail_os(os_errno == EAGAIN ? ETIMEDOUT : os_errno, ErrorCode::kTcpError);
}

bool set_options(int descriptor, std::uint32_t timeout_ms) noexcept {
    const timeval timeout{.tv_sec = static_cast<time_t>(timeout_ms / 1000),
                          .tv_usec = static_cast<suseconds_t>(timeout_ms % 1000 * 1000)};
    const int one = 1;
    return ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
           ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
           ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0;
}

}  // namespace

Result<TcpStream> TcpStream::connect(const Address& address, std::uint32_t timeout_ms) {
    const addrinfo hints{
        .ai_flags = AI_NUMERICSERV, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    addrinfo* found = nullptr;
    const std::string port = std::to_string(address.port);
    if (::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) {
        return fail(ErrorCode::kInvalidServerAddress);
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
    int last_errno = EHOSTUNREACH;
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        TcpStream stream(
            ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
        // The send timeout bounds connect as well.
        if (stream.descriptor_ >= 0 && set_options(stream.descriptor_, timeout_ms) &&
            ::connect(stream.descriptor_, each->ai_addr, each->ai_addrlen) == 0) {
            return stream;
        }
        last_errno = errno;
    }
    return fail_os(last_errno == EINPROGRESS ? ETIMEDOUT : last_errno,
                   ErrorCode::kCannotEstablishConnection);
}

TcpStream::TcpStream(TcpStream&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

TcpStream& TcpStream::operator=(TcpStream&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

TcpStream::~TcpStream() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
}

Status TcpStream::write_all(std::span<const ConstBytes> pieces) noexcept {
    GALGO_CHECK(pieces.size() <= kPiecesMax);
    std::array<iovec, kPiecesMax> vectors{};
    std::size_t count = 0;
    for (const ConstBytes piece : pieces) {
        if (!piece.empty()) {
            // sendmsg only reads what the type calls mutable.
            vectors[count++] = {.iov_base = const_cast<std::byte*>(piece.data()),
                                .iov_len = piece.size()};
        }
    }
    std::size_t first = 0;
    while (first < count) {
        msghdr message{};
        message.msg_iov = &vectors[first];
        message.msg_iovlen = count - first;
        const ssize_t written = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return fail_socket(errno);
        }
        auto left = static_cast<std::size_t>(written);
        while (first < count && left >= vectors[first].iov_len) {
            left -= vectors[first].iov_len;
            ++first;
        }
        if (first < count) {
            vectors[first].iov_base = static_cast<std::byte*>(vectors[first].iov_base) + left;
            vectors[first].iov_len -= left;
        }
    }
    return {};
}

Result<std::size_t> TcpStream::read_some(MutableBytes to) noexcept {
    GALGO_CHECK(!to.empty());
    for (;;) {
        const ssize_t count = ::recv(descriptor_, to.data(), to.size(), 0);
        if (count > 0) {
            return static_cast<std::size_t>(count);
        }
        if (count == 0) {
            return fail(ErrorCode::kDisconnected);
        }
        if (errno != EINTR) {
            return fail_socket(errno);
        }
    }
}

}  // namespace galgo::sdk::detail
