#include "parsers/base/error_text.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "parsers/base/visible.hpp"

namespace triage::parsers {
namespace {

// A hostile rule or file name may hold megabytes: the beginning tells enough.
constexpr std::size_t kShown = 500;
constexpr std::size_t kShownOfFile = 20;   // faults; whoever reads the first ones mends the rest, too, or asks again

std::string printable(std::string_view text) { return visible_head(text, kShown); }

std::string place_text(const Place& place) {
  std::string out = printable(place.file);
  if (place.line) {
    out += ":" + std::to_string(*place.line);
    if (place.column) out += ":" + std::to_string(*place.column);
  } else if (place.offset) {
    out += " at byte " + std::to_string(*place.offset);
  }
  return out;
}

void add_place(std::string& out, const Place& place) {
  out += "  --> " + place_text(place) + "\n";
  if (!place.source_line.empty()) out += "   | " + printable(place.source_line) + "\n";
}

}  // namespace

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::io: return "io";
    case ErrorCode::syntax: return "syntax";
    case ErrorCode::limit: return "limit";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::internal: return "internal";
  }
  return "internal";
}

std::string error_text(const Error& error, std::string_view weight) {
  std::string out = std::string(weight) + ": " + printable(error.message()) + "\n";
  if (!error.reason().empty()) out += "  reason: " + printable(error.reason()) + "\n";
  if (error.place()) add_place(out, *error.place());
  for (const std::string& doing : error.contexts()) out += "  while: " + printable(doing) + "\n";
  if (!error.help_text().empty()) out += "  help: " + printable(error.help_text()) + "\n";
  return out;
}

std::string error_line(const Error& error) {
  std::string out = printable(error.message());
  if (!error.reason().empty()) out += ": " + printable(error.reason());
  if (error.place()) out += " (" + place_text(*error.place()) + ")";
  for (const std::string& doing : error.contexts()) out += "; while " + printable(doing);
  if (!error.help_text().empty()) out += "; " + printable(error.help_text());
  return out;
}

std::string error_text(const std::vector<Error>& errors, std::string_view weight) {
  std::string out;
  for (const Error& error : errors) out += error_text(error, weight);
  return out;
}

void sort_by_place(std::vector<Error>& errors) {
  const auto key = [](const Error& error) {
    const Place place = error.place().value_or(Place{});
    return std::tuple(place.file, place.line, place.column);
  };
  std::stable_sort(errors.begin(), errors.end(), [&](const Error& a, const Error& b) { return key(a) < key(b); });
}

std::vector<Error> first_of_each_file(const std::vector<Error>& errors) {
  std::map<std::string, std::size_t> count;
  std::vector<Error> out;
  const auto file_of = [](const Error& error) { return error.place() ? error.place()->file : std::string(); };
  for (const Error& error : errors)
    if (++count[file_of(error)] <= kShownOfFile) out.push_back(error);
  for (const auto& [file, all] : count) {
    if (all <= kShownOfFile) continue;
    Error rest(ErrorCode::limit, "and " + std::to_string(all - kShownOfFile) + " more" + (file.empty() ? "" : " in this file"));
    const auto last = std::find_if(out.rbegin(), out.rend(), [&, &name = file](const Error& error) { return file_of(error) == name; });
    out.insert(last.base(), file.empty() ? std::move(rest) : std::move(rest).at(Place{file, {}, {}, {}, {}}));
  }
  return out;
}

}  // namespace triage::parsers
