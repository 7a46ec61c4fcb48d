// What a check of a data directory found, and how it is said. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.hpp"

namespace galgo::check {

enum class Severity : std::uint8_t {
    kNote,     ///< nothing is wrong: a file that was set aside, what was left out
    kMends,    ///< a start mends it by itself
    kDamage,   ///< messages or stored offsets cannot be served, or their partition takes no more
    kRefusal,  ///< a start is refused
};
inline constexpr std::size_t kSeverityCount = 4;
[[nodiscard]] std::string_view name_of(Severity severity) noexcept;

struct Finding {
    Severity severity = Severity::kNote;
    std::string file;                   ///< or directory
    std::optional<std::uint64_t> byte;  ///< in that file
    /// Offsets concerned: the first, and the one behind the last; 0 behind: not known.
    std::optional<std::pair<Offset, Offset>> offsets;
    std::string what;
    std::string start{};   ///< what a start does about it
    std::string remedy{};  ///< what an operator can do
};

struct Counts {
    std::uint64_t partitions = 0;
    std::uint64_t segments = 0;
    std::uint64_t batches = 0;  ///< that are whole
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;  ///< of segments, read
};

/// Exit statuses of the command.
enum class Verdict : std::uint8_t { kSound = 0, kCannotRun = 1, kMends = 2, kDamaged = 3 };

class Report {
 public:
    /// More are counted, and not kept.
    static constexpr std::size_t kFindingsMax = 10'000;

    void add(Finding finding);
    [[nodiscard]] const std::vector<Finding>& findings() const noexcept { return findings_; }
    [[nodiscard]] std::uint64_t count(Severity severity) const noexcept {
        return by_severity_[static_cast<std::size_t>(severity)];
    }
    [[nodiscard]] Verdict verdict() const noexcept;
    /// Findings that were not kept.
    [[nodiscard]] std::uint64_t dropped_count() const noexcept { return dropped_; }

    Counts counts;

 private:
    std::vector<Finding> findings_;
    std::array<std::uint64_t, kSeverityCount> by_severity_{};
    std::uint64_t dropped_ = 0;
};

/// One line without its end.
[[nodiscard]] std::string line_of(const Finding& finding);
[[nodiscard]] std::string summary_of(const Report& report);

}  // namespace galgo::check
