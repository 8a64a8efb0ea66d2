// Does a diagnosis stay when the same log comes another way? Prints a table and fails under the floor.
// usage: mutate FOLDER [--verbose]; FOLDER/{gpu,other}/*/log.txt and FOLDER/recorded/*.log
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/corpus/mutate.hpp"
#include "tests/support/scan.hpp"

namespace fs = std::filesystem;
using namespace triage;

namespace {

constexpr double kFloor = 100;   // percent of unchanged diagnoses, for each mutation

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Wanted {
  std::string name;
  tests::Original original;
  std::vector<signatures::Diagnosis> diagnoses;
};

Wanted baseline(const fs::path& path, std::string name) {
  Wanted out;
  out.name = std::move(name);
  out.original.text = read(path);
  for (auto& incident : tests::scan_text(out.original.text).incidents) out.diagnoses.push_back(std::move(incident.diagnosis));
  if (out.diagnoses.empty()) return out;
  const signatures::Diagnosis& d = out.diagnoses.front();
  out.original.root_line = d.root.line;
  out.original.alone = out.diagnoses.size() == 1 && std::any_of(d.reasons.begin(), d.reasons.end(), [](const std::string& r) { return r.find("taken as rank 0 of one") != std::string::npos; });
  const std::optional<int> number = d.root.rank ? d.root.rank : d.root.local_rank;
  out.original.numbered = number.value_or(0) != 0 && out.original.text.find("[rank") == std::string::npos;
  return out;
}

std::string_view bare(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  for (std::string_view head : {"[rank", "[default"})
    if (const std::size_t at = text.find(head); at < 40 && text.find("]:", at) != std::string_view::npos) text.remove_prefix(text.find("]:", at) + 2);
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  return text.substr(0, 80);   // of a line in parts, the first one stands for it
}

// The old words in the new line, also where a container wrote them as JSON.
bool holds(std::string_view now, std::string_view before) {
  const std::string_view words = bare(before);
  if (now.find(words) != std::string_view::npos) return true;
  std::string plain;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == '\\' && i + 1 < now.size() && (now[i + 1] == '"' || now[i + 1] == '\\')) ++i;
    plain += now[i];
  }
  return plain.find(words) != std::string::npos;
}

// Empty: the same diagnosis.
std::string difference(const Wanted& wanted, const tests::Mutated& made, const daemon::Answer& now) {
  if (wanted.diagnoses.empty()) return now.incidents.empty() ? "" : "fired " + now.incidents[0].diagnosis.kind + ": " + now.incidents[0].diagnosis.root.text.substr(0, 100);
  if (now.incidents.empty()) return "nothing";
  const signatures::Diagnosis& before = wanted.diagnoses.front();
  const signatures::Diagnosis& after = now.incidents.front().diagnosis;
  if (after.kind != before.kind) return "kind " + before.kind + " became " + after.kind + ": " + after.root.text.substr(0, 120);
  const bool same_place = after.root.line == before.root.line && now.sources.size() == 1;
  if (!same_place && !holds(after.root.text, before.root.text)) return "line " + std::to_string(after.root.line) + ": " + after.root.text.substr(0, 120);
  std::optional<int> rank = before.root.rank ? before.root.rank : before.root.local_rank;
  // A rank that is known by convention (who writes the checkpoint) is no number of the log.
  if (rank && made.shift && wanted.original.text.find("[rank" + std::to_string(*rank) + "]") != std::string::npos) *rank += *made.shift;
  if (made.lone) rank = made.lone;
  const std::optional<int> got = after.root.rank ? after.root.rank : after.root.local_rank;
  const bool gained = !rank && !made.lone && got == 0;   // a launcher's number of the only process
  if (got != rank && !gained) return "rank " + (rank ? std::to_string(*rank) : "unknown") + " became " + (got ? std::to_string(*got) : "unknown");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  bool verbose = false;
  std::vector<Wanted> cases;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--verbose") == 0) {
      verbose = true;
      continue;
    }
    std::vector<fs::path> logs;
    for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
      const std::string parent = entry.path().parent_path().filename().string();
      if (entry.path().filename() == "log.txt" || (parent == "recorded" && entry.path().extension() == ".log")) logs.push_back(entry.path());
    }
    std::sort(logs.begin(), logs.end());
    for (const fs::path& log : logs)
      cases.push_back(baseline(log, log.filename() == "log.txt" ? log.parent_path().filename().string() : log.filename().string()));
  }
  if (!tests::knowledge() || cases.empty()) {
    std::puts("no rules or no cases");
    return 1;
  }
  bool good = true;
  std::printf("%-24s %6s %6s %8s\n", "the same log", "same", "of", "");
  for (const tests::Mutation& mutation : tests::mutations()) {
    int same = 0, all = 0;
    std::vector<std::string> faults;
    for (const Wanted& wanted : cases) {
      const std::optional<tests::Mutated> made = mutation.make(wanted.original);
      if (!made) continue;
      std::vector<signatures::SourceFindings> sources;
      for (const tests::MutatedSource& source : made->sources) sources.push_back(tests::take_text(source.text, source.portion, source.name));
      const std::string fault = difference(wanted, *made, daemon::judge_sources(*tests::knowledge(), std::move(sources), tests::fixed_now()));
      ++all;
      same += fault.empty();
      if (!fault.empty()) faults.push_back(wanted.name + ": " + fault);
    }
    const double percent = all == 0 ? 100 : 100.0 * same / all;
    good = good && percent >= kFloor && all > 0;
    std::printf("%-24s %6d %6d %7.1f%%\n", mutation.name, same, all, percent);
    if (verbose || percent < kFloor)
      for (const std::string& fault : faults) std::printf("    %s\n", fault.c_str());
  }
  return good ? 0 : 1;
}
