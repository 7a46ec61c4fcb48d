#include "consensus/frames.hpp"

#include "consensus/durability.hpp"

namespace galgo::consensus {

FrameHeader FrameMaker::header(const DurableView& view) const noexcept {
    return {.cluster = cluster_,
            .group = group_,
            .incarnation = incarnation_,
            .view = view.view(),
            .replica = replica_};
}

OutgoingFrame FrameMaker::make_prepare(const DurableView& view, const Prepare& prepare,
                                       const Head& commit) const noexcept {
    return OutgoingFrame(
        {.header = header(view), .payload = PrepareFrame{.prepare = prepare, .commit = commit}});
}

OutgoingFrame FrameMaker::make_prepare_ok(const DurableView& view, const DurableEntry& entry,
                                          OpNumber received, OpNumber commit,
                                          bool gap) const noexcept {
    return OutgoingFrame(
        {.header = header(view),
         .payload = PrepareOkFrame{
             .durable = entry.head(), .received = received, .commit = commit, .gap = gap}});
}

OutgoingFrame FrameMaker::make_commit(const DurableView& view, const Head& commit,
                                      std::uint64_t counter) const noexcept {
    return OutgoingFrame(
        {.header = header(view), .payload = CommitFrame{.commit = commit, .counter = counter}});
}

}  // namespace galgo::consensus
