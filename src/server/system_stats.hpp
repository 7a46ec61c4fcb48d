// The figures of GET_STATS that only the operating system knows. Reads /proc: offload thread only.
#pragma once

#include "shard/services.hpp"

namespace galgo::server {

void read_system_stats(const shard::NodeFacts& node, shard::SystemStats& stats);

}  // namespace galgo::server
