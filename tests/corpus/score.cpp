// Scores the product on labelled logs: prints a table and fails under the floors. usage: corpus_score FOLDER [--floor] [--verbose]
// FOLDER/*/*/{log.txt,label.json}
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/scan.hpp"

namespace {

namespace fs = std::filesystem;
using namespace triage;

constexpr double kCalibration = 10;   // percent

struct Share {
  int right = 0, all = 0;
  void add(bool ok) {
    ++all;
    right += ok;
  }
  double percent() const { return all == 0 ? 100.0 : 100.0 * right / all; }
};

// gpu.oom and gpu.oom.capacity agree: one of them only says less.
bool kinds_agree(const std::string& a, const std::string& b) {
  const std::string& shorter = a.size() < b.size() ? a : b;
  const std::string& longer = a.size() < b.size() ? b : a;
  return longer == shorter || (longer.starts_with(shorter) && longer[shorter.size()] == '.');
}

bool lines_agree(std::string_view found, std::string_view wanted) {
  const auto blank = [](char c) { return c == ' ' || c == '\n'; };
  while (!wanted.empty() && blank(wanted.back())) wanted.remove_suffix(1);
  while (!wanted.empty() && blank(wanted.front())) wanted.remove_prefix(1);
  return found.find(wanted) != std::string_view::npos;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  bool floors = false, verbose = false;
  std::vector<fs::path> cases;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--floor") == 0)
      floors = true;
    else if (std::strcmp(argv[i], "--verbose") == 0)
      verbose = true;
    else
      for (const auto& entry : fs::recursive_directory_iterator(argv[i]))
        if (entry.path().filename() == "label.json") cases.push_back(entry.path().parent_path());
  }
  std::sort(cases.begin(), cases.end());
  if (!tests::knowledge() || cases.empty()) {
    std::puts("no rules or no cases");
    return 1;
  }
  Share kind, line, rank, quiet, phase;
  std::map<std::string, Share> families;
  std::array<Share, 5> confidence;   // stated confidence below 0.6, 0.7, 0.8, 0.9, 1
  std::array<double, 5> stated_sum{};
  for (const fs::path& folder : cases) {
    const nlohmann::json label = nlohmann::json::parse(read(folder / "label.json"));
    const std::string wanted = label["kind"];
    const daemon::Answer answer = tests::scan_paths({(folder / "log.txt").string()}, 1);
    std::string faults;
    if (wanted == "none") {
      quiet.add(answer.incidents.empty());
      if (!answer.incidents.empty())
        faults = " fired " + answer.incidents[0].diagnosis.kind + " at " + std::to_string(answer.incidents[0].diagnosis.root.line);
    } else {
      signatures::Diagnosis d;
      if (!answer.incidents.empty()) d = answer.incidents.front().diagnosis;
      // Where the kind is known from the thread only, what a careful reader can say of the text is right as well.
      const bool kind_ok = kinds_agree(d.kind, wanted) || (label.contains("kind_of_text") && kinds_agree(d.kind, label["kind_of_text"]));
      kind.add(kind_ok);
      families[wanted.substr(0, wanted.find('.'))].add(kind_ok);
      if (!kind_ok) faults += " kind " + (d.kind.empty() ? "nothing" : d.kind);
      bool line_ok = !label["root_cause_line"].is_string() || lines_agree(d.root.text, label["root_cause_line"].get<std::string>());
      if (label.contains("also_right"))   // lines that say the same as well
        for (const auto& other : label["also_right"]) line_ok = line_ok || lines_agree(d.root.text, other.get<std::string>());
      line.add(line_ok);
      if (!line_ok) faults += " line " + std::to_string(d.root.line) + ": " + d.root.text.substr(0, 90);
      if (label["first_failing_rank"].is_number_integer()) {
        const int want = label["first_failing_rank"];
        const bool rank_ok = d.root.rank == want || (!d.root.rank && d.root.local_rank == want);
        rank.add(rank_ok);
        if (!rank_ok) faults += " rank " + (d.root.rank ? std::to_string(*d.root.rank) : "unknown") + " not " + std::to_string(want);
      }
      if (label.contains("phase") && label["phase"].is_string() && label["phase"] != "unknown") {
        const bool phase_ok = signatures::phase_name(d.phase) == label["phase"].get<std::string>();
        phase.add(phase_ok);
        if (!phase_ok) faults += " (phase " + std::string(signatures::phase_name(d.phase)) + " not " + label["phase"].get<std::string>() + ")";
      }
      const double stated = std::clamp(d.confidence, 0.0, 1.0);
      const std::size_t bin = stated < 0.6 ? 0 : stated < 0.7 ? 1 : stated < 0.8 ? 2 : stated < 0.9 ? 3 : 4;
      confidence[bin].add(kind_ok && line_ok);
      stated_sum[bin] += stated;
    }
    if (!faults.empty() || verbose)
      std::printf("  %-52s %-24s%s\n", folder.filename().string().substr(0, 52).c_str(), wanted.c_str(), faults.c_str());
  }
  std::printf("\n%-14s %7s %5s %7s\n", "score", "right", "of", "floor");
  const auto row = [&](const char* name, const Share& share, double floor) {
    std::printf("%-14s %6.1f%% %5d %6.0f%%\n", name, share.percent(), share.all, floor);
    return share.percent() >= floor;
  };
  bool good = row("kind", kind, 98);
  good = row("root line", line, 98) && good;
  good = row("first rank", rank, 98) && good;
  good = row("look-alikes", quiet, 100) && good;
  good = row("phase", phase, 85) && good;
  std::puts("\nfamily");
  for (const auto& [name, share] : families) std::printf("  %-12s %3d of %3d\n", name.c_str(), share.right, share.all);
  // Calibration: in each bin the stated confidence should be near the share that was right. A small bin says little: the floor is on
  // the mean difference, weighted by the number of cases.
  std::puts("\nstated confidence   cases   stated    right");
  const char* const names[] = {"under 60 %", "60 to 70 %", "70 to 80 %", "80 to 90 %", "90 % and more"};
  double difference = 0;
  for (std::size_t i = 0; i < confidence.size(); ++i) {
    const Share& share = confidence[i];
    if (share.all == 0) continue;
    const double mean = 100 * stated_sum[i] / share.all;
    difference += std::abs(mean - share.percent()) * share.all;
    std::printf("  %-16s %6d %7.1f%% %7.1f%%\n", names[i], share.all, mean, share.percent());
  }
  difference /= std::max(1, kind.all);
  std::printf("  %-16s %6d %7s  %6.1f%%  at most %.0f%%\n", "mean difference", kind.all, "", difference, kCalibration);
  good = difference <= kCalibration && good;
  return good || !floors ? 0 : 1;
}
