#include "parsers/base/nearest.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

using namespace triage::parsers;

TEST_CASE("edits between two names") {
  struct Row {
    std::string a, b;
    std::size_t edits;
  };
  for (const Row& row : {Row{"", "", 0}, {"role", "role", 0}, {"", "role", 4}, {"role", "", 4}, {"rol", "role", 1}, {"rolle", "role", 1}, {"rule", "role", 1},
                         {"kitten", "sitting", 3}, {"abc", "xyz", 3}}) {
    CAPTURE(row.a);
    CAPTURE(row.b);
    CHECK(edit_distance(row.a, row.b) == row.edits);
    CHECK(edit_distance(row.b, row.a) == row.edits);
  }
}

TEST_CASE("the nearest known name, or all of them") {
  const std::array<std::string_view, 3> known = {"id", "kind", "severity"};
  CHECK(nearest_name("knd", known) == "did you mean 'kind'?");
  CHECK(nearest_name("sevrty", known) == "did you mean 'severity'?");
  CHECK(nearest_name("nothing_like_it", known) == "known: id, kind, severity");
  CHECK(nearest_name(std::string(100'000, 'i'), known) == "known: id, kind, severity");
  CHECK(nearest_name("kind", std::vector<std::string>{}) == "known: ");
  CHECK(nearest_name("listn", std::vector<std::string>{"listen", "tokens"}) == "did you mean 'listen'?");
}
