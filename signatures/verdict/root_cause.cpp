#include "signatures/verdict/root_cause.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "parsers/base/text.hpp"
#include "signatures/verdict/dump_finding.hpp"
#include "signatures/verdict/exits.hpp"

namespace triage::signatures {
namespace {

using parsers::contains;

constexpr double kFarEarlier = 600;        // s: a collective time-out so much earlier is no echo
constexpr double kInterleaving = 30;       // s: ranks of one fault print within this time
constexpr std::uint64_t kNearLines = 400;  // lines: the same without times

const Item* earliest(const std::vector<Item>& items, Strength strength) {
  for (const auto& item : items)
    if (item.strength == strength && !item.caught) return &item;
  return nullptr;
}

bool near(const Item& a, const Item& b) {
  if (a.source == b.source) {
    const auto x = a.finding->line, y = b.finding->line;
    if ((x > y ? x - y : y - x) <= kNearLines) return true;
  }
  const auto gap = seconds_between(a, b);
  return gap && std::abs(*gap) <= kInterleaving;
}

std::string name_of(const Item& item) {
  const auto& f = *item.finding;
  return f.rank ? f.kind + " of rank " + std::to_string(*f.rank) : f.kind;
}

std::string gap_text(double seconds) {
  const double s = std::abs(seconds);
  if (s >= 120) return std::to_string(static_cast<long>(s / 60)) + " min";
  return std::to_string(static_cast<long>(s + 0.5)) + " s";
}

// Faults that a broken device or link shows itself by.
bool shows_device_fault(const Finding& f) {
  for (std::string_view kind : {"cuda", "nccl", "dist", "proc", "gpu.xid"})
    if (kind_is(f.kind, kind)) return true;
  return contains(words_of(f), "CUDA error") || contains(words_of(f), "NCCL") || contains(words_of(f), "HIP error");
}

bool same_node(const Item& a, const Item& b) {
  const auto& x = a.finding->node;
  const auto& y = b.finding->node;
  return x.empty() || y.empty() || x == y || x.starts_with(y + ".") || y.starts_with(x + ".");
}

// Order of transport faults that stand close together: what names a cause before what names a victim.
int collective_order(const Finding& f) {
  constexpr std::array<std::string_view, 12> order = {"nccl.usage", "nccl.net", "nccl.desync", "nccl.timeout", "dist.gloo_timeout",
                                                      "nccl.heartbeat", "nccl.system", "nccl.remote", "dist.rendezvous", "nccl.internal",
                                                      "dist.store", "dist.peer_closed"};
  for (std::size_t i = 0; i < order.size(); ++i)
    if (kind_is(f.kind, order[i])) return static_cast<int>(i);
  return static_cast<int>(order.size());
}

class Chooser {
 public:
  Chooser(const std::vector<Item>& items, const std::optional<CollectiveJudgement>& collective) : items_(items), collective_(collective) {}

  std::optional<Choice> run() {
    choice_.root = local_or_general();
    against_scheduler();
    against_host_oom();
    against_hardware();
    against_collective();
    if (choice_.root == nullptr) choice_.root = earliest(items_, Strength::application), say(choice_.root, "no other fault explains it");
    if (choice_.root == nullptr) choice_.root = caught();
    if (choice_.root == nullptr) choice_.root = dead_before_collective();
    if (choice_.root == nullptr) choice_.root = best_collective();
    if (choice_.root == nullptr) choice_.root = only_endings();
    if (choice_.root == nullptr) return {};
    collect();
    return std::move(choice_);
  }

 private:
  void say(const Item* root, std::string reason) {
    if (root != nullptr) choice_.reasons.push_back(std::move(reason));
  }

