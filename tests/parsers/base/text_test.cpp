#include "parsers/base/text.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace triage::parsers;

TEST_CASE("terminal sequences are removed and nothing else") {
  struct Row { std::string text, want; };
  const Row rows[] = {
      {"plain", "plain"},
      {"\x1b[36m(Actor pid=12)\x1b[0m hi", "(Actor pid=12) hi"},
      {"\x1b[1;31mError\x1b[m", "Error"},
      {"\x1b]0;title\a" "text", "text"},
      {"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
      {"\x1b(Bx", "x"},
      {"\xc2\x9b" "31mred", "red"},
      {"cut \x1b", "cut "},
      {"cut \x1b[31", "cut "},
      {"\x1b[2K\x1b[1Gbar", "bar"},
      {"\x1b]no end of this", "no end of this"},
      {"a\xc2\xb5 b", "a\xc2\xb5 b"}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(strip_ansi(row.text) == row.want);
  }
  CHECK_FALSE(has_ansi("plain"));
  CHECK(has_ansi("\x1b[0m"));
}

TEST_CASE("bytes that are not UTF-8 become the replacement character") {
  const std::string bad = "\xef\xbf\xbd";
  CHECK(repair_utf8("caf\xc3\xa9 \xe2\x95\xad \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xe2\x95\xad \xf0\x9f\x98\x80");
  CHECK(repair_utf8("caf\xe9") == "caf" + bad);
  CHECK(repair_utf8("\xc0\xaf") == bad + bad);
  CHECK(repair_utf8("\xed\xa0\x80") == bad + bad + bad);
  CHECK(repair_utf8("\xf0\x9f\x98") == bad + bad + bad);
  CHECK(repair_utf8(std::string("a\0b", 3)) == std::string("a\0b", 3));
  CHECK(is_utf8("caf\xc3\xa9"));
  CHECK_FALSE(is_utf8("caf\xe9"));
  CHECK(is_utf8(repair_utf8("\xff\xfe\x80")));
}

TEST_CASE("numbers are read only when the whole text is one") {
  CHECK(read_integer("42") == 42);
  CHECK(read_integer("-7") == -7);
  CHECK(read_integer("+7") == 7);
  for (const char* text : {"", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "+-1", "--1"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(read_integer(text));
  }
  CHECK(read_double("1.5E+00") == 1.5);
  CHECK(read_double("-3") == -3.0);
  CHECK(std::isnan(read_double("nan").value_or(0)));
  CHECK(std::isinf(read_double("inf").value_or(0)));
  CHECK_FALSE(read_double(""));
  CHECK_FALSE(read_double("1.5 s"));
  std::string_view text = "123abc";
  CHECK(take_integer(text) == 123);
  CHECK(text == "abc");
  CHECK_FALSE(take_integer(text));
  text = "99999999999999999999";
  CHECK_FALSE(take_integer(text));
  CHECK(text.size() == 20);
}

TEST_CASE("trimming, splitting and comparing") {
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \n").empty());
  CHECK(trim_left("  a ") == "a ");
  CHECK(trim_right("  a ") == "  a");
  CHECK(split("a,,b", ',') == std::vector<std::string_view>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string_view>{""});
  CHECK(contains("abc", "bc"));
  CHECK_FALSE(contains("abc", "bd"));
  CHECK(starts_with_any("warning: x", {"error", "warn"}));
  CHECK_FALSE(starts_with_any("info", {"error", "warn"}));
  CHECK(equal_ignoring_case("ErroR", "eRRor"));
  CHECK_FALSE(equal_ignoring_case("Error", "Errors"));
  CHECK(starts_with_ignoring_case("ERROR: x", "error"));
  CHECK(lower("AbC-1") == "abc-1");
}
