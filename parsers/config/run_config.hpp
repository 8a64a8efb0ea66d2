// RunConfig: what a run was set up to do, one value a canonical key, each with its origin and place.
// Filled by the readers of parsers/config out of logs and configuration files; read by memory, plan and verdict.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parsers/base/place.hpp"
#include "parsers/base/result.hpp"

namespace triage::parsers {

enum class Key : std::uint8_t {
#define TRIAGE_KEY(name, type, help) name,
#include "parsers/config/keys.def"
#undef TRIAGE_KEY
};
enum class KeyType : std::uint8_t { integer, number, boolean, text, list };

struct KeyInfo {
  Key key;
  std::string_view name;
  KeyType type;
  std::string_view help;
};
// All keys in the order of keys.def.
const std::vector<KeyInfo>& all_keys();
const KeyInfo& key_info(Key key);
std::optional<Key> key_by_name(std::string_view name);

using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

struct Setting {
  Value value;
  std::string origin;  // "megatron arguments", "config.json", "command line", "default of megatron-core", "derived: world / (tensor x pipeline x context)"
  Place place;
};
struct RawSetting {
  std::string value;   // as printed
  std::string origin;
  Place place;
};

// Two sources disagree about one key: the kept one and the other. Told in the answer, never silently resolved.
struct Conflict {
  Key key;
  Setting kept, other;
};

class RunConfig {
 public:
  bool has(Key key) const { return settings_.contains(key); }
  const Setting* find(Key key) const;
  // The value, if the key is set and has that type (integer also answers number; boolean answers 0/1 to nothing else).
  std::optional<std::int64_t> integer(Key key) const;
  std::optional<double> number(Key key) const;
  std::optional<bool> boolean(Key key) const;
  std::optional<std::string> text(Key key) const;
  const std::vector<std::string>* list(Key key) const;

  // Sets or replaces. The value must have the key's type (an int64 is accepted for number); anything else is an internal error by assert.
  void set(Key key, Value value, std::string origin, Place place = {});
  // Text to the key's type: "4", "true", "None" (then unset), "1e-3", "a,b". Error: syntax, naming key and value.
  Status set_text(Key key, std::string_view value, std::string origin, Place place = {});
  void unset(Key key) { settings_.erase(key); }

  const std::map<Key, Setting>& settings() const { return settings_; }
  // Everything the source printed, under the program's own names (tensor_model_parallel_size). At most limits::kSettings.
  std::map<std::string, RawSetting, std::less<>>& raw() { return raw_; }
  const std::map<std::string, RawSetting, std::less<>>& raw() const { return raw_; }
  std::vector<Conflict>& conflicts() { return conflicts_; }
  const std::vector<Conflict>& conflicts() const { return conflicts_; }
  // All frameworks seen, in order of appearance: {"megatron-bridge", "megatron-lm"}. framework is the first.
  std::vector<std::string>& frameworks() { return frameworks_; }
  const std::vector<std::string>& frameworks() const { return frameworks_; }
  bool empty() const { return settings_.empty() && raw_.empty(); }

 private:
  std::map<Key, Setting> settings_;
  std::map<std::string, RawSetting, std::less<>> raw_;
  std::vector<Conflict> conflicts_;
  std::vector<std::string> frameworks_;
};

// Text of a value as the answer prints it: true, 4, 0.5, bf16, [a, b].
std::string value_text(const Value& value);

}  // namespace triage::parsers
