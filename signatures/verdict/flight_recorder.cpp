#include "signatures/verdict/flight_recorder.hpp"

#include <algorithm>

#include "signatures/verdict/recorder/culprits.hpp"
#include "signatures/verdict/recorder/difference.hpp"
#include "signatures/verdict/recorder/job.hpp"
#include "signatures/verdict/recorder/stalled.hpp"
#include "signatures/verdict/recorder/waits.hpp"
#include "signatures/verdict/recorder/words.hpp"

namespace triage::signatures {
namespace {

using parsers::RecordedOp;

void append(std::vector<std::string>& to, std::vector<std::string> what) { to.insert(to.end(), std::make_move_iterator(what.begin()), std::make_move_iterator(what.end())); }

// The earliest call that somebody waits in for a culprit directly; else a culprit's own. Its op may be null.
OpenCall call_waited_in(const RecordedJob& job, const StalledRanks& stalled, const RankWaits& waits, const std::set<std::size_t>& culprits) {
  OpenCall out;
  const auto better = [&](const RecordedOp* op) { return out.op == nullptr || op->created_ns.value_or(INT64_MAX) < out.op->created_ns.value_or(INT64_MAX); };
  std::vector<std::vector<std::size_t>> awaited;   // by wait: the culprits in it
  for (const Wait& wait : waits.graph.waits()) {
    awaited.emplace_back();
    std::copy_if(wait.awaited.begin(), wait.awaited.end(), std::back_inserter(awaited.back()), [&](std::size_t n) { return culprits.contains(n); });
  }
  // Calls that the culprit never made come first, then collectives, then sends.
  for (const int pass : {0, 1, 2}) {
    for (std::size_t n = 0; n < job.size(); ++n) {
      const RecordedOp* head = job[n].head;
      if (head == nullptr || stalled.contains(n) || (pass == 1 && head->p2p)) continue;
      const auto& joined = waits.graph.waits_of(n);
      const bool direct = std::any_of(joined.begin(), joined.end(),
                                      [&](std::size_t w) { return holds_other(awaited[w], n) && (pass > 0 || (waits.graph.waits()[w].late && !head->p2p)); });
      if ((direct || culprits.empty()) && better(head)) out = {n, head};
    }
    if (out.op != nullptr) return out;
  }
  for (const std::size_t n : culprits) {
    const auto stall = stalled.find(n);
    const RecordedOp* op = stall != stalled.end() ? stall->second.in : job[n].head;
    if (op != nullptr && better(op)) out = {n, op};
  }
  return out;
}

void tell_ranks(RecorderVerdict& out, const RecordedJob& job, const std::set<std::size_t>& culprits) {
  out.fault.culprit_ranks = job.numbers(culprits);
  for (std::size_t n = 0; n < job.size(); ++n) {
    if (job[n].recording == nullptr) out.fault.silent_ranks.push_back(job[n].rank);
    else if (job[n].head != nullptr && !culprits.contains(n)) out.fault.waiting_ranks.push_back(job[n].rank);
  }
}

void tell_call(RecorderVerdict& out, const RecordedJob& job, const OpenCall& call) {
  if (call.op == nullptr) return;
  const RecordedOp& op = *call.op;
  out.fault.operation = op.name;
  out.fault.process_group = group_name(job.group_of(call));
  out.fault.sequence = op.p2p ? op.p2p_sequence : op.sequence;
  out.fault.sizes = op.inputs == op.outputs || op.outputs.empty() ? op.inputs : op.inputs + " -> " + op.outputs;
  out.waited = call.op;
}

void choose_witness(RecorderVerdict& out, const RecordedJob& job, const OpenCall& call, const std::set<std::size_t>& culprits) {
  const auto seen = std::find_if(culprits.begin(), culprits.end(), [&](std::size_t n) { return job[n].recording != nullptr; });
  if (seen != culprits.end()) {
    out.witness = job[*seen].rank;
    if (job[*seen].recording->newest) out.stack = job[*seen].recording->newest->frames;
  } else if (call.op != nullptr) {
    out.witness = job[call.node].rank;
  }
  if (out.stack.empty() && call.op != nullptr) out.stack = call.op->frames;
}

RecorderVerdict judge_difference(const RecordedJob& job, CallDifference difference) {
  RecorderVerdict out;
  out.desync = true;
  out.reasons = std::move(difference.reasons);
  tell_ranks(out, job, difference.odd);
  tell_call(out, job, difference.at);
  if (job.many_silent() && !difference.odd.empty()) {
    out.proven = false;
    out.reasons.push_back(unseen_majority_text(job));
  }
  choose_witness(out, job, difference.at, difference.odd);
  return out;
}

RecorderVerdict judge_waits(const RecordedJob& job, const StalledRanks& stalled) {
  const RankWaits waits = find_waits(job, stalled);
  const RecorderCulprits culprits = find_culprits(job, stalled, waits);
  const RecorderWords words{job, stalled, waits, culprits};
  const OpenCall call = call_waited_in(job, stalled, waits, culprits.ranks);
  RecorderVerdict out;
  tell_ranks(out, job, culprits.ranks);
  tell_call(out, job, call);
  for (const auto& set : culprits.one_of) out.fault.one_of.push_back(job.numbers(set));
  out.fault.note = words.together_note();
  out.reasons = words.crossed();
  append(out.reasons, words.named());
  std::set<std::size_t> unseen;
  for (const std::size_t n : culprits.ranks)
    if (job[n].recording == nullptr) unseen.insert(n);
  if (job.many_silent() && !unseen.empty()) {
    out.proven = false;
    out.reasons.push_back(unseen_text(job, job.numbers(unseen)));
  }
  append(out.reasons, words.together());
  choose_witness(out, job, call, culprits.ranks);
  return out;
}

}  // namespace

std::optional<RecorderVerdict> judge_recordings(std::span<const RankRecording> recordings) {
  const RecordedJob job(recordings);
  if (std::none_of(job.ranks().begin(), job.ranks().end(), [](const RecordedRank& r) { return r.head != nullptr; })) return {};
  const StalledRanks stalled = find_stalled(job);
  if (auto difference = find_difference(job, stalled)) return judge_difference(job, std::move(*difference));
  return judge_waits(job, stalled);
}

}  // namespace triage::signatures
