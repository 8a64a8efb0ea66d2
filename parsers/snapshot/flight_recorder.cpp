#include "parsers/snapshot/flight_recorder.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/snapshot/pickle_reader.hpp"
#include "parsers/snapshot/recorder_json.hpp"

namespace triage::parsers {
namespace {

using State = RecordedOp::State;
constexpr std::size_t kFrames = 32, kNameBytes = 512, kSizeParts = 16;

Error broken(const std::string& file, std::string what) { return Error(ErrorCode::syntax, std::move(what)).at(Place{file, {}, {}, 0, {}}); }

// Node: a value of a tree, PickleValue or JsonNode; both give empty values for what is missing or of another type.
template <class Node>
std::string text_of(const Node& node) {
  const auto text = node.text();
  return text ? repair_utf8(text->substr(0, kNameBytes)) : std::string();
}

void each_entry(const JsonNode& node, const std::function<void(std::string_view, const JsonNode&)>& visit) {
  node.each([&](std::string_view key, JsonNode value) { visit(key, value); });
}
void each_entry(const PickleValue& node, const std::function<void(std::string_view, const PickleValue&)>& visit) {
  if (node.kind() != PickleValue::Kind::dict) return;
  for (std::size_t i = 0; i < node.size(); ++i) {
    const PickleValue key = node.key(i);
    if (const auto text = key.text())
      visit(*text, node[i]);
    else if (const auto number = key.integer())
      visit(std::to_string(*number), node[i]);
  }
}

// JSON dumps hold the numbers of pg_status as text.
template <class Node>
std::optional<std::int64_t> number_of(const Node& node) {
  if (const auto whole = node.integer()) return whole;
  if (const auto text = node.text()) return read_integer(*text);
  return std::nullopt;
}

// "[0, 1, 5]" or a list of numbers.
template <class Node>
std::vector<int> ranks_of(const Node& node) {
  std::vector<int> out;
  const auto add = [&](std::optional<std::int64_t> rank) {
    if (rank && *rank >= 0 && *rank < limits::kRanks && out.size() < static_cast<std::size_t>(limits::kRanks)) out.push_back(static_cast<int>(*rank));
  };
  if (const auto text = node.text()) {
    std::string_view rest = *text;
    while (!rest.empty()) {
      if (is_digit(rest.front())) {
        const auto rank = take_integer(rest);
        if (!rank) return {};
        add(rank);
      } else {
        rest.remove_prefix(1);
      }
    }
    return out;
  }
  for (std::size_t i = 0; i < node.size(); ++i) add(node[i].integer());
  return out;
}

// "BFloat16[4096,1,5120] Float[3]", and the number of elements of all.
template <class Node>
std::string sizes_of(const Node& sizes, const Node& types, std::optional<std::int64_t>& elements) {
  std::string out;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Node dims = sizes[i];
    std::int64_t product = 1;
    bool good = true;
    std::string part = i < types.size() ? text_of(types[i]) : std::string();
    part += '[';
    for (std::size_t k = 0; k < dims.size() && k < kSizeParts; ++k) {
      const auto dim = dims[k].integer();
      good = good && dim && !__builtin_mul_overflow(product, *dim, &product);
      part += (k > 0 ? "," : "") + std::to_string(dim.value_or(-1));
    }
    part += ']';
    std::int64_t sum = elements.value_or(0);
    if (good && !__builtin_add_overflow(sum, product, &sum)) elements = sum;
    if (i < kSizeParts) out += (i > 0 ? " " : "") + part;
    if (i == kSizeParts) out += " ...";
  }
  return out;
}

template <class Node>
class RecorderReader {
 public:
  Result<Recording> run(const Node& root, const std::string& file) {
    out_.version = text_of(root.find("version"));
    if (out_.version.empty() && !root.contains("entries")) return broken(file, "the file is no flight recorder dump: it has neither a version nor entries");
    if (out_.version.starts_with("1."))
      return Error(ErrorCode::unsupported, "a flight recorder dump of version " + out_.version + " is not read").at(Place{file, {}, {}, 0, {}}).help("PyTorch from 2.4 on writes version 2");
    out_.library = text_of(root.find("nccl_version"));
    if (out_.library.empty()) out_.library = text_of(root.find("comm_lib_version"));
    groups(root.find("pg_config"));
    entries(root.find("entries"));
    close_coalesced();
    statuses(root.find("pg_status"));
    digest();
    own_rank();
    return std::move(out_);
  }

