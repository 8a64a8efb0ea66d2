#include "signatures/verdict/diagnose.hpp"

#include <algorithm>
#include <cmath>

#include "parsers/base/text.hpp"
#include "signatures/verdict/collective.hpp"
#include "signatures/verdict/dump_finding.hpp"
#include "signatures/verdict/exits.hpp"
#include "signatures/verdict/fingerprint.hpp"
#include "signatures/verdict/ledger.hpp"
#include "signatures/verdict/phase.hpp"
#include "signatures/verdict/root/kind.hpp"
#include "signatures/verdict/root/phase.hpp"
#include "signatures/verdict/root/rank.hpp"
#include "signatures/verdict/root_cause.hpp"
#include "signatures/verdict/summary.hpp"

namespace triage::signatures {
namespace {

constexpr std::size_t kFindings = 200;   // kept with a diagnosis
constexpr std::size_t kAlso = 64;
constexpr std::size_t kReports = 64;     // memory reports
constexpr std::size_t kEchoRanks = 4096;
constexpr std::uint64_t kReportLines = 6;   // lines after a core dump is announced in which the process says that it was it

class Diagnoser {
 public:
  Diagnoser(const std::vector<Item>& items, const std::vector<SourceFindings>& sources) : items_(items), sources_(sources) {}

  std::optional<Diagnosis> run(const std::string& job, int attempt) {
    d_.job = job;
    d_.attempt = attempt;
    const auto world = world_size();
    const auto collective = compare_collectives(items_, sources_, world);
    auto choice = choose_root(items_, collective);
    if (!choice) return {};
    choice_ = std::move(*choice);
    root_ = choice_.root;
    const Finding& f = *root_->finding;
    d_.reasons = choice_.reasons;
    clocks();
    d_.kind = f.kind.empty() ? "user.exception" : f.kind;
    d_.config = configuration();
    d_.frameworks = frameworks();
    d_.root = evidence(reported_by(*root_));
    const Case c{items_, sources_, choice_, *root_};
    find_phase(c, d_);
    refine_kind(c, d_);
    memory();
    collectives(collective);
    if (d_.phase == Phase::unknown) d_.phase = phase_of_kind(d_.kind);
    find_rank(c, recorded_, d_);
    dumps();
    waited_for_root(collective);
    step();
    d_.also = also();
    echoes();
    findings();
    d_.fix_hints.insert(d_.fix_hints.end(), f.fixes.begin(), f.fixes.end());
    // A memory rule says how to tell the kinds apart; where there is a ledger, it has.
    if (!d_.ledger) d_.help = f.help;
    d_.fingerprint = fingerprint_of(f, d_.kind, d_.frameworks);
    // No configuration names it; the fingerprint does without, so that known incidents keep theirs.
    if (d_.frameworks.empty() && f.rule.starts_with("jax.")) d_.frameworks.push_back("jax");
    confidence();
    // A rule's sentence of another kind than the one found out would contradict it.
    d_.summary = summary_of(d_, f, kind_is(d_.kind, f.kind) && (choice_.root->strength != Strength::exit || kind_is(d_.kind, "sched")) ? f.summary : std::string());
    d_.missing = missing_of(d_, f, knowledge());
    d_.id = diagnosis_id(d_);
    return std::move(d_);
  }

 private:
  parsers::RunConfig configuration() const {
    const auto& own = sources_[root_->source].config;
    if (!own.empty()) return own;
    const SourceFindings* best = nullptr;
    for (const auto& s : sources_)
      if (!s.config.empty() && (best == nullptr || s.config.settings().size() > best->config.settings().size())) best = &s;
    return best == nullptr ? own : best->config;
  }

