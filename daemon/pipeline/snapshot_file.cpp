#include "daemon/pipeline/snapshot_file.hpp"

#include <utility>

#include "daemon/pipeline/snapshot_compare.hpp"
#include "daemon/pipeline/snapshot_what_if.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "daemon/tail/input.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/snapshot/snapshot_reader.hpp"

namespace triage::daemon {

using parsers::AllocatorSnapshot;
using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kPortion = 1 << 20;

}  // namespace

Result<AllocatorSnapshot> read_snapshot(ByteSource& source, const std::string& name, std::string_view head) {
  parsers::SnapshotReader reader(name);
  if (!head.empty() && !reader.feed(head)) return reader.finish();
  std::vector<char> room(kPortion);
  for (;;) {
    TRIAGE_TRY(const std::size_t count, source.read(room));
    if (count == 0 || !reader.feed({room.data(), count})) break;
  }
  return reader.finish();
}

Result<AllocatorSnapshot> load_snapshot(const std::string& path) {
  TRIAGE_TRY(const bool packed, is_packed(path));
  if (!packed) {
    TRIAGE_TRY(auto source, open_plain(path));
    return read_snapshot(*source, path);
  }
  std::optional<Result<AllocatorSnapshot>> found;
  const parsers::Status walked = for_each_member(path, [&](const std::string& name, ByteSource& member) {
    if (found && found->ok()) return;
    auto read = read_snapshot(member, name);
    if (!found || read.ok()) found = std::move(read);
  });
  if (found) return std::move(*found);
  if (!walked.ok()) return walked.error();
  return Error(ErrorCode::not_found, "the archive holds no snapshot").at(Place{path, {}, {}, {}, {}});
}

SnapshotAnalysis analyze_snapshot(std::string file, AllocatorSnapshot snapshot, const parsers::SummaryOptions& options) {
  SnapshotAnalysis out;
  out.rank = source_info(file).rank;
  out.file = std::move(file);
  out.snapshot = std::move(snapshot);
  signatures::StackJudge judge(out.snapshot.stacks);
  const auto at = [&](const parsers::DeviceSummary& summary, const parsers::MemoryState& state) {
    return compose(state, judge, last_step_before(summary, state));
  };
  for (parsers::DeviceSummary& summary : summarize(out.snapshot, options)) {
    DeviceAnalysis device;
    device.now = at(summary, summary.now);
    if (summary.peak) device.peak = at(summary, *summary.peak);
    if (summary.oom) device.oom = at(summary, summary.oom->state);
    device.summary = std::move(summary);
    out.devices.push_back(std::move(device));
  }
  return out;
}

std::vector<signatures::SnapshotFacts> facts_of(const SnapshotAnalysis& analysis) {
  std::vector<signatures::SnapshotFacts> all;
  const parsers::StackTable& stacks = analysis.snapshot.stacks;
  for (const DeviceAnalysis& device : analysis.devices) {
    const parsers::DeviceSummary& s = device.summary;
    if (!s.oom && s.now.reserved == 0) continue;
    signatures::SnapshotFacts facts;
    facts.source = source_info(analysis.file);
    facts.source.bytes = analysis.snapshot.bytes;
    facts.device = s.device;
    facts.terms = composition_terms(device.composition(), device.state());
    facts.allocated = parsers::Bytes(device.state().allocated);
    facts.reserved = parsers::Bytes(device.state().reserved);
    facts.expandable_segments = analysis.snapshot.settings.expandable_segments;
    if (s.leak)
      facts.growth = "memory grew by " + parsers::bytes_text(parsers::Bytes(s.leak->bytes_per_step)) + " a step over " + std::to_string(s.leak->steps) + " steps, most of it at " +
                     stack_text(stacks, s.leak->stacks.front().stack, 2);
    if (s.oom) {
      signatures::SnapshotFacts::Failure failure;
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
    all.push_back(std::move(facts));
  }
  return all;
}

}  // namespace triage::daemon
