#include "daemon/http/push/batch.hpp"

#include <algorithm>

#include "parsers/base/text.hpp"
#include "parsers/base/utf8.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;
using parsers::Status;

Result<std::size_t> BatchBuilder::stream(Labels labels) {
  if (labels.size() > kStreamLabels)
    return Error(ErrorCode::limit, "a stream has " + std::to_string(labels.size()) + " labels; " + std::to_string(kStreamLabels) + " are taken");
  std::stable_sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Of a doubled name the last one counts.
  Labels unique;
  for (auto& label : labels) {
    if (label.first.size() > kLabelBytes || label.second.size() > kLabelBytes)
      return Error(ErrorCode::limit, "a label is longer than " + std::to_string(kLabelBytes) + " bytes").because("its name begins '" + parsers::repair_utf8(label.first.substr(0, 40)) + "'");
    if (!unique.empty() && unique.back().first == label.first)
      unique.back().second = std::move(label.second);
    else
      unique.push_back(std::move(label));
  }
  std::string key;
  for (const auto& [name, value] : unique) {
    key += name;
    key += '\0';
    key += value;
    key += '\0';
  }
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (batch_.streams.size() >= kBatchStreams)
    return Error(ErrorCode::limit, "the batch has more than " + std::to_string(kBatchStreams) + " streams").help("send smaller batches");
  known_.emplace(std::move(key), batch_.streams.size());
  batch_.streams.push_back({std::move(unique), {}});
  return batch_.streams.size() - 1;
}

Status BatchBuilder::add(std::size_t stream, PushedLine line) {
  if (batch_.lines >= kBatchLines) return Error(ErrorCode::limit, "the batch has more than " + std::to_string(kBatchLines) + " lines").help("send smaller batches");
  ++batch_.lines;
  batch_.streams[stream].lines.push_back(std::move(line));
  return parsers::done();
}

void BatchBuilder::reject(std::string why) {
  if (batch_.rejected++ == 0) batch_.why = std::move(why);
}

PushedBatch BatchBuilder::take() {
  std::erase_if(batch_.streams, [](const PushedStream& stream) { return stream.lines.empty(); });
  return std::move(batch_);
}

std::optional<parsers::TimePoint> read_nanoseconds(std::string_view text) {
  const auto number = parsers::read_integer(text);
  if (!number || *number <= 0) return std::nullopt;
  return parsers::TimePoint(std::chrono::microseconds(*number / 1000));
}

namespace {

// A text in double quotes with the escapes of Go, taken off the front.
std::optional<std::string> take_quoted(std::string_view& text) {
  std::string out;
  if (parsers::consume(text, "`")) {
    const std::size_t end = text.find('`');
    if (end == std::string_view::npos) return std::nullopt;
    out = std::string(text.substr(0, end));
    text.remove_prefix(end + 1);
    return out;
  }
  if (!parsers::consume(text, "\"")) return std::nullopt;
  while (!text.empty()) {
    const char c = text[0];
    text.remove_prefix(1);
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (text.empty()) return std::nullopt;
    const char e = text[0];
    text.remove_prefix(1);
    const auto number = [&](std::size_t digits, unsigned base) -> std::optional<std::uint32_t> {
      if (text.size() < digits) return std::nullopt;
      std::uint32_t value = 0;
      for (std::size_t i = 0; i < digits; ++i) {
        const char d = parsers::to_lower(text[i]);
        unsigned digit = 99;
        if (parsers::is_digit(d)) digit = static_cast<unsigned>(d - '0');
        if (d >= 'a' && d <= 'f') digit = static_cast<unsigned>(d - 'a') + 10;
        if (digit >= base) return std::nullopt;
        value = value * base + digit;
      }
      text.remove_prefix(digits);
      return value;
    };
    std::optional<std::uint32_t> code;
    switch (e) {
      case 'a': out += '\a'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'v': out += '\v'; break;
      case '\\':
      case '"':
      case '\'': out += e; break;
      case 'x':
        if (!(code = number(2, 16))) return std::nullopt;
        out += static_cast<char>(*code);
        break;
      case 'u':
      case 'U':
        code = number(e == 'u' ? 4 : 8, 16);
        if (!code || *code > 0x10ffff) return std::nullopt;
        parsers::append_utf8(*code >= 0xd800 && *code < 0xe000 ? 0xfffd : *code, out);
        break;
      default: {   // \NNN, octal
        if (e < '0' || e > '3') return std::nullopt;
        code = number(2, 8);
        if (!code) return std::nullopt;
        out += static_cast<char>(static_cast<unsigned>(e - '0') * 64 + *code);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Labels> read_label_text(std::string_view text) {
  Labels out;
  text = parsers::trim(text);
  if (!parsers::consume(text, "{")) return std::nullopt;
  text = parsers::trim_left(text);
  while (!parsers::consume(text, "}")) {
    std::string name;
    if (text.starts_with('"')) {   // names beyond letters are quoted
      auto quoted = take_quoted(text);
      if (!quoted) return std::nullopt;
      name = std::move(*quoted);
    } else {
      std::size_t length = 0;
      while (length < text.size() && (parsers::is_alnum(text[length]) || text[length] == '_' || text[length] == ':' || text[length] == '.')) ++length;
      if (length == 0) return std::nullopt;
      name = std::string(text.substr(0, length));
      text.remove_prefix(length);
    }
    text = parsers::trim_left(text);
    if (!parsers::consume(text, "=")) return std::nullopt;
    text = parsers::trim_left(text);
    auto value = take_quoted(text);
    if (!value || out.size() > kStreamLabels) return std::nullopt;
    out.emplace_back(std::move(name), std::move(*value));
    text = parsers::trim_left(text);
    if (parsers::consume(text, ",")) {
      text = parsers::trim_left(text);
      continue;
    }
    if (!text.starts_with('}')) return std::nullopt;
  }
  if (!parsers::trim(text).empty()) return std::nullopt;
  return out;
}

}  // namespace triage::daemon::api
