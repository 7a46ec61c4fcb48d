// A partition's log: encryption of what is appended, decryption of what is read. In between a batch
// stays as it is stored.
#include <array>
#include <format>
#include <utility>

#include "crypto/random.hpp"
#include "observe/log.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using memory::BufRef;

namespace {

/// Batches up to here are decrypted on the stack and packed, so that a small one takes no page.
constexpr std::size_t kSmallBytesMax = 2 * kKiB;
/// The place of a log line about a batch that cannot be decrypted.
constexpr std::uint64_t kCipherPosition = ~std::uint64_t{1};

}  // namespace

/// Made when it is first needed: a log that is not used costs nothing.
BatchCipher& PartitionLog::cipher() {
    if (cipher_ == nullptr) {
        Salt salt;
        crypto::random_bytes(salt);
        cipher_ =
            std::make_unique<BatchCipher>(*context_.encryption, partition_, incarnation_, salt);
    }
    return *cipher_;
}

Task<Result<BufRef>> PartitionLog::encrypt(BufRef batch) {
    co_await encrypting_.acquire();
    Result<BufRef> encrypted = co_await encrypt_alone(std::move(batch));
    encrypting_.release();
    co_return encrypted;
}

Task<Result<BufRef>> PartitionLog::encrypt_alone(BufRef batch) {
    GALGO_CHECK(context_.encryption != nullptr);
    GALGO_CO_TRY_ASSIGN(BufRef to, context_.pool.acquire(encrypted_size(batch.size())));
    BatchCipher::Encryption job = cipher().encrypt(batch.bytes(), to.mutable_bytes());
    while (!job.step()) {
        co_await coro::yield_to(context_.ready);
    }
    co_return to;
}

Task<Result<BufRef>> PartitionLog::decrypt(BufRef batch) {
    if (context_.encryption == nullptr) {
        co_return tell_undecryptable(batch, "a batch is encrypted, and the server has no key");
    }
    // Many small ones shall not hold the loop either.
    if (decrypted_in_a_row_ >= kCipherChunkBytes) {
        decrypted_in_a_row_ = 0;
        co_await coro::yield_to(context_.ready);
    }
    decrypted_in_a_row_ += batch.size();
    if (decrypted_size(batch.bytes()) <= kSmallBytesMax) {
        co_return decrypt_small(batch);
    }
    GALGO_CO_TRY_ASSIGN(BufRef to, context_.pool.acquire(decrypted_size(batch.bytes())));
    Result<BatchCipher::Decryption> job = cipher().decrypt(batch.bytes(), to.mutable_bytes());
    if (!job.has_value()) {
        co_return tell_undecryptable(batch, "a batch is encrypted with another key");
    }
    while (true) {
        const Result<bool> done = job->step();
        if (!done.has_value()) {
            co_return tell_undecryptable(batch, "the tag of an encrypted batch does not fit");
        }
        if (*done) {
            co_return to;
        }
        co_await coro::yield_to(context_.ready);
    }
}

Result<BufRef> PartitionLog::decrypt_small(const BufRef& batch) {
    std::array<std::byte, kSmallBytesMax> plain;  // filled before it is read
    const MutableBytes to = MutableBytes(plain).first(decrypted_size(batch.bytes()));
    Result<BatchCipher::Decryption> job = cipher().decrypt(batch.bytes(), to);
    if (!job.has_value()) {
        return tell_undecryptable(batch, "a batch is encrypted with another key");
    }
    if (!job->step().has_value()) {
        return tell_undecryptable(batch, "the tag of an encrypted batch does not fit");
    }
    return context_.packer.pack(to);
}

std::unexpected<Error> PartitionLog::tell_undecryptable(const BufRef& batch, const char* what) {
    const Offset base(load<std::uint64_t>(batch.bytes(), 8));
    if (unreadable_line_due(base, kCipherPosition)) {
        // With another key the right one is named by its id; a tag that does not fit is damage, or
        // somebody's hand: the batch is in a backup or nowhere.
        observe::log_error("storage", what,
                           {{"directory", directory_},
                            {"offset", base},
                            {"key_id", std::format("{:016x}", key_id_of(batch.bytes()))}});
    }
    return fail(ErrorCode::kCannotDecryptData);
}

}  // namespace galgo::storage
