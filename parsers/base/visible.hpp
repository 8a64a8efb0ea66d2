// Log text and file names as they may be shown.
#pragma once

#include <string>
#include <string_view>

namespace triage::parsers {

// Outside text for a person's eyes, on a terminal or in a ticket: what could steer the terminal or turn the reading order becomes '?':
// control characters (C0, DEL, C1), line and paragraph separators, marks and overrides of the writing direction (Unicode UTS 55,
// "Trojan Source"). A tab becomes a blank; bytes that are no UTF-8 become U+FFFD. A line feed stays where keep_lines says so.
std::string visible(std::string_view text, bool keep_lines = false);

// The same of the first bytes, at most so many; "..." stands where something was left out.
std::string visible_head(std::string_view text, std::size_t most);

}  // namespace triage::parsers
