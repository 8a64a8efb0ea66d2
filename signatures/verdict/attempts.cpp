#include "signatures/verdict/attempts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "parsers/base/text.hpp"
#include "signatures/verdict/exits.hpp"

namespace triage::signatures {
namespace {

using parsers::Progress;

constexpr std::uint64_t kTailLines = 60;   // a traceback so near the end of a log ended the program
constexpr std::uint64_t kLastWords = 5;    // a warning in the last lines of a log
constexpr std::uint64_t kTableLines = 200; // of one table of the scheduler
constexpr std::uint64_t kHandledNear = 12; // lines between an error and the word that it was handled

struct Boundary {
  std::uint64_t line = 0;                     // of the first step of the new attempt
  std::optional<parsers::TimePoint> time;
};

bool is_death(const Item& item) {
  return item.strength == Strength::exit || item.strength == Strength::abort || item.strength == Strength::scheduler ||
         item.strength == Strength::host_oom;
}

// Between two steps a process ended and the count went back, or a launcher's table stands there: the job was started again.
std::vector<Boundary> boundaries_of(std::size_t s, const SourceFindings& source, const std::vector<Item>& items) {
  std::vector<Boundary> out;
  const auto& progress = source.progress;
  for (std::size_t i = 0; i + 1 < progress.size(); ++i) {
    const auto& a = progress[i];
    const auto& b = progress[i + 1];
    const bool back = a.iteration && b.iteration && a.printer == b.printer && *b.iteration < *a.iteration;
    bool fault = false, death = false;
    for (const auto& item : items) {
      if (item.source != s || item.finding->line <= a.line || item.finding->line >= b.line) continue;
      if (item.strength == Strength::none) continue;
      fault = true;
      death = death || is_death(item) || item.strength == Strength::wrapper;
    }
    if ((back && fault) || (death && a.iteration && b.iteration && *b.iteration <= *a.iteration + 1)) out.push_back({b.line, b.time});
  }
  return out;
}

class Splitter {
 public:
  Splitter(std::vector<Item> items, const std::vector<SourceFindings>& sources) : items_(std::move(items)), sources_(sources) {}

  Split run() {
    find_boundaries();
    find_ending_words();
    mark_handled_words();
    Split out;
    const std::size_t attempts = main_boundaries().size() + 1;
    out.attempts.resize(attempts);
    // Backwards in each attempt: a fault that only one more step follows is outlived if nothing else comes after it.
    std::vector<bool> later(attempts, false);
    std::vector<std::pair<std::size_t, Item>> kept;
    for (std::size_t i = items_.size(); i-- > 0;) {
      Item item = items_[i];
      if (item.finding->role == Role::handled) {
        handled(out, item, "the program's own text says that it was caught");
        continue;
      }
      if (item.strength == Strength::none) continue;
      if (of_other_jobs(item)) {
        handled(out, item, "a table of several jobs; nothing says that it is about this one");
        continue;
      }
      const std::size_t attempt = attempt_of(item);
      if (const char* why = outlived(item, attempt, later[attempt])) {
        handled(out, item, why);
        continue;
      }
      later[attempt] = true;
      kept.emplace_back(attempt, item);
    }
    std::reverse(kept.begin(), kept.end());
    for (auto& [attempt, item] : kept) out.attempts[attempt].push_back(item);
    for (auto& attempt : out.attempts) drop_harmless(attempt, out);
    std::reverse(out.handled.begin(), out.handled.end());
    return out;
  }

 private:
  void find_ending_words() {
    for (const auto& item : items_)
      if (!item.finding->ends.empty()) ending_words_.push_back(&item);
  }

  void find_boundaries() {
    for (std::size_t s = 0; s < sources_.size(); ++s) boundaries_.push_back(boundaries_of(s, sources_[s], items_));
  }
  const std::vector<Boundary>& main_boundaries() const {
    static const std::vector<Boundary> none;
    const std::vector<Boundary>* best = &none;
    for (const auto& b : boundaries_)
      if (b.size() > best->size()) best = &b;
    return *best;
  }

  std::size_t attempt_of(const Item& item) const {
    const auto& main = main_boundaries();
    const auto& own = boundaries_[item.source];
    if (own.size() == main.size()) {
      std::size_t n = 0;
      while (n < own.size() && item.finding->line >= own[n].line) ++n;
      return n;
    }
    if (!item.when) return main.size();
    std::size_t n = 0;
    while (n < main.size() && main[n].time && *item.when >= *main[n].time) ++n;
    return n;
  }

