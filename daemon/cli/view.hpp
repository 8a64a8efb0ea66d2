// The answer for people: text for a terminal (one screen an incident), Markdown for a ticket; and SARIF for code-scanning tools.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/triage.hpp"

namespace triage::daemon {

struct TextStyle {
  bool colour = false;
  std::size_t width = 100;             // columns
  bool all = false;                    // every fix and reason, not one screen
};

std::string incident_text(const JudgedIncident& incident, const TextStyle& style);
// The whole answer; says so when nothing was found, and what was handled or lost.
std::string answer_text(const Answer& answer, const TextStyle& style);
std::string answer_markdown(const Answer& answer);
// SARIF 2.1.0: one result an incident, at its root line.
Json answer_sarif(const Answer& answer);

// What was called, who did not come, of whom one stands still, who waited: of a fault in a collective, in one line. Of many ranks that are not in a
// row the first ones and a count, unless `all`.
std::string collective_text(const signatures::CollectiveFault& fault, bool all = false);

// Of stdout: colour only on a terminal without NO_COLOR.
TextStyle terminal_style(bool all);
// Outside text on one line: control characters become '?', at most `limit` bytes with a visible cut mark.
std::string one_line(std::string_view text, std::size_t limit);
// "guessed", or the part of it: "12 % guessed".
std::string guessed_text(std::int64_t guessed, std::int64_t whole);

}  // namespace triage::daemon
