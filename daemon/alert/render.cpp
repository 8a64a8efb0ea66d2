#include "daemon/alert/render.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {
namespace {

constexpr std::size_t kTitle = 140, kWhat = 700, kFact = 400, kEvidence = 1500, kFixTitle = 200, kFixSet = 700, kFixNumbers = 300, kVerdict = 400, kOther = 150, kOthers = 10, kFacts = 7, kLink = 500;
constexpr std::size_t kRanks = 8;      // named one by one
constexpr std::size_t kSets = 4;       // of which one rank stands still
constexpr std::string_view kJoiner = "\xe2\x81\xa0";   // U+2060
constexpr std::string_view kEllipsis = "\xe2\x80\xa6";

const Json& child(const Json& json, std::string_view key) {
  static const Json kNone;
  if (!json.is_object()) return kNone;
  const auto found = json.find(key);
  return found == json.end() ? kNone : *found;
}

std::string words(const Json& json, std::string_view key) {
  const Json& value = child(json, key);
  return value.is_string() ? clean_line(value.get_ref<const std::string&>()) : std::string();
}

std::optional<std::int64_t> number(const Json& json, std::string_view key) {
  const Json& value = child(json, key);
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<std::int64_t>();
}

std::string gib(std::int64_t bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(bytes) / 1073741824.0);
  return text;
}

std::string amount(const Json& json, std::string_view key) {
  const auto bytes = number(json, key);
  return bytes ? gib(*bytes) + " GiB" : std::string();
}

void join(std::string& to, std::string_view with, std::string_view part) {
  if (part.empty()) return;
  if (!to.empty()) to += with;
  to += part;
}

std::string where(const Json& incident) {
  const Json& root = child(incident, "root");
  std::string out;
  const auto add = [&](const char* name, std::string_view key) {
    if (const auto value = number(root, key)) join(out, ", ", std::string(name) + std::to_string(*value));
  };
  add("rank ", "rank");
  if (const std::string node = words(root, "node"); !node.empty()) join(out, ", ", "node " + node);
  add("GPU ", "device");
  add("step ", "step");
  if (const std::string phase = words(incident, "phase"); !phase.empty()) join(out, ", ", "phase " + phase);
  if (const std::string time = words(root, "time"); !time.empty()) join(out, ", ", time);
  if (const std::string source = words(root, "source"); !source.empty()) {
    const auto line = number(root, "line");
    join(out, "; ", source + (line ? ":" + std::to_string(*line) : ""));
  }
  return out;
}

std::string ledger(const Json& incident) {
  const Json& ledger = child(incident, "ledger");
  if (!ledger.is_object()) return "";
  std::string out = amount(ledger, "capacity_bytes");
  if (!out.empty()) out += " device";
  std::string parts;
  for (const auto& [key, name] : {std::pair<const char*, const char*>{"allocated_bytes", " allocated"}, {"reserved_unallocated_bytes", " reserved, unallocated"},
                                  {"outside_pytorch_bytes", " outside PyTorch"}, {"free_bytes", " free"}})
    if (const std::string value = amount(ledger, key); !value.empty()) join(parts, " + ", value + name);
  join(out, out.empty() ? "" : " = ", parts);
  if (const std::string tried = amount(ledger, "tried_bytes"); !tried.empty()) join(out, "; ", "asked for " + tried);
  return out;
}

std::string ranks(const Json& list) {
  std::string out;
  if (!list.is_array()) return out;
  for (std::size_t i = 0; i < list.size() && i < kRanks; ++i)
    if (list[i].is_number_integer()) join(out, ", ", std::to_string(list[i].get<std::int64_t>()));
  if (list.size() > kRanks) out += " and " + std::to_string(list.size() - kRanks) + " more";
  return out;
}

