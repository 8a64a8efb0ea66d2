// What the readers of many-line blocks share: whose lines they are, the collected text, and the
// line of each byte of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/config/flat_setting.hpp"
#include "parsers/records/record.hpp"

namespace triage::parsers {

// The process that printed a record, as far as its prefix tells. Owns its text.
class Stream {
 public:
  Stream() = default;
  explicit Stream(const Record& record);
  // True for a record of this process and for one without any prefix (the later lines of one
  // multi-line log record).
  bool owns(const Record& record) const;

 private:
  std::optional<int> rank_, local_rank_, task_;
  std::optional<std::int64_t> pid_;
  std::string node_, actor_;
};

// The lines of a block, joined by '\n'. At most limits::kConfigLines and limits::kConfigBytes.
class BlockText {
 public:
  void clear();
  void add(std::string_view line, std::uint64_t number);
  bool full() const;
  bool empty() const { return lines_.empty(); }
  const std::string& text() const { return text_; }
  std::uint64_t line_at(std::size_t offset) const;
  // Fills FlatSetting::line from its offset (plus `shift`, where the settings were read from).
  void number(FlatSettings& settings, std::size_t shift = 0) const;

 private:
  std::string text_;
  std::vector<std::pair<std::size_t, std::uint64_t>>
      lines_;  // offset of the first byte, line number
};

// Without the logger's own head, where the prefix peeler left it: "[config.py:752:print] ",
// "INFO:__main__:", "root - INFO - ",
// "[INFO|trainer.py:1143] ... >> ". What cannot be told from a message stays.
std::string_view without_logger(std::string_view message);

// A line that can be part of a printed dict, list or JSON.
bool literal_shaped(std::string_view line);

}  // namespace triage::parsers
