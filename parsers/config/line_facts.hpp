// A reader of single telling lines: each line is a block of its own. The derived class reads the
// line; this class keeps what it said until the caller gives the file's name. Shared by the *_lines
// readers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/config/config_reader.hpp"
#include "parsers/config/target.hpp"

namespace triage::parsers {

class LineReader : public ConfigReader {
 public:
  Offer offer(const Record& record) final;
  bool open() const final { return false; }
  void finish(std::string_view file, RunConfig& config) final;

 protected:
  // Reads one message, calls key(), raw(), framework(). Nothing called: the line is not ours.
  virtual void read(std::string_view message, const Record& record) = 0;
  // For what key() cannot say. Called once per finish(), after the keys.
  virtual void after(Target&) {}

  void key(Key key, std::string_view text) { keys_.push_back({key, std::string(text), line_}); }
  void raw(std::string_view name, std::string_view value) {
    raw_.push_back({std::string(name), std::string(value.substr(0, kFlatValueBytes)), line_, 0});
  }
  void framework(std::string_view name) { frameworks_.emplace_back(name); }
  std::uint64_t line() const { return line_; }

 private:
  struct Said {
    Key key;
    std::string text;
    std::uint64_t line;
  };
  std::vector<Said> keys_;
  FlatSettings raw_;
  std::vector<std::string> frameworks_;
  std::uint64_t line_ = 0;
};

// The text behind `mark`, up to `stop` (or the end); empty if the mark is not there.
std::string_view after_mark(std::string_view text, std::string_view mark);
// The number behind `mark` (blanks skipped, thousands commas dropped) as digits; empty if there is
// none.
std::string number_after(std::string_view text, std::string_view mark);
// "8,030,261,248 rest" -> "8030261248"
std::string digits_of(std::string_view text);

}  // namespace triage::parsers
