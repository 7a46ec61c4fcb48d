// One proposal of a partition on its way: a batch, or a change of a stored offset (end stays 0).
#pragma once

#include "partitions/partition.hpp"

namespace galgo::partitions {

struct Partition::Append : replication::Proposal {
    using Proposal::Proposal;
    Offset end;  ///< behind the batch's last message; 0 for an offset change
};

}  // namespace galgo::partitions
