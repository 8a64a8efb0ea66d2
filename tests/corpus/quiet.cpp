// Healthy logs on which nothing may fire. usage: quiet_logs FOLDER [--verbose] [--lines]
// FOLDER/*.log, *.log.gz. --verbose also lists what was found and judged harmless; --lines what each line fires when it stands alone:
// which alarms only the lines around it keep away.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/scan.hpp"

namespace fs = std::filesystem;
using namespace triage;

int main(int argc, char** argv) {
  bool verbose = false, lines = false;
  std::vector<fs::path> logs;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--verbose") == 0) {
      verbose = true;
      continue;
    }
    if (std::strcmp(argv[i], "--lines") == 0) {
      lines = true;
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".log") || name.ends_with(".log.gz")) logs.push_back(entry.path());
    }
  }
  std::sort(logs.begin(), logs.end());
  if (!tests::knowledge() || logs.size() < 30) {
    std::puts("no rules, or fewer than 30 logs");
    return 1;
  }
  std::size_t fired = 0;
  for (const fs::path& log : logs) {
    const daemon::Answer answer = tests::scan_paths({log.string()}, 1);
    for (const auto& incident : answer.incidents) {
      const signatures::Diagnosis& d = incident.diagnosis;
      std::printf("%s:%llu: fired %s: %.160s\n", log.filename().c_str(), static_cast<unsigned long long>(d.root.line), d.kind.c_str(), d.root.text.c_str());
      ++fired;
    }
    if (lines) {
      std::ifstream in(log);
      std::string line;
      for (std::uint64_t number = 1; std::getline(in, line); ++number)
        for (const auto& incident : tests::scan_text(line).incidents)
          std::printf("  %s:%llu: alone %s: %.140s\n", log.filename().c_str(), static_cast<unsigned long long>(number), incident.diagnosis.kind.c_str(), line.c_str());
    }
    if (!verbose) continue;
    for (const signatures::Handled& h : answer.handled)
      std::printf("  %s:%llu: %s, harmless: %s: %.100s\n", log.filename().c_str(), static_cast<unsigned long long>(h.line), h.rule.c_str(), h.why.c_str(), h.text.c_str());
  }
  std::printf("%zu healthy logs, %zu false alarms\n", logs.size(), fired);
  return fired == 0 ? 0 : 1;
}