  const Item* local_or_general() {
    const Item* local = earliest(items_, Strength::local);
    const Item* general = earliest(items_, Strength::general);
    if (local != nullptr) local = prefer_cause(local);
    if (local == nullptr && general == nullptr) return nullptr;
    if (general == nullptr) return local;
    if (local == nullptr) return first_of_chain(general);
    const bool crash = kind_is(local->finding->kind, "proc");
    const auto first = before(*general, *local);
    if (first == true && (crash || !near(*general, *local))) {
      say(general, "it stands " + gap(*general, *local) + "before " + name_of(*local));
      return first_of_chain(general);
    }
    say(local, "a fault that a rule knows beats a general exception near it");
    return local;
  }

  std::string gap(const Item& a, const Item& b) const {
    const auto seconds = seconds_between(a, b);
    return seconds && std::abs(*seconds) >= 1 ? gap_text(*seconds) + " " : "";
  }

  // Pairs of kinds where the later line is the cause of the earlier one.
  const Item* prefer_cause(const Item* local) {
    const auto other = [&](std::string_view kind) -> const Item* {
      for (const auto& item : items_)
        if (item.strength == Strength::local && !item.caught && kind_is(item.finding->kind, kind) && near(item, *local)) return &item;
      return nullptr;
    };
    const auto& f = *local->finding;
    // shm_open fails once no file descriptor is left (corpus other/038).
    if (kind_is(f.kind, "host.shm") && contains(words_of(f), "unable to open shared memory object"))
      if (const Item* files = other("io.emfile")) {
        say(files, "no file descriptor was left, so shared memory could not be opened either");
        return files;
      }
    // A worker that dies takes a data error with it; a crash in teardown follows the fault of the same process.
    if (kind_is(f.kind, "data"))
      for (std::string_view kind : {"host.shm", "host.alloc", "io"})
        if (const Item* cause = other(kind)) return cause;
    return local;
  }

  // "During handling of the above exception": the first one of a process is the cause, unless it is what programs meet every day.
  const Item* first_of_chain(const Item* general) {
    if (!is_chain_noise(exception_name(*general->finding))) return general;
    for (const auto& item : items_) {
      if (&item == general || item.strength != Strength::general || item.caught || !same_stream(item, *general)) continue;
      if (item.finding->line <= general->finding->line || !item.finding->traceback || !general->finding->traceback) continue;
      if (item.finding->traceback->first_line > general->finding->traceback->last_line + 12) continue;
      say(&item, "it was raised while " + exception_name(*general->finding) + " was handled");
      return &item;
    }
    return general;
  }

  void against_scheduler() {
    const Item* scheduler = nullptr;
    for (const auto& item : items_) {
      if (item.strength != Strength::scheduler || item.caught) continue;
      // A cancellation without reason is also what follows a failed task.
      if (scheduler == nullptr || (kind_is(scheduler->finding->kind, "sched.cancelled") && !kind_is(item.finding->kind, "sched.cancelled")))
        scheduler = &item;
    }
    if (scheduler == nullptr) return;
    if (choice_.root != nullptr) {
      const auto gap = seconds_between(*choice_.root, *scheduler);
      const auto first = before(*choice_.root, *scheduler);
      const bool earlier = gap && choice_.root->exact && scheduler->exact ? *gap > 5 : first.value_or(choice_.root->strength == Strength::local);
      if (earlier) {
        say(choice_.root, "it stands before the scheduler's end of the job");
        return;
      }
    }
    choice_.reasons.clear();
    choice_.root = scheduler;
    say(scheduler, "the scheduler ended the job; what follows is its consequence");
  }

  void against_host_oom() {
    const Item* oom = nullptr;
    for (const auto& item : items_) {
      if (item.strength != Strength::host_oom || item.caught) continue;
      const auto* kill = std::get_if<parsers::OomKill>(&item.finding->event);
      const bool figures = kill != nullptr && kill->anon_rss;
      const bool better = oom != nullptr && figures && !std::holds_alternative<parsers::OomKill>(oom->finding->event) && near(item, *oom);
      if (oom == nullptr || better) oom = &item;
    }
    if (oom == nullptr) return;
    if (choice_.root != nullptr) {
      const auto& root = *choice_.root;
      const bool kill = killed(items_);
      const auto gap = seconds_between(root, *oom);
      if (gap ? *gap > 60 : !kill) {
        say(choice_.root, "the host's out-of-memory record does not stand before it");
        return;
      }
      if (root.strength == Strength::local && !kill && !(gap && *gap < 0)) return;
    }
    choice_.reasons.clear();
    choice_.root = oom;
    say(oom, "the host's memory ran out and a process was killed for it");
  }

