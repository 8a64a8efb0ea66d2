#include "signatures/verdict/diagnose.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "signatures/verdict/collective.hpp"
#include "signatures/verdict/dump_finding.hpp"
#include "signatures/verdict/exits.hpp"
#include "signatures/verdict/fingerprint.hpp"
#include "signatures/verdict/ledger.hpp"
#include "signatures/verdict/phase.hpp"
#include "signatures/verdict/root_cause.hpp"
#include "signatures/verdict/summary.hpp"

namespace triage::signatures {
namespace {

// Does the number stand in the text, whole?
bool names_number(std::string_view text, std::int64_t number) {
  const std::string digits = std::to_string(number);
  for (auto at = text.find(digits); at != std::string_view::npos; at = text.find(digits, at + 1)) {
    const std::size_t end = at + digits.size();
    if ((at == 0 || !parsers::is_digit(text[at - 1])) && (end == text.size() || !parsers::is_digit(text[end]))) return true;
  }
  return false;
}

constexpr std::size_t kFindings = 200;   // kept with a diagnosis
constexpr std::size_t kAlso = 64;
constexpr std::size_t kReports = 64;     // memory reports
constexpr std::size_t kEchoRanks = 4096;
constexpr std::uint64_t kNeighbourLines = 2;  // lines of one print before the one that tells the cause
constexpr std::uint64_t kStackLines = 40;     // lines between an error and a cut stack that tells its phase
constexpr std::uint64_t kHandsOn = 6;         // lines in which whoever hands an error on says what it was doing
constexpr std::ptrdiff_t kReaderFrames = 2;   // innermost frames among which a reader raises its own error

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
    phase();
    kind_of_reader_fault();
    kind_of_loader_fault();
    kind_of_process();
    kind_of_host_memory();
    memory();
    collectives(collective);
    if (d_.phase == Phase::unknown) d_.phase = phase_of_kind(d_.kind);
    rank();
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
      if (item.source == root.source && f.rule == "engine.scheduler_exception" && f.line > root.finding->line && f.line <= root.finding->line + kHandsOn) return item;
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

  // The finding that shows the root's frames: itself, or another print of the same fault.
  const Finding* with_frames() const {
    const auto good = [](const Finding& f) { return f.traceback && !f.traceback->frames.empty(); };
    if (good(*root_->finding)) return root_->finding;
    for (const Item* other : choice_.same)
      if (good(*other->finding)) return other->finding;
    return nullptr;
  }

  void phase() {
    const Finding& f = *root_->finding;
    d_.phase = phase_of_text(f.text);
    if (const Finding* frames = with_frames(); frames != nullptr && frames->traceback->language != parsers::Traceback::Language::cpp) {
      if (d_.phase == Phase::unknown) d_.phase = phase_of_frames(frames->traceback->frames);
      if (d_.root.frames.empty()) d_.root.frames = frames->traceback->frames;
    }
    if (d_.phase == Phase::unknown) phase_of_quoted_stack();
    if (d_.phase == Phase::unknown && d_.root.frames.empty()) phase_of_cut_stack();
    if (d_.phase == Phase::unknown) phase_of_neighbours();
  }

  // A stack that stands in one line: printed as a list, or as a JSON text.
  void phase_of_quoted_stack() {
    const auto look = [&](const Finding& f) {
      auto frames = frames_in_text(f.text);
      if (frames.empty() || d_.phase != Phase::unknown) return;
      d_.phase = phase_of_frames(frames);
      if (d_.root.frames.empty()) d_.root.frames = std::move(frames);
    };
    look(*root_->finding);
    for (const Item* other : choice_.same) look(*other->finding);
  }

  // The nearest stack without its last line: of the same process, or of a rank that did the same at that moment.
  void phase_of_cut_stack() {
    const std::uint64_t line = root_->finding->line;
    std::uint64_t least = kStackLines;
    for (const parsers::Traceback& stack : sources_[root_->source].unfinished) {
      const std::uint64_t gap = stack.last_line < line ? line - stack.last_line : stack.first_line > line ? stack.first_line - line : 0;
      if (gap > least) continue;
      const Phase phase = phase_of_frames(stack.frames);
      if (phase == Phase::unknown) continue;
      least = gap;
      d_.phase = phase;
    }
    if (d_.phase != Phase::unknown) d_.reasons.push_back("the phase is that of a stack beside it, whose end is cut off");
  }

