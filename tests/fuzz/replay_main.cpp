// Runs a fuzz target over the files of a folder without libFuzzer: each file as it is, each
// truncation of it, and a fixed number of damaged copies. The damage is the same in every run, so a
// failure repeats. Exit codes: 0 fine, 1 usage or no seeds.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kDamagedCopies = 2000;

void run(const std::vector<std::uint8_t>& input) {
    // A copy of exactly this size, so that the sanitizer sees a read past the end.
    const std::vector<std::uint8_t> exact(input.begin(), input.end());
    (void)LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::uint32_t next(std::uint32_t& state) {
    state = state * 1'664'525U + 1'013'904'223U;
    return state >> 8U;
}

void run_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> text((std::istreambuf_iterator<char>(file)),
                                 std::istreambuf_iterator<char>());
    const std::vector<std::uint8_t> seed(text.begin(), text.end());
    run(seed);
    for (std::size_t size = 0; size < seed.size(); ++size) {
        run(std::vector<std::uint8_t>(seed.begin(),
                                      seed.begin() + static_cast<std::ptrdiff_t>(size)));
    }
    std::uint32_t state = 1;
    for (int i = 0; i < kDamagedCopies && !seed.empty(); ++i) {
        std::vector<std::uint8_t> damaged = seed;
        for (std::uint32_t edits = 1 + next(state) % 3; edits > 0; --edits) {
            damaged[next(state) % damaged.size()] = static_cast<std::uint8_t>(next(state));
        }
        run(damaged);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        (void)std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 1;
    }
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
        run_file(entry.path());
        ++files;
    }
    (void)std::printf("%d seeds\n", files);
    return files > 0 ? 0 : 1;
}
