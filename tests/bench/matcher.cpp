// Throughput of the literal pass and of matching, one core: a Megatron-like log in memory, the shipped rules and the literals that other
// readers wait for. usage: matcher_bench [MiB of log]   Prints MB/s (10^6 bytes). Last: all rules beside 80 of them, in turns.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "parsers/base/error_text.hpp"
#include "parsers/config/config_reader.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/records/prefix.hpp"
#include "parsers/records/traceback.hpp"
#include "signatures/match/matcher.hpp"
#include "signatures/match/rule_reader.hpp"

using namespace triage;
using namespace triage::signatures;

namespace {

constexpr std::size_t kBlock = 1 << 20;
// Processor time: other programs on the machine do not count.
struct Clock {
  using time_point = double;
  static double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
};

double seconds_since(Clock::time_point start) { return Clock::now() - start; }

template <class... Args>
std::string format(const char* form, Args... args) {
  char buffer[1024];
  std::snprintf(buffer, sizeof buffer, form, args...);
  return buffer;
}

// `every`: one line in so many is an out-of-memory error; 0: none.
std::string make_log(std::size_t bytes, unsigned every) {
  std::mt19937 random(11);
  const auto real = [&](double low, double high) { return low + (high - low) * static_cast<double>(random() % 100000) / 100000.0; };
  std::string out;
  unsigned iteration = 0, lines = 0;
  while (out.size() < bytes) {
    ++iteration;
    out += format(" [2026-12-01 13:%02u:%02u.%06u] iteration %8u/  500000 | consumed samples: %12u | elapsed time per iteration (ms): %.1f | throughput per GPU "
                  "(TFLOP/s/GPU): %.1f | learning rate: %.6E | global batch size:   256 | lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f | number of skipped "
                  "iterations:   0 | number of nan iterations:   0 |\n",
                  iteration / 60 % 60, iteration % 60, static_cast<unsigned>(random() % 1000000), iteration, iteration * 256, real(900, 1400), real(380, 500), real(1e-6, 1e-4),
                  real(2, 9), real(0.1, 2));
    for (unsigned k = static_cast<unsigned>(random() % 6); k > 0; --k) {
      switch (random() % 7) {
        case 0: out += "(min, max) time across ranks (ms):\n"; break;
        case 1: out += format("    forward-backward ...............................: (%.2f, %.2f)\n", real(900, 1000), real(1000, 1100)); break;
        case 2: out += format("    optimizer-inner-step ...........................: (%.2f, %.2f)\n", real(9, 10), real(10, 11)); break;
        case 3: out += format("node-%02u:12%02u:1270 [%u] NCCL INFO Channel %02u/0 : 3[3] -> 4[4] via P2P/CUMEM\n", iteration % 64, iteration % 90, iteration % 8, iteration % 24); break;
        case 4: out += format("[rank%u]: /opt/megatron-lm/megatron/core/optimizer/clip_grads.py:32: UserWarning: Transformer Engine and Apex are not installed.\n", iteration % 64); break;
        case 5: out += format("saving checkpoint at iteration %7u to /checkpoints/run in torch_dist format\n", iteration); break;
        default: out += format("[default%u]:INFO:megatron.core.timers: step time %.3f s, tokens per second per gpu %.1f\n", iteration % 8, real(1, 2), real(9000, 12000)); break;
      }
    }
    lines += 4;
    if (every && lines >= every) {
      lines = 0;
      out += format("[rank%u]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %.2f GiB. GPU %u has a total capacity of 79.15 GiB of which 1.32 GiB is free. "
                    "Including non-PyTorch memory, this process has 77.81 GiB memory in use. Of the allocated memory 74.10 GiB is allocated by PyTorch, and 1.58 GiB is "
                    "reserved by PyTorch but unallocated.\n",
                    iteration % 64, real(0.5, 4), iteration % 8);
    }
  }
  return out;
}

struct Timing {
  double seconds = 0;
  std::size_t candidates = 0, findings = 0;
};

// Blocks end at line ends. With `matching`, candidates that hold a rule's literal become records and are matched.
Timing pass(Matcher& matcher, std::string_view log, bool matching) {
  Timing out;
  std::vector<Candidate> candidates;
  std::vector<Finding> findings;
  parsers::Peeler peeler(2026);
  const Clock::time_point start = Clock::now();
  while (!log.empty()) {
    std::size_t size = std::min(kBlock, log.size());
    if (size < log.size()) size = log.rfind('\n', size - 1) + 1;
    const std::string_view block = log.substr(0, size);
    const std::size_t count = matcher.scan(block, candidates);
    out.candidates += count;
    for (std::size_t i = 0; matching && i < count; ++i) {
      if (candidates[i].rules.empty()) continue;
      parsers::Line line;
      line.text = block.substr(candidates[i].begin, candidates[i].end - candidates[i].begin);
      const parsers::Record record = peeler.peel(line);
      findings.clear();
      matcher.match(record, context_of(record), candidates[i].rules, findings);
      out.findings += findings.size();
    }
    log.remove_prefix(size);
  }
  out.seconds = seconds_since(start);
  return out;
}

void report(const char* name, Matcher& matcher, std::string_view log, bool matching) {
  Timing best;
  for (int round = 0; round < 5; ++round) {
    const Timing now = pass(matcher, log, matching);
    if (round == 0 || now.seconds < best.seconds) best = now;
  }
  std::printf("%-38s %8.0f MB/s  candidates %zu  findings %zu\n", name, static_cast<double>(log.size()) / best.seconds / 1e6, best.candidates, best.findings);
}

constexpr std::size_t kFew = 80;

// What more rules cost a log in which few lines match: both sets in turns, the best of each.
void compare(Matcher& all, Matcher& few, std::string_view log, bool matching) {
  double best[2] = {0, 0};
  for (int round = 0; round < 7; ++round)
    for (int which = 0; which < 2; ++which) {
      const Timing now = pass(which == 0 ? all : few, log, matching);
      if (round == 0 || now.seconds < best[which]) best[which] = now.seconds;
    }
  const double mega = static_cast<double>(log.size()) / 1e6;
  std::printf("%-38s %8.0f MB/s with all rules, %.0f MB/s with %zu: %+.1f %% time\n", matching ? "rare matches, with matching" : "rare matches, literal pass", mega / best[0],
              mega / best[1], kFew, 100 * (best[0] / best[1] - 1));
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = (argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) : 256) << 20;
  const Clock::time_point reading = Clock::now();
  ReadRules read = read_rules(embedded_rule_files());
  const double read_seconds = seconds_since(reading);
  std::vector<parsers::Error> faults = std::move(read.faults);
  const Clock::time_point compiling = Clock::now();
  // What the readers of tracebacks, tables, reports and configuration wait for, as in the program.
  std::vector<std::string_view> extra;
  const auto wait_for = [&](std::span<const std::string_view> literals) { extra.insert(extra.end(), literals.begin(), literals.end()); };
  const auto event_readers = parsers::make_event_readers();
  const auto config_readers = parsers::make_config_readers();
  wait_for(parsers::TracebackAssembler::triggers());
  for (const auto& reader : event_readers) wait_for(reader->triggers());
  for (const auto& reader : config_readers) wait_for(reader->triggers());
  wait_for(parsers::memory_report_literals());
  std::vector<Signature> some;   // spread over all families
  for (std::size_t i = 0; i < kFew && i < read.rules.size(); ++i) some.push_back(read.rules[i * read.rules.size() / kFew]);
  const auto set = SignatureSet::compile(std::move(read.rules), extra, faults);
  const double compile_seconds = seconds_since(compiling);
  if (!set) {
    std::fputs(parsers::error_text(faults).c_str(), stderr);
    return 1;
  }
  std::printf("%zu rules, %zu literals, engine %s; read %.0f ms, compile %.0f ms\n", set->signatures().size(), set->literals().size(), std::string(set->engine()).c_str(),
              read_seconds * 1e3, compile_seconds * 1e3);
  Matcher matcher(set);
  const std::string rare = make_log(bytes, 0);
  report("rare matches, literal pass", matcher, rare, false);
  report("rare matches, with matching", matcher, rare, true);
  const std::string heavy = make_log(bytes / 4, 50);
  report("1 line in 50 matches, literal pass", matcher, heavy, false);
  report("1 line in 50 matches, with matching", matcher, heavy, true);
  const auto few_set = SignatureSet::compile(std::move(some), extra, faults);
  if (!few_set) return 1;
  Matcher few(few_set);
  std::printf("%zu literals in all, %zu of %zu rules\n", set->literals().size(), few_set->literals().size(), kFew);
  compare(matcher, few, rare, false);
  compare(matcher, few, rare, true);
  return 0;
}