  void phase_of_neighbours() {
    for (const Item& item : items_) {
      const Finding& f = *item.finding;
      if (item.source != root_->source || f.line < root_->finding->line || f.line > root_->finding->line + kHandsOn) continue;
      if (d_.phase = phase_of_text(f.text); d_.phase != Phase::unknown) return;
    }
  }

  // "KeyError: 'state'" or "ValueError: lengths differ" say nothing; raised inside the code that reads a checkpoint, they say that it does
  // not fit this run.
  void kind_of_reader_fault() {
    const Finding& f = *root_->finding;
    if (d_.kind != "user.exception" || f.rule != "python.exception") return;
    const std::string name = exception_name(f);
    const auto& frames = d_.root.frames;
    const bool key = name == "KeyError";
    if (!key && name != "ValueError" && name != "RuntimeError" && name != "AssertionError" && name != "IndexError") return;
    // A missing key may come to light far below the reader; the others are meant where the reader itself raises them.
    const auto from = key || frames.size() < kReaderFrames ? frames.begin() : frames.end() - kReaderFrames;
    if (!std::any_of(from, frames.end(), [](const parsers::Frame& frame) { return reads_checkpoint(frame); })) return;
    d_.kind = "ckpt.mismatch";
    if (d_.phase == Phase::unknown) d_.phase = Phase::load;
    d_.reasons.push_back(key ? "the key is missing while a checkpoint is read: it was written by another layout, version or optimizer"
                             : "it was raised while a checkpoint is read: it was written by another layout, version or optimizer");
  }

