#include "shard/hash_steps.hpp"

#include "crypto/hash.hpp"

namespace galgo::shard {

coro::Task<std::uint64_t> hash_in_steps(coro::ReadyQueue& ready, ConstBytes bytes) {
    if (bytes.size() <= kHashStepBytes) {
        co_return crypto::xxh3_64(bytes);
    }
    crypto::Xxh3Stream hash;
    while (bytes.size() > kHashStepBytes) {
        hash.update(bytes.first(kHashStepBytes));
        bytes = bytes.subspan(kHashStepBytes);
        co_await coro::yield_to(ready);
    }
    hash.update(bytes);
    co_return hash.digest();
}

}  // namespace galgo::shard
