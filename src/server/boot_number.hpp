// Which boot of the machine this is.
#pragma once

#include "storage/journal_list.hpp"

namespace galgo::server {

/// The same for all starts until the machine starts again; 0 when it cannot be told.
[[nodiscard]] storage::BootNumber read_boot_number();

}  // namespace galgo::server
