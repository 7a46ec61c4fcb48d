// Readers of /proc.
#include "bench/process_sample.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>

namespace galgo::bench {
namespace {

/// The first 4 KiB, which both files fit in; empty if it cannot be read.
std::string read_file(const std::string& path) {
    std::array<char, 4096> buffer;
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return {};
    }
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    ::close(descriptor);
    return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : std::string();
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    return parsed.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

std::uint64_t named_number(std::string_view text, std::string_view name) {
    const std::size_t at = text.find(name);
    return at == std::string_view::npos ? 0
                                        : leading_number(text.substr(at + name.size())).value_or(0);
}

}  // namespace

std::optional<ProcessSample> parse_process_sample(std::string_view stat, std::string_view io,
                                                  double ticks_per_second) {
    // The name in parentheses may hold spaces and parentheses: fields are counted behind it.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string_view::npos) {
        return std::nullopt;
    }
    constexpr int kFieldsBeforeUserTime = 11;  // state is the first, utime the 12th
    std::string_view rest = stat.substr(name_end + 1);
    for (int i = 0; i <= kFieldsBeforeUserTime; ++i) {
        const std::size_t space = rest.find(' ');
        if (space == std::string_view::npos) {
            return std::nullopt;
        }
        rest.remove_prefix(space + 1);
    }
    const std::optional<std::uint64_t> user = leading_number(rest);
    const std::size_t space = rest.find(' ');
    if (!user || space == std::string_view::npos) {
        return std::nullopt;
    }
    const std::optional<std::uint64_t> system = leading_number(rest.substr(space + 1));
    if (!system) {
        return std::nullopt;
    }
    return ProcessSample{.user_seconds = static_cast<double>(*user) / ticks_per_second,
                         .system_seconds = static_cast<double>(*system) / ticks_per_second,
                         .write_calls_bytes = named_number(io, "wchar: "),
                         .storage_write_bytes = named_number(io, "\nwrite_bytes: ")};
}

std::optional<ProcessSample> sample_process(std::uint32_t process_id) {
    const std::string folder = "/proc/" + std::to_string(process_id);
    return parse_process_sample(read_file(folder + "/stat"), read_file(folder + "/io"),
                                static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

ProcessSample difference(const ProcessSample& later, const ProcessSample& earlier) {
    return {.user_seconds = later.user_seconds - earlier.user_seconds,
            .system_seconds = later.system_seconds - earlier.system_seconds,
            .write_calls_bytes = later.write_calls_bytes - earlier.write_calls_bytes,
            .storage_write_bytes = later.storage_write_bytes - earlier.storage_write_bytes};
}

}  // namespace galgo::bench