  void against_hardware() {
    const Item* hardware = nullptr;
    for (const auto& item : items_) {
      if (item.strength != Strength::hardware || item.caught) continue;
      if (choice_.root != nullptr) {
        if (!shows_device_fault(*choice_.root->finding) || !same_node(item, *choice_.root)) continue;
        const auto gap = seconds_between(item, *choice_.root);
        if (gap && (*gap < -120 || *gap > 24 * 3600)) continue;
      }
      hardware = &item;
      break;
    }
    if (hardware == nullptr) return;
    if (choice_.root != nullptr) {
      choice_.reasons.clear();
      say(hardware, "the driver reported the device itself; " + name_of(*choice_.root) + " follows from it");
    } else {
      say(hardware, "the driver reported the device itself");
    }
    choice_.root = hardware;
  }

  void against_collective() {
    if (choice_.root == nullptr) return;
    const auto& root = *choice_.root;
    if (root.strength != Strength::local && root.strength != Strength::general && root.strength != Strength::scheduler) return;
    const Item* collective = nullptr;
    for (const auto& item : items_)
      if (item.strength == Strength::collective && !item.caught && std::holds_alternative<parsers::CollectiveTimeout>(item.finding->event)) {
        collective = &item;
        break;
      }
    if (collective == nullptr) return;
    const auto gap = seconds_between(*collective, root);
    const bool line_first = collective->source == root.source && collective->finding->line < root.finding->line;
    const bool far = gap && *gap > (root.strength == Strength::local ? kFarEarlier : 5.0);
    if (far || (root.strength == Strength::general && line_first && !(gap && *gap > 0))) {
      const std::string passed = gap ? gap_text(*gap) + " " : "";
      choice_.reasons = {"the collective timed out " + passed + "before " + name_of(root)};
      choice_.root = best_collective();
      return;
    }
    if (root.strength != Strength::scheduler) {
      const auto& event = std::get<parsers::CollectiveTimeout>(collective->finding->event);
      if (gap && *gap <= 0 && event.ran_ms && -*gap * 1000 <= static_cast<double>(*event.ran_ms) + 60'000) {
        say(choice_.root, "it happened " + gap_text(*gap) + " before the collective time-out, within the time the others waited");
      } else {
        say(choice_.root, "a local fault beats a collective time-out");
      }
    }
  }

  // An error the program caught and went on from, if the job then broke without a better cause (corpus gpu/033).
  const Item* caught() {
    const Item* found = nullptr;
    for (const auto& item : items_) {
      if (item.caught && item.strength == Strength::local && found == nullptr) found = &item;
      if (!item.caught && found != nullptr && item.strength != Strength::none) {
        say(found, "it was caught, but the run broke right after it without any other cause");
        return found;
      }
    }
    return nullptr;
  }

  // A worker's death that was printed before the others' time-out: they waited for it. A watchdog's own abort comes after its line.
  const Item* dead_before_collective() {
    const Item* timeout = nullptr;
    for (const auto& item : items_)
      if (!item.caught && item.strength == Strength::collective && std::holds_alternative<parsers::CollectiveTimeout>(item.finding->event)) {
        timeout = &item;
        break;
      }
    if (timeout == nullptr) return nullptr;
    for (const auto& item : items_) {
      if (item.caught || (item.strength != Strength::exit && item.strength != Strength::wrapper)) continue;
      const auto& f = *item.finding;
      if (!contains(f.text, "worker process has died") && !contains(f.text, "worker died") && !contains(f.text, "ActorDiedError")) continue;
      const bool same_line = item.source == timeout->source && f.line == timeout->finding->line;
      if (same_line ? stands_first(f.text) : before(item, *timeout) == true) {
        say(&item, "it ended before the others' collective timed out: they waited for it");
        return &item;
      }
    }
    return nullptr;
  }

