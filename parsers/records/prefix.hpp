// Peeler: a Line -> a Record. Takes the prefixes of launchers, containers and loggers off the front, reads what they say about
// rank, task, node, process, time and level, and leaves what the program itself printed.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "parsers/lines/line.hpp"
#include "parsers/records/json_line.hpp"
#include "parsers/records/record.hpp"

namespace triage::parsers {

class Peeler {
 public:
  // `default_year` completes clocks without a year (glog, syslog, vLLM).
  explicit Peeler(int default_year) : default_year_(default_year) {}

  // The record's views live until the next call and no longer than the line's text. Never fails: what is not known as a prefix
  // stays in the message.
  Record peel(const Line& line);

 private:
  std::string_view without_ansi(std::string_view text, std::size_t depth);
  std::string_view unwrap_json(std::string_view text, Record& record, std::size_t depth);

  static constexpr std::size_t kJsonDepth = 2;  // docker's JSON around a logger's JSON
  int default_year_;
  std::array<std::string, kJsonDepth + 1> ansi_;
  std::array<std::string, kJsonDepth> json_;
};

}  // namespace triage::parsers
