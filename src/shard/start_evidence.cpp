#include "shard/start_evidence.hpp"

#include <cerrno>
#include <format>

#include "observe/log.hpp"

namespace galgo::shard {

std::string proof_of_entries(runtime::IoBackend& io, const std::string& data_path,
                             const std::string& config_path) {
    const std::string streams = data_path + "/streams";
    const auto entries = io.list_directory(streams);
    if (entries.has_value() && !entries->empty()) {
        return streams + " holds partitions";
    }
    if (!entries.has_value() && entries.error().os_errno != ENOENT) {
        return streams + " cannot be read, so it may hold partitions";
    }
    if (io.file_facts(config_path).has_value()) {
        return config_path + " says that a start was completed";
    }
    return {};
}

std::string proof_of_superblock(runtime::IoBackend& io, const std::string& data_path) {
    const std::string state = data_path + "/state";
    const auto entries = io.list_directory(state);
    return entries.has_value() && entries->empty() ? std::string{} : state + " holds journals";
}

std::string judge_lives(const storage::JournalReplay& replay, const metadata::State& state,
                        OpNumber head, const storage::Trash& trash, const std::string& data_path) {
    for (const auto& [life, facts] : replay.partitions()) {
        // A life is named by the op that began it, and that op was stable before anybody wrote
        // here.
        if (life.second.value() > head.value()) {
            return std::format(
                "the metadata log in {0}/metadata ends at op {1}, but the journals know a "
                "partition that op {2} made or purged: acknowledged changes are lost. Restore the "
                "metadata directory from a backup, or move the files in {0}/state away to give up "
                "what they hold",
                data_path, head.value(), life.second.value());
        }
        const metadata::Partition* row = state.find_partition(life.first);
        if ((row == nullptr || row->incarnation != life.second) &&
            !trash.is_retired(life.first, life.second)) {
            observe::log_error(
                "server",
                "the journals know a partition that the metadata log does not; they are kept",
                {{"partition", life.first}, {"incarnation", life.second}});
            replay.keep_files();
        }
    }
    return {};
}

}  // namespace galgo::shard
