#include "daemon/http/json_reader.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

using triage::daemon::api::JsonReader;
using Token = JsonReader::Token;

namespace {

// All tokens as text; "!" and the offset for a fault.
std::string tokens(std::string_view text, bool many = false) {
  JsonReader reader(text, many);
  std::string out;
  for (;;) {
    switch (reader.next()) {
      case Token::begin_object: out += '{'; break;
      case Token::end_object: out += '}'; break;
      case Token::begin_array: out += '['; break;
      case Token::end_array: out += ']'; break;
      case Token::key: out += std::string(reader.text()) + ':'; break;
      case Token::text: out += '\'' + std::string(reader.text()) + '\''; break;
      case Token::number: out += '#' + std::string(reader.text()); break;
      case Token::yes: out += 'T'; break;
      case Token::no: out += 'F'; break;
      case Token::null: out += 'N'; break;
      case Token::end: return out;
      case Token::fault: return out + "!" + std::to_string(*reader.error().place()->offset);
    }
  }
}

}  // namespace

TEST_CASE("documents become tokens, faults have their byte") {
  struct Row {
    const char* text;
    const char* want;
  };
  const Row rows[] = {{R"({"a": [1, -2.5e3, "x"], "b": {"c": null}, "d": true, "e": false})", "{a:[#1#-2.5e3'x']b:{c:N}d:Te:F}"},
                      {"[]", "[]"},
                      {"{}", "{}"},
                      {"\xef\xbb\xbf 1 ", "#1"},
                      {R"("\u00e9\n\"\\\/\ud83d\ude00")", "'\xc3\xa9\n\"\\/\xf0\x9f\x98\x80'"},
                      {R"("\ud83dx")", "'\xef\xbf\xbdx'"},
                      {R"("\ud83d\u0041")", "'\xef\xbf\xbd\x41'"},
                      {"\"raw \xff byte\"", "'raw \xff byte'"},
                      {"", "!0"},
                      {"{", "{!1"},
                      {"[1,]", "[#1!3"},
                      {"{\"a\":1,}", "{a:#1!7"},
                      {"[1 2]", "[#1!3"},
                      {"{\"a\" 1}", "{!5"},
                      {"{a:1}", "{!1"},
                      {"01", "!0"},
                      {"1.", "!0"},
                      {"-", "!0"},
                      {"nul", "!0"},
                      {"1 2", "#1!2"},
                      {"]", "!0"},
                      {"[}", "[!1"},
                      {"\"a\nb\"", "!2"},
                      {"\"\\x\"", "!3"},
                      {"\"\\u12", "!3"},
                      {"\"abc", "!0"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    CHECK(tokens(row.text) == row.want);
  }
}

TEST_CASE("documents may follow one another where asked") {
  CHECK(tokens("{\"a\":1}\n{\"a\":2}\n", true) == "{a:#1}{a:#2}");
  CHECK(tokens("{}{}[1]", true) == "{}{}[#1]");
  CHECK(tokens("", true).empty());
  CHECK(tokens("{},{}", true) == "{}{}");
  CHECK(tokens("{} x", true) == "{}!3");
}

TEST_CASE("depth has a limit, and deep text does not recurse") {
  CHECK(tokens(std::string(64, '[') + std::string(64, ']')) == std::string(64, '[') + std::string(64, ']'));
  CHECK(tokens(std::string(1'000'000, '[')) == std::string(64, '[') + "!64");
}

TEST_CASE("skip reads one value") {
  JsonReader reader(R"({"a": {"b": [1, {"c": 2}]}, "d": 5})");
  REQUIRE(reader.next() == Token::begin_object);
  REQUIRE(reader.next() == Token::key);
  reader.next();
  REQUIRE(reader.skip());
  REQUIRE(reader.next() == Token::key);
  CHECK(reader.text() == "d");
  REQUIRE(reader.next() == Token::number);
  REQUIRE(reader.skip());
  CHECK(reader.next() == Token::end_object);
  CHECK(reader.next() == Token::end);
}

TEST_CASE("it takes and refuses what another reader takes and refuses") {
  std::mt19937 random(11);
  const std::string_view pieces[] = {"{", "}", "[", "]", ",", ":", "\"a\"", "\"\\n\"", "1", "-1.5", "true", "null", " ", "1e5 ", "\"\\u0041\""};
  int good = 0;
  for (int round = 0; round < 60'000; ++round) {
    std::string text;
    for (std::size_t i = 0; i < 1 + random() % 7; ++i) text += pieces[random() % std::size(pieces)];
    const bool mine = tokens(text).find('!') == std::string::npos;
    const bool theirs = nlohmann::json::accept(text);
    CAPTURE(text);
    REQUIRE(mine == theirs);
    good += mine;
  }
  CHECK(good > 500);
}
