#include "signatures/verdict/recorder/sends.hpp"

#include <algorithm>

namespace triage::signatures {

using parsers::RecordedOp;

namespace {
constexpr std::size_t kPosted = 16;   // limit: more open sends of one rank are not looked at one by one
}  // namespace

std::vector<const RecordedOp*> posted(const RecordedRank& rank) {
  std::vector<const RecordedOp*> out;
  if (rank.head == nullptr) return out;
  for (const RecordedOp& op : rank.recording->pending) {
    if (op.p2p && out.size() < kPosted) out.push_back(&op);
    if (&op == rank.head) break;
  }
  return out;
}

std::vector<SendPartner> partners(const RecordedRank& rank, const RecordedOp& op) {
  std::vector<SendPartner> out;
  for (const RecordedOp& other : rank.recording->pending) {
    if (!same_region(other, op) || !other.from || !other.to) continue;
    const int peer = other.name == "send" ? *other.to : *other.from;
    if (std::none_of(out.begin(), out.end(), [&](const SendPartner& p) { return p.peer == peer; })) out.push_back({peer, 0});
  }
  return out;
}

std::size_t order_of(const RecordedRank& rank, const RecordedOp& op) {
  std::size_t order = 0;
  for (const RecordedOp& before : rank.recording->pending) {
    if (&before == &op) break;
    if (before.group == op.group && before.name == op.name && before.from == op.from && before.to == op.to) ++order;
  }
  return order;
}

const RecordedOp* counterpart(const RecordedRank& other, const std::string& key, const RecordedOp& op, std::size_t order) {
  const auto found = other.groups.find(key);
  if (found == other.groups.end()) return nullptr;
  const std::string_view wanted = op.name == "send" ? "recv" : "send";
  for (const RecordedOp& candidate : other.recording->pending) {
    if (candidate.group != found->second || candidate.name != wanted || candidate.from != op.from || candidate.to != op.to) continue;
    if (order-- == 0) return &candidate;
  }
  return nullptr;
}

bool same_region(const RecordedOp& a, const RecordedOp& b) { return a.p2p && b.p2p && a.group == b.group && a.p2p_sequence == b.p2p_sequence; }

bool passed(const parsers::Recording& recording, const RecordedOp& op) {
  if (!recording.newest || recording.pending_dropped) return false;
  const auto later = std::count_if(recording.pending.begin(), recording.pending.end(), [&](const RecordedOp& o) { return o.record > op.record; });
  return recording.newest->record - op.record > static_cast<std::int64_t>(later);
}

}  // namespace triage::signatures