  // Lines that were joined on their way into a ticket keep their order.
  static bool stands_first(std::string_view text) {
    const auto died = text.find("worker process has died");
    return died != std::string_view::npos && died < text.find("Watchdog caught");
  }

  const Item* best_collective() {
    if (collective_ && collective_->witness != nullptr && (collective_->desync || !collective_->fault.culprit_ranks.empty())) {
      const Item* witness = collective_->witness;
      if (!other_transport_before(*witness)) return witness;
    }
    const Item* first = nullptr;
    for (const auto& item : items_)
      if (item.strength == Strength::collective && !item.caught) {
        first = &item;
        break;
      }
    if (first == nullptr) return nullptr;
    const Item* best = first;
    for (const auto& item : items_) {
      if (item.strength != Strength::collective || item.caught) continue;
      const auto gap = seconds_between(*first, item);
      const bool close = near(*first, item) || (gap && *gap <= 120);
      const auto order = [](const Item& i) {
        return collective_order(*i.finding) * 2 + (std::holds_alternative<parsers::CollectiveTimeout>(i.finding->event) ? 0 : 1);
      };
      if (close && order(item) < order(*best)) best = &item;
    }
    return best;
  }

  bool other_transport_before(const Item& witness) const {
    for (const auto& item : items_) {
      if (item.strength != Strength::collective || item.caught) continue;
      if (&item == &witness) return false;
      const auto gap = seconds_between(item, witness);
      if (gap && *gap > 120 && !std::holds_alternative<parsers::CollectiveTimeout>(item.finding->event)) return true;
    }
    return false;
  }

  const Item* only_endings() {
    const auto one = [&](Strength strength) { return earliest(items_, strength); };
    if (const Item* abort = one(Strength::abort)) return abort;
    const Item* best = nullptr;
    int best_rank = 0;
    for (const auto& item : items_) {
      if (item.strength != Strength::exit || item.caught) continue;
      const int rank = ending_order(item);
      if (rank < 0) continue;
      if (best == nullptr || rank < best_rank) best = &item, best_rank = rank;
    }
    if (best != nullptr) {
      say(best, "only the end of processes is in the logs, no cause");
      return best;
    }
    if (const Item* echo = one(Strength::cascade)) {
      // Of the flight recorder's lines the one that names who timed out first says most.
      for (const auto& item : items_)
        if (item.strength == Strength::cascade && !item.caught && item.finding->rule == "nccl.flight_recorder.origin" && kind_is(echo->finding->kind, "nccl.timeout")) {
          echo = &item;
          break;
        }
      say(echo, "only echoes of another process' failure are in the logs");
      return echo;
    }
    return one(Strength::wrapper);
  }

  // Smaller tells more: a signal of the process itself, then a table, then an exit code, then what the launcher did.
  int ending_order(const Item& item) const {
    const auto& f = *item.finding;
    if (xid_code(f.kind)) return -1;
    if (std::holds_alternative<parsers::ElasticTable>(f.event)) return 2;
    const auto ending = ending_of(f);
    const bool signalled = ending && ending->signal && *ending->signal != 15;
    if (signalled) {
      const auto closing = closing_line(items_, item.source);
      const bool cleanup = *ending->signal == 9 && closing && f.line > *closing && !contains(f.text, "exits with return code") &&
                           !contains(f.text, "exitcode");
      return cleanup ? 6 : 1;
    }
    if (ending && ending->code) return *ending->code == 0 ? 7 : 3;
    return contains(f.text, "closing signal") || contains(f.text, "Killing subprocess") ? 6 : 5;
  }

