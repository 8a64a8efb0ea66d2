#include "parsers/base/yaml_text.hpp"

#include <doctest/doctest.h>

#include <ctime>
#include <string>

#include "parsers/base/error_text.hpp"
#include "parsers/base/limits.hpp"

using namespace triage::parsers;
using Kind = YamlNode::Kind;

TEST_CASE("a tree keeps order, quotes and places") {
  const auto read = read_yaml("- id: a.b\n  match: 'x: \\d+'\n  list: [1, \"2\", ~]\n  empty:\n  text: |\n    one\n    two\n", "f.yaml");
  REQUIRE(read.ok());
  REQUIRE(read->kind == Kind::list);
  REQUIRE(read->items.size() == 1);
  const YamlNode& rule = read->items[0];
  REQUIRE(rule.kind == Kind::map);
  CHECK(rule.entries.size() == 5);
  CHECK(rule.entries[0].key == "id");
  const YamlNode* match = rule.find("match");
  REQUIRE(match);
  CHECK(match->scalar == "x: \\d+");
  CHECK(match->quoted);
  CHECK_FALSE(rule.find("id")->quoted);
  CHECK(match->place.file == "f.yaml");
  CHECK(match->place.line == 2u);
  CHECK(match->place.column == 10u);
  CHECK(match->key_place.column == 3u);
  CHECK(match->place.source_line == "  match: 'x: \\d+'");
  const YamlNode* list = rule.find("list");
  REQUIRE(list->items.size() == 3);
  CHECK_FALSE(list->items[0].quoted);
  CHECK(list->items[1].quoted);
  CHECK(list->items[2].kind == Kind::null);
  CHECK(rule.find("empty")->kind == Kind::null);
  CHECK(rule.find("text")->scalar == "one\ntwo\n");
  CHECK(rule.find("other") == nullptr);
}

TEST_CASE("an empty file is nothing, a byte order mark and CRLF do not matter") {
  CHECK(read_yaml("", "f")->kind == Kind::null);
  CHECK(read_yaml("# only a comment\n", "f")->kind == Kind::null);
  const auto read = read_yaml("\xEF\xBB\xBF" "a: 1\r\nb: 2\r\n", "f");
  REQUIRE(read.ok());
  CHECK(read->find("a")->scalar == "1");
  CHECK(read->find("b")->scalar == "2");
}

TEST_CASE("faults carry their place") {
  struct Row {
    const char* name;
    std::string text;
    ErrorCode code;
    unsigned line;
  };
  const Row rows[] = {
      {"doubled key", "a: 1\nb: 2\na: 3\n", ErrorCode::conflict, 3},
      {"doubled key in a list item", "- x: 1\n- y: 1\n  y: 2\n", ErrorCode::conflict, 3},
      {"tab", "a:\n\tb: 1\n", ErrorCode::syntax, 2},
      {"tab after spaces", "a:\n  \tb: 1\n", ErrorCode::syntax, 2},
      {"control character", "a: x\nb: \x04\n", ErrorCode::syntax, 2},
      {"alias", "a: &x 1\nb: *x\n", ErrorCode::unsupported, 1},
      {"tag", "a: 1\nb: !!int 2\n", ErrorCode::unsupported, 2},
      {"second document", "a: 1\n---\nb: 2\n", ErrorCode::unsupported, 2},
      {"list as key", "? [a, b]\n: 1\n", ErrorCode::syntax, 1},
      {"open quote", "a: 1\nb: 'x\n", ErrorCode::syntax, 3},
      {"open bracket", "a: [1, 2\n", ErrorCode::syntax, 2},
      {"colon in a plain text", "a: 1\nb: x: y\n", ErrorCode::syntax, 2},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      const auto read = read_yaml(row.text, "f.yaml");
      REQUIRE_FALSE(read.ok());
      INFO(error_text(read.error()));
      CHECK(read.error().code() == row.code);
      REQUIRE(read.error().place());
      CHECK(read.error().place()->file == "f.yaml");
      CHECK(read.error().place()->line == row.line);
    }
  }
}

TEST_CASE("depth and size are limited") {
  std::string deep(limits::kYamlDepth, '[');
  deep += std::string(limits::kYamlDepth, ']');
  CHECK(read_yaml(deep, "f").ok());
  std::string many;
  for (int i = 0; i < 100; ++i) many += std::string(static_cast<std::size_t>(i), ' ') + "-\n";
  const auto refused = read_yaml(many, "f");
  REQUIRE_FALSE(refused.ok());
  INFO(error_text(refused.error()));
  CHECK(refused.error().code() == ErrorCode::limit);
  CHECK_FALSE(read_yaml(std::string(100'000, '['), "f").ok());
  const auto large = read_yaml(std::string(limits::kRuleFileBytes + 1, ' '), "f");
  REQUIRE_FALSE(large.ok());
  CHECK(large.error().code() == ErrorCode::limit);
}

TEST_CASE("what makes yaml-cpp hold a whole file is refused before it is read") {
  for (const std::string& part : {std::string("["), std::string("{"), std::string("[1,"), std::string("[a: "), std::string("'x "), std::string("\"x "), std::string("x ")}) {
    CAPTURE(part);
    std::string text = "- id: a\n  m: ";
    while (text.size() < limits::kRuleFileBytes - part.size()) text += part;
    const auto refused = read_yaml(text, "f");
    REQUIRE_FALSE(refused.ok());
    INFO(error_text(refused.error()));
    CHECK(refused.error().code() == ErrorCode::limit);
    CHECK(refused.error().place()->line == 2u);
  }
}

TEST_CASE("a map of 90,000 keys is read in linear time, and more entries than the limit are refused") {
  std::string keys, items;
  for (int i = 0; i < 90'000; ++i) keys += "key" + std::to_string(i) + ": 1\n";
  const auto start = std::clock();
  const auto read = read_yaml(keys, "f");
  CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 5);   // 12 s and more when each key was compared with all before it
  REQUIRE(read.ok());
  CHECK(read->entries.size() == 90'000);
  const auto doubled = read_yaml(keys + "key7: 2\n", "f");
  REQUIRE_FALSE(doubled.ok());
  CHECK(doubled.error().help_text() == "the first one is at line 8");
  for (std::size_t i = 0; i <= limits::kYamlNodes; ++i) items += "- 1\n";
  CHECK(read_yaml(items, "f").error().code() == ErrorCode::limit);
}

TEST_CASE("any cut of a file is a tree or an error, never more") {
  const std::string text = "- id: a\n  m: ['x', \"y\\n\", {k: v}]\n  t: |\n    q\n  z: >-\n    w\n";
  for (std::size_t n = 0; n <= text.size(); ++n) {
    const auto read = read_yaml(std::string_view(text).substr(0, n), "f");
    if (!read.ok()) CHECK(read.error().place().has_value());
  }
}