  // "Skipping batch" right after an error of the same stream.
  void mark_handled_words() {
    for (const auto& word : items_) {
      if (word.finding->role != Role::handled) continue;
      for (auto& item : items_) {
        if (!same_stream(item, word) || item.strength != Strength::local) continue;
        const auto a = item.finding->line, b = word.finding->line;
        if (a <= b && b - a <= kHandledNear) item.caught = true;
      }
    }
    for (auto& item : items_) {
      const auto& f = *item.finding;
      const bool mild = f.level == parsers::Level::warning || f.level == parsers::Level::info || f.level == parsers::Level::debug;
      if (mild && item.strength == Strength::general) item.caught = true;
      if (mild && item.strength == Strength::local && told_by_warning(f) && !(f.traceback && kind_is(f.kind, "gpu.oom")) && !corrupts_silently(f)) item.caught = true;
    }
  }

  static std::string_view job_of(const Finding& f) {
    for (const auto& [name, value] : f.captures)
      if (const auto* text = std::get_if<std::string>(&value); name == "job" && text != nullptr) return *text;
    return {};
  }

  // A row of sacct's table that lists other jobs as well. The name of the log (slurm-4711.out) may say which of them is meant.
  bool of_other_jobs(const Item& item) const {
    const Finding& f = *item.finding;
    if (f.rule != "slurm.sacct_oom") return false;
    const std::string_view job = job_of(f);
    if (parsers::contains(sources_[item.source].source.name, job)) return false;
    return std::any_of(items_.begin(), items_.end(), [&](const Item& row) {
      const Finding& other = *row.finding;
      const auto gap = other.line > f.line ? other.line - f.line : f.line - other.line;
      return row.source == item.source && other.rule == "slurm.sacct_row" && gap <= kTableLines && job_of(other) != job;
    });
  }

  // Kinds that programs warn of and go on: an optional file, library or download that is not there, memory that is tried for again.
  static bool told_by_warning(const Finding& f) {
    constexpr std::array<std::string_view, 6> kinds = {"gpu.oom", "ckpt", "env", "net", "data", "config"};
    return std::any_of(kinds.begin(), kinds.end(), [&](std::string_view kind) { return kind_is(f.kind, kind); });
  }

  // "Connection restored": the last line of the same log that ends what the item reports.
  const Item* end_of(const Item& item) const {
    const auto& f = *item.finding;
    const Item* found = nullptr;
    for (const Item* word : ending_words_) {
      const auto& w = *word->finding;
      if (word->source != item.source || std::max(w.last_line, w.line) <= std::max(f.last_line, f.line)) continue;
      if (std::find(w.ends.begin(), w.ends.end(), f.rule) == w.ends.end() || !same_captures(f, w)) continue;
      found = word;
    }
    return found;
  }

  // What both name (a server, a node) has to be the same.
  static bool same_captures(const Finding& a, const Finding& b) {
    if (a.count > 1 || b.count > 1) return true;
    for (const auto& [name, value] : a.captures)
      for (const auto& [other, theirs] : b.captures)
        if (name == other && value != theirs) return false;
    return true;
  }

  // Why the run outlived the fault, or nothing.
  const char* outlived(const Item& item, std::size_t attempt, bool later) const {
    const auto& f = *item.finding;
    if (corrupts_silently(f)) return nullptr;
    const auto& source = sources_[item.source];
    const auto& own = boundaries_[item.source];
    const std::uint64_t first = f.line;
    const std::uint64_t last = attempt < own.size() && own.size() == main_boundaries().size() ? own[attempt].line : ~std::uint64_t{0};
    const Progress* before = nullptr;
    std::set<std::int64_t> further;
    std::size_t unnumbered = 0;
    bool bars_only = true;
    for (const auto& p : source.progress) {
      if (p.line >= last) break;
      if (p.line <= first) {
        before = &p;
      } else if (p.bad_number && kind_is(f.kind, "num")) {
        continue;
      } else if (!p.iteration) {
        ++unnumbered;
      } else if (before == nullptr || !before->iteration || *p.iteration > *before->iteration) {
        further.insert(*p.iteration);
        bars_only = bars_only && p.printer == "tqdm";
      }
    }
    const std::size_t steps = further.size() + unnumbered;
    if (steps >= 2) return "the run completed further steps after it";
    // A progress bar prints its last state once more when it is closed: without a step before the fault one bar proves nothing.
    const bool closed_bar = before == nullptr && further.size() == 1 && bars_only;
    if (steps == 1 && !later && !closed_bar && !is_death(item)) return "the run completed a further step after it, and nothing failed since";
    if (steps_elsewhere(item) >= 3 && !is_death(item)) return "other logs of the job show further steps after it";
    return nullptr;
  }

