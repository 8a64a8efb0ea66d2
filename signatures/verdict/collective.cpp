#include "signatures/verdict/collective.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "signatures/verdict/flight_recorder.hpp"

namespace triage::signatures {
namespace {

using parsers::CollectiveTimeout;

struct Report {
  const Item* item = nullptr;
  CollectiveTimeout event;
  std::optional<int> rank;
  std::string group;   // the same on all its members: the description alone stands for many groups ("EXPERT_MODEL_PARALLEL_GROUP")
};

// "PG GUID 341(PIPELINE_MODEL_PARALLEL_GROUP)": the id that all members know; "PG ID 6" counts in each process on its own.
std::string group_of(const Finding& f, const CollectiveTimeout& event) {
  constexpr std::string_view mark = "PG GUID ";
  const std::string_view text = f.text;
  const auto at = text.find(mark);
  if (at == std::string_view::npos) return event.process_group;
  const auto rest = text.substr(at + mark.size(), 64);
  return std::string(rest.substr(0, rest.find_first_of("( ]")));
}

// The group of all ranks: who is in it is known from the number of ranks.
bool of_all_ranks(const std::string& process_group) { return process_group.empty() || process_group == "0" || process_group == "default_pg"; }

using Call = std::tuple<std::string, std::int64_t, std::int64_t>;   // operation, elements in, elements out (-1: not printed)

Call call_of(const CollectiveTimeout& e) { return {e.operation, e.elements_in.value_or(-1), e.elements_out.value_or(-1)}; }

std::string sizes_text(const CollectiveTimeout& e) {
  if (!e.elements_in && !e.elements_out) return {};
  std::string out;
  if (e.elements_in) out = "in " + std::to_string(*e.elements_in);
  if (e.elements_out) out += (out.empty() ? "out " : " out ") + std::to_string(*e.elements_out);
  return out;
}

// One report a rank: the first with an operation, completed by the rank's later lines (last enqueued, last completed).
std::vector<Report> gather(const std::vector<Item>& items, const std::vector<SourceFindings>& sources) {
  std::vector<Report> out;
  for (const auto& item : items) {
    const auto* event = std::get_if<CollectiveTimeout>(&item.finding->event);
    if (event == nullptr) continue;
    Report report{&item, *event, event->rank, group_of(*item.finding, *event)};
    // Inside a group the ranks count from 0: "[Rank 11]" of a pipeline group is "[rank92]:" of the job. A Ray actor counts in its own world.
    if (item.finding->rank && (!report.rank || item.finding->actor.empty())) report.rank = item.finding->rank;
    if (!report.rank) report.rank = sources[item.source].source.rank;
    const auto known = std::find_if(out.begin(), out.end(), [&](const Report& r) { return report.rank && r.rank == report.rank; });
    if (known == out.end()) {
      out.push_back(std::move(report));
      continue;
    }
    auto& e = known->event;
    if (e.operation.empty() && !event->operation.empty()) {
      const auto enqueued = e.last_enqueued, completed = e.last_completed;
      e = *event;
      known->item = &item;
      if (!e.last_enqueued) e.last_enqueued = enqueued;
      if (!e.last_completed) e.last_completed = completed;
    }
    if (!e.last_enqueued) e.last_enqueued = event->last_enqueued;
    if (!e.last_completed) e.last_completed = event->last_completed;
    if (!e.sequence) e.sequence = event->sequence;
    if (e.process_group.empty()) e.process_group = event->process_group;
    if (known->group.empty()) known->group = report.group;
  }
  return out;
}

std::set<int> seen_ranks(const std::vector<Item>& items, const std::vector<SourceFindings>& sources) {
  std::set<int> ranks;
  for (const auto& source : sources)
    if (source.source.rank) ranks.insert(*source.source.rank);
  for (const auto& item : items) {
    if (item.finding->rank) ranks.insert(*item.finding->rank);
    ranks.insert(item.finding->repeat_ranks.begin(), item.finding->repeat_ranks.end());
  }
  return ranks;
}

void add_unique(std::vector<int>& to, int rank) {
  if (std::find(to.begin(), to.end(), rank) == to.end()) to.push_back(rank);
}

// Ranks that called something else at the sequence number most reports agree on.
void find_deviators(const std::vector<Report>& reports, CollectiveJudgement& out) {
  // Each group counts its calls on its own.
  const bool grouped = std::all_of(reports.begin(), reports.end(), [](const Report& r) { return !r.group.empty(); });
  std::map<std::pair<std::string, std::int64_t>, std::map<Call, std::vector<const Report*>>> by_sequence;
  for (const auto& r : reports)
    if (r.event.sequence && !r.event.operation.empty()) by_sequence[{grouped ? r.group : std::string(), *r.event.sequence}][call_of(r.event)].push_back(&r);
  for (const auto& [place, calls] : by_sequence) {
    const std::int64_t sequence = place.second;
    if (calls.size() < 2) continue;
    out.desync = true;
    const auto majority = std::max_element(calls.begin(), calls.end(),
                                           [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    std::size_t total = 0, equal = 0;
    for (const auto& [call, who] : calls) {
      total += who.size();
      equal += who.size() == majority->second.size() ? 1U : 0U;
    }
    const auto& usual = *majority->second.front();
    if (equal > 1) {
      out.reasons.push_back("at sequence number " + std::to_string(sequence) + " ranks called different collectives, with no majority");
      out.witness = usual.item;
      return;
    }
    for (const auto& [call, who] : calls) {
      if (&who == &majority->second) continue;
      for (const auto* r : who) {
        if (r->rank) add_unique(out.fault.culprit_ranks, *r->rank);
        out.witness = r->item;
        out.fault.operation = r->event.operation;
        out.fault.sizes = sizes_text(r->event);
        const std::string name = r->rank ? "rank " + std::to_string(*r->rank) : "one rank";
        out.reasons.push_back("at sequence number " + std::to_string(sequence) + " " + name + " called " + r->event.operation + " (" +
                              sizes_text(r->event) + ") while " + std::to_string(majority->second.size()) + " of " +
                              std::to_string(total) + " called " + usual.event.operation + " (" + sizes_text(usual.event) + ")");
      }
    }
    return;
  }
}

// Ranks whose last enqueued work is behind the others': they never launched what the others wait for.
void find_laggards(const std::vector<Report>& reports, CollectiveJudgement& out) {
  std::map<std::string, std::vector<const Report*>> by_group;
  for (const auto& r : reports)
    if (r.event.last_enqueued && r.rank) by_group[r.group].push_back(&r);
  for (const auto& [group, members] : by_group) {
    if (members.size() < 2) continue;
    std::int64_t most = 0;
    for (const auto* r : members) most = std::max(most, *r->event.last_enqueued);
    std::vector<const Report*> behind;
    for (const auto* r : members)
      if (*r->event.last_enqueued < most) behind.push_back(r);
    if (behind.empty() || behind.size() * 2 >= members.size()) continue;
    for (const auto* r : behind) {
      add_unique(out.fault.culprit_ranks, *r->rank);
      out.reasons.push_back("rank " + std::to_string(*r->rank) + " had enqueued work up to " + std::to_string(*r->event.last_enqueued) +
                            ", the others up to " + std::to_string(most));
      if (out.witness == nullptr) out.witness = r->item;
    }
    return;
  }
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.empty()) return {};
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (sorted.size() == 1) return "rank " + std::to_string(sorted.front());
  std::string out = "ranks ";
  int parts = 0;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t j = i;
    while (j + 1 < sorted.size() && sorted[j + 1] == sorted[j] + 1) ++j;
    if (parts == 8) return out + ", ...";
    if (parts > 0) out += ", ";
    out += std::to_string(sorted[i]);
    if (j > i) out += (j == i + 1 ? ", " : "-") + std::to_string(sorted[j]);
    ++parts;
    i = j + 1;
  }
  return out;
}

namespace {

std::optional<CollectiveJudgement> compare_reports(const std::vector<Item>& items, const std::vector<SourceFindings>& sources,
                                                   std::optional<std::int64_t> world) {
  const auto reports = gather(items, sources);
  if (reports.empty()) return {};
  CollectiveJudgement out;
  const Report* first = nullptr;
  for (const auto& r : reports)
    if (first == nullptr || (first->event.operation.empty() && !r.event.operation.empty())) first = &r;
  out.fault.operation = first->event.operation;
  out.fault.process_group = first->event.process_group;
  out.fault.sequence = first->event.sequence;
  out.fault.sizes = sizes_text(first->event);

  std::set<int> waiting;
  for (const auto& r : reports)
    if (r.rank) waiting.insert(*r.rank);
  find_deviators(reports, out);
  if (!out.desync) find_laggards(reports, out);
  if (out.witness == nullptr) out.witness = first->item;

  std::set<int> known = seen_ranks(items, sources);
  known.insert(waiting.begin(), waiting.end());
  // The highest rank met says that at least so many ranks exist.
  int count = known.empty() ? 0 : *known.rbegin() + 1;
  if (world && *world > 0 && *world <= 1'000'000) count = std::max(count, static_cast<int>(*world));
  const bool all = std::all_of(reports.begin(), reports.end(), [](const Report& r) { return of_all_ranks(r.event.process_group); });
  if (!waiting.empty() && all)
    for (int rank = 0; rank < count; ++rank)
      if (!waiting.contains(rank)) out.fault.silent_ranks.push_back(rank);
  // A rank of a small minority that reported nothing is the one the others waited for.
  const std::size_t silent = out.fault.silent_ranks.size();
  if (out.fault.culprit_ranks.empty() && silent > 0 && waiting.size() >= 2 && silent * 3 <= waiting.size()) {
    out.fault.culprit_ranks = out.fault.silent_ranks;
    out.reasons.push_back(ranks_text(out.fault.silent_ranks) + " reported no time-out while " + std::to_string(waiting.size()) +
                          " others did: they waited for " + (silent == 1 ? "it" : "them"));
  }
  for (int rank : waiting)
    if (std::find(out.fault.culprit_ranks.begin(), out.fault.culprit_ranks.end(), rank) == out.fault.culprit_ranks.end())
      out.fault.waiting_ranks.push_back(rank);

  // Ranks at different numbers did not wait in one call: none of the numbers stands for all.
  const Report* other = nullptr;
  for (const auto& r : reports)
    if (r.event.sequence && first->event.sequence && *r.event.sequence != *first->event.sequence && r.group == first->group) other = &r;
  if (other != nullptr && !out.desync) {
    out.fault.sequence.reset();
    const auto name = [](const Report& r) { return r.rank ? "rank " + std::to_string(*r.rank) : std::string("one rank"); };
    out.reasons.push_back("the ranks stand at different calls: " + name(*first) + " at number " + std::to_string(*first->event.sequence) + ", " +
                          name(*other) + " at " + std::to_string(*other->event.sequence) +
                          "; in one group the lower number is the one behind");
  }

  const auto& e = first->event;
  const bool never = std::any_of(reports.begin(), reports.end(), [](const Report& r) { return r.event.last_completed == -1; });
  if (never || (e.sequence && *e.sequence <= 1)) {
    out.fault.note = "no collective of this group ever completed: the ranks cannot reach one another (network, P2P, firewall, interface)";
  } else if (e.elements_in == 1 && e.operation == "ALLREDUCE") {
    out.fault.note = "one element: a barrier; the others wait for a rank that is busy, often with writing a checkpoint";
  }
  return out;
}

// By the dumps of all ranks, where one of the incident's has a call open.
std::optional<CollectiveJudgement> compare_recordings(const std::vector<Item>& items, const std::vector<SourceFindings>& sources) {
  const auto recording_of = [](const Finding& f) -> const parsers::Recording* {
    const auto* event = std::get_if<parsers::RecordingEvent>(&f.event);
    return event == nullptr ? nullptr : event->get();
  };
  if (std::none_of(items.begin(), items.end(), [&](const Item& item) { return recording_of(*item.finding) != nullptr; })) return {};
  struct Dump {
    const Finding* finding = nullptr;
    std::size_t source = 0;
  };
  std::map<int, Dump> by_rank;   // dumps without an open call count as well: such a rank may be the one that is waited for
  std::vector<RankRecording> recordings;
  for (std::size_t s = 0; s < sources.size(); ++s)
    for (const auto& f : sources[s].findings) {
      const auto* recording = recording_of(f);
      if (recording == nullptr || !f.rank) continue;
      if (by_rank.emplace(*f.rank, Dump{&f, s}).second) recordings.push_back({*f.rank, recording});
    }
  auto verdict = judge_recordings(recordings);
  if (!verdict) return {};
  CollectiveJudgement out;
  out.recorded = true;
  out.fault = std::move(verdict->fault);
  out.desync = verdict->desync;
  out.proven = verdict->proven;
  out.reasons = std::move(verdict->reasons);
  for (auto frame = verdict->stack.rbegin(); frame != verdict->stack.rend(); ++frame) out.frames.push_back({frame->file, frame->line, frame->function, {}});
  if (verdict->witness) {
    const Dump& dump = by_rank.at(*verdict->witness);
    out.evidence = dump.finding;
    out.evidence_source = dump.source;
  }
  for (const auto& item : items)
    if (recording_of(*item.finding) != nullptr && (out.witness == nullptr || item.finding == out.evidence)) out.witness = &item;
  return out;
}

}  // namespace

std::optional<CollectiveJudgement> compare_collectives(const std::vector<Item>& items, const std::vector<SourceFindings>& sources,
                                                       std::optional<std::int64_t> world) {
  auto recorded = compare_recordings(items, sources);
  auto told = compare_reports(items, sources, world);
  if (!recorded) return told;
  if (!told) return recorded;
  // The line of the log stands for it; who and what the dumps know better.
  if (recorded->fault.culprit_ranks.empty() && recorded->fault.one_of.empty() && !recorded->desync) {
    recorded->fault.culprit_ranks = told->fault.culprit_ranks;
    recorded->reasons.insert(recorded->reasons.end(), told->reasons.begin(), told->reasons.end());
    recorded->desync = told->desync;
  }
  recorded->witness = told->witness;
  if (recorded->fault.note.empty()) recorded->fault.note = told->fault.note;
  return recorded;
}

}  // namespace triage::signatures
