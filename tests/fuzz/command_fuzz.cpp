// Fuzzes the bodies of all commands. Byte 0 chooses the row of the command table, so that no header
// has to be right first; the rest is the body. Laws: command_laws.hpp.
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "command_laws.hpp"
#include "fuzz_target.hpp"
#include "wire/command_table.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace galgo;
    if (size == 0) {
        return 0;
    }
    const wire::CommandRow& row = wire::kCommandTable[data[0] % wire::kCommandTable.size()];
    wire::check_command(row.code, std::as_bytes(std::span(data, size)).subspan(1));
    return 0;
}
