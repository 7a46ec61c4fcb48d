#include "server/boot_number.hpp"

#include <fstream>
#include <span>
#include <string>

#include "crypto/hash.hpp"

namespace galgo::server {

storage::BootNumber read_boot_number() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id.empty() ? 0 : crypto::xxh3_64(std::as_bytes(std::span(id)));
}

}  // namespace galgo::server
