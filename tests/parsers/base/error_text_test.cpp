#include "parsers/base/error_text.hpp"

#include <doctest/doctest.h>

using namespace triage::parsers;

TEST_CASE("an error tells what, why, where and what to do, and shows no control characters") {
  const Error error = Error(ErrorCode::syntax, "rule torch.oom has a bad pattern")
                          .because("missing )\x1b[31m")
                          .at({"rules/a.yaml", 12, 3, std::nullopt, "match: '('"})
                          .help("close the group")
                          .context("reading the rule set");
  CHECK(error_text(error) ==
        "error: rule torch.oom has a bad pattern\n"
        "  reason: missing )?[31m\n"
        "  --> rules/a.yaml:12:3\n"
        "   | match: '('\n"
        "  while: reading the rule set\n"
        "  help: close the group\n");
  CHECK(error_line(error) == "rule torch.oom has a bad pattern: missing )?[31m (rules/a.yaml:12:3); while reading the rule set; close the group");
}

TEST_CASE("a place without line shows the byte offset") {
  CHECK(error_text(Error(ErrorCode::syntax, "opcode refused").at({"x.pickle", {}, {}, 77, ""})) ==
        "error: opcode refused\n  --> x.pickle at byte 77\n");
  CHECK(error_line(Error(ErrorCode::syntax, "opcode refused").at({"x.pickle", {}, {}, 77, ""})) == "opcode refused (x.pickle at byte 77)");
  CHECK(error_line(Error(ErrorCode::io, "two\nlines")) == "two?lines");
}
