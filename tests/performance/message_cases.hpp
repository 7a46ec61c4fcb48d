// The cases of the message path that are counted, in one place for the test and the cost driver.
#pragma once

#include <string>
#include <vector>

#include "message_world.hpp"

namespace galgo::performance {

/// Every way of sending and polling, on either durability and for either owner.
inline std::vector<Case> allocation_cases() {
    const std::vector<Case> shapes{
        {.name = "send 1 x 256 B", .warm_up = 2200, .measured = 1100},
        {.name = "send 1000 x 1000 B",
         .batch_size = 1000,
         .payload_bytes = 1000,
         .warm_up = 34,
         .measured = 20},
        {.name = "poll 1 x 256 B", .poll = true, .warm_up = 200, .measured = 500},
        {.name = "poll 100 of 1 x 256 B",
         .poll = true,
         .poll_count = 100,
         .warm_up = 80,
         .measured = 100},
        {.name = "poll 100 of 1 x 251 B",  // batches with gaps between them
         .poll = true,
         .payload_bytes = 251,
         .poll_count = 100,
         .warm_up = 80,
         .measured = 100},
        {.name = "poll 1000 x 1000 B",
         .poll = true,
         .batch_size = 1000,
         .payload_bytes = 1000,
         .poll_count = 1000,
         .warm_up = 70,
         .measured = 40},
        {.name = "poll and commit 1 x 256 B",
         .poll = true,
         .auto_commit = true,
         .warm_up = 1000,
         .measured = 500},
    };
    std::vector<Case> cases;
    for (const bool persisted : {false, true}) {
        for (const Owner owner : {Owner::kLocal, Owner::kForeign}) {
            for (Case shape : shapes) {
                shape.persisted = persisted;
                shape.owner = owner;
                shape.name += persisted ? ", persisted" : ", replicated";
                shape.name += owner == Owner::kLocal ? ", local" : ", foreign";
                cases.push_back(shape);
            }
        }
    }
    return cases;
}

/// What tests/performance/instructions.json records.
inline std::vector<Case> instruction_cases() {
    std::vector<Case> cases{
        {.name = "send-single", .warm_up = 200, .measured = 1000},
        {.name = "send-batch",
         .batch_size = 1000,
         .payload_bytes = 1000,
         .warm_up = 5,
         .measured = 20},
        {.name = "poll-single", .poll = true, .warm_up = 200, .measured = 1000},
        {.name = "poll-batch",
         .poll = true,
         .batch_size = 1000,
         .payload_bytes = 1000,
         .poll_count = 1000,
         .warm_up = 5,
         .measured = 20},
        {.name = "poll-many-singles",
         .poll = true,
         .poll_count = 100,
         .warm_up = 5,
         .measured = 50},
        {.name = "poll-commit", .poll = true, .auto_commit = true, .warm_up = 200, .measured = 500},
    };
    const std::size_t local = cases.size();
    for (std::size_t i = 0; i < local; ++i) {
        Case foreign = cases[i];
        foreign.name += "-foreign";
        foreign.owner = Owner::kForeign;
        cases.push_back(foreign);
    }
    return cases;
}

}  // namespace galgo::performance
