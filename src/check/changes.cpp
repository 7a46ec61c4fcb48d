// What a start would do, told from the changes that its code made on the overlay.
#include <algorithm>
#include <format>
#include <set>

#include "check/detail/check_context.hpp"
#include "runtime/io_await.hpp"
#include "storage/segment_format.hpp"

namespace galgo::check {

using coro::Task;

namespace {

constexpr std::size_t kCompareBytes = 256 * kKiB;
constexpr std::string_view kTemporary = ".tmp";

bool exists(Context& context, const std::string& path) {
    return context.real().file_facts(path).has_value();
}

std::string_view name_in(std::string_view path) noexcept {
    return path.substr(path.rfind('/') + 1);
}

void tell(Context& context, const std::string& path, std::optional<std::uint64_t> byte,
          std::string what, std::string start) {
    context.report.add({.severity = Severity::kMends,
                        .file = context.short_name(path),
                        .byte = byte,
                        .offsets = {},
                        .what = std::move(what),
                        .start = std::move(start)});
}

void tell_moved(Context& context, const Change& change) {
    if (change.path != change.path_to + std::string(kTemporary)) {
        tell(context, change.path, {}, "it does not belong there any more",
             "moves it to " + context.short_name(change.path_to));
        return;
    }
    const std::string_view name = name_in(change.path_to);
    if (name == "fenced") {
        return;  // told as the fence of its partition
    }
    const bool is_index = name.ends_with(storage::kIndexExtension);
    const bool there = exists(context, change.path_to);
    tell(context, change.path_to, {},
         there      ? "it is not what follows from the other files"
         : is_index ? "the index is not there"
                    : "the file is not there",
         is_index ? "writes the index anew from the log"
                  : std::format("{} it", there ? "replaces" : "makes"));
}

Task<void> tell_written(Context& context, const Change& change) {
    if (!exists(context, change.path)) {
        co_return;  // told when it was made, or moved into place
    }
    const std::optional<Difference> difference = co_await compare(context, change.path);
    if (difference.has_value()) {
        tell(context, change.path, difference->first,
             std::format("{} bytes are not as they should be, or are not there yet",
                         difference->count),
             "writes them");
    }
}

void tell_cut(Context& context, const Change& change, Cuts& cuts) {
    if (!exists(context, change.path) || change.end >= change.first) {
        return;
    }
    const auto known = cuts.try_emplace(change.path, change.end).first;
    known->second = std::min(known->second, change.end);
    tell(context, change.path, change.end,
         std::format("{} bytes at the end are no whole batch: what a crash left",
                     change.first - change.end),
         "keeps a copy of them aside and cuts them");
}

}  // namespace

Task<std::optional<Difference>> compare(Context& context, std::string path) {
    const OverlayBackend::Extents* written = context.overlay.written(path);
    if (written == nullptr) {
        co_return std::nullopt;
    }
    const OverlayBackend::Extents extents = *written;  // reads below let others run
    const Result<runtime::FileHandle> file =
        co_await runtime::open(context.real(), path, runtime::OpenMode::kRead);
    Difference difference;
    std::vector<std::byte> bytes(kCompareBytes);
    for (const auto& [position, data] : extents) {
        for (std::size_t at = 0; at < data.size(); at += kCompareBytes) {
            const auto size = std::min(kCompareBytes, data.size() - at);
            Result<std::size_t> got = std::size_t{0};
            if (file.has_value()) {
                got = co_await runtime::read(context.real(), *file, MutableBytes(bytes).first(size),
                                             position + at);
            }
            for (std::size_t i = 0; i < size; ++i) {
                if (i >= got.value_or(0) || bytes[i] != data[at + i]) {
                    difference.first = difference.count == 0 ? position + at + i : difference.first;
                    ++difference.count;
                }
            }
        }
    }
    if (file.has_value()) {
        (void)co_await runtime::close(context.real(), *file);
    }
    co_return difference.count == 0 ? std::nullopt : std::optional(difference);
}

Task<void> tell_changes(Context& context, const std::string& where, Cuts& cuts) {
    const std::vector<Change> changes = context.overlay.changes();
    std::set<std::string> compared;
    for (const Change& change : changes) {
        const bool is_temporary = change.path.ends_with(kTemporary);
        switch (change.kind) {
            case ChangeKind::kMoved:
                tell_moved(context, change);
                break;
            case ChangeKind::kCut:
                if (!is_temporary) {
                    tell_cut(context, change, cuts);
                }
                break;
            case ChangeKind::kWritten:
                if (!is_temporary && compared.insert(change.path).second) {
                    co_await tell_written(context, change);
                }
                break;
            case ChangeKind::kMade:
                if (!is_temporary) {
                    tell(context, change.path, {}, "the file is not there", "makes it");
                }
                break;
            case ChangeKind::kRemoved:
                if (!is_temporary) {
                    tell(context, change.path, {}, "it is not needed any more", "removes it");
                }
                break;
            case ChangeKind::kDirectoryMade:
                break;
        }
    }
    if (context.overlay.exceeded()) {
        context.report.add({.severity = Severity::kMends,
                            .file = context.short_name(where),
                            .byte = {},
                            .offsets = {},
                            .what = "a start would change more than fits into the memory that this "
                                    "check takes; what it would do is not told completely"});
    }
}

void tell_lines(Context& context, const std::string& where, const std::vector<LoggedLine>& lines,
                const std::vector<std::string>& faults) {
    for (const LoggedLine& line : lines) {
        const std::size_t what = line.text.find(" what=");
        const bool told =
            what != std::string::npos && std::ranges::any_of(faults, [&](const std::string& fault) {
                return fault.find(line.text.substr(what + 6)) != std::string::npos;
            });
        if (line.level < observe::LogLevel::kWarn || told) {
            continue;
        }
        context.report.add({.severity = line.level == observe::LogLevel::kWarn ? Severity::kMends
                                                                               : Severity::kDamage,
                            .file = context.short_name(where),
                            .byte = {},
                            .offsets = {},
                            .what = "the log of a start would say: " + line.text});
    }
}

}  // namespace galgo::check
