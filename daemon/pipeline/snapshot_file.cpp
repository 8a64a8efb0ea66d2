#include "daemon/pipeline/snapshot_file.hpp"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

#include "daemon/pipeline/snapshot_compare.hpp"
#include "daemon/pipeline/snapshot_what_if.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "daemon/tail/input.hpp"
#include "daemon/tail/unpack.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/snapshot/snapshot_reader.hpp"

namespace triage::daemon {

using parsers::AllocatorSnapshot;
using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kPortion = 1 << 18;   // stays in the cache of a core between the copy and the reading
constexpr std::int64_t kGradientBytes = 4096;   // smaller blocks are of equal size by chance

// The category of a block at any time of the trace, by what `compose` says at one: what the autograd thread makes is a gradient where it is as
// large as a weight.
std::function<std::uint8_t(parsers::StackId, std::int64_t)> category_of_blocks(const AllocatorSnapshot& snapshot, signatures::StackJudge& judge) {
  using signatures::MemoryCategory;
  std::unordered_set<std::int64_t> weights;
  for (const parsers::SnapshotBlock& block : snapshot.blocks)
    if (block.state == parsers::BlockState::allocated && judge.judge(block.stack).category == MemoryCategory::weights) weights.insert(block.size);
  parsers::TraceEvent event;   // and those that are gone at the dump
  for (const parsers::DeviceTrace& trace : snapshot.traces)
    for (auto cursor = trace.events.events(); cursor.next(event);)
      if (event.action == parsers::TraceAction::alloc && judge.judge(event.stack).category == MemoryCategory::weights) weights.insert(parsers::rounded_size(event.size));
  return [&judge, weights = std::move(weights)](parsers::StackId stack, std::int64_t size) {
    const signatures::StackJudgement judged = judge.judge(stack);
    const bool of_engine = stack == 0 || (judged.category == MemoryCategory::temporary && !judged.sure);
    MemoryCategory category = judged.category;
    if (of_engine && size >= kGradientBytes && weights.contains(size)) category = MemoryCategory::gradients;
    else if (stack == 0) category = MemoryCategory::temporary;
    return static_cast<std::uint8_t>(category);
  };
}

}  // namespace

Result<AllocatorSnapshot> read_snapshot(ByteSource& source, const std::string& name, std::string_view head) {
  parsers::SnapshotReader reader(name);
  if (!head.empty() && !reader.feed(head)) return reader.finish();
  std::vector<char> room(kPortion);
  for (;;) {
    const auto count = source.read(room);
    if (!count.ok()) {   // what was read stands
      auto read = reader.finish();
      if (!read.ok()) return count.error();
      read->cut = count.error();
      return read;
    }
    if (*count == 0 || !reader.feed({room.data(), *count})) break;
  }
  return reader.finish();
}

namespace {

// The fault that was told first and means that bytes are missing.
struct FirstLoss {
  std::optional<Error> fault;
  Tell tell() {
    return [this](Error error, Weight weight) {
      if (weight == Weight::loss && !fault) fault = std::move(error);
    };
  }
};

Result<AllocatorSnapshot> load_first(std::unique_ptr<ByteSource> input, const std::string& path, FirstLoss& told) {
  std::optional<Error>& fault = told.fault;
  std::optional<Result<AllocatorSnapshot>> found;
  for_each_stream(std::move(input), path, told.tell(), [&](const std::string& name, PeekedSource& stream) {
    if (found && found->ok()) return;
    auto read = read_snapshot(stream, name);
    if (!found || read.ok()) found = std::move(read);
  });
  if (found && found->ok() && fault) (*found)->cut = std::move(fault);   // says more than that the pickle has no end
  if (found) return std::move(*found);
  if (fault) return std::move(*fault);
  return Error(ErrorCode::not_found, "the archive holds no snapshot").at(Place{path, {}, {}, {}, {}});
}

}  // namespace

Result<AllocatorSnapshot> load_snapshot(std::unique_ptr<ByteSource> input, const std::string& name) {
  FirstLoss told;
  return load_first(std::move(input), name, told);
}

Result<AllocatorSnapshot> load_snapshot(const std::string& path) {
  FirstLoss told;
  TRIAGE_TRY(auto input, open_input(path, {told.tell(), {}, {}}));
  return load_first(std::move(input), path, told);
}

