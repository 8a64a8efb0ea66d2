#include "daemon/cli/input_look.hpp"

#include <algorithm>

#include "parsers/base/text.hpp"

namespace triage::daemon {

bool looks_binary(std::string_view head) {
  std::size_t text = 0, strange = 0;
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) continue;
    const bool control = byte < 0x20 && !parsers::is_space(c) && byte != 0x1b && byte != '\b' && byte != 0x07;
    control ? ++strange : ++text;
  }
  if (!parsers::is_utf8(head.substr(0, head.size() - std::min<std::size_t>(head.size(), 4)))) strange += text / 16;
  return strange * 12 > text + strange;
}

parsers::Error binary_error(const std::string& name) {
  return parsers::Error(parsers::ErrorCode::unsupported, "the file holds no text and was not scanned")
      .at(parsers::Place{name, {}, {}, {}, {}})
      .help("give logs as text, or packed as .gz, .zst, .xz, .bz2, .tar or .zip");
}

}  // namespace triage::daemon
