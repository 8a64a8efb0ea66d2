// Runs all configuration readers over a log, the way the intake does: a reader gets a record that
// holds one of its triggers or while it has a block open.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "parsers/config/config_reader.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/lines/line_splitter.hpp"
#include "parsers/records/prefix.hpp"

namespace triage::parsers::test {

inline std::string data_file(const std::string& name) {
  std::ifstream in(std::string(TRIAGE_SOURCE_DIR) + "/tests/parsers/config/data/" + name,
                   std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline RunConfig read_log(std::string_view text, bool derived = true) {
  RunConfig config;
  auto readers = make_config_readers();
  Peeler peeler(2026);
  LineSplitter splitter;
  const auto take = [&](const Line& line) {
    const Record record = peeler.peel(line);
    for (auto& reader : readers) {
      bool wanted = reader->open();
      for (const std::string_view trigger : reader->triggers())
        wanted = wanted || line.text.find(trigger) != std::string_view::npos;
      for (int round = 0; wanted && round < 2; ++round) {
        const Offer answer = reader->offer(record);
        if (answer == Offer::finished || answer == Offer::ended_before)
          reader->finish("test.log", config);
        if (answer != Offer::ended_before) break;
      }
    }
  };
  splitter.feed(text, take);
  splitter.finish(take);
  for (auto& reader : readers)
    if (reader->open()) reader->finish("test.log", config);
  if (derived) derive(config);
  return config;
}

// "key=value key=value": what the configuration must hold; the differences come back, one a line.
inline std::string differences(const RunConfig& config, std::string_view wanted) {
  std::string out;
  std::istringstream in{std::string(wanted)};
  std::string pair;
  while (in >> pair) {
    const auto equals = pair.find('=');
    const auto key = key_by_name(pair.substr(0, equals));
    if (!key) {
      out += "no key " + pair + "\n";
      continue;
    }
    std::string want = pair.substr(equals + 1);
    for (char& c : want)
      if (c == '~') c = ' ';
    const Setting* setting = config.find(*key);
    const std::string got = setting ? value_text(setting->value) : "(unset)";
    if (got != want) out += pair.substr(0, equals) + " is " + got + ", not " + want + "\n";
  }
  return out;
}

}  // namespace triage::parsers::test
