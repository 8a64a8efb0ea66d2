#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "daemon/pipeline/block_cutter.hpp"
#include "parsers/base/limits.hpp"

using triage::daemon::Block;
using triage::daemon::BlockCutter;
namespace limits = triage::parsers::limits;

namespace {

// All blocks of a text that comes in portions of random size.
std::vector<Block> cut(std::string_view text, std::mt19937& random, bool flush) {
  BlockCutter cutter;
  std::vector<Block> out;
  while (!text.empty()) {
    const auto room = cutter.room();
    const std::size_t count = std::min<std::size_t>({room.size(), text.size(), 1 + random() % 200'000});
    std::memcpy(room.data(), text.data(), count);
    cutter.filled(count);
    text.remove_prefix(count);
    while (auto block = cutter.take(flush)) out.push_back(std::move(*block));
  }
  out.push_back(cutter.finish());
  return out;
}

std::string lines(std::size_t bytes, std::mt19937& random) {
  std::string text;
  while (text.size() < bytes) text += std::string(random() % 300, 'a') + (random() % 20 == 0 ? "\r" : "\n");
  return text;
}

}  // namespace

TEST_CASE("blocks hold every byte once, in order, and end at line ends") {
  std::mt19937 random(7);
  const std::string text = lines(3'500'000, random) + "no end";
  for (const bool flush : {false, true}) {
    CAPTURE(flush);
    std::string joined;
    const auto blocks = cut(text, random, flush);
    for (const Block& block : blocks) {
      CHECK(block.offset == joined.size());
      joined += block.text();
      if (!block.last) CHECK((block.text().ends_with('\n') || block.text().ends_with('\r')));
    }
    CHECK(joined == text);
    CHECK(blocks.back().last);
  }
}

TEST_CASE("a line longer than a block is cut at the limit, its rest is counted, and the next line stands at its offset") {
  std::mt19937 random(11);
  const std::string text = "first\n" + std::string(5'000'000, 'x') + "\nafter\n";
  std::uint64_t dropped = 0, kept = 0;
  std::string tail;
  for (const Block& block : cut(text, random, false)) {
    dropped += block.dropped_before;
    kept += block.size;
    CHECK(block.size <= BlockCutter::kBlockBytes);
    if (block.text().find("after") != std::string_view::npos) {
      CHECK(text.compare(block.offset, block.size, block.text()) == 0);
      tail = block.text();
    }
  }
  CHECK(tail == "\nafter\n");
  CHECK(dropped + kept == text.size());
  CHECK(kept >= limits::kLineBytes);
}

TEST_CASE("a carriage return that may belong to a line end waits for the next byte") {
  BlockCutter cutter;
  const auto put = [&](std::string_view text) {
    std::memcpy(cutter.room().data(), text.data(), text.size());
    cutter.filled(text.size());
  };
  put("progress 1\rprogress 2\r");
  const auto block = cutter.take(true);
  REQUIRE(block);
  CHECK(block->text() == "progress 1\r");
  put("\n");
  const auto rest = cutter.take(true);
  REQUIRE(rest);
  CHECK(rest->text() == "progress 2\r\n");
}
