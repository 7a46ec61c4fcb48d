// SimBackend: submission, completion in virtual time, and the end of a process.
#include "runtime_sim/sim_backend.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

namespace galgo::runtime_sim {

using runtime::FileHandle;
using runtime::IoOp;
using runtime::OpenMode;
using runtime::SocketAddress;
using runtime::SocketHandle;

SimBackend::SimBackend(SimClock& clock, SimDisk& disk, SimNetwork& network,
                       SimBackendOptions options)
    : clock_(clock),
      disk_(disk),
      network_(network),
      options_(std::move(options)),
      random_(options_.seed ^ (std::uint64_t{options_.process} << 32) ^ options_.shard.value()),
      chunks_(
          std::make_unique<std::byte[]>(std::size_t{options_.chunk_count} * options_.chunk_bytes)) {
    for (std::uint32_t i = options_.chunk_count; i-- > 0;) {
        free_chunks_.push_back(i);
    }
    clock_.add(*this);
    network_.add_user(*this);
}

SimBackend::~SimBackend() {
    network_.remove_user(*this);
    clock_.remove(*this);
}

// ---- submission
// --------------------------------------------------------------------------------------

void SimBackend::open(IoOp& op, const char* path, OpenMode mode, std::uint32_t /*mode_bits*/) {
    submit(op, {.kind = Kind::kOpen, .mode = mode, .path = path});
}
void SimBackend::close(IoOp& op, FileHandle file) {
    submit(op, {.kind = Kind::kClose, .file = file});
}
void SimBackend::read(IoOp& op, FileHandle file, MutableBytes into, std::uint64_t offset) {
    submit(op, {.kind = Kind::kRead, .file = file, .into = into, .offset = offset});
}
void SimBackend::write(IoOp& op, FileHandle file, ConstBytes from, std::uint64_t offset) {
    submit(op, {.kind = Kind::kWrite, .file = file, .from = from, .offset = offset});
}
void SimBackend::writev(IoOp& op, FileHandle file, std::span<const iovec> parts,
                        std::uint64_t offset) {
    submit(op, {.kind = Kind::kWritev, .file = file, .parts = parts, .offset = offset});
}
void SimBackend::sync(IoOp& op, FileHandle file) {
    const bool counts = !dead_ && !crashed_ && operations_left_ != std::uint64_t{0};
    submit(op,
           {.kind = Kind::kSync, .file = file, .sync_token = counts ? disk_.begin_sync(file) : 0});
}
void SimBackend::truncate(IoOp& op, FileHandle file, std::uint64_t size_bytes) {
    submit(op, {.kind = Kind::kTruncate, .file = file, .size_bytes = size_bytes});
}
void SimBackend::allocate(IoOp& op, FileHandle file, std::uint64_t offset,
                          std::uint64_t size_bytes) {
    submit(op, {.kind = Kind::kAllocate, .file = file, .offset = offset, .size_bytes = size_bytes});
}
void SimBackend::prefetch(IoOp& op, FileHandle file, std::uint64_t offset,
                          std::uint64_t size_bytes) {
    prefetches_.push_back(
        {.path = std::string(disk_.path_of(file)), .offset = offset, .size_bytes = size_bytes});
    submit(op, {.kind = Kind::kPrefetch, .file = file});
}
void SimBackend::rename(IoOp& op, const char* from, const char* to) {
    submit(op, {.kind = Kind::kRename, .path = from, .path_to = to});
}
void SimBackend::unlink(IoOp& op, const char* path) {
    submit(op, {.kind = Kind::kUnlink, .path = path});
}
void SimBackend::make_directory(IoOp& op, const char* path, std::uint32_t /*mode_bits*/) {
    submit(op, {.kind = Kind::kMakeDirectory, .path = path});
}
void SimBackend::remove_directory(IoOp& op, const char* path) {
    submit(op, {.kind = Kind::kRemoveDirectory, .path = path});
}
void SimBackend::accept(IoOp& op, SocketHandle listener) {
    submit(op, {.kind = Kind::kAccept, .socket = listener});
}
void SimBackend::connect(IoOp& op, const SocketAddress& address) {
    submit(op, {.kind = Kind::kConnect, .address = address});
}
void SimBackend::receive_any(IoOp& op, SocketHandle socket) {
    op.chunk = {};
    submit(op, {.kind = Kind::kReceiveAny, .socket = socket});
}
void SimBackend::receive(IoOp& op, SocketHandle socket, MutableBytes into) {
    submit(op, {.kind = Kind::kReceive, .socket = socket, .into = into});
}
void SimBackend::send(IoOp& op, SocketHandle socket, std::span<const iovec> parts) {
    submit(op, {.kind = Kind::kSend, .socket = socket, .parts = parts});
}

void SimBackend::submit(IoOp& op, Pending pending) {
    GALGO_CHECK(!op.in_flight);
    GALGO_CHECK(pending.parts.size() <= 1024);
    op.in_flight = true;
    const std::uint64_t id = next_id_++;
    op.backend_words[0] = id;
    pending.op = &op;
    const auto injected = injected_errors_.find(submission_count_);
    if (injected != injected_errors_.end()) {
        pending.fixed_result = -injected->second;
        injected_errors_.erase(injected);
    }
    if (pending.socket != runtime::kNoSocket && !network_.is_open(pending.socket)) {
        pending.fixed_result = -EBADF;
    }
    pending.hangs = dead_ || passes_crash_point();
    Pending& stored = pending_.emplace(id, std::move(pending)).first->second;
    if (!stored.hangs) {
        schedule(id, stored, draw_latency(stored));
    }
}

bool SimBackend::passes_crash_point() {
    ++submission_count_;
    if (!operations_left_) {
        return false;
    }
    if (*operations_left_ == 0) {
        crashed_ = true;
        return true;
    }
    --*operations_left_;
    return false;
}

std::uint64_t SimBackend::draw_latency(const Pending& pending) {
    switch (pending.kind) {
        case Kind::kAccept:
        case Kind::kReceive:
        case Kind::kReceiveAny:
        case Kind::kSend:
            return random_.between(1, 2 * kMicrosecond);
        case Kind::kConnect:
            return network_.draw_latency();
        default:
            return disk_.draw_latency() + delay_of(pending);
    }
}

std::uint64_t SimBackend::delay_of(const Pending& pending) const {
    switch (pending.kind) {
        case Kind::kOpen:
            return disk_.delay_of(DiskOp::kOpen, pending.path);
        case Kind::kClose:
            return disk_.delay_of(DiskOp::kClose, pending.file);
        case Kind::kRead:
            return disk_.delay_of(DiskOp::kRead, pending.file);
        case Kind::kWrite:
        case Kind::kWritev:
            return disk_.delay_of(DiskOp::kWrite, pending.file);
        case Kind::kSync:
            return disk_.delay_of(DiskOp::kSync, pending.file);
        case Kind::kTruncate:
            return disk_.delay_of(DiskOp::kTruncate, pending.file);
        case Kind::kAllocate:
            return disk_.delay_of(DiskOp::kAllocate, pending.file);
        case Kind::kRename:
            return std::max(disk_.delay_of(DiskOp::kRename, pending.path),
                            disk_.delay_of(DiskOp::kRename, pending.path_to));
        case Kind::kUnlink:
            return disk_.delay_of(DiskOp::kUnlink, pending.path);
        case Kind::kMakeDirectory:
            return disk_.delay_of(DiskOp::kMakeDirectory, pending.path);
        case Kind::kRemoveDirectory:
            return disk_.delay_of(DiskOp::kRemoveDirectory, pending.path);
        default:
            return 0;
    }
}

void SimBackend::schedule(std::uint64_t id, Pending& pending, std::uint64_t latency_ns) {
    const Due due{clock_.now().plus(latency_ns), random_.next(), id};
    pending.due = due;
    due_.insert(due);
}

// ---- synchronous
// -------------------------------------------------------------------------------------

std::int32_t SimBackend::write_now(FileHandle file, ConstBytes from, std::uint64_t offset) {
    GALGO_CHECK(from.size() <= 64 * kKiB);
    if (dead_ || passes_crash_point()) {
        return -EIO;
    }
    const std::int32_t result = disk_.write(file, from, offset);
    trace(static_cast<std::uint64_t>(result));
    return result;
}

Result<std::vector<runtime::DirectoryEntry>> SimBackend::list_directory(const std::string& path) {
    if (dead_) {
        return fail_os(EIO);
    }
    auto entries = disk_.list_directory(path);
    if (entries) {
        // No set order: callers that need one have to sort.
        for (std::size_t i = entries->size(); i > 1; --i) {
            std::swap((*entries)[i - 1], (*entries)[random_.below(i)]);
        }
    }
    return entries;
}

Result<runtime::FileFacts> SimBackend::file_facts(const std::string& path) {
    if (dead_) {
        return fail_os(EIO);
    }
    return disk_.file_facts(path);
}

Result<runtime::DiskSpace> SimBackend::disk_space(const std::string& path) {
    if (dead_) {
        return fail_os(EIO);
    }
    if (!disk_.exists(path)) {
        return fail_os(ENOENT);
    }
    return disk_.space();
}

Result<SocketHandle> SimBackend::listen(const SocketAddress& address) {
    if (dead_) {
        return fail_os(EIO);
    }
    return network_.listen(options_.process, address);
}
SocketAddress SimBackend::local_address(SocketHandle socket) {
    return network_.local_address(socket);
}
SocketAddress SimBackend::peer_address(SocketHandle socket) {
    return network_.peer_address(socket);
}
void SimBackend::shutdown_socket(SocketHandle socket) {
    network_.shutdown(socket);
}
void SimBackend::close_socket(SocketHandle socket) {
    network_.close(socket);
}

void SimBackend::return_chunk(const runtime::ReceivedChunk& chunk) {
    GALGO_CHECK(chunk.id < options_.chunk_count);
    GALGO_CHECK(std::ranges::find(free_chunks_, chunk.id) == free_chunks_.end());
    free_chunks_.push_back(chunk.id);
}

void SimBackend::cancel(IoOp& op) {
    if (!op.in_flight) {
        return;
    }
    Pending& pending = pending_.at(op.backend_words[0]);
    if (pending.hangs || pending.fixed_result) {
        return;
    }
    // What waits for a socket is always caught; what is under way may be too late to stop.
    if (!pending.due || random_.percent(50)) {
        pending.fixed_result = -ECANCELED;
    }
    if (!pending.due) {
        schedule(op.backend_words[0], pending, random_.between(1, 2 * kMicrosecond));
    }
}

// ---- completion
// --------------------------------------------------------------------------------------

std::size_t SimBackend::poll(Instant wait_until) {
    if (dead_) {
        return 0;
    }
    clock_.advance(options_.turn_ns);
    sleeps_until_ = Instant{0};
    std::size_t count = run_due();
    if (count == 0 && !woken_ && wait_until > clock_.now()) {
        sleeps_until_ = wait_until;
        if (clock_.advance_to_next()) {
            count = run_due();
        }
        if (count != 0) {
            sleeps_until_ = Instant{0};
        }
    }
    woken_ = false;
    return count;
}

Instant SimBackend::next_event() const {
    return due_.empty() ? kNever : std::get<0>(*due_.begin());
}

void SimBackend::wake_up() {
    if (dead_) {
        return;
    }
    woken_ = true;
    sleeps_until_ = Instant{0};
}

void SimBackend::retry(std::uint64_t operation) {
    const auto it = pending_.find(operation);
    if (it != pending_.end() && !it->second.due && !it->second.hangs) {
        schedule(operation, it->second, random_.between(1, 2 * kMicrosecond));
    }
}

std::size_t SimBackend::run_due() {
    network_.run_due();
    const Instant limit = clock_.now();
    std::size_t count = 0;
    while (!due_.empty() && std::get<0>(*due_.begin()) <= limit) {
        const std::uint64_t id = std::get<2>(*due_.begin());
        due_.erase(due_.begin());
        Pending& pending = pending_.at(id);
        pending.due.reset();
        std::int32_t result = 0;
        if (pending.fixed_result) {
            forget_effects(id, pending);
            result = *pending.fixed_result;
            // A send that was cut short says how far it came, so that nobody sends bytes twice.
            if (pending.kind == Kind::kSend && pending.sent_bytes != 0) {
                result = static_cast<std::int32_t>(pending.sent_bytes);
            }
        } else {
            result = execute(id, pending);
            if (result == kWouldBlock) {
                network_.wait(pending.socket, *this, id);
                continue;
            }
        }
        finish(id, result);
        ++count;
    }
    return count;
}

void SimBackend::finish(std::uint64_t id, std::int32_t result) {
    const auto node = pending_.extract(id);
    const Pending& pending = node.mapped();
    if (pending.due) {  // a cancelled send that let its socket go was woken by that itself
        due_.erase(*pending.due);
    }
    IoOp& op = *pending.op;
    trace(clock_.now().value());
    trace(id);
    trace(static_cast<std::uint64_t>(pending.kind));
    trace(static_cast<std::uint64_t>(static_cast<std::int64_t>(result)));
    if (result > 0 && (pending.kind == Kind::kRead || pending.kind == Kind::kReceive)) {
        trace_bytes(pending.into.first(static_cast<std::size_t>(result)));
    }
    ++completion_count_;
    op.in_flight = false;
    op.complete(op, result);
}

std::int32_t SimBackend::execute(std::uint64_t id, Pending& p) {
    switch (p.kind) {
        case Kind::kOpen:
            return disk_.open(p.path, p.mode);
        case Kind::kClose:
            return disk_.close(p.file);
        case Kind::kRead:
            return disk_.read(p.file, p.into, p.offset);
        case Kind::kWrite:
            return disk_.write(p.file, p.from, p.offset);
        case Kind::kWritev:
            return execute_writev(p);
        case Kind::kSync:
            return disk_.finish_sync(p.file, p.sync_token);
        case Kind::kTruncate:
            return disk_.truncate(p.file, p.size_bytes);
        case Kind::kAllocate:
            return disk_.allocate(p.file, p.offset, p.size_bytes);
        case Kind::kPrefetch:
            return 0;
        case Kind::kRename:
            return disk_.rename(p.path, p.path_to);
        case Kind::kUnlink:
            return disk_.unlink(p.path);
        case Kind::kMakeDirectory:
            return disk_.make_directory(p.path);
        case Kind::kRemoveDirectory:
            return disk_.remove_directory(p.path);
        case Kind::kAccept:
            return network_.try_accept(p.socket);
        case Kind::kConnect:
            return network_.connect(options_.process, options_.ip, p.address);
        case Kind::kReceiveAny:
            return execute_receive_any(p);
        case Kind::kReceive:
            return network_.try_receive(p.socket, p.into);
        case Kind::kSend:
            return execute_send(id, p);
    }
    GALGO_CHECK(false);
}

std::int32_t SimBackend::execute_writev(const Pending& pending) {
    // One write, as the kernel does it: a fault or a full disk strikes the whole, not a part.
    std::vector<std::byte> whole;
    for (const iovec& part : pending.parts) {
        const auto* data = static_cast<const std::byte*>(part.iov_base);
        whole.insert(whole.end(), data, data + part.iov_len);
    }
    return disk_.write(pending.file, whole, pending.offset);
}

std::int32_t SimBackend::execute_receive_any(Pending& pending) {
    if (free_chunks_.empty()) {
        return -ENOBUFS;
    }
    const std::uint32_t id = free_chunks_.back();
    std::byte* data = chunks_.get() + std::size_t{id} * options_.chunk_bytes;
    const std::int32_t result = network_.try_receive(pending.socket, {data, options_.chunk_bytes});
    if (result > 0) {
        free_chunks_.pop_back();
        pending.op->chunk = {
            .data = data, .size_bytes = static_cast<std::uint32_t>(result), .id = id};
        trace_bytes(pending.op->chunk.bytes());
    }
    return result;
}

std::int32_t SimBackend::execute_send(std::uint64_t id, Pending& pending) {
    std::size_t total = 0;
    for (const iovec& part : pending.parts) {
        total += part.iov_len;
    }
    std::int32_t result = 0;
    while (pending.sent_bytes < total) {
        result = network_.try_send(pending.socket, pending.parts, pending.sent_bytes, id);
        if (result == kWouldBlock) {
            return kWouldBlock;
        }
        if (result < 0) {
            break;
        }
        pending.sent_bytes += static_cast<std::size_t>(result);
    }
    network_.end_send(pending.socket, id);
    return result < 0 && pending.sent_bytes == 0 ? result
                                                 : static_cast<std::int32_t>(pending.sent_bytes);
}

// ---- the end of a process
// ----------------------------------------------------------------------------

void SimBackend::drop_all() {
    if (!dead_) {
        for (auto& [id, pending] : pending_) {
            if (!pending.hangs && !pending.fixed_result) {
                drop_effects(pending);
            }
            forget_effects(id, pending);
        }
        dead_ = true;
        sleeps_until_ = kNever;
        network_.kill_process(options_.process);
    }
    due_.clear();
    // Unwinding code submits more (it closes its files); a loop that never gives up is a bug of its
    // own.
    std::uint64_t budget = 1'000'000;
    while (!pending_.empty()) {
        GALGO_CHECK(--budget != 0);
        finish(pending_.begin()->first, -ECANCELED);
        due_.clear();
    }
}

void SimBackend::drop_effects(Pending& pending) {
    switch (pending.kind) {
        case Kind::kWritev:
        case Kind::kWrite: {
            std::vector<std::byte> whole(pending.from.begin(), pending.from.end());
            for (const iovec& part : pending.parts) {
                const auto* data = static_cast<const std::byte*>(part.iov_base);
                whole.insert(whole.end(), data, data + part.iov_len);
            }
            // Nothing, all, or a part: the kernel was in the middle of it.
            const std::uint64_t fate = random_.below(3);
            const std::size_t count = fate == 0   ? 0
                                      : fate == 1 ? whole.size()
                                                  : random_.below(whole.size() + 1);
            (void)disk_.write(pending.file, ConstBytes(whole).first(count), pending.offset);
            break;
        }
        case Kind::kTruncate:
        case Kind::kRename:
        case Kind::kUnlink:
        case Kind::kMakeDirectory:
        case Kind::kRemoveDirectory:
            if (random_.percent(50)) {
                (void)execute(0, pending);
            }
            break;
        case Kind::kOpen:
            if (pending.mode != OpenMode::kRead && random_.percent(50)) {
                const std::int32_t handle = disk_.open(pending.path, pending.mode);
                if (handle >= 0) {
                    (void)disk_.close(FileHandle{handle});
                }
            }
            break;
        default:
            break;
    }
}

void SimBackend::forget_effects(std::uint64_t id, Pending& pending) {
    if (pending.kind == Kind::kSync) {
        disk_.abort_sync(pending.file, pending.sync_token);
    } else if (pending.kind == Kind::kSend) {
        network_.end_send(pending.socket, id);
    }
}

void SimBackend::trace(std::uint64_t value) noexcept {
    for (int i = 0; i < 8; ++i) {
        trace_hash_ = (trace_hash_ ^ ((value >> (8 * i)) & 0xFF)) * 0x100000001B3ULL;
    }
}

void SimBackend::trace_bytes(ConstBytes bytes) noexcept {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    std::size_t at = 0;
    for (; at + kWord <= bytes.size(); at += kWord) {  // every byte of a read passes here
        trace_hash_ =
            std::rotl((trace_hash_ ^ load<std::uint64_t>(bytes, at)) * 0x100000001B3ULL, 29);
    }
    for (; at < bytes.size(); ++at) {
        trace_hash_ = (trace_hash_ ^ static_cast<std::uint64_t>(bytes[at])) * 0x100000001B3ULL;
    }
}

}  // namespace galgo::runtime_sim