  // Steps of other sources after the item, by time; a synchronous job cannot go on without one of its ranks.
  std::size_t steps_elsewhere(const Item& item) const {
    if (!item.when || !item.exact || item.strength == Strength::hardware || sources_[item.source].source.system) return 0;
    std::size_t most = 0;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      if (s == item.source || !boundaries_[s].empty()) continue;
      std::set<std::int64_t> steps;
      for (const auto& p : sources_[s].progress)
        if (p.time && p.iteration && *p.time > *item.when + std::chrono::seconds(2)) steps.insert(*p.iteration);
      most = std::max(most, steps.size());
    }
    return most;
  }

  // An exception in the middle of a log that no exit follows did not end the program; warnings of sockets alone are no failure.
  void drop_harmless(std::vector<Item>& items, Split& out) {
    const auto got_over = [&](const Item& item) {
      const Item* end = end_of(item);
      if (end == nullptr) return false;
      return std::none_of(items.begin(), items.end(), [&](const Item& other) {
        return end_of(other) == nullptr && ends_the_run(other) && before(item, other) == true && before(other, *end) == true;
      });
    };
    const bool fatal = std::any_of(items.begin(), items.end(), [&](const Item& item) { return ends_the_run(item) && !got_over(item); });
    std::vector<Item> kept;
    for (const auto& item : items) {
      const auto& f = *item.finding;
      if (got_over(item)) {
        handled(out, item, "a later line says that it is over");
        continue;
      }
      if (kind_is(f.kind, "sched.launch") && item.strength == Strength::general && !ends_the_run(item)) {
        handled(out, item, "the script went on after it");
        continue;
      }
      if (!fatal) {
        if (item.caught) {
          handled(out, item, "a warning of the program; nothing failed after it");
          continue;
        }
        if (item.strength == Strength::general) {
          handled(out, item, "the log goes on after it and reports no exit");
          continue;
        }
        if (item.strength <= Strength::collective && mild(f) && !last_words(item)) {
          handled(out, item, "a warning; nothing failed after it");
          continue;
        }
      }
      kept.push_back(item);
    }
    items = std::move(kept);
  }

  // TensorFlow warns of a refused allocation before the exception: a log that ends there was cut, or the process died in it.
  bool last_words(const Item& item) const {
    const auto& f = *item.finding;
    return (kind_is(f.kind, "tf.oom") || kind_is(f.kind, "jax.oom")) && sources_[item.source].last_line < std::max(f.last_line, f.line) + kLastWords;
  }

  static bool mild(const Finding& f) {
    if (parsers::contains(f.text, "NCCL WARN")) return false;
    if (told_to_end(f)) return false;
    return f.level == parsers::Level::warning || f.level == parsers::Level::info || f.level == parsers::Level::debug;
  }

  bool ends_the_run(const Item& item) const {
    const auto& f = *item.finding;
    if (item.caught) return false;
    if (item.strength == Strength::general || item.strength == Strength::wrapper) {
      // torch's excepthook prefixes only what nobody caught (torch/distributed/c10d_logger and elastic since 2.2).
      const bool hook = parsers::contains(f.text, "[rank") && f.traceback && f.traceback->complete;
      const auto& source = sources_[item.source];
      const std::uint64_t end = std::max(f.last_line, f.line);
      return hook || source.last_line < end + kTailLines;
    }
    if (item.strength <= Strength::collective && mild(f)) return false;
    return item.strength != Strength::none;
  }

  void handled(Split& out, const Item& item, const char* why) const {
    const auto& f = *item.finding;
    const auto& source = sources_[item.source].source.name;
    for (auto& h : out.handled)
      if (h.source == source && h.rule == f.rule && h.kind == f.kind && h.rank == f.rank && h.why == why) {
        h.count += f.count;
        if (f.line < h.line) h.line = f.line, h.text = f.text;
        return;
      }
    if (out.handled.size() >= 1000) return;
    Handled h;
    h.source = source;
    h.kind = f.kind;
    h.rule = f.rule;
    h.text = f.text;
    h.why = why;
    h.line = f.line;
    h.count = f.count;
    h.rank = f.rank;
    out.handled.push_back(std::move(h));
  }

  std::vector<Item> items_;
  const std::vector<SourceFindings>& sources_;
  std::vector<std::vector<Boundary>> boundaries_;
  std::vector<const Item*> ending_words_;   // into items_
};

}  // namespace

Split split_attempts(std::vector<Item> items, const std::vector<SourceFindings>& sources) {
  return Splitter(std::move(items), sources).run();
}

}  // namespace triage::signatures
