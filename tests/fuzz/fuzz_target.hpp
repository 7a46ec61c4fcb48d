// What a fuzz target defines. libFuzzer and replay_main.cpp call it.
//
// Most formats are sealed by checksums, which random changes never match. A target of such a format
// is SEALED in CMakeLists.txt and defines seal_fuzz_input: after a change it makes the checksums
// right again, most of the time, so that what lies behind them is explored too. Inputs stay the
// bytes of the format: a finding is a file as a disk or a peer would give it.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// Makes checksums right, in place. `structure`: lengths, counts and order too.
extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure);
