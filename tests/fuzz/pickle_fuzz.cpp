// Pickles from outside bytes: the tree reader, and the reader of allocator snapshots in two ways of cutting, with the whole analysis behind it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "parsers/snapshot/pickle_reader.hpp"
#include "parsers/snapshot/snapshot_reader.hpp"
#include "parsers/snapshot/summary.hpp"
#include "signatures/verdict/memory_composition.hpp"

namespace {

// Walks a tree without recursion, at most so many values: shared parts may stand in it very often.
void walk(const triage::parsers::PickleValue& root) {
  std::vector<triage::parsers::PickleValue> open{root};
  for (int budget = 5000; !open.empty() && budget > 0; --budget) {
    const triage::parsers::PickleValue value = open.back();
    open.pop_back();
    for (std::size_t i = 0; i < value.size() && i < 64; ++i) {
      open.push_back(value[i]);
      open.push_back(value.key(i));
    }
    (void)value.find("segments");
    (void)value.text();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  parsers::PickleLimits limits;
  limits.memory_bytes = 16 << 20;
  if (const auto tree = parsers::read_pickle_part(bytes, "fuzz", limits); tree.ok()) walk(tree->value);

  const auto whole = parsers::read_snapshot(bytes, "fuzz");
  parsers::SnapshotReader reader("fuzz");
  for (std::size_t at = 0; at < size; at += 333)
    if (!reader.feed(bytes.substr(at, 333))) break;
  const auto portions = reader.finish();
  // Any cut into portions gives the same answer.
  if (whole.ok() != portions.ok()) std::abort();
  if (!whole.ok()) return 0;
  if (whole->segments.size() != portions->segments.size() || whole->blocks.size() != portions->blocks.size() || whole->bytes != portions->bytes) std::abort();
  parsers::SummaryOptions options;
  options.timeline_points = 50;
  signatures::StackJudge judge(whole->stacks);
  for (const parsers::DeviceSummary& summary : parsers::summarize(*whole, options)) {
    (void)signatures::compose(summary.now, judge);
    if (summary.peak) (void)signatures::compose(*summary.peak, judge);
  }
  return 0;
}
