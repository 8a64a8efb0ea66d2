// Finds the loop in a trace that marks no steps (no optimizer in an evaluation, an older PyTorch, marks not recorded): a call stack that
// allocates once in each turn of the outermost loop.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parsers/snapshot/stack_table.hpp"

namespace triage::parsers {

class RepeatFinder {
 public:
  explicit RepeatFinder(std::size_t stacks) : runs_(stacks) {}

  // Events of the trace in order, each counted from 0.
  void alloc(StackId stack, std::size_t event) {
    Run& run = runs_[stack < runs_.size() ? stack : 0];
    if (run.count++ == 0) {
      run.first = event;
      run.frees_before = frees_;
    } else {
      const auto gap = static_cast<double>(event - run.last);
      run.squares += gap * gap;
    }
    run.last = event;
    run.frees = frees_;
  }
  void freed() { ++frees_; }

  struct Anchor {
    StackId stack = 0;
    std::size_t turns = 0;   // allocations by it
  };
  // The stack with the fewest allocations, at least kTurns, that come evenly and reach towards the end of the trace, between which memory is
  // also freed, and whose loop stands outside of any module, constructor, optimizer or backward pass: layers repeat too.
  std::optional<Anchor> anchor(const StackTable& stacks, std::size_t events) const;

  static constexpr std::size_t kTurns = 4;

 private:
  struct Run {
    std::size_t count = 0, first = 0, last = 0, frees_before = 0, frees = 0;
    double squares = 0;      // of the gaps
  };
  bool even(const Run& run, std::size_t events) const;
  bool loop_stands_outside(StackId stack, const StackTable& stacks) const;

  std::vector<Run> runs_;    // of each stack
  std::size_t frees_ = 0;
};

}  // namespace triage::parsers
