#include "daemon/config/fields.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "daemon/config/secret.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage::daemon;
using namespace std::chrono_literals;
using triage::parsers::Error;
using triage::parsers::YamlNode;

namespace {

YamlNode yaml(const std::string& text) {
  auto node = triage::parsers::read_yaml(text, "triaged.yaml");
  REQUIRE(node.ok());
  return *std::move(node);
}

}  // namespace

TEST_CASE("durations: a whole number and a unit") {
  CHECK(read_duration("500ms") == 500ms);
  CHECK(read_duration("0s") == 0ms);
  CHECK(read_duration("30s") == 30s);
  CHECK(read_duration("5m") == 5min);
  CHECK(read_duration("4h") == 4h);
  CHECK(read_duration("90d") == 24h * 90);
  for (const char* const text : {"", "s", "5", "5 s", "-5s", "1.5s", "5S", "5min", "4000d", "99999999999999999999s", "9223372036854775807d", "s5"}) CHECK_FALSE(read_duration(text));
}

TEST_CASE("a map is read key by key; each fault has a place, unknown keys come last, and defaults stay") {
  const YamlNode node = yaml(R"(
word: gpu
words: [a, b]
one: a
on: true
number: 7
size: 16MiB
wait: 1.5
time: 90s
rank: x
wrods: [c]
)");
  std::vector<Error> faults;
  std::string word, empty = "default", one;
  std::vector<std::string> words, single;
  bool on = false;
  unsigned number = 0;
  std::uint64_t size = 0;
  double wait = 0;
  std::chrono::seconds time{};
  {
    Fields fields(node, "the section", faults);
    CHECK(fields.name("word", word));
    CHECK_FALSE(fields.text("empty", empty));
    CHECK(fields.texts("words", words));
    CHECK(fields.texts("one", single));
    CHECK(fields.flag("on", on));
    CHECK(fields.count("number", number, 1, 10));
    CHECK(fields.bytes("size", size, 1));
    CHECK(fields.seconds("wait", wait));
    CHECK(fields.duration("time", time, 1s, 1h));
    CHECK_FALSE(fields.one_of("rank", one, {"any", "all"}));
    CHECK(faults.size() == 1);
  }
  CHECK(word == "gpu");
  CHECK(empty == "default");
  CHECK(words == std::vector<std::string>{"a", "b"});
  CHECK(single == std::vector<std::string>{"a"});
  CHECK(on);
  CHECK(number == 7);
  CHECK(size == 16 << 20);
  CHECK(wait == 1.5);
  CHECK(time == 90s);
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].message() == "rank cannot be 'x'");
  CHECK(faults[1].message() == "the section has no key 'wrods'");
  CHECK(faults[1].help_text() == "did you mean 'words'?");
  CHECK(faults[1].place()->line == 11);
}

TEST_CASE("what cannot be read is told with what can be") {
  struct Row {
    const char *text, *want;
  };
  const Row rows[] = {
      {"name: [a]", "name has to be text"},
      {"name: ''", "name is empty"},
      {"name: \"a\\nb\"", "name has to be one line"},
      {"texts: {a: b}", "texts has to be text or a list of texts"},
      {"texts: [a, '']", "texts holds an empty text"},
      {"texts: [a, [b]]", "each of texts has to be text"},
      {"flag: 'true'", "flag has to be true or false"},
      {"flag: yes", "flag has to be true or false"},
      {"count: 11", "count has to be a number from 1 to 10"},
      {"count: '5'", "count has to be a number from 1 to 10"},
      {"count: 5x", "count has to be a number from 1 to 10"},
      {"bytes: 1k", "bytes has to be a size of at least 1.00 MiB"},
      {"bytes: -5", "bytes has to be a size of at least 1.00 MiB"},
      {"seconds: nan", "seconds has to be a number of seconds"},
      {"duration: 5", "duration has to be a time from 1s to 1h, in steps of 1s"},
      {"duration: 2h", "duration has to be a time from 1s to 1h, in steps of 1s"},
      {"duration: 1500ms", "duration has to be a time from 1s to 1h, in steps of 1s"},
      {"[a]", "the section has to be a map of keys, not list"},
      {"nam: x", "the section has no key 'nam'"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const YamlNode node = yaml(row.text);
    std::vector<Error> faults;
    {
      std::string text = "default";
      std::vector<std::string> texts;
      bool flag = false;
      int count = 1;
      std::uint64_t bytes = 0;
      double seconds = 0;
      std::chrono::seconds time{};
      Fields fields(node, "the section", faults);
      fields.name("name", text);
      fields.texts("texts", texts);
      fields.flag("flag", flag);
      fields.count("count", count, 1, 10);
      fields.bytes("bytes", bytes, 1 << 20);
      fields.seconds("seconds", seconds);
      fields.duration("duration", time, 1s, 1h);
      CHECK(text == "default");
      CHECK(count == 1);
    }
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].message().find(row.want) == 0);
    CHECK(faults[0].place()->line == 1);
  }
  std::vector<Error> faults;
  const YamlNode node = yaml("type: x\nurl: y");
  {
    Fields fields(node, "the section", faults);
    fields.leave_rest();
  }
  CHECK(faults.empty());
  const YamlNode none;
  { Fields fields(none, "the section", faults); }
  CHECK(faults.empty());
}

TEST_CASE("secrets come from the environment, a file, or stand there; they are one line and not empty") {
  const triage::tests::TempFolder folder;
  folder.append("token", "  0123456789abcdef\n");
  folder.append("two", "a\nb\n");
  folder.append("blank", "\n");
  folder.append("large", std::string(70'000, 'x'));
  ::setenv("TRIAGED_TEST_SECRET", "from the environment", 1);
  CHECK(*secret_of("env:TRIAGED_TEST_SECRET") == "from the environment");
  CHECK(*secret_of("file:" + (folder / "token")) == "0123456789abcdef");
  CHECK(*secret_of("as it is") == "as it is");
  for (const std::string& name : {std::string("env:TRIAGED_TEST_NONE"), "file:" + (folder / "missing"), "file:" + (folder / "two"), "file:" + (folder / "blank"), "file:" + (folder / "large"), std::string("a\nb")}) {
    CAPTURE(name);
    CHECK_FALSE(secret_of(name).ok());
  }
}
