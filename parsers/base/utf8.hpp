// UTF-8 out of code points.
#pragma once

#include <cstdint>
#include <string>

namespace triage::parsers {

// Appends the code point in one to four bytes. code: below 0x110000; the caller replaces surrogates.
void append_utf8(std::uint32_t code, std::string& out);

}  // namespace triage::parsers
