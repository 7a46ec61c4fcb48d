// The facade: which lines are wanted, and how they look.
#include "observe/log.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/this_shard.hpp"
#include "observe/detail/line_ring.hpp"
#include "observe/detail/logger.hpp"
#include "observe/log_capture.hpp"

namespace galgo::observe {
namespace {

constexpr std::size_t kModulesMax = 16;
constexpr std::size_t kModuleNameMax = 32;

struct ModuleLevel {
    std::array<char, kModuleNameMax> name{};
    std::size_t size = 0;
    LogLevel level = LogLevel::kInfo;

    [[nodiscard]] std::string_view text() const noexcept { return {name.data(), size}; }
};

struct Filter {
    LogLevel level = LogLevel::kInfo;
    std::size_t module_count = 0;
    std::array<ModuleLevel, kModulesMax> modules{};
};

// Written while the process has one thread, read by all later; the lowest level is the fast
// refusal.
constinit Filter g_filter{};
constinit std::atomic<LogLevel> g_lowest{LogLevel::kInfo};
constinit LogCapture g_capture = nullptr;
constinit void* g_capture_context = nullptr;

struct LevelName {
    std::string_view name;
    LogLevel level;
};
constexpr std::array kLevelNames{
    LevelName{"trace", LogLevel::kTrace}, LevelName{"debug", LogLevel::kDebug},
    LevelName{"info", LogLevel::kInfo},   LevelName{"warn", LogLevel::kWarn},
    LevelName{"error", LogLevel::kError}, LevelName{"off", LogLevel::kOff}};

bool parse_level(std::string_view text, LogLevel& level) noexcept {
    for (const LevelName& known : kLevelNames) {
        const bool same = std::ranges::equal(text, known.name, [](char a, char b) {
            return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
        });
        if (same) {
            level = known.level;
            return true;
        }
    }
    return false;
}

std::string_view stripped(std::string_view text) noexcept {
    while (text.starts_with(' ')) {
        text.remove_prefix(1);
    }
    while (text.ends_with(' ')) {
        text.remove_suffix(1);
    }
    return text;
}

/// Appends to a fixed buffer; what does not fit is cut.
class Writer {
 public:
    Writer(char* out, std::size_t capacity) noexcept : out_(out), capacity_(capacity) {}

    void raw(std::string_view text) noexcept {
        const std::size_t bytes = std::min(text.size(), capacity_ - size_);
        std::copy_n(text.data(), bytes, out_ + size_);
        size_ += bytes;
    }
    /// Line breaks and other control characters cannot forge a second line.
    void escaped(std::string_view text) noexcept {
        for (const char c : text) {
            if (c == '\n') {
                raw("\\n");
            } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
                raw("?");
            } else {
                raw({&c, 1});
            }
        }
    }
    template <class T>
    void number(T value, std::size_t width = 0) noexcept {
        char digits[24];
        const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
        const auto size = static_cast<std::size_t>(end - digits);
        for (std::size_t i = size; i < width; ++i) {
            raw("0");
        }
        raw({digits, size});
    }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
    char* out_;
    std::size_t capacity_;
    std::size_t size_ = 0;
};

void write_time(Writer& writer) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    std::tm utc{};
    gmtime_r(&now.tv_sec, &utc);
    writer.number(utc.tm_year + 1900, 4);
    writer.raw("-");
    writer.number(utc.tm_mon + 1, 2);
    writer.raw("-");
    writer.number(utc.tm_mday, 2);
    writer.raw("T");
    writer.number(utc.tm_hour, 2);
    writer.raw(":");
    writer.number(utc.tm_min, 2);
    writer.raw(":");
    writer.number(utc.tm_sec, 2);
    writer.raw(".");
    writer.number(now.tv_nsec / 1000, 6);
    writer.raw("Z");
}

}  // namespace

std::size_t Field::format(char* out, std::size_t capacity) const noexcept {
    Writer writer(out, capacity);
    writer.raw(key_);
    writer.raw("=");
    switch (kind_) {
        case Kind::kText: {
            const bool needs_quotes =
                text_.empty() || text_.find_first_of(" =\"") != std::string_view::npos;
            writer.raw(needs_quotes ? "\"" : "");
            writer.escaped(text_);
            writer.raw(needs_quotes ? "\"" : "");
            break;
        }
        case Kind::kSigned:
            writer.number(static_cast<std::int64_t>(number_));
            break;
        case Kind::kUnsigned:
            writer.number(number_);
            break;
    }
    return writer.size();
}

