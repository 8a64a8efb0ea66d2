#include "daemon/pipeline/snapshot_file.hpp"

#include <utility>

#include "daemon/pipeline/source_name.hpp"
#include "daemon/tail/input.hpp"
#include "parsers/snapshot/snapshot_reader.hpp"

namespace triage::daemon {

using parsers::AllocatorSnapshot;
using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kPortion = 1 << 20;

Result<AllocatorSnapshot> read_source(ByteSource& source, const std::string& name) {
  parsers::SnapshotReader reader(name);
  std::vector<char> room(kPortion);
  for (;;) {
    TRIAGE_TRY(const std::size_t count, source.read(room));
    if (count == 0 || !reader.feed({room.data(), count})) break;
  }
  return reader.finish();
}

}  // namespace

Result<AllocatorSnapshot> load_snapshot(const std::string& path) {
  TRIAGE_TRY(const bool packed, is_packed(path));
  if (!packed) {
    TRIAGE_TRY(auto source, open_plain(path));
    return read_source(*source, path);
  }
  std::optional<Result<AllocatorSnapshot>> found;
  const parsers::Status walked = for_each_member(path, [&](const std::string& name, ByteSource& member) {
    if (found && found->ok()) return;
    auto read = read_source(member, name);
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

}  // namespace triage::daemon