 private:
  void groups(const Node& config) {
    each_entry(config, [&](std::string_view key, const Node& entry) {
      if (out_.groups.size() >= limits::kProcessGroups) return;
      std::string name = text_of(entry.find("name"));
      if (name.empty()) name = repair_utf8(key.substr(0, kNameBytes));
      RecordedGroup& group = out_.groups[group_of(name, text_of(entry.find("desc")))];
      group.ranks = ranks_of(entry.find("ranks"));
    });
  }

  std::size_t group_of(const std::string& name, std::string description) {
    const auto [entry, fresh] = by_name_.emplace(name, out_.groups.size());
    if (fresh) {
      out_.groups.emplace_back();
      out_.groups.back().name = name;
    }
    RecordedGroup& group = out_.groups[entry->second];
    if (group.description.empty() || group.description == "undefined") group.description = std::move(description);
    return entry->second;
  }

  void entries(const Node& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (ops_.size() >= limits::kRecorderEntries) {
        out_.cut = true;
        return;
      }
      entry(list[i]);
    }
  }

  void entry(const Node& node) {
    RecordedOp op;
    const Node process_group = node.find("process_group");
    std::string group = process_group.size() > 0 ? text_of(process_group[0]) : text_of(process_group);
    if (group.empty() && !node.find("pg_id").integer()) return;   // no entry at all
    if (group.empty()) group = std::to_string(*node.find("pg_id").integer());
    if (by_name_.size() >= limits::kProcessGroups && by_name_.find(group) == by_name_.end()) return;
    op.group = group_of(group, process_group.size() > 1 ? text_of(process_group[1]) : std::string());
    if (const auto id = number_of(node.find("pg_id"))) group_by_id_[*id] = op.group;
    op.record = number_of(node.find("record_id")).value_or(static_cast<std::int64_t>(ops_.size()));
    // Version 2.0 had one "seq_id" for both.
    op.sequence = number_of(node.find("collective_seq_id")).value_or(number_of(node.find("seq_id")).value_or(0));
    op.p2p_sequence = number_of(node.find("p2p_seq_id")).value_or(0);
    op.name = text_of(node.find("profiling_name"));
    if (const auto colon = op.name.find(':'); colon != std::string::npos && colon < 8) op.name.erase(0, colon + 1);
    take_peers(op);
    op.p2p = node.find("is_p2p").boolean().value_or(op.from.has_value());
    const std::string state = text_of(node.find("state"));
    op.created_ns = number_of(node.find("time_created_ns"));
    op.started_ns = time_of(node.find("time_discovered_started_ns"));
    op.completed_ns = time_of(node.find("time_discovered_completed_ns"));
    op.state = state == "completed" || op.completed_ns ? State::completed : state == "started" || op.started_ns ? State::started : State::scheduled;
    op.retired = node.find("retired").boolean().value_or(false);
    op.timeout_ms = number_of(node.find("timeout_ms"));
    op.inputs = sizes_of(node.find("input_sizes"), node.find("input_dtypes"), op.elements_in);
    op.outputs = sizes_of(node.find("output_sizes"), node.find("output_dtypes"), op.elements_out);
    op.thread = text_of(node.find("thread_name"));
    frames_.push_back(node.find("frames"));
    ops_.push_back(std::move(op));
  }

  // JSON dumps write 0 for "not yet".
  static std::optional<std::int64_t> time_of(const Node& node) {
    const auto time = number_of(node);
    return time && *time > 0 ? time : std::nullopt;
  }

  // "send 0->3", "recv 0<-3": ranks in the group, the caller first.
  static void take_peers(RecordedOp& op) {
    const auto blank = op.name.find(' ');
    if (blank == std::string::npos) return;
    std::string_view rest = std::string_view(op.name).substr(blank + 1);
    const auto self = take_integer(rest);
    const bool send = consume(rest, "->"), receive = !send && consume(rest, "<-");
    const auto peer = take_integer(rest);
    if (self && peer && *self < limits::kRanks && *peer < limits::kRanks && (send || receive)) {
      op.from = static_cast<int>(send ? *self : *peer);
      op.to = static_cast<int>(send ? *peer : *self);
      op.name.resize(blank);
    }
  }

