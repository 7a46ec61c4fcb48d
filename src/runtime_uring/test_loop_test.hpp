// A shard as the tests of this module need one: back end, loop and scope on the calling thread.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/this_shard.hpp"
#include "coro/scope.hpp"
#include "runtime/io_await.hpp"
#include "runtime/loop.hpp"
#include "runtime_uring/uring_backend.hpp"

namespace galgo::runtime_uring {

class TestShard : public coro::Anchored {
 public:
    explicit TestShard(UringGroup& group, ShardIndex shard = ShardIndex{0},
                       const UringOptions& options = {}, runtime::LoopOptions loop_options = {})
        : io_(create(group, shard, options)), loop(*io_, loop_options), scope(loop.ready()) {}

    [[nodiscard]] UringBackend& io() noexcept { return *io_; }

    /// Runs turns until everything spawned has ended or `limit_ns` passed; false = it passed.
    bool run_to_end(std::uint64_t limit_ns = 20 * kSecond) {
        const Instant end = io_->now().plus(limit_ns);
        while (scope.inside() != 0) {
            if (io_->now() > end) {
                return false;
            }
            loop.run_turn();
            (void)io_->poll(io_->now().plus(kMillisecond));
        }
        return true;
    }

 private:
    static std::unique_ptr<UringBackend> create(UringGroup& group, ShardIndex shard,
                                                const UringOptions& options) {
        set_this_shard(shard);
        auto backend = UringBackend::create(group, shard, options);
        GALGO_CHECK(backend.has_value());
        return std::move(*backend);
    }
    std::unique_ptr<UringBackend> io_;

 public:
    runtime::Loop loop;
    coro::Scope scope;
};

class TempDirectory {
 public:
    TempDirectory() {
        std::string pattern = (std::filesystem::temp_directory_path() / "galgo-XXXXXX").string();
        GALGO_CHECK(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    TempDirectory(const TempDirectory&) = delete;
    TempDirectory& operator=(const TempDirectory&) = delete;
    ~TempDirectory() { std::filesystem::remove_all(path_); }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
    std::string path_;
};

}  // namespace galgo::runtime_uring
