#include "check/finding.hpp"

#include <format>

namespace galgo::check {

std::string_view name_of(Severity severity) noexcept {
    switch (severity) {
        case Severity::kNote:
            return "note";
        case Severity::kMends:
            return "mends";
        case Severity::kDamage:
            return "damage";
        case Severity::kRefusal:
            return "refusal";
    }
    return "note";
}

void Report::add(Finding finding) {
    ++by_severity_[static_cast<std::size_t>(finding.severity)];
    if (findings_.size() < kFindingsMax) {
        findings_.push_back(std::move(finding));
    } else {
        ++dropped_;
    }
}

Verdict Report::verdict() const noexcept {
    if (count(Severity::kDamage) + count(Severity::kRefusal) != 0) {
        return Verdict::kDamaged;
    }
    return count(Severity::kMends) != 0 ? Verdict::kMends : Verdict::kSound;
}

std::string line_of(const Finding& finding) {
    std::string line = std::format("{}: {}", name_of(finding.severity), finding.file);
    if (finding.byte.has_value()) {
        line += std::format(", byte {}", *finding.byte);
    }
    if (finding.offsets.has_value()) {
        const auto& [first, end] = *finding.offsets;
        line += end > first ? std::format(", offsets {} to {}", first.value(), end.value() - 1)
                            : std::format(", offsets from {} on", first.value());
    }
    line += ": " + finding.what;
    if (!finding.start.empty()) {
        line += "; a start: " + finding.start;
    }
    if (!finding.remedy.empty()) {
        line += "; you can: " + finding.remedy;
    }
    for (char& c : line) {  // names of files are the disk's
        c = static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
    }
    return line;
}

std::string summary_of(const Report& report) {
    const Counts& counts = report.counts;
    std::string line = std::format(
        "{}: {} partitions, {} segments, {} whole batches, {} messages, {} bytes; {} refusals, {} "
        "damages, {} that a start mends, {} notes",
        report.verdict() == Verdict::kSound ? "ok" : "not ok", counts.partitions, counts.segments,
        counts.batches, counts.messages, counts.bytes, report.count(Severity::kRefusal),
        report.count(Severity::kDamage), report.count(Severity::kMends),
        report.count(Severity::kNote));
    if (report.dropped_count() != 0) {
        line += std::format(" ({} not listed)", report.dropped_count());
    }
    return line;
}

}  // namespace galgo::check
