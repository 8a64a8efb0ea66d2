#include <doctest/doctest.h>

#include "support.hpp"

#include <random>

using namespace triage::parsers;

TEST_CASE("readers of events survive damaged logs and give the same blocks for every piece that is whole") {
  const std::string whole = data_file("ranks-oom.log");
  std::mt19937 random(20260101);
  INFO("seed 20260101");
  for (int round = 0; round < 60; ++round) {
    std::string text = whole;
    const auto pick = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); };
    for (int change = 0; change < 40; ++change) {
      const auto at = pick(text.size());
      switch (pick(4)) {
        case 0: text[at] = static_cast<char>(pick(256)); break;
        case 1: text.erase(at, pick(200)); break;
        case 2: text.insert(at, text.substr(pick(text.size()), pick(400))); break;
        default: text.insert(at, std::string(pick(50), "\n[]:(|=9"[pick(8)])); break;
      }
    }
    for (const auto& block : blocks_of(text)) CHECK(block.block.first_line <= block.block.last_line);
    for_each_record(text, [&](const Record& record) {
      if (const auto step = read_progress(record)) CHECK_FALSE(step->printer.empty());
      if (const auto report = read_memory_report(record)) CHECK_FALSE(report->printer.empty());
      for (const auto name : event_parser_names()) read_event(name, record.message);
    });
  }
}

TEST_CASE("readers of events answer any order of records, and finish() leaves them as new") {
  const std::string text = data_file("ranks-raise.log");
  for (auto& reader : make_event_readers()) {
    for_each_record(text, [&](const Record& record) {
      if (reader->offer(record) == Offer::finished) reader->finish();
    });
    reader->finish();
    CHECK_FALSE(reader->open());
    CHECK_FALSE(reader->finish().has_value());
  }
}
