#include "parsers/lines/text_decoder.hpp"

#include <cstring>
#include <optional>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/base/utf8.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kUnmarkedBytes = 16;      // so much of ASCII and zeros in turn is UTF-16
constexpr std::size_t kHeadBytes = 64;          // a container clock and its tag are shorter
constexpr std::size_t kHeldBytes = 1 << 20;     // limit: parts beyond are given out one by one
constexpr std::size_t kHeldLines = 4096;

struct CriLine {
  std::size_t stream = 0;   // 0 stdout, 1 stderr
  bool part = false;        // P: the line goes on
  std::size_t tag = 0;      // place of the tag
};

// "2025-07-25T05:09:16.157949381+08:00 stderr F text".
std::optional<CriLine> read_cri(std::string_view line) {
  if (line.size() < 30 || !is_digit(line[0]) || line[4] != '-' || line[10] != 'T') return {};
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos || blank > 40 || line.size() < blank + 9) return {};
  const std::string_view rest = line.substr(blank);
  CriLine out;
  if (rest.starts_with(" stderr "))
    out.stream = 1;
  else if (!rest.starts_with(" stdout "))
    return {};
  out.tag = blank + 8;
  if (line[out.tag] != 'P' && line[out.tag] != 'F') return {};
  if (line.size() > out.tag + 1 && line[out.tag + 1] != ' ' && line[out.tag + 1] != '\n' && line[out.tag + 1] != '\r') return {};
  out.part = line[out.tag] == 'P';
  return out;
}

std::string_view without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Is every other byte zero, from `zero` on, and text between them? UTF-16 looks so where a rotation cut its mark off.
bool alternates(std::string_view head, std::size_t zero) {
  for (std::size_t i = 0; i < head.size() && i < kUnmarkedBytes; ++i) {
    const auto byte = static_cast<unsigned char>(head[i]);
    const bool text = (byte >= 0x20 && byte < 0x7f) || byte == '\t' || byte == '\r' || byte == '\n' || byte == 0x1b;
    if (i % 2 == zero ? byte != 0 : !text) return false;
  }
  return true;
}

constexpr std::uint32_t kReplacement = 0xfffd;

}  // namespace

void TextDecoder::feed(std::string_view bytes, std::string& out) {
  if (form_ != Form::unknown) return decode(bytes, out);
  head_.append(bytes);
  if (!decide(false)) return;
  const std::string head = std::move(head_);
  head_.clear();
  decode(head, out);
}

bool TextDecoder::decide(bool at_end) {
  const std::string_view head = head_;
  const auto known = [&](Form form) {
    form_ = form;
    return true;
  };
  if (head.size() >= 2 && head.starts_with("\xff\xfe")) {
    head_.erase(0, 2);
    return known(Form::utf16_little);
  }
  if (head.size() >= 2 && head.starts_with("\xfe\xff")) {
    head_.erase(0, 2);
    return known(Form::utf16_big);
  }
  if (head.empty() || (head.size() == 1 && (head[0] == '\xff' || head[0] == '\xfe'))) return at_end && known(Form::plain);
  const bool little = alternates(head, 1), big = alternates(head, 0);
  if (little || big) {
    if (head.size() < kUnmarkedBytes && !at_end) return false;
    if (head.size() >= 4) return known(little ? Form::utf16_little : Form::utf16_big);
  }
  if (!is_digit(head[0])) return known(Form::plain);
  if (!at_end && head.size() < kHeadBytes && head.find('\n') == std::string_view::npos) return false;
  return known(read_cri(head.substr(0, head.find('\n'))) ? Form::cri : Form::plain);
}

void TextDecoder::decode(std::string_view bytes, std::string& out) {
  switch (form_) {
    case Form::unknown:
    case Form::plain: out.append(bytes); break;
    case Form::utf16_little:
    case Form::utf16_big: utf16(bytes, out); break;
    case Form::cri: cri(bytes, out); break;
  }
}

void TextDecoder::utf16(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const int byte = static_cast<unsigned char>(c);
    if (half_ < 0) {
      half_ = byte;
      continue;
    }
    const int value = form_ == Form::utf16_little ? half_ | (byte << 8) : (half_ << 8) | byte;
    half_ = -1;
    unit(static_cast<std::uint32_t>(value), out);
  }
}

void TextDecoder::unit(std::uint32_t value, std::string& out) {
  const bool low = value >= 0xdc00 && value < 0xe000;
  if (high_ != 0) {
    append_utf8(low ? 0x10000 + ((high_ - 0xd800) << 10) + (value - 0xdc00) : kReplacement, out);
    high_ = 0;
    if (low) return;
  }
  if (value >= 0xd800 && value < 0xdc00)
    high_ = value;
  else
    append_utf8(low ? kReplacement : value, out);
}

void TextDecoder::cri(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const auto* end = static_cast<const char*>(std::memchr(bytes.data(), '\n', bytes.size()));
    const std::size_t length = end ? static_cast<std::size_t>(end - bytes.data()) + 1 : bytes.size();
    const std::string_view piece = bytes.substr(0, length);
    bytes.remove_prefix(length);
    if (raw_line_) {
      out.append(piece);
      raw_line_ = end == nullptr;
    } else if (!end) {
      carry_.append(piece);
      if (carry_.size() <= limits::kLineBytes) continue;
      release(out);
      out.append(carry_);
      carry_.clear();
      raw_line_ = true;
    } else if (carry_.empty()) {
      cri_line(piece, out);
    } else {
      carry_.append(piece);
      const std::string line = std::move(carry_);
      carry_.clear();
      cri_line(line, out);
    }
  }
}

void TextDecoder::cri_line(std::string_view line, std::string& out) {
  const auto read = read_cri(line);
  const bool waiting = read && open_[read->stream] != 0;
  if (held_.empty() && !(read && read->part)) {
    out.append(line);
    return;
  }
  if (waiting) {
    const std::string_view text = without_end(line);
    const std::string_view part = text.size() > read->tag + 2 ? text.substr(read->tag + 2) : std::string_view();
    held_[open_[read->stream] - 1].append(part);
    held_bytes_ += part.size();
    held_.emplace_back();
    if (!read->part) open_[read->stream] = 0;
  } else {
    held_.emplace_back(without_end(line));
    held_bytes_ += line.size();
    if (read && read->part) {
      held_.back()[read->tag] = 'F';
      if (held_.back().size() == read->tag + 1) held_.back().push_back(' ');
      open_[read->stream] = held_.size();
    }
  }
  if ((open_[0] == 0 && open_[1] == 0) || held_bytes_ > kHeldBytes || held_.size() > kHeldLines) release(out);
}

void TextDecoder::release(std::string& out) {
  for (const std::string& line : held_) {
    out.append(line);
    out.push_back('\n');
  }
  held_.clear();
  held_bytes_ = 0;
  open_ = {};
}

void TextDecoder::settle(std::string& out) {
  if (form_ != Form::unknown || !decide(true)) return;
  const std::string head = std::move(head_);
  head_.clear();
  decode(head, out);
}

void TextDecoder::flush(std::string& out) {
  settle(out);
  release(out);
}

void TextDecoder::finish(std::string& out) {
  settle(out);
  if (half_ >= 0 || high_ != 0) append_utf8(kReplacement, out);
  half_ = -1;
  high_ = 0;
  if (!carry_.empty()) {
    const std::string line = std::move(carry_);
    carry_.clear();
    cri_line(line, out);
  }
  release(out);
}

}  // namespace triage::parsers