  // Transformer Engine's loader takes the first library that it finds, and lets StopIteration out when there is none.
  void kind_of_loader_fault() {
    const Finding& f = *root_->finding;
    const auto& frames = d_.root.frames;
    if (f.rule != "data.empty" || exception_name(f) != "StopIteration" || frames.empty() || !frames.back().function.starts_with("_load_library")) return;
    d_.kind = "env.import";
    d_.fix_hints.push_back("config.install");
    d_.reasons.push_back("it was raised while a package looks for its own compiled library: that part is not installed, or was built for another framework");
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

  // Exits and signals: the kind says which; a table names the rank.
  void kind_of_process() {
    const Finding& f = *root_->finding;
    if (kind_is(d_.kind, "proc.sigbus") && sigbus_of_shared_memory(f)) {
      d_.kind = "host.shm";
      d_.reasons.push_back("a bus error inside NCCL's or the data loader's shared memory: /dev/shm is full");
      return;
    }
    if (d_.kind == "io.enospc" && in_shared_memory(f)) {
      d_.kind = "host.shm";
      d_.reasons.push_back("no space for a semaphore or a tensor that processes share: that is /dev/shm, not a disk");
      return;
    }
    if (root_->strength != Strength::exit) return;
    if (const auto* table = std::get_if<parsers::ElasticTable>(&f.event)) {
      const auto first = first_failure(items_);
      if (!first || table->failures.empty()) return;
      use_table(*first);
      return;
    }
    if (const auto ending = ending_of(f)) {
      if (kind_is(d_.kind, "proc") || f.role != Role::root) d_.kind = kind_of_ending(*ending);
      d_.reasons.push_back("a process ended with " + ending_text(*ending) + ", and no line says why");
      if (const auto* exit = std::get_if<parsers::ProcessExit>(&f.event)) {
        if (!d_.root.rank) d_.root.rank = exit->rank;
        if (!d_.root.local_rank) d_.root.local_rank = exit->local_rank;
        if (!d_.root.pid) d_.root.pid = exit->pid;
        if (d_.root.node.empty()) d_.root.node = exit->node;
      }
    }
  }

  void use_table(const FirstFailure& first) {
    const auto& failure = *first.failure;
    const auto ending = failure.exit_code ? ending_of_code(*failure.exit_code) : Ending{};
    d_.kind = kind_of_ending(ending);
    d_.root.source = sources_[first.source].source.name;
    d_.root.line = first.finding->line;
    d_.root.offset = first.finding->offset;
    d_.root.text = first.finding->text;
    // The row itself: its exit code; of several tables the time, by which it is the first.
    const bool by_time = failure.time_line > 0 && tables() > 1;
    if (by_time || failure.line > 0) {
      d_.root.line = by_time ? failure.time_line : failure.line;
      d_.root.text = by_time ? failure.time_text : failure.text;
    }
    d_.root.rank = failure.rank;
    d_.root.local_rank = failure.local_rank;
    d_.root.pid = failure.pid;
    if (!failure.host.empty()) d_.root.node = failure.host;
    if (failure.time) d_.root.time = *failure.time + sources_[first.source].clock_ahead;
    std::string reason = "the launcher's failure table lists ";
    reason += failure.rank ? "rank " + std::to_string(*failure.rank) : "it";
    reason += " as the first to end, with " + ending_text(ending);
    d_.reasons.push_back(std::move(reason));
    double next = -1;
    for (const auto* other : table_entries(items_)) {
      if (other == &failure || !other->time || !failure.time || *other->time <= *failure.time) continue;
      const double gap = std::chrono::duration<double>(*other->time - *failure.time).count();
      if (next < 0 || gap < next) next = gap;
    }
    if (next >= 1) d_.reasons.push_back("the next process ended " + std::to_string(static_cast<long>(next)) + " s later");
  }

  std::size_t tables() const {
    return static_cast<std::size_t>(std::count_if(items_.begin(), items_.end(), [](const Item& item) { return std::holds_alternative<parsers::ElasticTable>(item.finding->event); }));
  }

  // Semaphores and shared tensors of Python's multiprocessing are files of /dev/shm.
  static bool in_shared_memory(const Finding& f) {
    if (!f.traceback || f.traceback->frames.empty()) return false;
    const auto& inner = f.traceback->frames.back();
    return parsers::contains(inner.file, "multiprocessing/synchronize.py") || parsers::contains(inner.file, "multiprocessing/shared_memory.py") ||
           parsers::contains(inner.file, "multiprocessing/heap.py") || parsers::contains(inner.source, "SemLock(") ||
           parsers::contains(inner.source, "_share_fd") || parsers::contains(inner.source, "_share_filename");
  }

  static bool sigbus_of_shared_memory(const Finding& f) {
    if (parsers::contains(f.text, "nonexistent physical address")) return true;
    if (!f.traceback) return false;
    return std::any_of(f.traceback->frames.begin(), f.traceback->frames.end(), [](const parsers::Frame& frame) {
      return parsers::contains(frame.file, "libnccl") || parsers::contains(frame.function, "nccl") ||
             parsers::contains(frame.file, "multiprocessing") || parsers::contains(frame.file, "dataloader");
    });
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

  // Which rank: the line's own, another print's, the table's, the source's.
  void rank() {
    const auto& f = *root_->finding;
    if (d_.collective && d_.collective->culprit_ranks.size() == 1) {
      if (d_.root.rank != d_.collective->culprit_ranks.front()) d_.root.rank = d_.collective->culprit_ranks.front();
      return;
    }
    if (d_.collective && recorded_ && !d_.collective->culprit_ranks.empty()) {   // several: the one whose dump is shown
      const auto& culprits = d_.collective->culprit_ranks;
      if (!d_.root.rank || std::find(culprits.begin(), culprits.end(), *d_.root.rank) == culprits.end()) d_.root.rank = culprits.front();
      return;
    }
    // Who waited in vain is not who failed: without a culprit the first rank is not known.
    if ((root_->strength == Strength::collective || root_->strength == Strength::cascade) && (kind_is(d_.kind, "nccl.timeout") || kind_is(d_.kind, "dist.gloo_timeout"))) {
      d_.root.rank.reset();
      if (waited_for_writer()) {
        d_.root.rank = 0;
        d_.reasons.push_back("the barrier stands in the saving of a checkpoint: the others wait for rank 0, which writes it (by convention; its own log is not there)");
        return;
      }
      d_.reasons.push_back("the line's own rank only waited; which rank was waited for is not in the logs given");
      return;
    }
    if (const auto* exit = std::get_if<parsers::ProcessExit>(&f.event)) {
      if (!d_.root.rank) d_.root.rank = exit->rank;
      if (!d_.root.local_rank) d_.root.local_rank = exit->local_rank;
      if (d_.root.node.empty()) d_.root.node = exit->node;
      if (d_.root.frames.empty()) d_.root.frames = exit->frames;
    }
    if (!d_.root.rank) rank_of_pid();
    if (!d_.root.rank && !d_.root.local_rank) rank_of_signal();
    if (!d_.root.rank && !d_.root.local_rank) rank_of_mpirun();
    if (!d_.root.rank && !d_.root.local_rank) rank_of_spawned();
    if (d_.root.rank) return;
    d_.root.rank = rank_in_text(f.text);
    if (d_.root.rank) return;
    if (!d_.root.rank) d_.root.rank = sources_[root_->source].source.rank;
    if (!d_.root.rank) {
      std::set<int> ranks;
      for (const Item* other : choice_.same)
        if (other->finding->rank) ranks.insert(*other->finding->rank);
      for (const Item* other : choice_.also)
        if (other->finding->rank) ranks.insert(*other->finding->rank);
      if (ranks.size() == 1) {
        d_.root.rank = *ranks.begin();
        d_.reasons.push_back("the rank is known from another print of the same fault");
      }
    }
    if (!d_.root.rank) rank_from_tables();
    if (!d_.root.rank && !f.system) rank_of_neighbours();
    if (!d_.root.rank && !f.system) {
      const auto world = d_.config.integer(parsers::Key::world);
      if (world == 1) d_.root.rank = 0;
      const auto per_node = d_.config.integer(parsers::Key::gpus_per_node);
      if (world && per_node && *world <= *per_node && d_.root.local_rank) d_.root.rank = d_.root.local_rank;
      if (world && f.task && *f.task < *world && root_->strength != Strength::scheduler && many_tasks(*world)) d_.root.rank = f.task;
    }
    if (!d_.root.rank) only_process();
  }

  // A log of one process names no rank: it is rank 0 of one. Not for faults that need several, nor for those of a node.
  void only_process() {
    const auto& f = *root_->finding;
    if (f.system || f.rule.starts_with("k8s.") || f.rule.starts_with("block.k8s") || shredded(f.text) || several_crashed() || several_ended() || root_->strength == Strength::scheduler || d_.root.local_rank.value_or(0) > 0 || command_of_another(f.text)) return;
    if (is_dump(f) || f.rule.starts_with("coredumpctl.")) return;   // of one process of perhaps many
    if (root_->strength == Strength::hardware && !f.traceback) return;   // the node's word of a device, not a process'
    // The kernel's and the scheduler's lines are the node's; a program that tells of its own killed child is one of the processes.
    const bool told_by_program = root_->finding->traceback.has_value();
    for (const std::string_view family : {"nccl", "dist", "sched", "host.oom.kernel", "host.oom.slurm", "host.oom.k8s", "gpu.xid"})
      if (kind_is(d_.kind, family) && !(told_by_program && kind_is(d_.kind, "host.oom"))) return;
    for (const Item& item : items_)  // who talks to others is not alone
      if (item.strength != Strength::none && (kind_is(item.finding->kind, "nccl") || item.finding->rule.starts_with("nccl."))) return;
    for (const Item& item : items_)  // the driver's copy of what one of its actors raised
      if (parsers::contains(item.finding->text, "RayTaskError(")) return;
    for (const Item& item : items_)  // the same line as Kubernetes' word of a container
      if (item.source == root_->source && item.finding->line == f.line && item.finding->rule.starts_with("k8s.")) return;
    std::set<int> processes;
    for (const auto& source : sources_) processes.insert(source.processes.begin(), source.processes.end());
    std::set<std::string_view> nodes;
    for (const auto& source : sources_) nodes.insert(source.nodes.begin(), source.nodes.end());
    if (nodes.size() > 1) return;
    const auto world = d_.config.integer(parsers::Key::world);
    if (processes.size() == 1 && (f.task || *processes.begin() == 0 || table_entries(items_).empty())) {
      d_.root.rank = *processes.begin();
      d_.reasons.push_back("no other process than " + std::to_string(*d_.root.rank) + " shows in the logs given");
    } else if (processes.empty() && world.value_or(1) == 1 && sources_.size() == 1 && d_.root.device.value_or(0) == 0 && f.actor.empty() &&
               table_entries(items_).empty()) {
      d_.root.rank = 0;
      d_.reasons.push_back("no second process shows in the log: taken as rank 0 of one");
    }
  }

  // "RuntimeErrorRuntimeError: ": two processes wrote into one line, and neither names itself.
  static bool shredded(std::string_view text) {
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

  // "-- Process 3 terminated with the following error:" heads the traceback of that process.
  void rank_of_spawned() {
    const auto& f = *root_->finding;
    const std::uint64_t first = f.traceback ? f.traceback->first_line : f.line;
    for (const Item& item : items_) {
      const auto& head = *item.finding;
      if (item.source != root_->source || head.rule != "spawn.raised" || head.line >= first || head.line + 3 < first) continue;
      for (const auto& [name, value] : head.captures)
        if (const auto* worker = std::get_if<std::int64_t>(&value); name == "worker" && worker != nullptr && *worker >= 0 && *worker < 1'000'000) {
          d_.root.local_rank = static_cast<int>(*worker);
          d_.reasons.push_back("the traceback is of spawned process " + std::to_string(*worker));
          return;
        }
    }
  }

  // "[host:4242:0:4300] Caught signal 11": UCX writes the process before it; lines of several are not of one.
  bool several_crashed() const {
    std::set<std::string_view> processes;
    for (const Item& item : items_) {
      const std::string_view text = item.finding->text;
      if (item.finding->rule != root_->finding->rule) continue;
      const auto at = text.find("] Caught signal ");
      if (at == std::string_view::npos) continue;
      const auto open = text.rfind('[', at);
      if (open != std::string_view::npos) processes.insert(text.substr(open, at - open));
    }
    return processes.size() > 1;
  }

  // A launcher names the processes that it ends and the one that failed: more than one ran here. Its own signal is no rank's.
  bool several_ended() const {
    const auto& f = *root_->finding;
    if (f.rule == "torchrun.hangup" || parsers::contains(f.text, "death signal, shutting down workers")) return true;
    std::set<std::int64_t> children;
    for (const Finding& other : sources_[root_->source].findings) {
      if (other.line < f.line || (other.rule != "launcher.kills_children" && other.rule != "torchrun.closing_signal" && other.rule != "torchrun.failed")) continue;
      for (const auto& [name, value] : other.captures)
        if (const auto* pid = std::get_if<std::int64_t>(&value); pid != nullptr && name == "process") children.insert(*pid);
    }
    return children.size() > 1;
  }

  // DeepSpeed's launcher prints the command of the last local rank: "'--local_rank=3'" says that four ran here.
  static bool command_of_another(std::string_view text) {
    for (const std::string_view option : {"local_rank=", "local-rank="}) {
      const auto at = text.find(option);
      if (at == std::string_view::npos) continue;
      std::string_view rest = text.substr(at + option.size());
      if (const auto number = parsers::take_integer(rest); number && *number > 0) return true;
    }
    return false;
  }

  // "invoked oom-killer" begins the report of the node's and of a cgroup's shortage alike; a later line of it says which.
  void kind_of_host_memory() {
    if (d_.kind != "host.oom.kernel") return;
    for (const Item& item : items_) {
      const auto& f = *item.finding;
      if (item.source == root_->source && f.system && kind_is(f.kind, "host.oom.cgroup") && f.line >= root_->finding->line &&
          f.line < root_->finding->line + 200)
        d_.kind = "host.oom.cgroup";
    }
  }

  // One print of several lines, of which only the first has the rank (torch_npu's "(PID:1, Device:3, RankID:3)").
  void rank_of_neighbours() {
    const auto& f = *root_->finding;
    std::optional<int> found;
    for (const Item& item : items_) {
      const auto& other = *item.finding;
      if (&item == root_ || item.source != root_->source || !other.rank) continue;
      if (other.line + kNeighbourLines < f.line || other.line > f.line) continue;
      if (found && *found != *other.rank) return;
      found = other.rank;
    }
    if (!found) return;
    d_.root.rank = found;
    d_.reasons.push_back("the line before it is of rank " + std::to_string(*found));
  }

  // A barrier inside the saving of a checkpoint, that every rank but the first reports.
  bool waited_for_writer() const {
    const auto& frames = d_.root.frames;
    const auto barrier = std::find_if(frames.begin(), frames.end(), [](const parsers::Frame& f) { return f.function == "barrier" || f.function == "monitored_barrier"; });
    if (barrier == frames.end() || !std::any_of(frames.begin(), barrier, [](const parsers::Frame& f) { return saves_checkpoint(f); })) return false;
    return std::none_of(items_.begin(), items_.end(), [&](const Item& item) { return item.strength == root_->strength && item.finding->rank == 0; });
  }

  // "terminate called" names no process; the only one that the launcher saw end by that signal is it.
  void rank_of_signal() {
    if (root_->strength == Strength::exit || !kind_is(d_.kind, "proc") || root_->finding->system) return;
    const auto ending = ending_of(*root_->finding);
    if (!ending || !ending->signal) return;
    const Item* found = nullptr;
    for (const Item& item : items_) {
      const Finding& f = *item.finding;
      if (item.strength != Strength::exit && item.strength != Strength::abort) continue;
      if (&item == root_ || (!f.local_rank && !f.rank)) continue;
      const auto other = ending_of(f);
      if (!other || other->signal != ending->signal) continue;
      if (found != nullptr && (found->finding->local_rank != f.local_rank || found->finding->rank != f.rank)) return;
      found = &item;
    }
    if (found == nullptr) return;
    d_.root.rank = found->finding->rank;
    d_.root.local_rank = found->finding->local_rank;
    if (!d_.root.pid) d_.root.pid = found->finding->pid;
    d_.reasons.push_back("the launcher saw one process end by this signal");
  }

  // Open MPI 5 names the rank and the process in one line and the signal in the next one.
  void rank_of_mpirun() {
    const Finding* only = nullptr;
    for (const Item& item : items_) {
      if (item.finding->rule != "mpirun.ended_rank" || item.caught) continue;
      if (only != nullptr) return;
      only = item.finding;
    }
    if (only == nullptr || !only->rank || root_->finding->system) return;
    const bool same = only->pid && (root_->finding->pid == only->pid || names_number(root_->finding->text, *only->pid));
    if (!same && !kind_is(d_.kind, "proc")) return;
    d_.root.rank = only->rank;
    if (!d_.root.pid) d_.root.pid = only->pid;
    if (d_.root.node.empty()) d_.root.node = only->node;
    d_.reasons.push_back("mpirun saw this rank end by a signal");
  }

  // The launcher's table names the process by its number, and with it the rank and the host.
  void rank_of_pid() {
    const auto& f = *root_->finding;
    const auto* exit = std::get_if<parsers::ProcessExit>(&f.event);
    const auto pid = f.pid ? f.pid : exit ? exit->pid : std::nullopt;
    if (!pid) return;
    for (const parsers::ElasticFailure* entry : table_entries(items_)) {
      if (entry->pid != pid || !entry->rank) continue;
      d_.root.rank = entry->rank;
      if (!d_.root.local_rank) d_.root.local_rank = entry->local_rank;
      if (d_.root.node.empty()) d_.root.node = entry->host;
      d_.reasons.push_back("the launcher's table names process " + std::to_string(*pid) + " as rank " + std::to_string(*d_.root.rank));
      return;
    }
  }

  // "[rank54]: " behind a prefix that is not known, and the warning of FSDP's clone ("... with name W on rank 1. This may").
  static std::optional<int> rank_in_text(std::string_view text) {
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
  bool many_tasks(std::int64_t world) const {
    std::set<int> tasks;
    for (const auto& s : sources_)
      for (const auto& f : s.findings)
        if (f.task) tasks.insert(*f.task);
    return static_cast<std::int64_t>(tasks.size()) == world;
  }

  void rank_from_tables() {
    const auto entries = table_entries(items_);
    if (entries.empty() || root_->strength < Strength::application || root_->finding->system) return;
    const auto& f = *root_->finding;
    const std::string_view words = parsers::trim(words_of(f)).substr(0, 60);
    const parsers::ElasticFailure* found = nullptr;
    int matches = 0;
    for (const auto* entry : entries) {
      const bool pid = f.pid && entry->pid == f.pid;
      const bool local = d_.root.local_rank && entry->local_rank == d_.root.local_rank;
      const bool text = words.size() >= 20 && parsers::contains(entry->traceback, words);
      if (pid || local || text) found = entry, ++matches;
    }
    if (matches == 1 && found->rank) {
      d_.root.rank = found->rank;
      if (!d_.root.local_rank) d_.root.local_rank = found->local_rank;
      d_.reasons.push_back("the launcher's table ties it to rank " + std::to_string(*found->rank));
      return;
    }
    if (matches > 1 || !choice_.also.empty()) return;
    const auto first = first_failure(items_);
    if (!first || !first->failure->rank || !first->failure->exit_code || *first->failure->exit_code == -15) return;
    d_.root.rank = first->failure->rank;
    if (!d_.root.local_rank) d_.root.local_rank = first->failure->local_rank;
    d_.reasons.push_back("the launcher's table lists rank " + std::to_string(*first->failure->rank) + " as the first to fail");
  }

  // The step that was under way: the last completed one before the root, plus one.
  void step() {
    std::optional<std::int64_t> last;
    const auto& own = sources_[root_->source];
    for (const auto& p : own.progress)
      if (p.iteration && p.line < d_.root.line) last = p.iteration;
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
