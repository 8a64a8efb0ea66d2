#include "parsers/base/visible.hpp"

#include "parsers/base/text.hpp"

namespace triage::parsers {

namespace {

bool steers(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (sequence.size() == 2) return (byte(0) == 0xc2 && byte(1) < 0xa0) || sequence == "\xd8\x9c";  // C1; U+061C
  if (sequence.size() != 3 || byte(0) != 0xe2) return sequence == "\xef\xbb\xbf";                 // U+FEFF
  if (byte(1) == 0x80) return byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae);  // U+200E, F; U+2028..E
  return byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;                                    // U+2066..9
}

}  // namespace

std::string visible(std::string_view raw, bool keep_lines) {
  const std::string valid = repair_utf8(raw);
  std::string_view text = valid;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view sequence = first_character(text);
    if (sequence == "\t")
      out += ' ';
    else if (steers(sequence) && !(keep_lines && sequence == "\n"))
      out += '?';
    else
      out += sequence;
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string visible_head(std::string_view text, std::size_t most) {
  const std::string_view head = whole_head(text, most);
  return visible(head) + (head.size() < text.size() ? "..." : "");
}

}  // namespace triage::parsers
