// The words of an alert: what died, where, why, what to do, from the body of an item (alert.hpp). Plain text, free of control characters;
// each sink puts it into its own form. Lengths count UTF-16 code units, the largest of what chat services call a character. What is cut
// ends with a mark that says so.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/http/json_view.hpp"

namespace triage::daemon {

struct AlertFix {
  std::string title;                   // "Let the allocator grow its segments"
  std::string set;                     // the flag or key, or empty
  std::string numbers;                 // "saves 59.51 GiB (0.98 to 59.51), MEASURED; peak then 217.29 of 276.50 GiB, fits; step time +0 to +1 %"
};

struct AlertText {
  std::string severity, event;
  std::string title;                   // "gpu.oom.fragmentation: job llama-405b, attempt 2, rank 19"
  std::string what;                    // the summary
  std::vector<std::pair<std::string, std::string>> facts;   // where, why, memory, ...: name and value
  std::string evidence;                // the line that shows it
  std::vector<AlertFix> fixes;         // the first two
  std::string verdict;                 // of the plan, or empty
  std::vector<std::string> others;     // further incidents of the same cause
  std::string link;                    // or empty
  std::string incident;                // id
};

// Missing or wrong members of the body are left out, never an error.
AlertText alert_text(const Json& body);

// The same with every part cut to its limit times `scale` (1: usual lengths). At 1, all parts together stay under 9,500 units.
AlertText cut_parts(const AlertText& text, double scale);

// All of it as lines of plain text, for mails and as the `text` of machines.
std::string plain_text(const AlertText& text);

std::size_t text_units(std::string_view utf8);
// At most `units`; longer text ends with "… [cut: N more]". The mark counts; where not even it has room, it is "…".
std::string cut_text(std::string_view utf8, std::size_t units);
// The longest cut whose escaped form has at most `units`.
std::string cut_escaped(std::string_view utf8, std::size_t units, const std::function<std::string(std::string_view)>& escape);

// Valid UTF-8 in one line: no terminal codes, no control characters, nothing that changes the direction of writing or hides text.
std::string clean_line(std::string_view text);

// Words that call people (@here, @channel, @everyone, <!, <@, <#, <at>) no longer do: a word joiner (U+2060), which is not seen, stands inside.
std::string guard_mentions(std::string_view text);
std::string escape_slack(std::string_view text);      // of the plain `text` of a message: & < >
std::string escape_discord(std::string_view text);    // Markdown and links
std::string code_block(std::string_view text);        // Discord: inside ``` nothing ends the block

// Builds with smaller and smaller scales until `fits`; the last try is returned as it is.
std::string fit(const std::function<std::string(double scale)>& build, const std::function<bool(const std::string&)>& fits);

}  // namespace triage::daemon
