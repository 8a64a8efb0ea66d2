// Reads what Python prints of its values: dicts (also over many lines, as pprint and json.dumps
// write them), lists, tuples, dataclass reprs (OptimizerConfig(lr=0.0001, ...)), enums
// (<SchedulerType.LINEAR: 'linear'>, IntervalStrategy.NO), JSON. Tolerant: text that does not fit
// is skipped to the next comma or line, a cut end keeps what was read. No recursion.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "parsers/config/flat_setting.hpp"

namespace triage::parsers {

struct FlatLiteral {
  FlatSettings settings;             // in order; the offset is that of the value
  std::size_t end = 0;               // bytes read, up to the bracket that closed the first value
  bool complete = false;             // all brackets closed, nothing skipped
  std::optional<std::size_t> fault;  // offset of the first text that did not fit
  std::string reason;                // what did not fit there
};

// Reads one value from the start of `text` (white space before it is skipped). At most
// limits::kSettings settings and 64 levels: deeper text is a fault at that place and the rest is
// left.
FlatLiteral read_literal(std::string_view text);

// Follows a value over lines that arrive one by one: when have all its brackets been closed?
class BracketCounter {
 public:
  // One more line. A quote that is open at the end of the line does not go on into the next one.
  void add(std::string_view line);
  bool started() const { return opened_; }
  bool closed() const { return opened_ && depth_ <= 0; }
  int depth() const { return depth_; }

 private:
  int depth_ = 0;
  bool opened_ = false;
};

}  // namespace triage::parsers
