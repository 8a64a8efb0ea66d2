// Printed amounts of memory <-> Bytes. All units are binary: the programs that print them divide by 1024, also where they
// write "MB" or "kB" (PyTorch's format_size, Megatron-LM's memory reports, the kernel's "anon-rss:123kB").
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "parsers/base/units.hpp"

namespace triage::parsers {

// "79.15 GiB", "1024MB", "12.5 kB", "1.05GiB", "500 bytes", "123" (= bytes). The whole text but for blanks at both ends.
// Rounded to the nearest byte. Empty for any other text, a negative amount, or one over 2^63 - 1 bytes.
std::optional<Bytes> read_bytes(std::string_view text);

// "79.15 GiB", "512.00 MiB", "17 B": the largest binary unit that gives 1 or more. Negative amounts keep their sign.
std::string bytes_text(Bytes bytes);

}  // namespace triage::parsers