std::string collective(const Json& incident) {
  const Json& fault = child(incident, "collective");
  if (!fault.is_object()) return "";
  std::string out = words(fault, "operation");
  const auto named = [&](const char* key, const char* name) {
    if (const std::string list = ranks(child(fault, key)); !list.empty()) join(out, "; ", name + list);
  };
  named("culprit_ranks", "held up by rank ");
  const Json& sets = child(fault, "one_of");
  for (std::size_t i = 0; sets.is_array() && i < sets.size() && i < kSets; ++i)
    if (const std::string list = ranks(sets[i]); !list.empty()) join(out, "; ", "stands still: one of rank " + list);
  if (sets.is_array() && sets.size() > kSets) out += " (and of " + std::to_string(sets.size() - kSets) + (sets.size() - kSets == 1 ? " more set)" : " more sets)");
  named("silent_ranks", "silent: rank ");
  named("waiting_ranks", "waiting: rank ");
  return out;
}

std::string echoes(const Json& incident) {
  std::string out;
  const Json& list = child(incident, "echoes");
  for (std::size_t i = 0; list.is_array() && i < list.size() && i < 4; ++i)
    if (const auto count = number(list[i], "count")) join(out, ", ", std::to_string(*count) + " x " + words(list[i], "kind"));
  if (list.is_array() && list.size() > 4) out += " and more";
  return out;
}

std::string percent_range(const Json& cost) {
  const Json& time = child(cost, "step_time_percent");
  const Json &low = child(time, "low"), &high = child(time, "high");
  if (!low.is_number() || !high.is_number()) return "";
  char text[64];
  std::snprintf(text, sizeof text, "step time %+.0f to %+.0f %%", low.get<double>(), high.get<double>());
  return text;
}

AlertFix fix_text(const Json& fix, const Json& incident) {
  AlertFix out;
  out.title = words(fix, "title");
  const Json& apply = child(fix, "apply");
  for (std::size_t i = 0; apply.is_array() && i < apply.size() && i < 3; ++i) join(out.set, "  |  ", words(apply[i], "set"));
  const Json& saving = child(fix, "saving_bytes");
  if (const auto mid = number(saving, "mid")) {
    out.numbers = "saves " + gib(*mid) + " GiB";
    const auto low = number(saving, "low"), high = number(saving, "high");
    if (low && high && *low != *high) out.numbers += " (" + gib(*low) + " to " + gib(*high) + ")";
  }
  if (const auto peak = number(fix, "predicted_peak_bytes")) {
    std::string part = "peak then " + gib(*peak);
    if (const auto capacity = number(child(incident, "ledger"), "capacity_bytes")) part += " of " + gib(*capacity);
    part += " GiB";
    if (const Json& fits = child(fix, "fits"); fits.is_boolean()) part += fits.get<bool>() ? ", fits" : ", does not fit";
    join(out.numbers, "; ", part);
  }
  join(out.numbers, "; ", percent_range(child(fix, "cost")));
  if (!out.numbers.empty()) join(out.numbers, "; ", words(fix, "basis"));
  return out;
}

std::string next_run(const Json& next) {
  if (!next.is_object()) return "";
  std::string out = "attempt " + std::to_string(number(next, "attempt").value_or(0));
  const Json& helped = child(next, "helped");
  out += helped.is_boolean() && !helped.get<bool>() ? " failed at the same step again" : " passed the step at which this one failed";
  if (const std::string settings = words(next, "settings"); !settings.empty()) out += ", with " + settings;
  return out;
}

std::string other_text(const Json& other) {
  std::string out = words(other, "job");
  if (const std::string node = words(other, "node"); !node.empty()) join(out, " on ", node);
  join(out, ": ", words(other, "summary"));
  return out.empty() ? words(other, "incident") : out;
}

// Zero width, direction of writing, tags, variation: what hides or turns text.
bool is_hidden(std::uint32_t point) {
  return point == 0xad || point == 0x61c || point == 0x180e || (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) || (point >= 0x2060 && point <= 0x206f) ||
         point == 0xfeff || (point >= 0xfff9 && point <= 0xfffb) || (point >= 0xfe00 && point <= 0xfe0f) || (point >= 0xe0000 && point <= 0xe0fff);
}

}  // namespace

