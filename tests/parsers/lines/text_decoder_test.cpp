#include "parsers/lines/text_decoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

using triage::parsers::TextDecoder;

namespace {

std::string decoded(std::string_view bytes, std::size_t portion) {
  TextDecoder decoder;
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += portion) decoder.feed(bytes.substr(at, portion), out);
  decoder.finish(out);
  return out;
}

std::string utf16(std::u16string_view text, bool little) {
  std::string out = little ? "\xff\xfe" : "\xfe\xff";
  for (const char16_t c : text) {
    const char low = static_cast<char>(c & 0xff), high = static_cast<char>(c >> 8);
    out += little ? low : high;
    out += little ? high : low;
  }
  return out;
}

struct Row {
  const char* name;
  std::string input, want;
};

const std::string kA = "2025-07-25T05:09:16.157949381+08:00 stderr ";
const std::string kB = "2025-07-25T05:09:16.2+08:00 stdout ";

}  // namespace

TEST_CASE("UTF-16 and parts of container logs become lines, all else passes, for any chunks") {
  const Row rows[] = {
      {"plain", "step 1\nstep 2", "step 1\nstep 2"},
      {"a clock of its own", "2025-07-25 05:09:16,157 INFO P text\nnext\n", "2025-07-25 05:09:16,157 INFO P text\nnext\n"},
      {"nothing", "", ""},
      {"one strange byte", "\xff", "\xff"},
      {"UTF-16, little end first", utf16(u"loss 1.0 \u2588\r\nGr\u00f6\u00dfe \U0001F680\n", true), "loss 1.0 \xe2\x96\x88\r\nGr\xc3\xb6\xc3\x9f" "e \xf0\x9f\x9a\x80\n"},
      {"UTF-16, big end first", utf16(u"loss 1.0\n", false), "loss 1.0\n"},
      {"UTF-16 with half a pair and half a unit", utf16(u"a\xd83d" u"b", true) + "c", "a\xef\xbf\xbd" "b\xef\xbf\xbd"},
      {"UTF-16 whose mark a rotation cut off, little end first", utf16(u"loss 1.0 \u2588\r\nnext\n", true).substr(2), "loss 1.0 \xe2\x96\x88\r\nnext\n"},
      {"UTF-16 whose mark a rotation cut off, big end first", utf16(u"2026-01-01 loss\n", false).substr(2), "2026-01-01 loss\n"},
      {"UTF-16 without mark, two characters", utf16(u"a\n", true).substr(2), "a\n"},
      {"one zero after a letter", std::string("a\0bcdefghijklmnopqrstuvwxyz\n", 28), std::string("a\0bcdefghijklmnopqrstuvwxyz\n", 28)},
      {"a letter and a zero", std::string("a\0", 2), std::string("a\0", 2)},
      {"zeros of a file that was cut while it was written to", std::string(64, '\0') + "x\n", std::string(64, '\0') + "x\n"},
      {"container lines that are whole", kA + "F one\n" + kB + "F two\n", kA + "F one\n" + kB + "F two\n"},
      {"a line in three parts keeps the numbers of the next lines", kA + "P CUDA out of \n" + kA + "P memory. Tried \n" + kA + "F to allocate\n" + kA + "F next\n",
       kA + "F CUDA out of memory. Tried to allocate\n\n\n" + kA + "F next\n"},
      {"parts of two streams", kA + "P err\n" + kB + "F whole\n" + kB + "P out\n" + kA + "F or\n" + kB + "F put\n",
       kA + "F error\n" + kB + "F whole\n" + kB + "F output\n\n\n"},
      {"an empty last part", kB + "P 50%\n" + kB + "F \n" + kB + "F x\n", kB + "F 50%\n\n" + kB + "F x\n"},
      {"parts that never end", kA + "F a\n" + kA + "P b\n" + kA + "P c", kA + "F a\n" + kA + "F bc\n\n"},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      for (const std::size_t portion : {std::size_t{1}, std::size_t{3}, std::size_t{64}, std::size_t{4096}}) {
        CAPTURE(portion);
        CHECK(decoded(row.input, portion) == row.want);
      }
    }
  }
}

TEST_CASE("parts without end are bounded and given out") {
  std::string input;
  for (int i = 0; i < 20'000; ++i) input += kA + "P " + std::string(200, 'x') + "\n";
  const std::string out = decoded(input, 1 << 16);
  CHECK(std::count(out.begin(), out.end(), '\n') == 20'000);
  CHECK(out.size() < input.size());
}

TEST_CASE("a plain log goes round the decoder") {
  TextDecoder decoder;
  std::string out;
  decoder.feed("[rank0]: step 1\n", out);
  CHECK(decoder.passes());
  CHECK(out == "[rank0]: step 1\n");
}
