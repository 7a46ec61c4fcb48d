#include "runtime/offload.hpp"

namespace galgo::runtime {

namespace {

void push(std::atomic<OffloadJob*>& stack, OffloadJob& job) noexcept {
    job.next = stack.load(std::memory_order_relaxed);
    while (!stack.compare_exchange_weak(job.next, &job, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
}

/// Takes the whole stack, oldest first.
OffloadJob* take_all(std::atomic<OffloadJob*>& stack) noexcept {
    OffloadJob* newest_first = stack.exchange(nullptr, std::memory_order_acquire);
    OffloadJob* oldest_first = nullptr;
    while (newest_first != nullptr) {
        OffloadJob* next = newest_first->next;
        newest_first->next = oldest_first;
        oldest_first = newest_first;
        newest_first = next;
    }
    return oldest_first;
}

}  // namespace

OffloadQueue::OffloadQueue(std::uint16_t shard_count, std::uint32_t jobs_max,
                           UniqueFunction<void(ShardIndex)> wake)
    : shards_(shard_count), jobs_max_(jobs_max), wake_(std::move(wake)) {}

OffloadQueue::~OffloadQueue() {
    for (const Lane& lane : lanes_) {
        GALGO_CHECK(lane.submitted.load() == nullptr);
    }
}

bool OffloadQueue::try_submit(OffloadJob& job) noexcept {
    GALGO_CHECK(this_shard().value() < shards_.size());
    if (job_count_.fetch_add(1, std::memory_order_relaxed) >= jobs_max_) {
        job_count_.fetch_sub(1, std::memory_order_relaxed);
        return false;
    }
    enqueue(job, OffloadLane::kBackground);
    return true;
}

void OffloadQueue::submit_urgent(OffloadJob& job) noexcept {
    GALGO_CHECK(this_shard().value() < shards_.size());
    job_count_.fetch_add(1, std::memory_order_relaxed);
    enqueue(job, OffloadLane::kUrgent);
}

void OffloadQueue::enqueue(OffloadJob& job, OffloadLane name) noexcept {
    Lane& to = lane(name);
    job.home = this_shard();
    push(to.submitted, job);
    to.signal.fetch_add(1, std::memory_order_release);
    to.signal.notify_one();
}

bool OffloadQueue::collect() noexcept {
    PerShard& shard = shards_[this_shard().value()];
    if (shard.finished.load(std::memory_order_relaxed) == nullptr) {
        return false;
    }
    OffloadJob* job = take_all(shard.finished);
    while (job != nullptr) {
        OffloadJob* next = job->next;
        job_count_.fetch_sub(1, std::memory_order_relaxed);
        job->done(*job);
        job = next;
    }
    return true;
}

void OffloadQueue::run_worker(OffloadLane name) noexcept {
    Lane& from = lane(name);
    for (;;) {
        const std::uint32_t seen = from.signal.load(std::memory_order_acquire);
        // Before the stack is looked at: what was submitted before the stop is seen there.
        const bool stopping = stopping_.load(std::memory_order_acquire);
        OffloadJob* job = take_all(from.submitted);
        if (job == nullptr) {
            if (stopping) {
                return;
            }
            from.signal.wait(seen, std::memory_order_acquire);
        }
        while (job != nullptr) {
            OffloadJob* next = job->next;
            const ShardIndex home = job->home;  // the job is gone once it is on the finished stack
            if (name == OffloadLane::kUrgent || !refusing_.load(std::memory_order_relaxed)) {
                job->run(*job);
            }
            push(shards_[home.value()].finished, *job);
            wake_(home);
            job = next;
        }
    }
}

void OffloadQueue::stop() noexcept {
    stopping_.store(true, std::memory_order_release);
    for (Lane& each : lanes_) {
        each.signal.fetch_add(1, std::memory_order_release);
        each.signal.notify_all();
    }
}

}  // namespace galgo::runtime
