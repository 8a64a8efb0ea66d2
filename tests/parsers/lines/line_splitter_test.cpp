#include "parsers/lines/line_splitter.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace triage::parsers;

namespace {

struct Got {
  std::uint64_t offset, number;
  std::string text;
  std::uint64_t cut;
  bool unfinished;
  friend bool operator==(const Got&, const Got&) = default;
};

std::vector<Got> split_in(const std::string& text, const std::vector<std::size_t>& sizes) {
  std::vector<Got> out;
  LineSplitter splitter;
  const auto sink = [&](const Line& line) {
    out.push_back({line.offset, line.number, std::string(line.text), line.cut_bytes, line.unfinished});
  };
  std::size_t at = 0;
  for (std::size_t i = 0; at < text.size(); ++i) {
    const std::size_t size = sizes.empty() ? text.size() : std::min(sizes[i % sizes.size()], text.size() - at);
    const std::string chunk = text.substr(at, size);  // its own memory: a view that is kept too long shows up
    splitter.feed(chunk, sink);
    at += size;
  }
  splitter.finish(sink);
  return out;
}

}  // namespace

TEST_CASE("lines end with a newline, progress states with a carriage return") {
  struct Row { std::string name, text; std::vector<Got> want; };
  const Row rows[] = {
      {"nothing", "", {}},
      {"two lines", "a\nbc\n", {{0, 1, "a", 0, false}, {2, 2, "bc", 0, false}}},
      {"no newline at the end", "a\nbc", {{0, 1, "a", 0, false}, {2, 2, "bc", 0, true}}},
      {"empty lines", "\n\n", {{0, 1, "", 0, false}, {1, 2, "", 0, false}}},
      {"windows", "a\r\nb\r\n", {{0, 1, "a", 0, false}, {3, 2, "b", 0, false}}},
      {"empty windows line", "\r\nb", {{0, 1, "", 0, false}, {2, 2, "b", 0, true}}},
      {"progress bar", "\r 0%\r 50%\r100%\nnext\n",
       {{1, 1, " 0%", 0, false}, {5, 1, " 50%", 0, false}, {10, 1, "100%", 0, false}, {15, 2, "next", 0, false}}},
      {"message behind a bar", " 9%|x| 3/9\rTraceback\n", {{0, 1, " 9%|x| 3/9", 0, false}, {11, 1, "Traceback", 0, false}}},
      {"double return", "a\r\r\nb\n", {{0, 1, "a", 0, false}, {4, 2, "b", 0, false}}},
      {"only returns", "\r\r\n", {{0, 1, "", 0, false}}},
      {"return at the end of input", "a\r", {{0, 1, "a", 0, false}}},
      {"NUL bytes", std::string("a\0b\n\0", 5), {{0, 1, std::string("a\0b", 3), 0, false}, {4, 2, std::string("\0", 1), 0, true}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(split_in(row.text, {}) == row.want);
    CHECK(split_in(row.text, {1}) == row.want);
    CHECK(split_in(row.text, {2, 3}) == row.want);
  }
}

TEST_CASE("an over-long line is cut and the cut bytes are counted") {
  const std::string text = std::string(limits::kLineBytes + 1000, 'x') + "\nafter\n" + std::string(3 * limits::kLineBytes, 'y');
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{}, {7}, {limits::kLineBytes}, {100'000, 1}}) {
    const std::vector<Got> got = split_in(text, sizes);
    REQUIRE(got.size() == 3);
    CHECK(got[0].text.size() == limits::kLineBytes);
    CHECK(got[0].cut == 1000);
    CHECK(got[1] == Got{limits::kLineBytes + 1001, 2, "after", 0, false});
    CHECK(got[2].cut == 2 * limits::kLineBytes);
    CHECK(got[2].unfinished);
  }
}

TEST_CASE("any chunking gives the same lines") {
  std::mt19937 random(20250603);
  const std::string alphabet = std::string("abc \n\n\r\r\t") + '\0' + "\xe2\x95";
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::string text;
    const std::size_t length = random() % 400;
    for (std::size_t i = 0; i < length; ++i) text.push_back(alphabet[random() % alphabet.size()]);
    if (round % 10 == 0) text.insert(random() % (text.size() + 1), std::string(limits::kLineBytes + random() % 3, 'z'));
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 16; ++i) sizes.push_back(1 + random() % (round % 10 == 0 ? 20'000 : 40));
    CHECK(split_in(text, sizes) == split_in(text, {}));
  }
}

TEST_CASE("the splitter can start in the middle of a source and knows where to begin again") {
  LineSplitter splitter(1000, 50);
  std::vector<Got> got;
  const auto sink = [&](const Line& line) {
    got.push_back({line.offset, line.number, std::string(line.text), line.cut_bytes, line.unfinished});
  };
  splitter.feed("abc\nde\rf", sink);
  CHECK(got == std::vector<Got>{{1000, 50, "abc", 0, false}, {1004, 51, "de", 0, false}});
  CHECK(splitter.line_offset() == 1004);
  CHECK(splitter.line_number() == 51);
  splitter.finish(sink);
  CHECK(got.back() == Got{1007, 51, "f", 0, true});
  splitter.feed("g\n", sink);
  CHECK(got.back() == Got{1008, 52, "g", 0, false});
}

TEST_CASE("a line inside one chunk is not copied") {
  const std::string text = "first\nsecond\n";
  LineSplitter splitter;
  splitter.feed(text, [&](const Line& line) {
    CHECK(line.text.data() >= text.data());
    CHECK(line.text.data() < text.data() + text.size());
  });
}
