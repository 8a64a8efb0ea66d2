#include "daemon/alert/mask.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <memory>
#include <set>

#include "daemon/alert/mask_shapes.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {
namespace {

constexpr std::int64_t kShapeBytes = 1024 * 1024;   // of RE2 for one shape: program and states; there are over a hundred of them

struct Compiled {
  const MaskShape* shape;
  std::unique_ptr<re2::RE2> pattern;
  std::vector<std::string_view> anchors;
};

// Compiled at the first use, then shared: RE2 may be matched from several threads.
const std::vector<Compiled>& compiled() {
  static const std::vector<Compiled> all = [] {
    std::vector<Compiled> out;
    re2::RE2::Options options;
    options.set_encoding(re2::RE2::Options::EncodingLatin1);
    options.set_log_errors(false);
    options.set_max_mem(kShapeBytes);
    for (const MaskShape& shape : mask_shape_table()) {
      Compiled one{&shape, std::make_unique<re2::RE2>(re2::StringPiece(shape.pattern.data(), shape.pattern.size()), options), {}};
      if (!shape.anchors.empty()) one.anchors = parsers::split(shape.anchors, '|');
      out.push_back(std::move(one));
    }
    return out;
  }();
  return all;
}

bool has_anchor(const Compiled& one, std::string_view lowered) {
  return one.anchors.empty() || std::any_of(one.anchors.begin(), one.anchors.end(), [&](std::string_view anchor) { return parsers::contains(lowered, anchor); });
}

bool wanted(MaskGroup group, const MaskOptions& options) {
  switch (group) {
    case MaskGroup::secret: return true;
    case MaskGroup::user: return options.users;
    case MaskGroup::mail: return options.mails;
    case MaskGroup::host: return options.hosts;
  }
  return true;
}

// The same name gives the same mark, so that "the same host" can still be seen. FNV-1a, not meant to resist guessing.
std::string host_mark(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(parsers::to_lower(c))) * 16777619U;
  char text[32];
  std::snprintf(text, sizeof text, "[masked host-%04x]", (hash ^ (hash >> 16)) & 0xffffU);
  return text;
}

std::string apply(const Compiled& one, std::string text) {
  const re2::RE2& pattern = *one.pattern;
  const int group = pattern.NumberOfCapturingGroups() > 0 ? 1 : 0;
  std::array<re2::StringPiece, 2> found;
  std::string out;
  std::size_t done = 0, from = 0;
  const re2::StringPiece whole(text);
  while (from <= text.size() && pattern.Match(whole, from, text.size(), re2::RE2::UNANCHORED, found.data(), 2)) {
    const re2::StringPiece hit = found[static_cast<std::size_t>(group)];
    if (hit.data() == nullptr || hit.empty()) {   // cannot be by the table; go on behind the match
      from = static_cast<std::size_t>(found[0].data() - text.data()) + std::max<std::size_t>(1, found[0].size());
      continue;
    }
    const std::size_t begin = static_cast<std::size_t>(hit.data() - text.data());
    const std::string_view value(hit.data(), hit.size());
    from = begin + value.size();
    if (value.starts_with("[masked") || (one.shape->check != nullptr && !one.shape->check(value))) continue;
    out.append(text, done, begin - done);
    if (one.shape->group == MaskGroup::host)
      out += host_mark(value);
    else
      out.append("[masked ").append(one.shape->name).append("]");
    done = from;
  }
  if (done == 0) return text;
  return out.append(text, done, std::string::npos);
}

bool is_name_char(char c) { return parsers::is_alnum(c) || c == '-' || c == '_' || c == '.'; }

// Replaces `word`, any case, where it stands as a word of its own (a name may go on with a domain or a port).
std::string replace_word(std::string text, std::string_view word, const std::string& mark) {
  if (word.size() < 2) return text;
  const std::string lowered = parsers::lower(text), wanted_word = parsers::lower(word);
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = lowered.find(wanted_word); at != std::string::npos; at = lowered.find(wanted_word, at + 1)) {
    const std::size_t end = at + word.size();
    if (at < done || (at > 0 && is_name_char(text[at - 1])) || (end < text.size() && (parsers::is_alnum(text[end]) || text[end] == '-' || text[end] == '_'))) continue;
    out.append(text, done, at - done).append(mark);
    done = end;
  }
  if (done == 0) return text;
  return out.append(text, done, std::string::npos);
}

// Names that end with ".suffix": the whole name goes.
std::string replace_suffix(std::string text, std::string_view suffix) {
  while (suffix.starts_with('.')) suffix.remove_prefix(1);
  if (suffix.empty()) return text;
  const std::string lowered = parsers::lower(text), wanted_end = "." + parsers::lower(suffix);
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = lowered.find(wanted_end); at != std::string::npos; at = lowered.find(wanted_end, at + 1)) {
    const std::size_t end = at + wanted_end.size();
    std::size_t begin = at;
    while (begin > done && is_name_char(text[begin - 1])) --begin;
    if (begin == at || (end < text.size() && (parsers::is_alnum(text[end]) || text[end] == '-'))) continue;
    out.append(text, done, begin - done).append(host_mark(std::string_view(text).substr(begin, end - begin)));
    done = end;
  }
  if (done == 0) return text;
  return out.append(text, done, std::string::npos);
}

Json mask_value(const Json& json, const MaskOptions& options, std::string_view kept, std::size_t depth) {
  if (json.is_string()) return mask_text(json.get_ref<const std::string&>(), options);
  if (!json.is_structured()) return json;
  if (depth >= parsers::limits::kJsonDepth) return "[masked: too deep]";
  Json out = json.is_array() ? Json::array() : Json::object();
  if (json.is_array())
    for (const Json& item : json) out.push_back(mask_value(item, options, kept, depth + 1));
  else
    for (const auto& [key, value] : json.items()) out[key] = value.is_string() && !kept.empty() && key == kept ? value : mask_value(value, options, kept, depth + 1);
  return out;
}

}  // namespace

std::string mask_text(std::string_view text, const MaskOptions& options) {
  std::string out(text);
  const std::string lowered = parsers::lower(text);
  for (const Compiled& one : compiled())
    if (wanted(one.shape->group, options) && has_anchor(one, lowered)) out = apply(one, std::move(out));
  for (const std::string& word : options.words) out = replace_word(std::move(out), word, "[masked word]");
  if (options.hosts) {
    for (const std::string& suffix : options.host_suffixes) out = replace_suffix(std::move(out), suffix);
    for (const std::string& name : options.host_names) out = replace_word(std::move(out), name, host_mark(name));
  }
  return out;
}

Json mask_json(const Json& json, const MaskOptions& options, std::string_view kept) { return mask_value(json, options, kept, 0); }

std::vector<std::string_view> mask_shapes() {
  std::vector<std::string_view> out;
  for (const MaskShape& shape : mask_shape_table())
    if (std::find(out.begin(), out.end(), shape.name) == out.end()) out.push_back(shape.name);
  return out;
}

}  // namespace triage::daemon
