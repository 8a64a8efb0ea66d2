// YAML as programs print it into a log (yaml.safe_dump, OmegaConf.to_yaml), line by line: block
// maps, block lists, flow values. Tolerant: a line that is no YAML is left to the caller.
// Configuration files of ours are read by base/yaml_text instead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/config/flat_setting.hpp"

namespace triage::parsers {

class YamlLines {
 public:
  // Takes one line (indentation counts, relative to the other lines). False: the line has not the
  // shape of YAML, nothing was taken.
  bool add(std::string_view line, std::uint64_t number);
  // True once a line stood to the left of the first one: the block is over (add() returned false
  // for it).
  bool outdented() const { return outdented_; }
  bool empty() const { return settings_.empty() && levels_.empty(); }
  // All settings so far; block lists of scalars as "[a, b]". Resets.
  FlatSettings take();

 private:
  struct Level {
    std::size_t indent = 0;
    std::string path;   // of the key that opened it
    bool list = false;  // its children are list items
    std::size_t items = 0;
    std::ptrdiff_t setting = -1;  // index of the setting that collects scalar items
  };
  void add_item(std::string_view rest, std::size_t indent, std::uint64_t number);
  void add_pair(std::string_view key, std::string_view value, std::size_t indent,
                std::uint64_t number);
  void emit(std::string path, std::string_view value, std::uint64_t number);
  void pop_to(std::size_t indent, bool item);

  std::vector<Level> levels_;
  FlatSettings settings_;
  std::size_t base_ = std::string::npos;   // indentation of the first line
  std::size_t block_ = std::string::npos;  // inside a "key: |" text: indentation of its key
  bool outdented_ = false;
};

}  // namespace triage::parsers
