#include "signatures/verdict/root/rank.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "signatures/verdict/exits.hpp"
#include "signatures/verdict/fingerprint.hpp"
#include "signatures/verdict/phase.hpp"
#include "signatures/verdict/root/only_process.hpp"

namespace triage::signatures {
namespace {

constexpr std::uint64_t kNeighbourLines = 2;  // lines of one print before the one that tells the cause

// Does the number stand in the text, whole?
bool names_number(std::string_view text, std::int64_t number) {
  const std::string digits = std::to_string(number);
  for (auto at = text.find(digits); at != std::string_view::npos; at = text.find(digits, at + 1)) {
    const std::size_t end = at + digits.size();
    if ((at == 0 || !parsers::is_digit(text[at - 1])) && (end == text.size() || !parsers::is_digit(text[end]))) return true;
  }
  return false;
}

// "-- Process 3 terminated with the following error:" heads the traceback of that process.
void rank_of_spawned(const Case& c, Diagnosis& d) {
  const auto& f = *c.root.finding;
  const std::uint64_t first = f.traceback ? f.traceback->first_line : f.line;
  for (const Item& item : c.items) {
    const auto& head = *item.finding;
    if (item.source != c.root.source || head.rule != "spawn.raised" || head.line >= first || head.line + 3 < first) continue;
    for (const auto& [name, value] : head.captures)
      if (const auto* worker = std::get_if<std::int64_t>(&value); name == "worker" && worker != nullptr && *worker >= 0 && *worker < 1'000'000) {
        d.root.local_rank = static_cast<int>(*worker);
        d.reasons.push_back("the traceback is of spawned process " + std::to_string(*worker));
        return;
      }
  }
}

// One print of several lines, of which only the first has the rank (torch_npu's "(PID:1, Device:3, RankID:3)").
void rank_of_neighbours(const Case& c, Diagnosis& d) {
  const auto& f = *c.root.finding;
  std::optional<int> found;
  for (const Item& item : c.items) {
    const auto& other = *item.finding;
    if (&item == &c.root || item.source != c.root.source || !other.rank) continue;
    if (other.line + kNeighbourLines < f.line || other.line > f.line) continue;
    if (found && *found != *other.rank) return;
    found = other.rank;
  }
  if (!found) return;
  d.root.rank = found;
  d.reasons.push_back("the line before it is of rank " + std::to_string(*found));
}

// A barrier inside the saving of a checkpoint, that every rank but the first reports.
bool waited_for_writer(const Case& c, const Diagnosis& d) {
  const auto& frames = d.root.frames;
  const auto barrier = std::find_if(frames.begin(), frames.end(), [](const parsers::Frame& f) { return f.function == "barrier" || f.function == "monitored_barrier"; });
  if (barrier == frames.end() || !std::any_of(frames.begin(), barrier, [](const parsers::Frame& f) { return saves_checkpoint(f); })) return false;
  return std::none_of(c.items.begin(), c.items.end(), [&](const Item& item) { return item.strength == c.root.strength && item.finding->rank == 0; });
}

// "terminate called" names no process; the only one that the launcher saw end by that signal is it.
void rank_of_signal(const Case& c, Diagnosis& d) {
  if (c.root.strength == Strength::exit || !kind_is(d.kind, "proc") || c.root.finding->system) return;
  const auto ending = ending_of(*c.root.finding);
  if (!ending || !ending->signal) return;
  const Item* found = nullptr;
  for (const Item& item : c.items) {
    const Finding& f = *item.finding;
    if (item.strength != Strength::exit && item.strength != Strength::abort) continue;
    if (&item == &c.root || (!f.local_rank && !f.rank)) continue;
    const auto other = ending_of(f);
    if (!other || other->signal != ending->signal) continue;
    if (found != nullptr && (found->finding->local_rank != f.local_rank || found->finding->rank != f.rank)) return;
    found = &item;
  }
  if (found == nullptr) return;
  d.root.rank = found->finding->rank;
  d.root.local_rank = found->finding->local_rank;
  if (!d.root.pid) d.root.pid = found->finding->pid;
  d.reasons.push_back("the launcher saw one process end by this signal");
}

// Open MPI 5 names the rank and the process in one line and the signal in the next one.
void rank_of_mpirun(const Case& c, Diagnosis& d) {
  const Finding* only = nullptr;
  for (const Item& item : c.items) {
    if (item.finding->rule != "mpirun.ended_rank" || item.caught) continue;
    if (only != nullptr) return;
    only = item.finding;
  }
  if (only == nullptr || !only->rank || c.root.finding->system) return;
  const bool same = only->pid && (c.root.finding->pid == only->pid || names_number(c.root.finding->text, *only->pid));
  if (!same && !kind_is(d.kind, "proc")) return;
  d.root.rank = only->rank;
  if (!d.root.pid) d.root.pid = only->pid;
  if (d.root.node.empty()) d.root.node = only->node;
  d.reasons.push_back("mpirun saw this rank end by a signal");
}

// The launcher's table names the process by its number, and with it the rank and the host.
void rank_of_pid(const Case& c, Diagnosis& d) {
  const auto& f = *c.root.finding;
  const auto* exit = std::get_if<parsers::ProcessExit>(&f.event);
  const auto pid = f.pid ? f.pid : exit ? exit->pid : std::nullopt;
  if (!pid) return;
  for (const parsers::ElasticFailure* entry : table_entries(c.items)) {
    if (entry->pid != pid || !entry->rank) continue;
    d.root.rank = entry->rank;
    if (!d.root.local_rank) d.root.local_rank = entry->local_rank;
    if (d.root.node.empty()) d.root.node = entry->host;
    d.reasons.push_back("the launcher's table names process " + std::to_string(*pid) + " as rank " + std::to_string(*d.root.rank));
    return;
  }
}

// "[rank54]: " behind a prefix that is not known, and the warning of FSDP's clone ("... with name W on rank 1. This may").
std::optional<int> rank_in_text(std::string_view text) {
  const auto number_after = [&](std::string_view head, char end) -> std::optional<int> {
    const auto at = text.find(head);
    if (at == std::string_view::npos) return {};
    std::string_view rest = text.substr(at + head.size());
    const auto number = parsers::take_integer(rest);
    if (!number || *number >= parsers::limits::kRanks || rest.empty() || rest.front() != end) return {};
    return static_cast<int>(*number);
  };
  if (const auto rank = number_after("[rank", ']')) return rank;
  return parsers::contains(text, "invalid memory") ? number_after(" on rank ", '.') : std::nullopt;
}

// One task a rank: as many tasks were met as the job has ranks.
bool many_tasks(const std::vector<SourceFindings>& sources, std::int64_t world) {
  std::set<int> tasks;
  for (const auto& s : sources)
    for (const auto& f : s.findings)
      if (f.task) tasks.insert(*f.task);
  return static_cast<std::int64_t>(tasks.size()) == world;
}

void rank_from_tables(const Case& c, Diagnosis& d) {
  const auto entries = table_entries(c.items);
  if (entries.empty() || c.root.strength < Strength::application || c.root.finding->system) return;
  const auto& f = *c.root.finding;
  const std::string_view words = parsers::trim(words_of(f)).substr(0, 60);
  const parsers::ElasticFailure* found = nullptr;
  int matches = 0;
  for (const auto* entry : entries) {
    const bool pid = f.pid && entry->pid == f.pid;
    const bool local = d.root.local_rank && entry->local_rank == d.root.local_rank;
    const bool text = words.size() >= 20 && parsers::contains(entry->traceback, words);
    if (pid || local || text) found = entry, ++matches;
  }
  if (matches == 1 && found->rank) {
    d.root.rank = found->rank;
    if (!d.root.local_rank) d.root.local_rank = found->local_rank;
    d.reasons.push_back("the launcher's table ties it to rank " + std::to_string(*found->rank));
    return;
  }
  if (matches > 1 || !c.choice.also.empty()) return;
  const auto first = first_failure(c.items);
  if (!first || !first->failure->rank || !first->failure->exit_code || *first->failure->exit_code == -15) return;
  d.root.rank = first->failure->rank;
  if (!d.root.local_rank) d.root.local_rank = first->failure->local_rank;
  d.reasons.push_back("the launcher's table lists rank " + std::to_string(*first->failure->rank) + " as the first to fail");
}

}  // namespace

void find_rank(const Case& c, bool recorded, Diagnosis& d) {
  const auto& f = *c.root.finding;
  if (d.collective && d.collective->culprit_ranks.size() == 1) {
    d.root.rank = d.collective->culprit_ranks.front();
    return;
  }
  if (d.collective && recorded && !d.collective->culprit_ranks.empty()) {   // several: the one whose dump is shown
    const auto& culprits = d.collective->culprit_ranks;
    if (!d.root.rank || std::find(culprits.begin(), culprits.end(), *d.root.rank) == culprits.end()) d.root.rank = culprits.front();
    return;
  }
  // Who waited in vain is not who failed: without a culprit the first rank is not known.
  if ((c.root.strength == Strength::collective || c.root.strength == Strength::cascade) && (kind_is(d.kind, "nccl.timeout") || kind_is(d.kind, "dist.gloo_timeout"))) {
    d.root.rank.reset();
    if (waited_for_writer(c, d)) {
      d.root.rank = 0;
      d.reasons.push_back("the barrier stands in the saving of a checkpoint: the others wait for rank 0, which writes it (by convention; its own log is not there)");
      return;
    }
    d.reasons.push_back("the line's own rank only waited; which rank was waited for is not in the logs given");
    return;
  }
  if (const auto* exit = std::get_if<parsers::ProcessExit>(&f.event)) {
    if (!d.root.rank) d.root.rank = exit->rank;
    if (!d.root.local_rank) d.root.local_rank = exit->local_rank;
    if (d.root.node.empty()) d.root.node = exit->node;
    if (d.root.frames.empty()) d.root.frames = exit->frames;
  }
  if (!d.root.rank) rank_of_pid(c, d);
  if (!d.root.rank && !d.root.local_rank) rank_of_signal(c, d);
  if (!d.root.rank && !d.root.local_rank) rank_of_mpirun(c, d);
  if (!d.root.rank && !d.root.local_rank) rank_of_spawned(c, d);
  if (!d.root.rank) d.root.rank = rank_in_text(f.text);
  if (d.root.rank) return;
  d.root.rank = c.sources[c.root.source].source.rank;
  if (!d.root.rank) {
    std::set<int> ranks;
    for (const Item* other : c.choice.same)
      if (other->finding->rank) ranks.insert(*other->finding->rank);
    for (const Item* other : c.choice.also)
      if (other->finding->rank) ranks.insert(*other->finding->rank);
    if (ranks.size() == 1) {
      d.root.rank = *ranks.begin();
      d.reasons.push_back("the rank is known from another print of the same fault");
    }
  }
  if (!d.root.rank) rank_from_tables(c, d);
  if (!d.root.rank && !f.system) rank_of_neighbours(c, d);
  if (!d.root.rank && !f.system) {
    const auto world = d.config.integer(parsers::Key::world);
    if (world == 1) d.root.rank = 0;
    const auto per_node = d.config.integer(parsers::Key::gpus_per_node);
    if (world && per_node && *world <= *per_node && d.root.local_rank) d.root.rank = d.root.local_rank;
    if (world && f.task && *f.task < *world && c.root.strength != Strength::scheduler && many_tasks(c.sources, *world)) d.root.rank = f.task;
  }
  if (!d.root.rank) rank_of_only_process(c, d);
}

}  // namespace triage::signatures