AlertText alert_text(const Json& body) {
  const Json& incident = child(body, "incident");
  AlertText out;
  out.severity = words(body, "severity");
  out.event = words(body, "event");
  out.incident = words(incident, "id");
  out.link = words(body, "link");
  if (!out.link.starts_with("https://") && !out.link.starts_with("http://")) out.link.clear();
  std::string of = words(incident, "job");
  if (!of.empty()) of = "job " + of;
  else of = words(child(incident, "root"), "source");
  const auto attempt = number(incident, "attempt");
  if (attempt && *attempt > 1) join(of, ", ", "attempt " + std::to_string(*attempt));
  if (const auto rank = number(child(incident, "root"), "rank")) join(of, ", ", "rank " + std::to_string(*rank));
  out.title = words(incident, "kind");
  join(out.title, ": ", of);
  if (out.event == "updated") out.title = "[updated] " + out.title;
  if (out.event == "closed") out.title = "[closed] " + out.title;
  if (out.event == "next_run") out.title = "[next run] " + out.title;
  out.what = words(incident, "summary");
  const auto fact = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.facts.emplace_back(name, value);
  };
  fact("Next run", next_run(child(body, "next_run")));
  fact("Where", where(incident));
  const Json& reasons = child(incident, "reasons");
  if (reasons.is_array() && !reasons.empty() && reasons[0].is_string()) fact("Why", clean_line(reasons[0].get_ref<const std::string&>()));
  fact("Memory", ledger(incident));
  fact("Collective", collective(incident));
  fact("Echoes", echoes(incident));
  fact("Do first", words(incident, "first_action"));
  if (const auto seen = number(body, "seen"); seen && *seen > 0) fact("Seen", std::to_string(*seen) + " more times since it was last told");
  out.evidence = words(child(incident, "root"), "text");
  const Json& fixes = child(incident, "fixes");
  for (std::size_t i = 0; fixes.is_array() && i < fixes.size() && i < 2; ++i) out.fixes.push_back(fix_text(fixes[i], incident));
  out.verdict = words(incident, "plan");
  const Json& others = child(child(body, "group"), "others");
  for (std::size_t i = 0; others.is_array() && i < others.size(); ++i) out.others.push_back(other_text(others[i]));
  return out;
}

AlertText cut_parts(const AlertText& text, double scale) {
  const auto limit = [&](std::size_t units) { return std::max<std::size_t>(24, static_cast<std::size_t>(static_cast<double>(units) * scale)); };
  AlertText out = text;
  out.title = cut_text(text.title, limit(kTitle));
  out.what = cut_text(text.what, limit(kWhat));
  if (out.facts.size() > kFacts) out.facts.resize(kFacts);
  for (auto& [name, value] : out.facts) value = cut_text(value, limit(kFact));
  out.evidence = cut_text(text.evidence, limit(kEvidence));
  for (AlertFix& fix : out.fixes) {
    fix.title = cut_text(fix.title, limit(kFixTitle));
    fix.set = cut_text(fix.set, limit(kFixSet));
    fix.numbers = cut_text(fix.numbers, limit(kFixNumbers));
  }
  out.verdict = cut_text(text.verdict, limit(kVerdict));
  const std::size_t others = std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(kOthers) * scale));
  if (out.others.size() > others) {
    out.others.resize(others);
    out.others.push_back(std::string(kEllipsis) + " and " + std::to_string(text.others.size() - others) + " more");
  }
  for (std::string& other : out.others) other = cut_text(other, limit(kOther));
  if (text_units(out.link) > kLink) out.link.clear();   // half a link is none
  out.incident = cut_text(text.incident, 64);
  return out;
}

std::string plain_text(const AlertText& text) {
  std::string out = text.title + "\n";
  join(out, "\n", text.what);
  for (const auto& [name, value] : text.facts) join(out, "\n", name + ": " + value);
  if (!text.evidence.empty()) join(out, "\n", "Line: " + text.evidence);
  int position = 0;
  for (const AlertFix& fix : text.fixes) {
    out += "\n\nFix " + std::to_string(++position) + ": " + fix.title;
    join(out, "\n  ", fix.set);
    join(out, "\n  ", fix.numbers);
  }
  if (!text.verdict.empty()) out += "\n\nPlan: " + text.verdict;
  if (!text.others.empty()) {
    out += "\n\nThe same cause:";
    for (const std::string& other : text.others) out += "\n- " + other;
  }
  out += "\n";
  if (!text.link.empty()) join(out, "\n", text.link);
  join(out, "\n", "incident " + text.incident + ", " + text.severity);
  return out + "\n";
}

