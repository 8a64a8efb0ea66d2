// Where a reader puts what it read: canonical keys with origin and place, raw settings under the
// program's own names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/config/flat_setting.hpp"
#include "parsers/config/run_config.hpp"

namespace triage::parsers {

class Target {
 public:
  // config must outlive the target.
  Target(RunConfig& config, std::string_view file, std::string origin)
      : config_(config), file_(file), origin_(std::move(origin)) {}

  RunConfig& config() { return config_; }
  // Keeps the settings as printed, under `prefix` + their names. At most limits::kSettings in the
  // whole configuration.
  void raw(const FlatSettings& settings, std::string_view prefix = {});
  void raw(std::string_view name, std::string_view value, std::uint64_t line);
  void put(Key key, Value value, std::uint64_t line);
  // Text to the key's type; "None", "auto" and what does not fit the type are left out (they stay
  // among the raw settings).
  void put_text(Key key, std::string_view text, std::uint64_t line);

 private:
  Place place(std::uint64_t line) const;
  RunConfig& config_;
  std::string file_;
  std::string origin_;
};

// How the value of a name becomes the value of a key.
enum class How : std::uint8_t {
  plain,     // the same text, an enum without its class ("AttnBackend.flash" -> "flash")
  lower,     // lower case
  dtype,     // "torch.bfloat16" -> "bf16"
  negate,    // a flag that says the opposite
  positive,  // a number that means nothing below 1
  list,      // a list, or one word
  window,    // the first number of a tuple
};

struct NameRow {
  std::string_view name;
  Key key;
  How how = How::plain;
  std::string_view none = {};  // the value where the program prints None; empty: nothing is known
};

// Looks settings up by their whole name; of doubled names the last counts.
class Names {
 public:
  explicit Names(const FlatSettings& settings);
  const FlatSetting* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool yes(std::string_view name) const;               // present and true
  bool no(std::string_view name) const;                // present and false
  std::string_view text(std::string_view name) const;  // "" if absent or None
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::uint64_t line(std::string_view name) const;

 private:
  std::vector<const FlatSetting*> sorted_;
};

void apply_rows(std::span<const NameRow> rows, const Names& names, Target& target);

// "torch.bfloat16", "bfloat16", "torch.float8_e4m3fn" -> "bf16", "fp8". Unknown text comes back in
// lower case.
std::string dtype_name(std::string_view text);
// "<OptimizerNames.ADAMW_TORCH: 'adamw_torch'>" -> "adamw_torch"; "IntervalStrategy.NO" -> "NO".
std::string_view enum_value(std::string_view text);

}  // namespace triage::parsers
