#include "daemon/tail/rule_files.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "parsers/base/error_text.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage::daemon;

TEST_CASE("all files that cannot be read and all faults of the others come in one answer") {
  const triage::tests::TempFolder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    const std::string path = folder.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  };
  const std::string large = file("large.yaml", std::string(5 * 1024 * 1024, '#')), binary = file("binary.yaml", std::string("\x7f" "ELF\0\1\2", 7)), cut = file("cut.yaml", "- id: a.b\n  kind: 'x\n");
  const std::string pattern = file("pattern.yaml", "- {id: a.b, kind: user.exception, role: root, match: '(', help: h, sources: [x], examples: [x], counter_examples: [y]}\n");
  const std::string empty = file("empty.yaml", ""), ends = file("ends.yaml", "- {id: a.c, kind: x, role: progress, match: 'a long text', ends: [a.d], sources: [x], examples: [a long text], counter_examples: [y]}\n");
  const std::string none = folder.path() + "/none.yaml", pipe = folder.path() + "/pipe.yaml";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);

  const LoadedKnowledge loaded = load_rule_files({large, binary, cut, pattern, empty, ends, none, "/dev/zero", folder.path() + "/*.none", pipe}, {false, false});
  CHECK_FALSE(loaded.knowledge);
  const std::string text = triage::parsers::error_text(loaded.faults);
  INFO(text);
  CHECK(loaded.faults.size() == 8);   // not: that a.d is no rule
  for (const std::string& part : {large, binary + ":1:1", cut + ":", pattern + ":1:3", none, std::string("/dev/zero"), folder.path() + "/*.none", pipe}) {
    CAPTURE(part);
    CHECK(text.find("--> " + part) != std::string::npos);
  }
  CHECK(text.find("other inputs") == std::string::npos);
  CHECK(load_rule_files({empty}).knowledge);
}

TEST_CASE("a rule file in a folder that is no file to read is told; a folder without any is none of yours") {
  const triage::tests::TempFolder folder, empty;
  folder.append("good.yaml", "# nothing yet\n");
  folder.append("notes.txt", "no rule");
  REQUIRE(load_rule_files({folder.path()}).knowledge);
  REQUIRE(::symlink("/nonexistent", (folder / "broken.yaml").c_str()) == 0);
  REQUIRE(::symlink((folder / "self.yaml").c_str(), (folder / "self.yaml").c_str()) == 0);
  REQUIRE(::symlink("/dev/zero", (folder / "zero.yml").c_str()) == 0);
  REQUIRE(::mkfifo((folder / "pipe.yaml").c_str(), 0600) == 0);
  const LoadedKnowledge loaded = load_rule_files({folder.path()});
  CHECK_FALSE(loaded.knowledge);
  CHECK(loaded.faults.size() == 4);
  CHECK(load_rule_files({empty.path()}).knowledge);
}
