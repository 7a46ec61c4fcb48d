// What holds for the body of every command: it decodes or is refused with kInvalidCommand; what
// decodes encodes to bytes that decode again to the same bytes; what is admitted to the metadata
// log enters it as it came. Every command of the table has its decoder here.
#pragma once

#include "base/bytes.hpp"
#include "wire/codes.hpp"

namespace galgo::wire {

void check_command(CommandCode code, ConstBytes body);

}  // namespace galgo::wire