bool log_enabled(LogLevel level, std::string_view module) noexcept {
    if (level < g_lowest.load(std::memory_order_relaxed)) {
        return false;
    }
    for (std::size_t i = 0; i < g_filter.module_count; ++i) {
        if (g_filter.modules[i].text() == module) {
            return level >= g_filter.modules[i].level;
        }
    }
    return level >= g_filter.level;
}

bool set_log_filter(std::string_view filter) noexcept {
    Filter parsed;
    LogLevel lowest = LogLevel::kOff;
    while (!filter.empty()) {
        const std::size_t comma = std::min(filter.find(','), filter.size());
        const std::string_view item = stripped(filter.substr(0, comma));
        filter.remove_prefix(std::min(comma + 1, filter.size()));
        const std::size_t equals = item.find('=');
        if (equals == std::string_view::npos) {
            if (!parse_level(item, parsed.level)) {
                return false;
            }
            continue;
        }
        const std::string_view name = item.substr(0, equals);
        if (name.empty() || name.size() > kModuleNameMax || parsed.module_count == kModulesMax) {
            return false;
        }
        ModuleLevel& module = parsed.modules[parsed.module_count++];
        std::ranges::copy(name, module.name.begin());
        module.size = name.size();
        if (!parse_level(item.substr(equals + 1), module.level)) {
            return false;
        }
        lowest = std::min(lowest, module.level);
    }
    g_filter = parsed;
    g_lowest.store(std::min(lowest, parsed.level), std::memory_order_relaxed);
    return true;
}

void capture_log(LogCapture capture, void* context) noexcept {
    g_capture = capture;
    g_capture_context = context;
}

void log(LogLevel level, std::string_view module, std::string_view message,
         Fields fields) noexcept {
    if (g_capture != nullptr) {
        g_capture(g_capture_context, level, module, message, fields);
        return;
    }
    if (level >= LogLevel::kOff || !log_enabled(level, module)) {
        return;
    }
    char line[detail::LineRing::kLineBytesMax];
    const std::size_t size = detail::format_line(level, module, message, fields, line, sizeof line);
    detail::submit(level, {line, size});
}

namespace detail {

std::size_t format_line(LogLevel level, std::string_view module, std::string_view message,
                        Fields fields, char* out, std::size_t capacity) noexcept {
    constexpr std::array<std::string_view, 6> kNames{" TRACE ", " DEBUG ", "  INFO ",
                                                     "  WARN ", " ERROR ", "   OFF "};
    Writer writer(out, capacity);
    write_time(writer);
    writer.raw(kNames[static_cast<std::size_t>(level)]);
    if (const ShardIndex shard = this_shard(); shard == kNoShard) {
        writer.raw("main ");
    } else {
        writer.raw("shard-");
        writer.number(shard.value());
        writer.raw(" ");
    }
    writer.raw(module);
    writer.raw(": ");
    writer.escaped(message);
    std::size_t size = writer.size();
    for (const Field& field : fields) {
        if (size < capacity) {
            out[size++] = ' ';
        }
        size += field.format(out + size, capacity - size);
    }
    return size;
}

std::string format_line(LogLevel level, std::string_view module, std::string_view message,
                        Fields fields) {
    std::string line(LineRing::kLineBytesMax, '\0');
    line.resize(format_line(level, module, message, fields, line.data(), line.size()));
    return line;
}

}  // namespace detail

bool RateLimit::allow(Instant now) noexcept {
    constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
    const std::uint64_t window = now.value() / kNsPerSecond;
    if (window != window_) {
        window_ = window;
        used_ = 0;
    }
    if (used_ < per_second_) {
        ++used_;
        return true;
    }
    ++suppressed_;
    return false;
}

std::uint64_t RateLimit::take_suppressed() noexcept {
    return std::exchange(suppressed_, 0);
}

}  // namespace galgo::observe
