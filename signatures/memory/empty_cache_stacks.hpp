// Stacks on which torch.cuda.empty_cache() stands. Asked for each segment that goes; stacks are few, so answers are kept.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "parsers/snapshot/stack_table.hpp"

namespace triage::signatures {

class EmptyCacheStacks {
 public:
  explicit EmptyCacheStacks(const parsers::StackTable& stacks) : stacks_(&stacks) {}   // which must outlive this

  bool operator()(std::uint32_t stack) const {
    const auto [entry, added] = known_.try_emplace(stack, false);
    if (added)
      for (const parsers::FrameId frame : stacks_->frames_of(stack))
        if (stacks_->function_of(frame) == "empty_cache") entry->second = true;
    return entry->second;
  }

 private:
  const parsers::StackTable* stacks_;
  mutable std::unordered_map<std::uint32_t, bool> known_;
};

}  // namespace triage::signatures
