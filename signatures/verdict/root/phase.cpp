#include "signatures/verdict/root/phase.hpp"

#include <algorithm>

#include "signatures/verdict/phase.hpp"

namespace triage::signatures {
namespace {

constexpr std::uint64_t kStackLines = 40;     // lines between an error and a cut stack that tells its phase
constexpr std::uint64_t kNeighbourLines = 6;  // lines after it in which whoever hands the error on says what it was doing

// The finding that shows the root's frames: itself, or another print of the same fault.
const Finding* with_frames(const Case& c) {
  const auto good = [](const Finding& f) { return f.traceback && !f.traceback->frames.empty(); };
  if (good(*c.root.finding)) return c.root.finding;
  for (const Item* other : c.choice.same)
    if (good(*other->finding)) return other->finding;
  return nullptr;
}

// A stack that stands in one line: printed as a list, or as a JSON text.
void phase_of_quoted_stack(const Case& c, Diagnosis& d) {
  const auto look = [&](const Finding& f) {
    auto frames = frames_in_text(f.text);
    if (frames.empty() || d.phase != Phase::unknown) return;
    d.phase = phase_of_frames(frames);
    if (d.root.frames.empty()) d.root.frames = std::move(frames);
  };
  look(*c.root.finding);
  for (const Item* other : c.choice.same) look(*other->finding);
}

// The nearest stack without its last line: of the same process, or of a rank that did the same at that moment.
void phase_of_cut_stack(const Case& c, Diagnosis& d) {
  const std::uint64_t line = c.root.finding->line;
  std::uint64_t least = kStackLines;
  for (const parsers::Traceback& stack : c.sources[c.root.source].unfinished) {
    const std::uint64_t gap = stack.last_line < line ? line - stack.last_line : stack.first_line > line ? stack.first_line - line : 0;
    if (gap > least) continue;
    const Phase phase = phase_of_frames(stack.frames);
    if (phase == Phase::unknown) continue;
    least = gap;
    d.phase = phase;
  }
  if (d.phase != Phase::unknown) d.reasons.push_back("the phase is that of a stack beside it, whose end is cut off");
}

void phase_of_neighbours(const Case& c, Diagnosis& d) {
  for (const Item& item : c.items) {
    const Finding& f = *item.finding;
    if (item.source != c.root.source || f.line < c.root.finding->line || f.line > c.root.finding->line + kNeighbourLines) continue;
    if (d.phase = phase_of_text(f.text); d.phase != Phase::unknown) return;
  }
}

}  // namespace

void find_phase(const Case& c, Diagnosis& d) {
  const Finding& f = *c.root.finding;
  d.phase = phase_of_text(f.text);
  if (const Finding* frames = with_frames(c); frames != nullptr && frames->traceback->language != parsers::Traceback::Language::cpp) {
    if (d.phase == Phase::unknown) d.phase = phase_of_frames(frames->traceback->frames);
    if (d.root.frames.empty()) d.root.frames = frames->traceback->frames;
  }
  if (d.phase == Phase::unknown) phase_of_quoted_stack(c, d);
  if (d.phase == Phase::unknown && d.root.frames.empty()) phase_of_cut_stack(c, d);
  if (d.phase == Phase::unknown) phase_of_neighbours(c, d);
}

}  // namespace triage::signatures
