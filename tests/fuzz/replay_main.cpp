// Runs a fuzz target over the files of a folder without libFuzzer: each file as it is, each
// truncation of it, and a fixed number of damaged copies; of sealed formats half of these with
// their checksums made right again. With a second argument n one truncation in n, and as much fewer
// copies, for targets whose inputs take long. The damage is the same in every run, so a failure
// repeats. Exit codes: 0 fine, 1 usage or no seeds.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz_target.hpp"

/// Absent in targets that are not SEALED.
extern "C" [[gnu::weak]] void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure);

namespace {

constexpr std::size_t kDamagedCopies = 2000;

void run(const std::vector<std::uint8_t>& input) {
    // A copy of exactly this size, so that the sanitizer sees a read past the end.
    const std::vector<std::uint8_t> exact(input.begin(), input.end());
    (void)LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::uint32_t next(std::uint32_t& state) {
    state = state * 1'664'525U + 1'013'904'223U;
    return state >> 8U;
}

void run_file(const std::filesystem::path& path, std::size_t stride) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> text((std::istreambuf_iterator<char>(file)),
                                 std::istreambuf_iterator<char>());
    const std::vector<std::uint8_t> seed(text.begin(), text.end());
    run(seed);
    for (std::size_t size = 0; size < seed.size(); size += stride) {
        run(std::vector<std::uint8_t>(seed.begin(),
                                      seed.begin() + static_cast<std::ptrdiff_t>(size)));
    }
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < kDamagedCopies / stride && !seed.empty(); ++i) {
        std::vector<std::uint8_t> damaged = seed;
        for (std::uint32_t edits = 1 + next(state) % 3; edits > 0; --edits) {
            damaged[next(state) % damaged.size()] = static_cast<std::uint8_t>(next(state));
        }
        if (seal_fuzz_input != nullptr && i % 2 != 0) {
            seal_fuzz_input(damaged.data(), damaged.size(), i % 4 != 1);
        }
        run(damaged);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::size_t stride = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 1;
    if (argc < 2 || argc > 3 || stride == 0) {
        (void)std::fprintf(stderr, "usage: %s CORPUS_FOLDER [n]\n", argv[0]);
        return 1;
    }
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
        run_file(entry.path(), stride);
        ++files;
    }
    (void)std::printf("%d seeds\n", files);
    return files > 0 ? 0 : 1;
}
