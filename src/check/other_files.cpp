// Files that are no part of what a start reads: set aside, left over, or of somebody else. They are
// told and never touched.
#include <algorithm>
#include <array>
#include <charconv>
#include <format>

#include "check/detail/check_context.hpp"
#include "model/ids.hpp"
#include "storage/journal_format.hpp"
#include "storage/journal_list.hpp"
#include "storage/segment_format.hpp"
#include "storage/snapshot_file.hpp"
#include "storage/wal_format.hpp"

namespace galgo::check {

namespace {

using Names = std::vector<runtime::DirectoryEntry>;

Names list(Context& context, const std::string& directory) {
    Result<Names> entries = context.real().list_directory(directory);
    Names names = entries.has_value() ? *std::move(entries) : Names{};
    std::ranges::sort(names, {}, &runtime::DirectoryEntry::name);
    return names;
}

void tell(Context& context, const std::string& directory, const std::string& name,
          const char* what) {
    context.report.add({.severity = Severity::kNote,
                        .file = context.short_name(directory + '/' + name),
                        .byte = {},
                        .offsets = {},
                        .what = what});
}

/// What a name says by its end, whatever it belongs to; null: nothing.
const char* set_aside(std::string_view name) noexcept {
    if (name.find(".torn-") != std::string_view::npos) {
        return "bytes that a start cut from the end of a log; the server does not read them";
    }
    if (name.find(".damaged-") != std::string_view::npos) {
        return "a damaged file that was replaced; the server does not read it";
    }
    if (name.find(".kept-") != std::string_view::npos) {
        return "a journal that a start set aside, with damage or for a partition that the metadata "
               "does not know; the server does not read it";
    }
    if (name.ends_with(".tmp")) {
        return "left by a replacement that was cut short; it is deleted or written over later";
    }
    return nullptr;
}

constexpr const char* kUnknown = "not a file of the server";

template <class IsKnown>
void tell_unknown(Context& context, const std::string& directory, IsKnown is_known) {
    for (const runtime::DirectoryEntry& entry : list(context, directory)) {
        if (const char* aside = set_aside(entry.name); aside != nullptr) {
            tell(context, directory, entry.name, aside);
        } else if (!is_known(entry)) {
            tell(context, directory, entry.name, kUnknown);
        }
    }
}

bool is_ours_at_top(const Options& options, std::string_view name) {
    constexpr std::array kNames{"LOCK",    "FORMAT", "ENCRYPTION", "metadata",  "state",
                                "streams", "trash",  "quarantine", "lost+found"};
    return std::ranges::find(kNames, name) != kNames.end() || name == options.runtime_folder ||
           name == options.log_folder;
}

bool is_number(std::string_view name, std::uint32_t& number) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    return !name.empty() && error == std::errc{} && end == name.data() + name.size();
}

/// Directories named by numbers below `limit`, as the server writes them.
std::vector<std::uint32_t> numbers_in(Context& context, const std::string& directory,
                                      std::uint64_t limit) {
    std::vector<std::uint32_t> numbers;
    for (const runtime::DirectoryEntry& entry : list(context, directory)) {
        std::uint32_t number = 0;
        if (entry.is_directory && is_number(entry.name, number) && number < limit &&
            std::to_string(number) == entry.name) {
            numbers.push_back(number);
        } else {
            tell(context, directory, entry.name, kUnknown);
        }
    }
    std::ranges::sort(numbers);
    return numbers;
}

}  // namespace

void tell_other_files(Context& context) {
    const std::string& root = context.options.path;
    tell_unknown(context, root, [&](const runtime::DirectoryEntry& entry) {
        return is_ours_at_top(context.options, entry.name);
    });
    tell_unknown(context, root + "/metadata", [](const runtime::DirectoryEntry& entry) {
        return entry.name == "superblock" || storage::wal_generation(entry.name).has_value() ||
               storage::snapshot_op(entry.name).has_value();
    });
    tell_unknown(context, root + "/state", [](const runtime::DirectoryEntry& entry) {
        return storage::parse_journal_file_name(entry.name).has_value() ||
               storage::is_journal_list_name(entry.name) || entry.name.starts_with("ledger-") ||
               entry.name.ends_with(".given-up");
    });
    for (const runtime::DirectoryEntry& entry : list(context, root + "/quarantine")) {
        tell(context, root + "/quarantine", entry.name,
             "files of a partition that the metadata did not know; the server does not read them");
    }
    for (const runtime::DirectoryEntry& entry : list(context, root + "/trash")) {
        tell(context, root + "/trash", entry.name, "was dropped; the next start deletes it");
    }
}

void tell_files_of_partition(Context& context, const std::string& directory) {
    tell_unknown(context, directory, [](const runtime::DirectoryEntry& entry) {
        return storage::parse_segment_file_name(entry.name, storage::kLogExtension).has_value() ||
               storage::parse_segment_file_name(entry.name, storage::kIndexExtension).has_value() ||
               entry.name == "incarnation" || entry.name == "retained" || entry.name == "fenced" ||
               entry.name == "offsets";
    });
    tell_unknown(context, directory + "/offsets", [](const runtime::DirectoryEntry& entry) {
        return entry.name == "consumers" || entry.name == "groups" || entry.name == "checkpoint";
    });
    for (const char* folder : {"/offsets/consumers", "/offsets/groups"}) {
        tell_unknown(context, directory + folder, [](const runtime::DirectoryEntry& entry) {
            std::uint32_t number = 0;
            return is_number(entry.name, number);
        });
    }
}

std::vector<FoundPartition> list_partitions(Context& context) {
    std::vector<FoundPartition> found;
    const std::string streams = context.options.path + "/streams";
    for (const std::uint32_t stream : numbers_in(context, streams, model::kStreamCountMax)) {
        const std::string topics = std::format("{}/{}/topics", streams, stream);
        for (const std::uint32_t topic : numbers_in(context, topics, model::kTopicCountMax)) {
            const std::string partitions = std::format("{}/{}/partitions", topics, topic);
            for (const std::uint32_t partition :
                 numbers_in(context, partitions, model::kPartitionIdMax)) {
                found.push_back({.key = model::pack_partition_key(model::StreamId{stream},
                                                                  model::TopicId{topic},
                                                                  model::PartitionId{partition}),
                                 .directory = std::format("{}/{}", partitions, partition)});
            }
        }
    }
    return found;
}

}  // namespace galgo::check
