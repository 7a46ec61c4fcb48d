// A connected TCP socket for one blocking thread. Each system call waits at most the timeout given
// at connect; after an error the stream is good for nothing but destruction. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "sdk/address.hpp"

namespace galgo::sdk::detail {

class TcpStream {
 public:
    /// Pieces that write_all takes at most.
    static constexpr std::size_t kPiecesMax = 4;

    /// Resolves the host (blocking) and connects to the first of its addresses that accepts,
    /// without Nagle's delay. Errors: kInvalidServerAddress (unknown host),
    /// kCannotEstablishConnection with the errno of the last attempt.
    [[nodiscard]] static Result<TcpStream> connect(const Address& address,
                                                   std::uint32_t timeout_ms);
    /// Takes over a connected socket.
    explicit TcpStream(int descriptor) noexcept : descriptor_(descriptor) {}

    TcpStream(TcpStream&& other) noexcept;
    TcpStream& operator=(TcpStream&& other) noexcept;
    TcpStream(const TcpStream&) = delete;
    TcpStream& operator=(const TcpStream&) = delete;
    ~TcpStream();

    /// Writes all bytes of all pieces. Errors: kTcpError (ETIMEDOUT if the peer takes nothing).
    [[nodiscard]] Status write_all(std::span<const ConstBytes> pieces) noexcept;
    /// Waits for at least one byte; returns how many came. `to` is not empty. Errors: kDisconnected
    /// (end of stream), kTcpError (ETIMEDOUT if nothing came).
    [[nodiscard]] Result<std::size_t> read_some(MutableBytes to) noexcept;

 private:
    int descriptor_;
};

}  // namespace galgo::sdk::detail
