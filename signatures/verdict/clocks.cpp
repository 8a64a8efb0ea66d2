#include "signatures/verdict/clocks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace triage::signatures {
namespace {

using parsers::TimePoint;
using Span = TimePoint::duration;

constexpr std::size_t kLeastSteps = 3;
constexpr Span kLeast = std::chrono::seconds(2);     // smaller ones are within what buffers hold lines back
constexpr Span kMost = std::chrono::hours(26);

using Steps = std::map<std::pair<std::string, std::int64_t>, TimePoint>;

Span size_of(Span span) { return span < Span::zero() ? -span : span; }

struct Node {
  std::vector<std::size_t> sources;
  Steps steps;
  std::optional<Span> ahead;   // of the reference
};

// The event that a line of kind sync tells: which of them, by the words and numbers that all ranks print alike.
std::pair<std::string, std::int64_t> event_of(const Finding& f) {
  std::string name = f.rule;
  std::int64_t number = 0;
  for (const auto& [capture, value] : f.captures) {
    if (const auto* text = std::get_if<std::string>(&value)) name += " " + *text;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) number = *integer;
  }
  return {std::move(name), number};
}

// Steps, and barriers and group set-ups, of a source with their times. One that stands there twice (a restart) is no event: of lines that
// each rank of a source prints for the same event the first counts if all are near one another.
Steps steps_of(const SourceFindings& source) {
  Steps out;
  std::map<std::pair<std::string, std::int64_t>, int> count;
  for (const auto& p : source.progress) {
    if (!p.time || !p.iteration) continue;
    const std::pair key{p.printer, *p.iteration};
    if (++count[key] == 1) out.emplace(key, *p.time);
  }
  for (const Finding& f : source.findings) {
    if (f.kind != "sync" || !f.time) continue;
    const auto key = event_of(f);
    const auto [first, fresh] = out.emplace(key, *f.time);
    if (!fresh && size_of(*f.time - first->second) > kLeast) count[key] = 2;
  }
  for (const auto& [key, times] : count)
    if (times > 1) out.erase(key);
  return out;
}

std::vector<Node> nodes_of(const std::vector<SourceFindings>& sources) {
  std::vector<Node> out;
  std::map<std::string, std::size_t> by_name;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    std::size_t at = out.size();
    if (const auto& name = sources[s].source.node; !name.empty()) at = by_name.emplace(name, at).first->second;
    if (at == out.size()) out.emplace_back();
    out[at].sources.push_back(s);
    for (const auto& [key, time] : steps_of(sources[s])) out[at].steps.emplace(key, time);
  }
  return out;
}

// How far b's clock is ahead of a's: the median over common steps, if they agree.
std::optional<Span> difference(const Node& a, const Node& b) {
  std::vector<Span> spans;
  for (const auto& [key, time] : a.steps)
    if (const auto other = b.steps.find(key); other != b.steps.end()) spans.push_back(other->second - time);
  if (spans.size() < kLeastSteps) return {};
  const auto middle = spans.begin() + static_cast<std::ptrdiff_t>(spans.size() / 2);
  std::nth_element(spans.begin(), middle, spans.end());
  const Span median = *middle;
  std::vector<Span> off;
  for (const Span span : spans) off.push_back(size_of(span - median));
  std::nth_element(off.begin(), off.begin() + static_cast<std::ptrdiff_t>(off.size() / 2), off.end());
  const Span spread = off[off.size() / 2];
  if (size_of(median) > kMost || spread * 4 > std::max(size_of(median), kLeast)) return {};
  return size_of(median) < kLeast ? Span::zero() : median;
}

void move(SourceFindings& source, Span ahead) {
  source.clock_ahead = ahead;
  const auto back = [&](std::optional<TimePoint>& time) {
    if (time) *time -= ahead;
  };
  back(source.first_time);
  back(source.last_time);
  for (auto& p : source.progress) back(p.time);
  for (auto& f : source.findings) {
    back(f.time);
    if (auto* table = std::get_if<parsers::ElasticTable>(&f.event))
      for (auto& failure : table->failures) back(failure.time);
  }
}

}  // namespace

void align_clocks(std::vector<SourceFindings>& sources) {
  if (sources.size() < 2) return;
  std::vector<Node> nodes = nodes_of(sources);
  if (nodes.size() < 2) return;
  // From the node with the most steps outwards, along pairs that share steps.
  const auto most = std::max_element(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.steps.size() < b.steps.size(); });
  std::deque<std::size_t> open{static_cast<std::size_t>(most - nodes.begin())};
  most->ahead = Span::zero();
  while (!open.empty()) {
    const std::size_t at = open.front();
    open.pop_front();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].ahead) continue;
      const auto span = difference(nodes[at], nodes[n]);
      if (!span) continue;
      nodes[n].ahead = *nodes[at].ahead + *span;
      open.push_back(n);
    }
  }
  // Most clocks are right: the middle one is the reference, so that the fewest times move.
  std::vector<Span> known;
  for (const Node& node : nodes)
    if (node.ahead) known.push_back(*node.ahead);
  std::nth_element(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2), known.end());
  const Span reference = known[known.size() / 2];
  for (const Node& node : nodes) {
    if (!node.ahead || *node.ahead == reference) continue;
    for (const std::size_t s : node.sources) move(sources[s], *node.ahead - reference);
  }
}

}  // namespace triage::signatures