  static bool ends_coalesced(const RecordedOp& op) {
    return op.name.ends_with("coalesced") && op.inputs.empty() && op.outputs.empty();
  }

  // Calls between start and end of a coalescing region are recorded without events: their state is that of the region's own entry, which
  // follows them ("coalesced", without sizes) and shares their sequence number. When that one is complete, dumps of active calls alone
  // leave it out: then calls that share a number, and are not the last of the dump, are complete too.
  void close_coalesced() {
    std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::size_t>> collectives, sends;   // (group, number) -> open calls
    std::vector<std::size_t> newest(out_.groups.size(), 0);
    for (std::size_t i = 0; i < ops_.size(); ++i) newest[ops_[i].group] = i;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      RecordedOp& op = ops_[i];
      const bool end = !op.p2p && ends_coalesced(op);
      if (!end) {
        if (op.state == State::scheduled && !op.retired)
          (op.p2p ? sends : collectives)[{op.group, op.p2p ? op.p2p_sequence : op.sequence}].push_back(i);
        continue;
      }
      auto region = collectives.find({op.group, op.sequence});
      const auto p2p_region = sends.find({op.group, op.p2p_sequence});
      const auto last = [](const auto& r) { return r->second.back(); };
      // The entry of a region of sends says is_p2p = false all the same: what directly precedes it tells.
      const bool of_sends = p2p_region != sends.end() && (region == collectives.end() || last(p2p_region) > last(region));
      if (of_sends) region = p2p_region;
      if (!of_sends && region == collectives.end()) continue;
      op.p2p = of_sends;
      for (const std::size_t member : region->second) {
        ops_[member].state = op.state;
        ops_[member].retired = op.retired;
        ops_[member].started_ns = op.started_ns;
        ops_[member].completed_ns = op.completed_ns;
      }
      (of_sends ? sends : collectives).erase(region);
    }
    for (auto* open : {&collectives, &sends})
      for (const auto& [key, members] : *open)
        if (members.size() > 1 && members.back() != newest[key.first])
          for (const std::size_t member : members) ops_[member].state = State::completed;
  }

  // pg_status is keyed by the group's number in the process, pg_config by its name; both count up in the order of creation. Entries tell
  // the pairs; the rest follows when both have the same number of groups and the pairs that are known agree.
  void statuses(const Node& status) {
    out_.has_status = status.size() > 0;
    std::map<std::int64_t, Node> by_id;
    each_entry(status, [&](std::string_view key, const Node& entry) {
      const auto id = read_integer(key);
      if (id && by_id.size() < limits::kProcessGroups) by_id.emplace(*id, entry);
    });
    std::map<std::int64_t, std::size_t> names;
    bool numeric = true;
    for (std::size_t g = 0; g < out_.groups.size(); ++g) {
      const auto number = read_integer(out_.groups[g].name);
      numeric = numeric && number && names.emplace(*number, g).second;
    }
    std::map<std::int64_t, std::size_t> pairs = group_by_id_;
    if (numeric && names.size() == by_id.size()) {
      std::map<std::int64_t, std::size_t> guess;
      auto name = names.begin();
      for (const auto& [id, unused] : by_id) guess.emplace(id, (name++)->second);
      const bool agrees = std::all_of(group_by_id_.begin(), group_by_id_.end(), [&](const auto& pair) {
        const auto found = guess.find(pair.first);
        return found == guess.end() || found->second == pair.second;
      });
      if (agrees) pairs.insert(guess.begin(), guess.end());
    }
    for (const auto& [id, group] : pairs) {
      const auto found = by_id.find(id);
      if (found == by_id.end()) continue;
      out_.groups[group].status_enqueued = number_of(found->second.find("last_enqueued_collective"));
      out_.groups[group].status_completed = number_of(found->second.find("last_completed_collective"));
    }
  }

  void take_frames(RecordedOp& op, std::size_t index) {
    const Node& frames = frames_[index];
    for (std::size_t i = 0; i < frames.size() && i < kFrames; ++i) {
      const Node frame = frames[i];
      op.frames.push_back({text_of(frame.find("filename")), text_of(frame.find("name")), number_of(frame.find("line")).value_or(0)});
    }
  }

  void digest() {
    out_.entries = ops_.size();
    std::vector<std::size_t> newest(out_.groups.size(), ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      RecordedOp& op = ops_[i];
      RecordedGroup& group = out_.groups[op.group];
      group.has_p2p = group.has_p2p || op.p2p;
      if (!group.last_enqueued || op.sequence > *group.last_enqueued) group.last_enqueued = op.sequence;
      newest[op.group] = i;
      if (op.created_ns && (!out_.newest_ns || *op.created_ns > *out_.newest_ns)) out_.newest_ns = op.created_ns;
      if (op.state == State::completed) {
        ++out_.completed;
        continue;
      }
      if (out_.pending.size() >= limits::kRecorderPending) {
        out_.pending_dropped = true;
        continue;
      }
      out_.pending.push_back(op);
      take_frames(out_.pending.back(), i);
    }
    std::stable_sort(out_.pending.begin(), out_.pending.end(), [](const RecordedOp& a, const RecordedOp& b) { return a.record < b.record; });
    for (std::size_t g = 0; g < out_.groups.size(); ++g) {
      RecordedGroup& group = out_.groups[g];
      if (newest[g] < ops_.size()) {
        group.last = ops_[newest[g]];
        take_frames(*group.last, newest[g]);
      }
      if (!group.last_enqueued && group.status_enqueued) {
        group.last_enqueued = std::max<std::int64_t>(*group.status_enqueued, 0);
        group.enqueued_by_status = true;
      }
    }
    if (!ops_.empty()) {
      out_.newest = ops_.back();
      take_frames(*out_.newest, ops_.size() - 1);
    }
  }

  // The only rank that is in all groups; sends and receives name their caller.
  void own_rank() {
    for (const RecordedOp& op : ops_) {
      const auto self = op.name == "send" ? op.from : op.name == "recv" ? op.to : std::nullopt;
      const auto& ranks = out_.groups[op.group].ranks;
      if (self && static_cast<std::size_t>(*self) < ranks.size()) {
        out_.rank = ranks[static_cast<std::size_t>(*self)];
        return;
      }
    }
    std::set<int> common;
    bool first = true;
    for (const RecordedGroup& group : out_.groups) {
      if (group.ranks.empty()) continue;
      std::set<int> both;
      for (const int rank : group.ranks)
        if (first || common.count(rank) > 0) both.insert(rank);
      common = std::move(both);
      first = false;
    }
    if (common.size() == 1) out_.rank = *common.begin();
  }

  Recording out_;
  std::vector<RecordedOp> ops_;
  std::vector<Node> frames_;                          // of each call
  std::map<std::string, std::size_t> by_name_;
  std::map<std::int64_t, std::size_t> group_by_id_;   // pg_id -> group
};

}  // namespace

