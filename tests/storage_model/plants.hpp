// Planted mistakes: what a wrong server would do, done between the server and the model. Each must
// be found, or the test cannot fail.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace galgo::log_model {

enum class Plant : std::uint8_t {
    kNone,
    kAcknowledgeEarly,  ///< a send that failed or was cut off by a crash counts as acknowledged
    kLoseJournal,       ///< the journals are gone after a kill
    kSkipSync,          ///< a loss of power takes what was synced since the last start, too
    kReuseOffset,       ///< a send is told the offset of the one before
    kForgetRetries,     ///< the retry table forgets a session
    kTrimNeeded,        ///< retention does not wait for consumers
    kSkipMessage,       ///< a poll begins one message late
    kTimestampOff,      ///< a poll by time is exclusive
    kDropStore,         ///< a store of an offset is acknowledged and not carried out
};

struct PlantName {
    Plant plant;
    std::string_view name;
};

inline constexpr std::array<PlantName, 9> kPlants{{
    {Plant::kAcknowledgeEarly, "acknowledge-early"},
    {Plant::kLoseJournal, "lose-journal"},
    {Plant::kSkipSync, "skip-sync"},
    {Plant::kReuseOffset, "reuse-offset"},
    {Plant::kForgetRetries, "forget-retries"},
    {Plant::kTrimNeeded, "trim-needed"},
    {Plant::kSkipMessage, "skip-message"},
    {Plant::kTimestampOff, "timestamp-off"},
    {Plant::kDropStore, "drop-store"},
}};

}  // namespace galgo::log_model
