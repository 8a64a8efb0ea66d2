// Runs a text through the line splitter, the prefix peeler and the event readers, as the intake does.
#pragma once

#include "parsers/events/event_reader.hpp"
#include "parsers/lines/line_splitter.hpp"
#include "parsers/records/prefix.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace triage::parsers {

inline std::string data_file(const std::string& name) {
  std::ifstream in(std::string(TRIAGE_SOURCE_DIR) + "/tests/parsers/events/data/" + name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

template <class Sink>
void for_each_record(std::string_view text, Sink&& sink) {
  LineSplitter splitter;
  Peeler peeler(2026);
  const auto take = [&](const Line& line) { sink(peeler.peel(line)); };
  splitter.feed(text, take);
  splitter.finish(take);
}

struct NamedBlock {
  std::string name;
  EventReader::Block block;
};

inline std::vector<NamedBlock> blocks_of(std::string_view text) {
  auto readers = make_event_readers();
  std::vector<NamedBlock> found;
  const auto finish = [&](EventReader& reader) {
    if (auto block = reader.finish()) found.push_back({std::string(reader.name()), std::move(*block)});
  };
  for_each_record(text, [&](const Record& record) {
    for (auto& reader : readers) {
      bool wanted = reader->open();
      for (const auto trigger : reader->triggers()) wanted = wanted || record.line.text.find(trigger) != std::string_view::npos;
      if (!wanted) continue;
      const auto offer = reader->offer(record);
      if (offer == Offer::finished) finish(*reader);
      if (offer == Offer::ended_before) {
        finish(*reader);
        if (reader->offer(record) == Offer::finished) finish(*reader);
      }
    }
  });
  for (auto& reader : readers)
    if (reader->open()) finish(*reader);
  return found;
}

}  // namespace triage::parsers
