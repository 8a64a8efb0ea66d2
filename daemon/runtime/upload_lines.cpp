#include "daemon/runtime/upload_lines.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "daemon/tail/input.hpp"
#include "daemon/tail/text_source.hpp"
#include "daemon/tail/unpack.hpp"

namespace triage::daemon {

namespace {

constexpr std::size_t kIncidents = 50, kPlaces = 24, kBytes = 2 << 20;
constexpr std::uint64_t kAroundRoot = 300, kAround = 60;   // lines before and after: a first screen of the log view, and its jumps
constexpr std::size_t kLine = 4097;                        // bytes of a line: one more than are shown, so that it is known to be cut
constexpr std::size_t kChunk = 1 << 20;

// Lines that an incident wants.
struct Window {
  std::uint64_t from = 1, to = 1;
  std::size_t incident = 0;
};
using Windows = std::map<std::string, std::vector<Window>>;   // by source

Windows windows_of(const std::vector<JudgedIncident>& incidents) {
  Windows out;
  for (std::size_t i = 0; i < incidents.size() && i < kIncidents; ++i) {
    const signatures::Diagnosis& d = incidents[i].diagnosis;
    std::size_t places = 0;
    const auto add = [&](const std::string& source, std::uint64_t line, std::uint64_t around) {
      if (line == 0 || source.empty() || places++ >= kPlaces) return;
      out[source].push_back({line > around ? line - around : 1, line + around, i});
    };
    add(d.root.source, d.root.line, kAroundRoot);
    for (const signatures::Evidence& also : d.also) add(also.source, also.line, kAround);
    for (std::size_t f = 0; f < d.findings.size() && f < d.finding_sources.size(); ++f)
      add(d.finding_sources[f], static_cast<std::uint64_t>(d.findings[f].line), kAround);
  }
  for (auto& [source, windows] : out) std::ranges::stable_sort(windows, {}, &Window::from);
  return out;
}

// Collects the wanted lines of one stream, in one pass and with the memory of one line.
class Collector {
 public:
  Collector(std::vector<Window>& windows, std::vector<std::vector<db::Excerpt>>& out, std::vector<std::size_t>& bytes, std::string source)
      : windows_(windows), out_(out), bytes_(bytes), source_(std::move(source)) {
    begin_line();
  }
  // False: nothing further is wanted.
  bool take(std::string_view text) {
    while (!text.empty() && (next_ < windows_.size() || !active_.empty())) {
      const std::size_t newline = text.find('\n');
      const std::string_view part = text.substr(0, newline == std::string_view::npos ? text.size() : newline + 1);
      if (!active_.empty() && line_.size() < kLine) line_.append(part.substr(0, kLine - line_.size()));
      at_ += part.size();
      text.remove_prefix(part.size());
      if (newline == std::string_view::npos) break;
      end_line();
      ++number_;
      begin_line();
    }
    return next_ < windows_.size() || !active_.empty();
  }
  void finish() {
    if (!line_.empty()) end_line();
  }

 private:
  void begin_line() {
    line_.clear();
    begin_ = at_;
    std::erase_if(active_, [&](const Window& window) { return window.to < number_; });
    while (next_ < windows_.size() && windows_[next_].from <= number_) active_.push_back(windows_[next_++]);
  }
  void end_line() {
    for (const Window& window : active_) {
      std::vector<db::Excerpt>& excerpts = out_[window.incident];
      if (excerpts.empty() || excerpts.back().source != source_) excerpts.push_back({source_, {}});
      std::vector<parsers::SpoolLine>& lines = excerpts.back().lines;
      if (!lines.empty() && lines.back().number == number_) continue;   // of another window of the same incident
      if (bytes_[window.incident] + line_.size() > kBytes) continue;
      bytes_[window.incident] += line_.size();
      lines.push_back({begin_, number_, line_});
    }
  }

  std::vector<Window>& windows_;
  std::vector<std::vector<db::Excerpt>>& out_;
  std::vector<std::size_t>& bytes_;
  const std::string source_;
  std::vector<Window> active_;
  std::string line_;
  std::size_t next_ = 0;
  std::uint64_t number_ = 1, at_ = 0, begin_ = 0;
};

}  // namespace

std::vector<std::vector<db::Excerpt>> lines_around(const std::vector<JudgedIncident>& incidents, const std::string& path, const std::string& shown) {
  std::vector<std::vector<db::Excerpt>> out(incidents.size());
  std::vector<std::size_t> bytes(incidents.size(), 0);
  Windows windows = windows_of(incidents);
  auto input = open_input(path);
  if (!input.ok() || windows.empty()) return out;
  std::string room(kChunk, '\0');
  for_each_stream(std::move(input).value(), path, [](const parsers::Error&, Weight) {}, [&](const std::string& name, PeekedSource& stream) {
    const std::string source = name.starts_with(path) ? shown + name.substr(path.size()) : name;
    const auto wanted = windows.find(source);
    if (wanted == windows.end()) return;
    TextSource text(std::make_unique<BorrowedSource>(stream));
    Collector collector(wanted->second, out, bytes, source);
    for (;;) {
      const auto count = text.read(room);
      if (!count.ok() || *count == 0 || !collector.take(std::string_view(room).substr(0, *count))) break;
    }
    collector.finish();
  });
  return out;
}

}  // namespace triage::daemon