std::size_t text_units(std::string_view utf8) {
  std::size_t units = 0;
  for (const char c : utf8) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0U) != 0x80U) units += byte >= 0xf0 ? 2 : 1;
  }
  return units;
}

std::string cut_text(std::string_view utf8, std::size_t units) {
  const std::size_t all = text_units(utf8);
  if (all <= units) return std::string(utf8);
  std::string mark = std::string(kEllipsis) + " [cut: " + std::to_string(all) + " more]";   // as long as it can become
  if (text_units(mark) > units) mark = units == 0 ? "" : std::string(kEllipsis);
  const std::size_t room = units - text_units(mark);
  std::size_t end = 0, kept = 0;
  while (end < utf8.size()) {
    const std::size_t bytes = parsers::first_character(utf8.substr(end)).size(), width = bytes == 4 ? 2 : 1;
    if (kept + width > room) break;
    kept += width;
    end += bytes;
  }
  if (mark.size() > kEllipsis.size()) mark = std::string(kEllipsis) + " [cut: " + std::to_string(all - kept) + " more]";
  return std::string(utf8.substr(0, end)) + mark;
}

std::string cut_escaped(std::string_view utf8, std::size_t units, const std::function<std::string(std::string_view)>& escape) {
  std::string best = escape(utf8);
  if (text_units(best) <= units) return best;
  std::size_t low = 0, high = std::min(units, text_units(utf8));   // escaping never shortens
  best = escape(cut_text(utf8, 0));
  while (low < high) {
    const std::size_t middle = low + (high - low + 1) / 2;
    std::string tried = escape(cut_text(utf8, middle));
    if (text_units(tried) <= units) {
      best = std::move(tried);
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return best;
}

std::string clean_line(std::string_view text) {
  const std::string valid = parsers::repair_utf8(parsers::has_ansi(text) ? std::string_view(parsers::strip_ansi(text)) : text);
  std::string out;
  out.reserve(valid.size());
  for (std::string_view rest = valid; !rest.empty();) {
    const std::string_view character = parsers::first_character(rest);
    const std::uint32_t point = parsers::code_point(character);
    if (point < 0x20 || (point >= 0x7f && point < 0xa0)) {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else if (!is_hidden(point)) {
      out += character;
    }
    rest.remove_prefix(character.size());
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string guard_mentions(std::string_view text) {
  constexpr std::array<std::string_view, 6> kCalls = {"here", "channel", "everyone", "group", "all", "team"};
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    const std::string_view rest = text.substr(at + 1);
    const bool call = text[at] == '@' && std::any_of(kCalls.begin(), kCalls.end(), [&](std::string_view word) { return parsers::starts_with_ignoring_case(rest, word); });
    const bool tag = text[at] == '<' && !rest.empty() && (rest[0] == '!' || rest[0] == '@' || rest[0] == '#' || rest[0] == '/' || rest[0] == ':' || parsers::is_alpha(rest[0]));
    if (call || tag) out += kJoiner;
  }
  return out;
}

std::string escape_slack(std::string_view text) {
  std::string out;
  for (const char c : guard_mentions(text)) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else out += c;
  }
  return out;
}

std::string escape_discord(std::string_view text) {
  constexpr std::string_view kSpecial = "\\*_~`|>#[]()<:-+=@";
  std::string out;
  for (const char c : guard_mentions(text)) {
    if (kSpecial.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string code_block(std::string_view text) {
  std::string out = "```\n";
  for (const char c : guard_mentions(text)) {
    if (c == '`') out += "\xcb\x8b";   // U+02CB, looks the same
    else out += c;
  }
  return out + "\n```";
}

std::string fit(const std::function<std::string(double scale)>& build, const std::function<bool(const std::string&)>& fits) {
  std::string out;
  for (double scale = 1; scale > 0.01; scale *= 0.75) {
    out = build(scale);
    if (fits(out)) break;
  }
  return out;
}

}  // namespace triage::daemon
