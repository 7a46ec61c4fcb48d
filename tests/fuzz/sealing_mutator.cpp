// The mutation of sealed formats: libFuzzer's own, then the checksums. One in four stays unsealed,
// one in two has its structure put in order as well.
#include "fuzz_target.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned int seed);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned int seed) {
    const std::size_t mutated = LLVMFuzzerMutate(data, size, size_max);
    if (seed % 4 != 0) {
        seal_fuzz_input(data, mutated, seed % 4 != 1);
    }
    return mutated;
}
