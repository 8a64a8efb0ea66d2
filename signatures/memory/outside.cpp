#include <algorithm>

#include "signatures/memory/frameworks.hpp"

namespace triage::signatures::memory {

// Context: 0.51 GiB before any kernel, 0.66 to 0.80 GiB in single-process training, measured on H200 in 24 out-of-memory ledgers.
// NCCL: about 1 to 2 GiB from the first communicators on (NVIDIA/nccl issues 864, 986), more with more of them.
// Allocator: reserved over allocated at the peak of 20 Megatron rows 2 to 21 %, median 12 %; under expandable segments little.
std::vector<Term> outside_terms(const parsers::RunConfig& config, Count world, Range peak) {
  std::vector<Term> terms;
  constexpr double kGib = 1073741824.0;
  terms.push_back(make_term(term::kContext, Range::of(0.5 * kGib, 0.7 * kGib, 0.9 * kGib),
                            "CUDA context and kernels; measured on H200", true));
  if (world > 1)
    terms.push_back(make_term(term::kNccl, Range::of(0.5 * kGib, 1.5 * kGib, 4 * kGib),
                              "communicators; grows with their number and channels", true));
  const bool expandable = config.boolean(parsers::Key::expandable_segments).value_or(false);
  const double mid = static_cast<double>(peak.mid.count());
  terms.push_back(make_term(term::kAllocator,
                            expandable ? Range::of(0.005 * mid, 0.02 * mid, 0.05 * mid)
                                       : Range::of(0.02 * mid, 0.10 * mid, 0.21 * mid),
                            expandable ? "reserved but unallocated, expandable segments"
                                       : "reserved but unallocated", true));
  return terms;
}

}  // namespace triage::signatures::memory
