#include "daemon/config/fields.hpp"

#include <algorithm>
#include <utility>

#include "parsers/base/nearest.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::YamlNode;
using Kind = parsers::YamlNode::Kind;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t kTexts = 1000;     // limit: of one list
constexpr std::int64_t kMostMs = 3660LL * 86'400'000;

std::string duration_text(milliseconds time) {
  const auto ms = time.count();
  if (ms == 0) return "0s";
  if (ms % 86'400'000 == 0) return std::to_string(ms / 86'400'000) + "d";
  if (ms % 3'600'000 == 0) return std::to_string(ms / 3'600'000) + "h";
  if (ms % 60'000 == 0) return std::to_string(ms / 60'000) + "m";
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

bool one_line(std::string_view text) { return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos; }

}  // namespace

std::optional<milliseconds> read_duration(std::string_view text) {
  const auto number = parsers::take_integer(text);
  if (!number) return std::nullopt;
  for (const auto& [unit, ms] : {std::pair<std::string_view, std::int64_t>{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}})
    if (text == unit && *number <= kMostMs / ms) return milliseconds(*number * ms);
  return std::nullopt;
}

Fields::Fields(const YamlNode& node, std::string what, std::vector<Error>& faults) : node_(node), what_(std::move(what)), faults_(faults) {
  if (node.kind != Kind::map && node.kind != Kind::null) fault(node, what_ + " has to be a map of keys, not " + std::string(parsers::kind_name(node.kind)));
}

Fields::~Fields() {
  if (node_.kind != Kind::map || rest_left_) return;
  for (const parsers::YamlEntry& entry : node_.entries)
    if (std::find(known_.begin(), known_.end(), entry.key) == known_.end())
      fault(entry.value.key_place, what_ + " has no key '" + entry.key + "'", parsers::nearest_name(entry.key, known_));
}

const YamlNode* Fields::find(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return node_.kind == Kind::map ? node_.find(key) : nullptr;
}

bool Fields::text(std::string_view key, std::string& out) {
  const YamlNode* const node = find(key);
  if (!node) return false;
  if (node->kind != Kind::scalar) {
    fault(*node, std::string(key) + " has to be text");
    return false;
  }
  if (!one_line(node->scalar)) {
    fault(*node, std::string(key) + " has to be one line");
    return false;
  }
  out = node->scalar;
  return true;
}

bool Fields::name(std::string_view key, std::string& out) {
  std::string read;
  if (!text(key, read)) return false;
  if (read.empty()) {
    fault(*find(key), std::string(key) + " is empty");
    return false;
  }
  out = std::move(read);
  return true;
}

bool Fields::one_of(std::string_view key, std::string& out, const std::vector<std::string_view>& names) {
  std::string read;
  if (!name(key, read)) return false;
  if (std::find(names.begin(), names.end(), read) == names.end()) {
    fault(*find(key), std::string(key) + " cannot be '" + read + "'", parsers::nearest_name(read, names));
    return false;
  }
  out = std::move(read);
  return true;
}

bool Fields::texts(std::string_view key, std::vector<std::string>& out) {
  const YamlNode* const node = find(key);
  if (!node) return false;
  if (node->kind == Kind::map || node->kind == Kind::null || node->items.size() > kTexts) {
    fault(*node, std::string(key) + " has to be text or a list of texts");
    return false;
  }
  std::vector<std::string> read;
  for (const YamlNode* const item : items(key))
    if (auto value = item_text(*item, key)) read.push_back(*std::move(value));
  out = std::move(read);
  return true;
}

bool Fields::flag(std::string_view key, bool& out) {
  const YamlNode* const node = find(key);
  if (!node) return false;
  if (node->kind == Kind::scalar && !node->quoted && (node->scalar == "true" || node->scalar == "false")) {
    out = node->scalar == "true";
    return true;
  }
  fault(*node, std::string(key) + " has to be true or false");
  return false;
}

std::optional<std::int64_t> Fields::whole_number(std::string_view key, std::int64_t least, std::int64_t most) {
  const YamlNode* const node = find(key);
  if (!node) return std::nullopt;
  const auto number = node->kind == Kind::scalar && !node->quoted ? parsers::read_integer(node->scalar) : std::nullopt;
  if (number && *number >= least && *number <= most) return number;
  fault(*node, std::string(key) + " has to be a number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

bool Fields::bytes(std::string_view key, std::uint64_t& out, std::int64_t least) {
  const YamlNode* const node = find(key);
  if (!node) return false;
  const auto size = node->kind == Kind::scalar ? parsers::read_bytes(node->scalar) : std::nullopt;
  if (size && size->count() >= least) {
    out = static_cast<std::uint64_t>(size->count());
    return true;
  }
  fault(*node, std::string(key) + " has to be a size of at least " + parsers::bytes_text(parsers::Bytes(least)), "for example 16MiB");
  return false;
}

bool Fields::seconds(std::string_view key, double& out) {
  const YamlNode* const node = find(key);
  if (!node) return false;
  const auto number = node->kind == Kind::scalar ? parsers::read_double(node->scalar) : std::nullopt;
  if (number && *number >= 0.05 && *number <= 86'400) {
    out = *number;
    return true;
  }
  fault(*node, std::string(key) + " has to be a number of seconds from 0.05 to 86400");
  return false;
}

std::optional<milliseconds> Fields::time(std::string_view key, milliseconds least, milliseconds most, milliseconds unit) {
  const YamlNode* const node = find(key);
  if (!node) return std::nullopt;
  const auto read = node->kind == Kind::scalar ? read_duration(node->scalar) : std::nullopt;
  if (read && *read >= least && *read <= most && (unit.count() == 0 || read->count() % unit.count() == 0)) return read;
  const std::string whole = unit > milliseconds(1) ? ", in steps of " + duration_text(unit) : "";
  fault(*node, std::string(key) + " has to be a time from " + duration_text(least) + " to " + duration_text(most) + whole, "write a whole number and a unit: 500ms, 10s, 5m, 4h or 2d",
        read ? ErrorCode::limit : ErrorCode::syntax);
  return std::nullopt;
}

std::vector<const YamlNode*> Fields::items(std::string_view key) {
  std::vector<const YamlNode*> out;
  const YamlNode* const node = find(key);
  if (!node) return out;
  if (node->kind != Kind::list) return {node};
  for (const YamlNode& item : node->items) out.push_back(&item);
  return out;
}

std::optional<std::string> Fields::item_text(const YamlNode& item, std::string_view key) {
  if (item.kind == Kind::scalar && !item.scalar.empty() && one_line(item.scalar)) return item.scalar;
  fault(item, item.kind != Kind::scalar ? "each of " + std::string(key) + " has to be text" : item.scalar.empty() ? std::string(key) + " holds an empty text" : std::string(key) + " has to be one line");
  return std::nullopt;
}

void Fields::fault(const parsers::Place& place, std::string message, std::string help, ErrorCode code) {
  Error error = Error(code, std::move(message)).at(place);
  faults_.push_back(help.empty() ? std::move(error) : std::move(error).help(std::move(help)));
}

}  // namespace triage::daemon
