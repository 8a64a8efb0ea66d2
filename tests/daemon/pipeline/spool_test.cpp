// What a source's spool and tail give is what the whole source gives.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/http/json_view.hpp"
#include "daemon/pipeline/spool.hpp"
#include "tests/support/scan.hpp"

using namespace triage;

namespace {

std::vector<std::string> logs() {
  std::vector<std::string> out;
  for (const char* folder : {"gpu", "other", "recorded", "quiet"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(TRIAGE_SOURCE_DIR "/tests/corpus/") + folder)) {
      const std::string extension = entry.path().extension();
      if (entry.is_regular_file() && (extension == ".log" || extension == ".txt")) out.push_back(entry.path());
    }
  std::sort(out.begin(), out.end());
  return out;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string judged(signatures::SourceFindings source) {
  std::vector<signatures::SourceFindings> sources;
  sources.push_back(std::move(source));
  daemon::Answer answer = daemon::judge_sources(*tests::knowledge(), std::move(sources), tests::fixed_now());
  return daemon::json_text(daemon::answer_json(answer, ""), 1);
}

}  // namespace

TEST_CASE("spool and tail give the diagnosis of the whole source") {
  std::size_t compared = 0, spooled = 0, total = 0;
  for (const std::string& path : logs()) {
    CAPTURE(path);
    const std::string text = text_of(path);
    const std::string name = std::filesystem::path(path).filename();
    daemon::Spool spool;
    daemon::IntakeStream live(tests::knowledge(), daemon::source_info(name), 2026, &spool);
    for (std::size_t at = 0; at < text.size(); at += 4096) live.feed(std::string_view(text).substr(at, 4096), true);
    std::vector<daemon::SpoolLine> lines = spool.take();
    for (daemon::SpoolLine& line : live.intake().tail()) lines.push_back(std::move(line));
    const signatures::SourceFindings whole = live.finish();   // an unfinished last line comes in here
    if (!text.ends_with('\n')) continue;
    lines = daemon::in_order(std::move(lines));
    for (const daemon::SpoolLine& line : lines) {
      spooled += line.text.size();
      if (path.find("-cri-") == std::string::npos)   // those are decoded first
        REQUIRE(std::string_view(text).substr(line.offset, line.text.size()) == line.text);
    }
    total += text.size();
    daemon::BlockScanner scanner(*tests::knowledge());
    daemon::Intake again(tests::knowledge(), daemon::source_info(name), 2026);
    daemon::replay(lines, scanner, again);
    signatures::SourceFindings from_spool = again.finish();
    CHECK(from_spool.findings.size() == whole.findings.size());
    CHECK(judged(std::move(from_spool)) == judged(whole));
    ++compared;
  }
  MESSAGE("logs compared: " << compared << ", bytes " << total << ", of them spooled " << spooled);
  CHECK(compared > 60);
}
