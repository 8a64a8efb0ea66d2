#include "daemon/pipeline/intake.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "parsers/base/limits.hpp"
#include "tests/support/scan.hpp"

using namespace triage;

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// What may not depend on how the bytes came.
std::string digest(const signatures::SourceFindings& source) {
  std::ostringstream out;
  for (const signatures::Finding& f : source.findings)
    out << f.rule << ' ' << f.kind << ' ' << f.line << ' ' << f.offset << ' ' << f.count << ' ' << f.rank.value_or(-1) << ' ' << f.event.index()
        << ' ' << (f.traceback ? f.traceback->frames.size() : 0) << '\n';
  for (const parsers::Progress& p : source.progress) out << "progress " << p.line << ' ' << p.iteration.value_or(-1) << '\n';
  out << source.source.bytes << ' ' << source.source.lines << ' ' << source.last_text << ' ' << source.config.settings().size() << ' '
      << source.memory.size() << '\n';
  return out.str();
}

const std::string kOom =
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which "
    "1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is "
    "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.";

}  // namespace

TEST_CASE("any portions give the same findings") {
  REQUIRE(tests::knowledge());
  for (const auto& entry : std::filesystem::directory_iterator(TRIAGE_SOURCE_DIR "/tests/corpus/recorded")) {
    if (entry.path().extension() != ".log") continue;
    CAPTURE(entry.path().filename().string());
    const std::string text = read(entry.path());
    const std::string whole = digest(tests::take_text(text, 0));
    for (const std::size_t portion : {1UL, 7UL, 4099UL}) {
      CAPTURE(portion);
      CHECK(digest(tests::take_text(text, portion)) == whole);
    }
  }
}

TEST_CASE("lines, offsets and counts are those of the file") {
  REQUIRE(tests::knowledge());
  const std::string head = "healthy\n\nstep\r\n";
  const auto source = tests::take_text(head + kOom + "\nlast line", 0);
  REQUIRE(source.findings.size() == 1);
  CHECK(source.findings[0].line == 4);
  CHECK(source.findings[0].offset == head.size());
  CHECK(source.findings[0].rank == 3);
  CHECK(source.source.lines == 5);
  CHECK(source.last_text == "last line");
}

TEST_CASE("a failure beyond the first block keeps its line number") {
  REQUIRE(tests::knowledge());
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += "some line of a healthy program, number " + std::to_string(i) + "\n";
  REQUIRE(text.size() > 2'000'000);
  const auto source = tests::take_text(text + kOom + "\n", 0);
  REQUIRE(source.findings.size() == 1);
  CHECK(source.findings[0].line == 60'001);
}

TEST_CASE("a huge line is cut and counted, and what follows is still found") {
  REQUIRE(tests::knowledge());
  const std::string text = "first\n" + std::string(3'000'000, 'z') + "\n" + kOom + "\n";
  const auto source = tests::take_text(text, 0);
  REQUIRE(source.findings.size() == 1);
  CHECK(source.findings[0].line == 3);
  REQUIRE(source.lost.size() == 1);
  CHECK(source.lost[0].bytes == 3'000'000 - parsers::limits::kLineBytes);
}

TEST_CASE("hostile bytes are text like any other") {
  REQUIRE(tests::knowledge());
  std::string junk;
  for (unsigned i = 0; i < 300'000; ++i) junk += static_cast<char>((i * 7919) % 256);
  for (const std::string& text : {std::string(), std::string("\n"), std::string("\r"), std::string("\0", 1), junk, junk + "\n" + kOom + "\n"}) {
    const auto source = tests::take_text(text, 0);
    CHECK(source.source.bytes == text.size());
    CHECK(source.findings.size() == (text.size() > junk.size() ? 1 : 0));
  }
}

TEST_CASE("the same failure a million times stays small") {
  REQUIRE(tests::knowledge());
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += kOom + "\n";
  const auto source = tests::take_text(text, 0);
  CHECK(source.findings.size() <= parsers::limits::kFindingsPerRuleAndRank);
  std::uint64_t count = 0;
  for (const auto& finding : source.findings) count += finding.count;
  CHECK(count == 20'000);
}