SnapshotAnalysis analyze_snapshot(std::string file, AllocatorSnapshot snapshot, const parsers::SummaryOptions& options) {
  SnapshotAnalysis out;
  out.rank = source_info(file).rank;
  out.file = std::move(file);
  out.device_bytes = options.device_bytes;
  out.snapshot = std::move(snapshot);
  signatures::StackJudge judge(out.snapshot.stacks);
  const auto at = [&](const parsers::DeviceSummary& summary, const parsers::MemoryState& state) {
    return compose(state, judge, last_step_before(summary, state));
  };
  parsers::SummaryOptions drawn = options;
  if (options.timeline_points > 0 && !options.group_of) drawn.group_of = category_of_blocks(out.snapshot, judge);
  for (parsers::DeviceSummary& summary : summarize(out.snapshot, drawn)) {
    DeviceAnalysis device;
    device.now = at(summary, summary.now);
    if (summary.peak) device.peak = at(summary, *summary.peak);
    if (summary.oom) device.oom = at(summary, summary.oom->state);
    device.summary = std::move(summary);
    out.devices.push_back(std::move(device));
  }
  return out;
}

namespace {

std::string first_fault(const std::vector<std::string>& faults) { return faults.front() + (faults.size() > 1 ? ", and more of the kind" : ""); }

}  // namespace

signatures::SourceFindings snapshot_findings(const SnapshotAnalysis& analysis) {
  using signatures::SnapshotFacts;
  signatures::SourceFindings out;
  out.source = source_info(analysis.file);
  out.source.bytes = analysis.snapshot.bytes;
  out.source.dump = true;
  if (out.source.rank) out.processes.push_back(*out.source.rank);
  if (analysis.snapshot.cut) {
    const auto& place = analysis.snapshot.cut->place();
    out.lost.push_back({analysis.file, "the allocator snapshot is cut: " + analysis.snapshot.cut->message(), 0, place && place->offset ? *place->offset : 0, 0, 1});
  }
  const auto faulty = std::ranges::find_if(analysis.devices, [](const DeviceAnalysis& device) { return !device.summary.faults.empty(); });
  if (faulty != analysis.devices.end())   // one of many stands for all
    out.lost.push_back({analysis.file, "the allocator snapshot has sums that cannot be, its figures are in doubt: " + first_fault(faulty->summary.faults), 0, 0, 0, 1});
  const parsers::StackTable& stacks = analysis.snapshot.stacks;
  const auto moment = [](const char* when, const parsers::MemoryState& state, const signatures::MemoryComposition& composition) {
    return SnapshotFacts::Moment{when, parsers::Bytes(state.allocated), parsers::Bytes(state.reserved), composition_terms(composition, state)};
  };
  for (const DeviceAnalysis& device : analysis.devices) {
    const parsers::DeviceSummary& s = device.summary;
    if (!s.oom && s.now.reserved == 0) continue;
    SnapshotFacts facts;
    facts.source = out.source;
    facts.device = s.device;
    facts.events = s.events;
    if (s.last_us > 0) facts.time = parsers::TimePoint(std::chrono::microseconds(s.last_us));
    if (s.oom) {
      facts.moments.push_back(moment("at the failure", s.oom->state, *device.oom));
    } else {
      if (s.peak) facts.moments.push_back(moment("at the peak of its trace", *s.peak, *device.peak));
      facts.moments.push_back(moment("when it was written", s.now, device.now));
    }
    if (analysis.snapshot.cut) facts.doubts.push_back("it is cut: " + analysis.snapshot.cut->message());
    if (!s.faults.empty()) facts.doubts.push_back("it has sums that cannot be: " + first_fault(s.faults));
    facts.expandable_segments = analysis.snapshot.settings.expandable_segments;
    if (s.leak) {
      SnapshotFacts::Growth growth;
      growth.per_step = parsers::Bytes(s.leak->bytes_per_step);
      growth.steps = s.leak->steps;
      for (const parsers::GrowingStack& stack : s.leak->stacks) growth.total += parsers::Bytes(stack.bytes);
      growth.where = stack_text(stacks, s.leak->stacks.front().stack, 2);
      facts.growth = std::move(growth);
    }
    if (s.oom) {
      SnapshotFacts::Failure failure;
      failure.requested = parsers::Bytes(s.oom->requested);
      failure.free = parsers::Bytes(s.oom->device_free);
      if (s.oom->state.time_us > 0) failure.time = parsers::TimePoint(std::chrono::microseconds(s.oom->state.time_us));
      const auto frames = stacks.frames_of(s.oom->stack);
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
        failure.frames.push_back({std::string(stacks.file_of(*frame)), stacks.frame_of(*frame).line, std::string(stacks.function_of(*frame)), {}});
      failure.blocked = s.fragmentation.blocked_request;
      facts.failure = std::move(failure);
      facts.what_if = what_ifs_for_plan(analysis.snapshot, s.device);
    }
    out.snapshots.push_back(std::make_shared<const SnapshotFacts>(std::move(facts)));
  }
  return out;
}

}  // namespace triage::daemon
