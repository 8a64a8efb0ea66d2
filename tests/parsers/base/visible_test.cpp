#include "parsers/base/visible.hpp"

#include <doctest/doctest.h>

#include <string>

using triage::parsers::visible;

TEST_CASE("what could steer a terminal or turn the reading order is not shown raw") {
  struct Row {
    const char* name;
    std::string input, want;
  };
  const Row rows[] = {
      {"plain text stays", "CUDA out of memory \xe2\x95\xad \xf0\x9f\x98\x80", "CUDA out of memory \xe2\x95\xad \xf0\x9f\x98\x80"},
      {"an escape", "a\x1b[2Jb", "a?[2Jb"},
      {"a tab and a line feed", "a\tb\nc", "a b?c"},
      {"DEL and NUL", std::string("a\x7f\0b", 4), "a??b"},
      {"C1 as UTF-8", "a\xc2\x9b" "31m", "a?31m"},
      {"a non-breaking space is none", "a\xc2\xa0" "b", "a\xc2\xa0" "b"},
      {"C1 as a lone byte", "a\x9b" "31m", "a\xef\xbf\xbd" "31m"},
      {"overrides of the direction", "\xe2\x80\xae\xe2\x80\x8f\xe2\x81\xa6\xd8\x9c.", "????."},
      {"a line separator and a byte order mark", "\xe2\x80\xa8\xef\xbb\xbf.", "??."},
      {"a cut character at the end", "ab\xe2\x80", "ab\xef\xbf\xbd\xef\xbf\xbd"},
      {"nothing", "", ""},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) { CHECK(visible(row.input) == row.want); }
  }
  CHECK(visible("a\n\x1b" "b\n", true) == "a\n?b\n");
}
