#include "signatures/match/capture.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "parsers/base/limits.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"
#include "parsers/records/timestamp.hpp"

namespace triage::signatures {
namespace {

// A clock without a year is completed with this one: the set has no calendar.
constexpr int kNoYear = 1970;

std::string number_text(double value) {
  std::array<char, 40> buffer{};
  const auto [end, code] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return code == std::errc() ? std::string(buffer.data(), end) : std::string();
}

std::string without_commas(std::string_view text) {
  std::string out(text);
  std::erase(out, ',');
  return out;
}

std::optional<std::int64_t> small(std::string_view text) {
  const std::optional<std::int64_t> value = parsers::read_integer(text);
  if (!value || *value < 0 || *value >= parsers::limits::kRanks) return std::nullopt;
  return value;
}

template <class T>
std::optional<CaptureValue> wrap(const std::optional<T>& value) {
  if (!value) return std::nullopt;
  return CaptureValue(*value);
}

// Calls on_text(plain) and on_name(name) for the parts of a template, in order.
template <class OnText, class OnName>
void walk_template(std::string_view text, OnText&& on_text, OnName&& on_name) {
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    if (open == std::string_view::npos) break;
    std::size_t end = open + 1;
    while (end < text.size() && (parsers::is_alnum(text[end]) || text[end] == '_')) ++end;
    if (end == open + 1 || end == text.size() || text[end] != '}') {
      on_text(text.substr(0, end));
      text.remove_prefix(end);
      continue;
    }
    on_text(text.substr(0, open));
    on_name(text.substr(open + 1, end - open - 1));
    text.remove_prefix(end + 1);
  }
  on_text(text);
}

template <class T>
void set_from(std::optional<T>& field, const CaptureValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) field = static_cast<T>(*number);
}

}  // namespace

std::optional<CaptureValue> read_capture(CaptureType type, std::string_view text) {
  const std::string_view bare = parsers::trim(text);
  if (bare.empty()) return std::nullopt;
  switch (type) {
    case CaptureType::text:
    case CaptureType::node:
    case CaptureType::time: return CaptureValue(parsers::repair_utf8(bare));
    case CaptureType::integer:
    case CaptureType::pid: return wrap(parsers::read_integer(without_commas(bare)));
    case CaptureType::number: return wrap(parsers::read_double(without_commas(bare)));
    case CaptureType::bytes: return wrap(parsers::read_bytes(without_commas(bare)));
    case CaptureType::rank:
    case CaptureType::local_rank:
    case CaptureType::device: return wrap(small(bare));
  }
  return std::nullopt;
}

std::string capture_text(const CaptureValue& value) {
  if (const auto* bytes = std::get_if<parsers::Bytes>(&value)) return parsers::bytes_text(*bytes);
  return capture_exact(value);
}

std::string capture_exact(const CaptureValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* real = std::get_if<double>(&value)) return number_text(*real);
  return std::to_string(std::get<parsers::Bytes>(value).count());
}

std::vector<std::string_view> template_names(std::string_view text) {
  std::vector<std::string_view> out;
  walk_template(text, [](std::string_view) {}, [&](std::string_view name) { out.push_back(name); });
  return out;
}

bool has_stray_brace(std::string_view text) {
  bool stray = false;
  walk_template(text, [&](std::string_view plain) { stray = stray || plain.find_first_of("{}") != std::string_view::npos; }, [](std::string_view) {});
  return stray;
}

std::string fill_template(std::string_view text, const std::vector<std::pair<std::string, CaptureValue>>& values, std::string_view unknown) {
  std::string out;
  walk_template(
      text, [&](std::string_view plain) { out += plain; },
      [&](std::string_view name) {
        const auto at = std::find_if(values.begin(), values.end(), [&](const auto& pair) { return pair.first == name; });
        out += at == values.end() ? std::string(unknown) : capture_text(at->second);
        if (out.size() > parsers::limits::kEvidenceBytes) out.resize(parsers::limits::kEvidenceBytes);
      });
  return parsers::repair_utf8(out);   // cut within a character
}

std::string fill_sentence(std::string_view text, const std::vector<std::pair<std::string, CaptureValue>>& values) {
  constexpr char kUnknown = '\x01';   // stands in no template: YAML refuses control characters
  std::vector<std::pair<std::string, CaptureValue>> known;
  for (const auto& pair : values)
    if (!parsers::trim(capture_text(pair.second)).empty()) known.push_back(pair);
  std::string out = fill_template(text, known, std::string_view(&kUnknown, 1));
  for (auto at = out.find(kUnknown); at != std::string::npos; at = out.find(kUnknown, at < 2 ? 0 : at - 2)) {
    const std::string_view before = std::string_view(out).substr(0, at), after = std::string_view(out).substr(at + 1);
    if (before.ends_with(" (") && after.starts_with(")"))
      out.erase(at - 2, 4);
    else if (before.ends_with(": ") && (after.empty() || after == "."))
      out.replace(at - 2, std::string::npos, ".");
    else
      out[at] = '?';
  }
  return out;
}

void apply_capture(CaptureType type, const CaptureValue& value, Finding& finding) {
  switch (type) {
    case CaptureType::rank: return set_from(finding.rank, value);
    case CaptureType::local_rank: return set_from(finding.local_rank, value);
    case CaptureType::device: return set_from(finding.device, value);
    case CaptureType::pid: return set_from(finding.pid, value);
    case CaptureType::node:
      if (const auto* text = std::get_if<std::string>(&value)) finding.node = *text;
      return;
    case CaptureType::time:
      if (const auto* text = std::get_if<std::string>(&value))
        if (const auto stamp = parsers::read_timestamp(*text, kNoYear)) finding.time = stamp->time;
      return;
    case CaptureType::text:
    case CaptureType::integer:
    case CaptureType::number:
    case CaptureType::bytes: return;
  }
}

}  // namespace triage::signatures
