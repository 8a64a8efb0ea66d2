#include "parsers/snapshot/snapshot_reader.hpp"

#include <algorithm>
#include <utility>

#include "parsers/base/text.hpp"
#include "parsers/snapshot/pickle_machine.hpp"
#include "parsers/snapshot/pickle_reader.hpp"
#include "parsers/snapshot/snapshot_builder.hpp"

namespace triage::parsers {

namespace {
constexpr std::size_t kJoint = 256;   // bytes: longer than all opcodes but those of texts
constexpr std::size_t kJsonHead = 16 * 1024;   // bytes: a segment of it
}

bool looks_like_snapshot(std::string_view head) {
  if (!looks_like_pickle(head)) return false;
  head = head.substr(0, 512);
  if (contains(head, "device_traces")) return true;
  // The dict begins with its segments, or with the traces; the list form with a segment. An empty run has neither.
  return contains(head, "segments") ? !contains(head, "pg_status") : contains(head, "total_size") && contains(head, "address");
}

bool looks_like_snapshot_json(std::string_view head) {
  head = trim_left(head);
  if (!head.starts_with('{') && !head.starts_with('[')) return false;
  if (contains(head, "\"device_traces\"")) return true;
  return contains(head, "\"total_size\"") && contains(head, head.front() == '{' ? "\"segments\"" : "\"blocks\"");
}

struct SnapshotReader::Machine {
  explicit Machine(std::size_t memory_bytes) : builder(memory_bytes) {}
  SnapshotBuilder builder;
  PickleMachine<SnapshotBuilder> pickle{builder, limits::kPickleStackValues};
  PickleState state = PickleState::more;
};

SnapshotReader::SnapshotReader(std::string file, std::size_t memory_bytes) : file_(std::move(file)), machine_(std::make_unique<Machine>(memory_bytes)) {}
SnapshotReader::~SnapshotReader() = default;

bool SnapshotReader::feed(std::string_view portion) {
  if (machine_->state != PickleState::more) return false;
  if (machine_->pickle.offset() == 0 && rest_.empty() && !portion.empty()) {
    json_ = portion.front() == '{' || portion.front() == '[';
    json_snapshot_ = looks_like_snapshot_json(portion.substr(0, kJsonHead));
  }
  // The opcode that the last portion cut is put together; only as much is copied as it needs, unless it is a long text.
  while (!rest_.empty() && !portion.empty()) {
    const std::size_t before = rest_.size(), taken = before < kJoint ? std::min(kJoint, portion.size()) : portion.size();
    rest_ += portion.substr(0, taken);
    std::size_t used = 0;
    machine_->state = machine_->pickle.run(rest_, used);
    if (machine_->state != PickleState::more) return false;
    portion.remove_prefix(used > before ? used - before : taken);
    if (used > before) rest_.clear();
  }
  if (portion.empty()) return true;
  std::size_t used = 0;
  machine_->state = machine_->pickle.run(portion, used);
  if (machine_->state != PickleState::more) return false;
  rest_.assign(portion.substr(used));
  return true;
}

Result<AllocatorSnapshot> SnapshotReader::finish() {
  PickleMachine<SnapshotBuilder>& pickle = machine_->pickle;
  SnapshotBuilder& builder = machine_->builder;
  const auto at = [&](std::uint64_t offset) {
    Place place;
    place.file = file_;
    place.offset = offset;
    return place;
  };
  std::optional<Error> cut;
  if (json_snapshot_)
    return Error(ErrorCode::unsupported, "this is an allocator snapshot in JSON; only the pickle is read").at(at(0))
        .help("python3 -c 'import json, pickle; pickle.dump(json.load(open(\"snapshot.json\")), open(\"snapshot.pickle\", \"wb\"))' makes a pickle of it");
  if (machine_->state == PickleState::failed) {
    Error error = Error(pickle.fault_code(), "cannot read the snapshot: " + pickle.fault()).at(at(pickle.fault_offset()));
    if (!pickle.started() && json_) return std::move(error).because("the file begins like JSON").help("torch.cuda.memory._dump_snapshot(FILE) writes a pickle; give that");
    if (pickle.fault_code() == ErrorCode::unsupported || !pickle.started()) return error;
    cut = std::move(error);
  } else if (machine_->state == PickleState::more) {
    const std::uint64_t end = pickle.offset() + rest_.size();
    if (end == 0) return Error(ErrorCode::syntax, "an empty file is no snapshot").at(at(0));
    cut = Error(ErrorCode::syntax, "the snapshot ends before its end mark").at(at(end)).because("the file is cut, or was still being written");
  }
  if (cut) {
    builder.failure.clear();
    builder.over_limit = false;
    pickle.close_open();
  }
  if (!builder.found_snapshot()) {
    if (cut) return std::move(*cut);
    return Error(ErrorCode::unsupported, "the pickle holds no allocator snapshot").at(at(0)).help("torch.cuda.memory._dump_snapshot(FILE) writes one");
  }
  AllocatorSnapshot snapshot = builder.take();
  snapshot.bytes = machine_->state == PickleState::failed ? pickle.fault_offset() : pickle.offset();
  snapshot.traces_whole = !cut;
  // Segments come first: where events follow, they are whole.
  snapshot.segments_whole = !cut || !snapshot.traces.empty();
  snapshot.cut = std::move(cut);
  machine_ = std::make_unique<Machine>(limits::kSnapshotBytes);
  return snapshot;
}

Result<AllocatorSnapshot> read_snapshot(std::string_view bytes, const std::string& file) {
  SnapshotReader reader(file);
  reader.feed(bytes);
  return reader.finish();
}

}  // namespace triage::parsers