Result<Recording> read_flight_recorder(std::string_view bytes, const std::string& file) {
  if (bytes.size() > limits::kRecorderBytes)
    return Error(ErrorCode::limit, "the flight recorder dump is larger than " + std::to_string(limits::kRecorderBytes) + " bytes").at(Place{file, {}, {}, 0, {}});
  if (bytes.empty()) return broken(file, "the flight recorder dump is empty").help("the process died before it could write it; look at its log");
  if (looks_like_pickle(bytes)) {
    TRIAGE_TRY(const PickleRead read, read_pickle_part(bytes, file));
    auto recording = RecorderReader<PickleValue>().run(read.value, file);
    if (recording.ok() && read.cut) recording->cut = true;
    return recording;
  }
  TRIAGE_TRY(const JsonTree tree, parse_json_tree(bytes, file));
  return RecorderReader<JsonNode>().run(tree.root(), file);
}

bool looks_like_recorder_json(std::string_view head) {
  if (!trim_left(head).starts_with('{')) return false;
  int keys = 0;
  for (const std::string_view key : {"\"pg_config\"", "\"collective_seq_id\"", "\"pg_status\"", "\"nccl_version\"", "\"comm_lib_version\"", "\"p2p_seq_id\"", "\"entries\""})
    keys += contains(head, key) ? 1 : 0;
  return keys >= 2;
}

bool looks_like_recorder_pickle(std::string_view head) {
  return head.size() > 2 && head[0] == '\x80' && (contains(head, "pg_config") || contains(head, "nccl_version") || contains(head, "comm_lib_version"));
}

}  // namespace triage::parsers
