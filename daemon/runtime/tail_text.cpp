#include "daemon/runtime/tail_text.hpp"

#include <charconv>

namespace triage::daemon {

namespace {

constexpr std::size_t kBytes = 4096;

bool number(std::string_view& text, char end, std::uint64_t& value) {
  const auto [at, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto used = static_cast<std::size_t>(at - text.data());
  if (fault != std::errc() || used == text.size() || *at != end) return false;
  text.remove_prefix(used + 1);
  return true;
}

}  // namespace

std::string text_of_tail(const std::vector<SpoolLine>& lines) {
  std::string out;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    std::string one = std::to_string(line->offset) + ' ' + std::to_string(line->number) + ' ' + std::to_string(line->text.size()) + '\n' + line->text;
    if (out.size() + one.size() > kBytes) break;
    out.insert(0, one);
  }
  return out;
}

std::vector<SpoolLine> lines_of_tail(std::string_view text) {
  std::vector<SpoolLine> out;
  while (!text.empty()) {
    SpoolLine line;
    std::uint64_t size = 0;
    if (!number(text, ' ', line.offset) || !number(text, ' ', line.number) || !number(text, '\n', size) || size > text.size()) break;
    line.text = text.substr(0, size);
    text.remove_prefix(size);
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace triage::daemon
