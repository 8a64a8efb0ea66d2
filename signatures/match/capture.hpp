// Captured text -> typed value, and {capture} templates.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "signatures/match/match.hpp"
#include "signatures/match/signature.hpp"

namespace triage::signatures {

// Nothing for a text that is no value of the type: the capture is left out. Numbers may have blanks around and commas inside (1,024).
std::optional<CaptureValue> read_capture(CaptureType type, std::string_view text);

// For people: text as it is, bytes as "79.15 GiB".
std::string capture_text(const CaptureValue& value);
// For comparison with `expect:` of an example: bytes as decimal number.
std::string capture_exact(const CaptureValue& value);

// The names in "{name}" of a template; views into it. Braces around anything but [A-Za-z0-9_] are plain text.
std::vector<std::string_view> template_names(std::string_view text);

// Does the text hold a brace that is no part of a "{name}", as "{ name }" or "{name" do?
bool has_stray_brace(std::string_view text);

// The template with values filled in, at most limits::kEvidenceBytes and the rest of the template. A name without a value becomes `unknown`.
std::string fill_template(std::string_view text, const std::vector<std::pair<std::string, CaptureValue>>& values, std::string_view unknown);

// A sentence for people: as fill_template, but where a value is unknown or empty, ": {x}" at the end and " ({x})" go with it; else "?".
std::string fill_sentence(std::string_view text, const std::vector<std::pair<std::string, CaptureValue>>& values);

// What a finding's own fields (rank, device, node, ...) get from a capture of that type.
void apply_capture(CaptureType type, const CaptureValue& value, Finding& finding);

}  // namespace triage::signatures
