#include "observe/detail/sinks.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace galgo::observe::detail {
namespace {

namespace fs = std::filesystem;

/// Files kept beside the one being written. Each rotation renames them all, so their number is
/// bounded.
std::size_t rotated_files_max(const LogSettings& settings) {
    constexpr std::uint64_t kUnlimited = 1000;
    if (settings.max_total_size == 0) {
        return kUnlimited;
    }
    return static_cast<std::size_t>(
        std::clamp<std::uint64_t>(settings.max_total_size / settings.max_file_size, 1, kUnlimited));
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
    return static_cast<spdlog::level::level_enum>(level);
}

class SpdlogSinks final : public Sinks {
 public:
    void add(std::shared_ptr<spdlog::sinks::sink> sink) {
        // Lines come formatted: nothing is added but the line end.
        sink->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
        sinks_.push_back(std::move(sink));
    }

    void write(LogLevel level, std::string_view line) noexcept override {
        const spdlog::details::log_msg message("galgo", spdlog_level(level),
                                               spdlog::string_view_t(line.data(), line.size()));
        for (const auto& sink : sinks_) {
            try {
                sink->log(message);
            } catch (const std::exception&) {
                // A full disk must not end the log thread; the line is in the other sink.
            }
        }
    }

    void flush() noexcept override {
        for (const auto& sink : sinks_) {
            try {
                sink->flush();
            } catch (const std::exception&) {
            }
        }
    }

 private:
    std::vector<std::shared_ptr<spdlog::sinks::sink>> sinks_;
};

static_assert(static_cast<int>(LogLevel::kTrace) == SPDLOG_LEVEL_TRACE);
static_assert(static_cast<int>(LogLevel::kError) == SPDLOG_LEVEL_ERROR);

}  // namespace

std::unique_ptr<Sinks> open_sinks(const LogSettings& settings, std::string& error) {
    auto sinks = std::make_unique<SpdlogSinks>();
    try {
        if (settings.to_stdout) {
            sinks->add(std::make_shared<spdlog::sinks::stdout_sink_st>());
        }
        if (!settings.directory.empty()) {
            const std::string path = (fs::path(settings.directory) / kLogFileName).string();
            fs::create_directories(settings.directory);
            if (settings.max_file_size == 0) {
                sinks->add(std::make_shared<spdlog::sinks::basic_file_sink_st>(path));
            } else {
                sinks->add(std::make_shared<spdlog::sinks::rotating_file_sink_st>(
                    path, settings.max_file_size, rotated_files_max(settings)));
            }
        }
    } catch (const std::exception& failure) {
        error = failure.what();
    }
    return sinks;
}

}  // namespace galgo::observe::detail