  // Among prints of one fault that stand together, the one that says most: the inner of nested Ray errors, the kernel's line with
  // the victim, the eviction with its figures, the job rather than its step.
  const Item* most_telling() const {
    const Item* best = choice_.root;
    const auto& kind = choice_.root->finding->kind;
    const auto score = [](const Finding& f) {
      if (contains(f.text, "Killed process") || contains(f.text, "Kill process") || contains(f.text, "low on resource")) return 2;
      return contains(f.text, "*** JOB ") ? 1 : 0;
    };
    const bool ray = exception_name(*choice_.root->finding).starts_with("RayTaskError");
    for (const auto& item : items_) {
      const auto& f = *item.finding;
      if (item.source != choice_.root->source || f.kind != kind || f.line <= best->finding->line || f.line > best->finding->line + 40) continue;
      const bool inner = ray && contains(f.text, "RayTaskError(");
      if (inner || score(f) > score(*best->finding)) best = &item;
    }
    return best;
  }

  // The figures of an out-of-memory message tell whether two lines are one event.
  static bool same_words(const Finding& a, const Finding& b) {
    std::string_view x = parsers::trim(words_of(a)), y = parsers::trim(words_of(b));
    for (std::string_view* text : {&x, &y})
      if (const auto at = text->find("out of memory. Tried to allocate"); at != std::string_view::npos) text->remove_prefix(at);
    const auto length = std::min({x.size(), y.size(), std::size_t{240}});
    return length >= 12 && x.substr(0, length) == y.substr(0, length);
  }

  void collect() {
    choice_.root = most_telling();
    const Finding root = *choice_.root->finding;
    const Item* better = choice_.root;
    for (const auto& item : items_) {
      if (&item == choice_.root || item.strength == Strength::none) continue;
      const auto& f = *item.finding;
      const bool words = same_words(root, f);
      if (kind_is(f.kind, root.kind) || kind_is(root.kind, f.kind) || words) {
        const bool other_rank = f.rank && root.rank && *f.rank != *root.rank;
        if (other_rank && item.strength >= Strength::local && item.strength == choice_.root->strength) {
          choice_.also.push_back(&item);
        } else if (words || same_stream(item, *choice_.root) || (!other_rank && (is_dump(f) || is_dump(root))) || item.strength < Strength::general || !f.rank || !root.rank) {
          choice_.same.push_back(&item);
          // A dump has no place in the order of the lines; the program's own line of the same fault stands for both.
          if (is_dump(root) && is_dump(*better->finding) && !is_dump(f) && item.strength == choice_.root->strength && f.kind == root.kind) better = &item;
          // The print with the traceback shows more than a logger's copy of it (corpus gpu/001).
          const bool copy = choice_.root->finding->level == parsers::Level::warning && f.level != parsers::Level::warning;
          // Of two files without clocks the one whose line names its rank has the original, the other a launcher's copy.
          const bool original = words && f.rank && !better->finding->rank && item.source != choice_.root->source && !seconds_between(item, *choice_.root);
          if (original) better = &item;
          if (words && near(item, *choice_.root) && ((f.traceback && !better->finding->traceback && copy) || (copy && f.rank && !better->finding->rank)))
            better = &item;
        }
      }
    }
    if (better != choice_.root) {
      std::replace(choice_.same.begin(), choice_.same.end(), better, choice_.root);
      choice_.root = better;
    }
    // Equal faults within a second: no first one can be proven between sources, or without times.
    for (const Item* other : choice_.also) {
      if (other->source == choice_.root->source) continue;
      const auto gap = seconds_between(*choice_.root, *other);
      if (!gap || *gap < 1.0) choice_.first_proven = false;
    }
    if (!choice_.first_proven) choice_.reasons.push_back("several ranks failed alike and nothing proves which was first");
  }

  const std::vector<Item>& items_;
  const std::optional<CollectiveJudgement>& collective_;
  Choice choice_;
};

}  // namespace

std::optional<Choice> choose_root(const std::vector<Item>& items, const std::optional<CollectiveJudgement>& collective) {
  return Chooser(items, collective).run();
}

}  // namespace triage::signatures
