#include "signatures/verdict/root/only_process.hpp"

#include <set>
#include <string_view>

#include "parsers/base/text.hpp"
#include "signatures/verdict/dump_finding.hpp"
#include "signatures/verdict/exits.hpp"

namespace triage::signatures {
namespace {

// "RuntimeErrorRuntimeError: ": two processes wrote into one line, and neither names itself.
bool shredded(std::string_view text) {
  constexpr std::string_view mark = "Error";
  for (auto at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1)) {
    std::string_view rest = text.substr(at + mark.size());
    if (rest.empty() || rest.front() < 'A' || rest.front() > 'Z') continue;
    std::size_t name = 0;
    while (name < rest.size() && parsers::is_alpha(rest[name])) ++name;
    if (rest.substr(0, name).ends_with(mark) || parsers::contains(rest.substr(0, name), mark)) return true;
  }
  return false;
}

// "[host:4242:0:4300] Caught signal 11": UCX writes the process before it; lines of several are not of one.
bool several_crashed(const Case& c) {
  std::set<std::string_view> processes;
  for (const Item& item : c.items) {
    const std::string_view text = item.finding->text;
    if (item.finding->rule != c.root.finding->rule) continue;
    const auto at = text.find("] Caught signal ");
    if (at == std::string_view::npos) continue;
    const auto open = text.rfind('[', at);
    if (open != std::string_view::npos) processes.insert(text.substr(open, at - open));
  }
  return processes.size() > 1;
}

// A launcher names the processes that it ends and the one that failed: more than one ran here. Its own signal is no rank's.
bool several_ended(const Case& c) {
  const auto& f = *c.root.finding;
  if (f.rule == "torchrun.hangup" || told_to_end(f)) return true;
  std::set<std::int64_t> children;
  for (const Finding& other : c.sources[c.root.source].findings) {
    if (other.line < f.line || (other.rule != "launcher.kills_children" && other.rule != "torchrun.closing_signal" && other.rule != "torchrun.failed")) continue;
    for (const auto& [name, value] : other.captures)
      if (const auto* pid = std::get_if<std::int64_t>(&value); pid != nullptr && name == "process") children.insert(*pid);
  }
  return children.size() > 1;
}

// DeepSpeed's launcher prints the command of the last local rank: "'--local_rank=3'" says that four ran here.
bool command_of_another(std::string_view text) {
  for (const std::string_view option : {"local_rank=", "local-rank="}) {
    const auto at = text.find(option);
    if (at == std::string_view::npos) continue;
    std::string_view rest = text.substr(at + option.size());
    if (const auto number = parsers::take_integer(rest); number && *number > 0) return true;
  }
  return false;
}

}  // namespace

void rank_of_only_process(const Case& c, Diagnosis& d) {
  const auto& f = *c.root.finding;
  if (f.system || f.rule.starts_with("k8s.") || f.rule.starts_with("block.k8s") || c.root.strength == Strength::scheduler) return;
  if (d.root.local_rank.value_or(0) > 0 || command_of_another(f.text) || shredded(f.text) || several_crashed(c) || several_ended(c)) return;
  if (is_dump(f) || f.rule.starts_with("coredumpctl.")) return;   // of one process of perhaps many
  if (c.root.strength == Strength::hardware && !f.traceback) return;   // the node's word of a device, not a process'
  // The kernel's and the scheduler's lines are the node's; a program that tells of its own killed child is one of the processes.
  const bool told_by_program = c.root.finding->traceback.has_value();
  for (const std::string_view family : {"nccl", "dist", "sched", "host.oom.kernel", "host.oom.slurm", "host.oom.k8s", "gpu.xid"})
    if (kind_is(d.kind, family) && !(told_by_program && kind_is(d.kind, "host.oom"))) return;
  for (const Item& item : c.items)  // who talks to others is not alone
    if (item.strength != Strength::none && (kind_is(item.finding->kind, "nccl") || item.finding->rule.starts_with("nccl."))) return;
  for (const Item& item : c.items)  // the driver's copy of what one of its actors raised
    if (parsers::contains(item.finding->text, "RayTaskError(")) return;
  for (const Item& item : c.items)  // the same line as Kubernetes' word of a container
    if (item.source == c.root.source && item.finding->line == f.line && item.finding->rule.starts_with("k8s.")) return;
  std::set<int> processes;
  for (const auto& source : c.sources) processes.insert(source.processes.begin(), source.processes.end());
  std::set<std::string_view> nodes;
  for (const auto& source : c.sources) nodes.insert(source.nodes.begin(), source.nodes.end());
  if (nodes.size() > 1) return;
  const auto world = d.config.integer(parsers::Key::world);
  if (processes.size() == 1 && (f.task || *processes.begin() == 0 || table_entries(c.items).empty())) {
    d.root.rank = *processes.begin();
    d.reasons.push_back("no other process than " + std::to_string(*d.root.rank) + " shows in the logs given");
  } else if (processes.empty() && world.value_or(1) == 1 && c.sources.size() == 1 && d.root.device.value_or(0) == 0 && f.actor.empty() &&
             table_entries(c.items).empty()) {
    d.root.rank = 0;
    d.reasons.push_back("no second process shows in the log: taken as rank 0 of one");
  }
}

}  // namespace triage::signatures
