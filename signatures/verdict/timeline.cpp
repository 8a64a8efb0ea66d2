#include "signatures/verdict/timeline.hpp"

#include <algorithm>

namespace triage::signatures {
namespace {

struct Stamp {
  std::uint64_t line = 0;
  parsers::TimePoint time;
};

// Times of a source by line. Later lines never get earlier times: ranks of one file flush at different moments.
std::vector<Stamp> stamps_of(const SourceFindings& source) {
  std::vector<Stamp> stamps;
  for (const auto& f : source.findings)
    if (f.time) stamps.push_back({f.line, *f.time});
  for (const auto& p : source.progress)
    if (p.time) stamps.push_back({p.line, *p.time});
  if (source.first_time) stamps.push_back({0, *source.first_time});
  if (source.last_time && source.last_line > 0) stamps.push_back({source.last_line + 1, *source.last_time});
  std::stable_sort(stamps.begin(), stamps.end(), [](const Stamp& a, const Stamp& b) { return a.line < b.line; });
  for (std::size_t i = 1; i < stamps.size(); ++i) stamps[i].time = std::max(stamps[i].time, stamps[i - 1].time);
  return stamps;
}

}  // namespace

std::vector<Item> make_timeline(const std::vector<SourceFindings>& sources) {
  std::vector<Item> items;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const auto stamps = stamps_of(sources[s]);
    for (const auto& f : sources[s].findings) {
      Item item;
      item.finding = &f;
      item.source = s;
      item.strength = strength_of(f);
      item.exact = f.time.has_value();
      const auto after = std::upper_bound(stamps.begin(), stamps.end(), f.line,
                                          [](std::uint64_t line, const Stamp& stamp) { return line < stamp.line; });
      if (after != stamps.begin()) {
        item.when = std::prev(after)->time;
      } else if (after != stamps.end()) {
        item.when = after->time;
      }
      items.push_back(item);
    }
  }
  const auto key = [](const Item& item) { return item.when.value_or(parsers::TimePoint::max()); };
  std::stable_sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
    if (key(a) != key(b)) return key(a) < key(b);
    if (a.source != b.source) return a.source < b.source;
    return a.finding->line < b.finding->line;
  });
  return items;
}

}  // namespace triage::signatures
