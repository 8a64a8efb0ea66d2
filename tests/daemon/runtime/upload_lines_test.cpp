// What of an upload stays to be shown: the lines around its findings, with their numbers and offsets.
#include "daemon/runtime/upload_lines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "tests/support/temp_folder.hpp"

using namespace triage;

namespace {

daemon::JudgedIncident incident(std::uint64_t root, const std::string& source, std::vector<std::int64_t> findings = {}) {
  daemon::JudgedIncident out;
  out.diagnosis.root.source = source;
  out.diagnosis.root.line = root;
  for (const std::int64_t line : findings) {
    signatures::Finding finding;
    finding.line = static_cast<decltype(finding.line)>(line);
    out.diagnosis.findings.push_back(finding);
    out.diagnosis.finding_sources.push_back(source);
  }
  return out;
}

std::string write_lines(const std::string& path, int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += "line " + std::to_string(i) + (i == 1000 ? std::string(6000, 'x') : "") + "\n";
  std::ofstream(path, std::ios::binary) << text;
  return text;
}

}  // namespace

TEST_CASE("the lines around root and findings of an upload are kept, each once, with number and offset") {
  const tests::TempFolder folder;
  const std::string path = folder.path() + "/upload-1", text = write_lines(path, 5000);
  const auto got = daemon::lines_around({incident(1000, "a.log", {1010, 3000}), incident(20, "a.log"), incident(7, "other.log")}, path, "a.log");
  REQUIRE(got.size() == 3);
  REQUIRE(got[0].size() == 1);
  CHECK(got[0][0].source == "a.log");
  const auto& lines = got[0][0].lines;
  CHECK(lines.size() == 601 + 121);
  CHECK(lines.front().number == 700);
  CHECK(lines.back().number == 3060);
  for (std::size_t i = 1; i < lines.size(); ++i) CHECK(lines[i - 1].offset < lines[i].offset);
  for (const parsers::SpoolLine& line : lines) CHECK(text.compare(line.offset, line.text.size(), line.text) == 0);
  const auto root = std::ranges::find(lines, std::uint64_t{1000}, &parsers::SpoolLine::number);
  REQUIRE(root != lines.end());
  CHECK(root->text.size() == 4097);   // one byte more than is shown: cut
  REQUIRE(got[1].size() == 1);
  CHECK(got[1][0].lines.front().number == 1);
  CHECK(got[1][0].lines.size() == 320);
  CHECK(got[2].empty());
}

TEST_CASE("an upload that is gone, or shorter than it was, keeps what there is") {
  const tests::TempFolder folder;
  CHECK(daemon::lines_around({incident(3, "a.log")}, folder.path() + "/none", "a.log")[0].empty());
  const std::string path = folder.path() + "/short";
  std::ofstream(path) << "one\ntwo";
  const auto got = daemon::lines_around({incident(2, "a.log")}, path, "a.log");
  REQUIRE(got[0].size() == 1);
  REQUIRE(got[0][0].lines.size() == 2);
  CHECK(got[0][0].lines[1].text == "two");
}

TEST_CASE("what is kept of one incident is bounded") {
  const tests::TempFolder folder;
  const std::string path = folder.path() + "/wide";
  {
    std::ofstream out(path);
    for (int i = 0; i < 3000; ++i) out << std::string(5000, 'y') << '\n';
  }
  const auto got = daemon::lines_around({incident(1000, "a.log", {2000, 2500})}, path, "a.log");
  std::size_t bytes = 0;
  for (const parsers::SpoolLine& line : got[0][0].lines) bytes += line.text.size();
  CHECK(bytes <= 2U << 20);
  CHECK(bytes > 1U << 20);
}