  std::vector<std::string> frameworks() const {
    std::vector<std::string> out;
    const auto add = [&](const std::string& name) {
      if (!name.empty() && std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
    };
    if (const auto name = d_.config.text(parsers::Key::framework)) add(*name);
    for (const auto& name : d_.config.frameworks()) add(name);
    for (const auto& s : sources_)
      for (const auto& name : s.config.frameworks()) add(name);
    return out;
  }

  void clocks() {
    parsers::TimePoint::duration least{0}, most{0};
    for (const auto& s : sources_) {
      least = std::min(least, s.clock_ahead);
      most = std::max(most, s.clock_ahead);
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most - least).count();
    if (seconds >= 2)
      d_.reasons.push_back("the clocks of the nodes differ by up to " + std::to_string(seconds) + " s, as steps that several of them print show; times were compared without it");
  }

  std::optional<std::int64_t> world_size() const {
    for (const auto& s : sources_)
      if (const auto world = s.config.integer(parsers::Key::world)) return world;
    return {};
  }

  // The driver announces a core dump without saying whose. The report of a process that follows at once says it.
  const Item& reported_by(const Item& root) const {
    if (root.finding->rule != "cuda.coredump.started" || root.finding->rank) return root;
    for (const Item& item : items_) {
      const Finding& f = *item.finding;
      if (item.source == root.source && f.rule == "engine.scheduler_exception" && f.line > root.finding->line && f.line <= root.finding->line + kReportLines) return item;
    }
    return root;
  }

  Evidence evidence(const Item& item) const {
    const auto& f = *item.finding;
    Evidence e;
    e.source = sources_[item.source].source.name;
    e.line = f.line;
    e.offset = f.offset;
    e.text = f.text;
    e.rank = f.rank;
    e.local_rank = f.local_rank ? f.local_rank : sources_[item.source].source.local_rank;
    e.device = f.device;
    if (const auto* oom = std::get_if<parsers::OutOfMemory>(&f.event); oom != nullptr && !e.device) e.device = oom->device;
    e.node = f.node.empty() ? sources_[item.source].source.node : f.node;
    e.pid = f.pid;
    if (const auto* exit = std::get_if<parsers::ProcessExit>(&f.event); exit != nullptr && !e.pid) e.pid = exit->pid;
    e.time = f.time ? f.time : item.when;
    if (e.time) *e.time += sources_[item.source].clock_ahead;   // as printed
    if (f.traceback) e.frames = f.traceback->frames;
    return e;
  }

  const parsers::OutOfMemory* memory_event() const {
    if (const auto* event = std::get_if<parsers::OutOfMemory>(&root_->finding->event)) return event;
    for (const Item* other : choice_.same)
      if (const auto* event = std::get_if<parsers::OutOfMemory>(&other->finding->event)) return event;
    return nullptr;
  }

  void memory() {
    if (!kind_is(d_.kind, "gpu.oom")) return;
    for (const SourceFindings& source : sources_)
      for (const parsers::MemoryReport& report : source.memory)
        if (d_.memory.size() < kReports) d_.memory.push_back(report);
    const auto* event = memory_event();
    if (event != nullptr) {
      d_.ledger = make_ledger(*event);
      d_.backend = event->backend;
      if (!d_.root.device) d_.root.device = event->device;
    }
    if (d_.backend.empty()) {
      const auto& text = root_->finding->text;
      for (const char* name : {"hip", "npu", "xpu", "mps", "mlu", "gcu", "musa"}) {
        std::string upper;
        for (const char* c = name; *c != 0; ++c) upper += static_cast<char>(*c - ('a' - 'A'));
        if (parsers::contains(text, upper)) d_.backend = name;
      }
      if (d_.backend.empty()) d_.backend = "cuda";
    }
    auto refined = refine_memory_kind(d_.kind, event, d_.ledger ? &*d_.ledger : nullptr, d_.phase, d_.config);
    d_.kind = std::move(refined.kind);
    for (auto& reason : refined.reasons) d_.reasons.push_back(std::move(reason));
    d_.fix_hints = std::move(refined.fix_hints);
    shift_ += refined.confidence;
    if (d_.ledger && d_.ledger->tried && event->truncated) shift_ -= 0.03;
  }

  void collectives(const std::optional<CollectiveJudgement>& judged) {
    if (!judged) return;
    const bool collective_root = root_->strength == Strength::collective || root_->strength == Strength::cascade || root_->strength == Strength::abort;
    if (!collective_root) return;
    d_.collective = judged->fault;
    recorded_ = judged->recorded;
    for (const auto& reason : judged->reasons) d_.reasons.push_back(reason);
    if (judged->desync && kind_is(d_.kind, "nccl.timeout")) d_.kind = "nccl.desync";
    if (!judged->fault.note.empty()) d_.reasons.push_back(judged->fault.note);
    if (!judged->recorded) return;
    // That they waited is sure; for whom, a few dumps cannot prove: less than for a collective of which nobody is named.
    if (!judged->fault.culprit_ranks.empty()) shift_ += judged->proven ? 0.1 : -0.3;
    if (d_.root.frames.empty()) d_.root.frames = judged->frames;
    if (judged->evidence == nullptr || !is_dump(*root_->finding)) return;
    d_.root.source = sources_[judged->evidence_source].source.name;
    d_.root.text = judged->evidence->text;
    d_.root.rank = judged->evidence->rank;
  }

  // Where the job waited, when the cause stands elsewhere: do the dumps point at the same rank?
  void waited_for_root(const std::optional<CollectiveJudgement>& judged) {
    if (!judged || !judged->recorded || d_.collective || !d_.root.rank) return;
    const auto& culprits = judged->fault.culprit_ranks;
    if (std::find(culprits.begin(), culprits.end(), *d_.root.rank) == culprits.end()) return;
    d_.reasons.push_back("the flight recorder agrees: the others waited for rank " + std::to_string(*d_.root.rank) + " in " + judged->fault.operation);
    shift_ += judged->proven ? 0.03 : 0.01;
  }

  // What core dumps of the same process add to a line of a log.
  void dumps() {
    const Finding& root = *root_->finding;
    for (const auto& item : items_) {
      const Finding& f = *item.finding;
      if (&item == root_ || !is_dump(f)) continue;
      const bool other = (f.rank && d_.root.rank && *f.rank != *d_.root.rank) || (!f.rank && f.pid && d_.root.pid && *f.pid != *d_.root.pid);
      const bool device = kind_is(f.kind, "cuda");
      if (other || (device && !kind_is(d_.kind, "cuda")) || (!device && !kind_is(d_.kind, "proc") && !kind_is(d_.kind, "cuda"))) continue;
      if (std::string reason = dump_reason(f); !reason.empty()) {
        d_.reasons.push_back(std::move(reason));
        shift_ += 0.02;
      }
      if (!device) continue;
      if (!d_.root.device) d_.root.device = f.device;
      if (kind_is(d_.kind, "cuda.launch_failure") && !is_dump(root)) d_.kind = f.kind;
    }
  }

  Knowledge knowledge() const {
    Knowledge out;
    for (const auto& s : sources_)
      for (const auto& f : s.findings) {
        out.flight_recorder = out.flight_recorder || std::holds_alternative<parsers::RecordingEvent>(f.event);
        out.core_file = out.core_file || std::holds_alternative<parsers::CoreFileEvent>(f.event);
        out.cuda_core = out.cuda_core || std::holds_alternative<parsers::CudaCoreEvent>(f.event);
      }
    return out;
  }

  // The step that was under way: the last completed one before the root, plus one.
  void step() {
    std::optional<std::int64_t> last;
    const auto& own = sources_[root_->source];
    for (const auto& p : own.progress) {
      if (p.line >= d_.root.line) continue;
      if (p.iteration) last = p.iteration;
      d_.past_first_step = d_.past_first_step || p.loss.has_value();
    }
    if (!last && root_->when)
      for (const auto& s : sources_)
        for (const auto& p : s.progress)
          if (p.iteration && p.time && *p.time <= *root_->when && (!last || *p.iteration > *last)) last = p.iteration;
    if (last) d_.root.step = *last + 1;
  }

  std::vector<Evidence> also() const {
    std::vector<Evidence> out;
    for (const Item* item : choice_.also) {
      if (out.size() == kAlso) break;
      out.push_back(evidence(*item));
    }
    return out;
  }

  void echoes() {
    for (const auto& item : items_) {
      if (&item == root_ || item.strength == Strength::none) continue;
      const auto& f = *item.finding;
      auto echo = std::find_if(d_.echoes.begin(), d_.echoes.end(), [&](const Echo& e) { return e.kind == echo_kind(f); });
      if (echo == d_.echoes.end()) {
        d_.echoes.push_back({echo_kind(f), 0, {}, sources_[item.source].source.name, f.line});
        echo = std::prev(d_.echoes.end());
      }
      echo->count += f.count;
      const auto add = [&](int rank) {
        if (echo->ranks.size() < kEchoRanks && std::find(echo->ranks.begin(), echo->ranks.end(), rank) == echo->ranks.end()) echo->ranks.push_back(rank);
      };
      if (f.rank) add(*f.rank);
      else if (sources_[item.source].source.rank) add(*sources_[item.source].source.rank);
      for (int rank : f.repeat_ranks) add(rank);
    }
    for (auto& echo : d_.echoes) std::sort(echo.ranks.begin(), echo.ranks.end());
  }

  // Other prints of a refined kind keep the refined name.
  std::string echo_kind(const Finding& f) const {
    if (kind_is(d_.kind, f.kind)) return d_.kind;
    return f.kind.empty() ? "unknown" : f.kind;
  }

  void findings() {
    const auto add = [&](const Item& item) {
      if (d_.findings.size() == kFindings) return;
      d_.findings.push_back(*item.finding);
      d_.finding_sources.push_back(sources_[item.source].source.name);
    };
    add(*root_);
    for (const auto& item : items_)
      if (&item != root_ && item.strength != Strength::none) add(item);
  }

  static double base(Strength strength) {
    switch (strength) {
      case Strength::hardware: return 0.92;
      case Strength::host_oom: return 0.92;
      case Strength::local: return 0.93;
      case Strength::scheduler: return 0.93;
      case Strength::general: return 0.78;
      case Strength::application: return 0.85;
      case Strength::collective: return 0.85;
      case Strength::abort: return 0.8;
      case Strength::cascade: return 0.7;
      case Strength::exit: return 0.8;
      case Strength::wrapper: return 0.65;
      case Strength::none: break;
    }
    return 0.4;
  }

  void confidence() {
    double c = base(root_->strength) + shift_ + 0.1 * std::clamp(root_->finding->weight, -1.0, 1.0);
    const Finding& f = *root_->finding;
    if (f.traceback && f.traceback->complete) c += 0.03;
    if (!d_.root.rank && !f.system && root_->strength != Strength::scheduler) c -= 0.03;
    if (!choice_.first_proven) c -= 0.1;
    if (root_->caught) c -= 0.15;
    if (d_.collective && !d_.collective->culprit_ranks.empty()) c += 0.15;
    if (root_->strength == Strength::exit) {
      d_.reasons.push_back("surer with the log of the process itself");
      if (kind_is(d_.kind, "proc.exit")) c -= 0.1;
    }
    if (confirmed()) c += 0.02;
    d_.confidence = std::clamp(std::round(c * 100) / 100, 0.05, 0.99);
    if (d_.reasons.empty()) d_.reasons.push_back("it is the first fault of the run that a rule knows as a cause");
  }

  // The launcher's table names the same rank.
  bool confirmed() {
    if (root_->strength == Strength::exit) return false;
    const auto first = first_failure(items_);
    if (!first || !first->failure->rank || first->failure->rank != d_.root.rank) return false;
    d_.reasons.push_back("the launcher's table agrees: rank " + std::to_string(*d_.root.rank) + " failed first");
    return true;
  }

  const std::vector<Item>& items_;
  const std::vector<SourceFindings>& sources_;
  Choice choice_;
  const Item* root_ = nullptr;
  Diagnosis d_;
  double shift_ = 0;
  bool recorded_ = false;   // the collective was judged by flight recorder dumps
};

}  // namespace

std::optional<Diagnosis> diagnose(const std::vector<Item>& items, const std::vector<SourceFindings>& sources, const std::string& job, int attempt) {
  return Diagnoser(items, sources).run(job, attempt);
}

}  // namespace triage::signatures
