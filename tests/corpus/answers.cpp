// What is said of every log of the corpus, of logs with the snapshot of their process, and of recorder dumps, word for word, beside the
// answers that were approved. usage: answers APPROVED TESTS_FOLDER [--write]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "daemon/cli/view.hpp"
#include "tests/support/approved.hpp"
#include "tests/support/scan.hpp"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  using namespace triage;
  if (argc < 3) return std::puts("usage: answers APPROVED TESTS_FOLDER [--write]"), 2;
  const std::string approved = fs::absolute(argv[1]);
  const bool write = argc > 3 && std::strcmp(argv[3], "--write") == 0;
  fs::current_path(argv[2]);   // names of files in answers do not depend on the machine
  std::vector<std::vector<std::string>> inputs;
  for (const char* const folder : {"corpus/gpu", "corpus/other", "corpus/recorded", "corpus/memory/closed-loop"})
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (const std::string name = entry.path().filename(); name.ends_with(".log") || name.ends_with(".log.gz") || name == "log.txt")
        inputs.push_back({entry.path()});
  for (const auto& entry : fs::directory_iterator("snapshots")) {
    if (entry.path().extension() != ".gz") continue;
    const std::string name = entry.path().filename(), log = "corpus/recorded/" + name.substr(0, name.find('.')) + ".log";
    inputs.push_back({entry.path()});
    if (fs::exists(log)) inputs.push_back({log, entry.path()});
  }
  for (const auto& job : fs::directory_iterator("parsers/snapshot/data/flight-recorder")) {
    if (!job.is_directory()) continue;
    std::vector<std::string>& files = inputs.emplace_back();
    for (const auto& dump : fs::directory_iterator(job)) files.push_back(dump.path());
    std::sort(files.begin(), files.end());
  }
  std::sort(inputs.begin(), inputs.end());
  std::string text;
  for (const std::vector<std::string>& files : inputs) {
    daemon::TextStyle style;
    style.all = true;
    style.width = 200;   // less indentation to keep
    text += "== " + files.front() + (files.size() > 1 ? " and " + std::to_string(files.size() - 1) + " more" : "") + "\n\n" +
            daemon::answer_text(tests::scan_paths(files, 1), style) + "\n";
  }
  std::printf("%zu inputs\n", inputs.size());
  return tests::approved(approved, text, write) ? 0 : 1;
}
