// Runs a fuzz target over seeds without a fuzzer: each file whole (unpacked where its name ends in .gz), cut at many places, and with bytes
// changed. usage: NAME_replay FILE|FOLDER...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/support/gunzip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& bytes) { LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()); }

void replay(const std::string& bytes) {
  run(bytes);
  const int rounds = bytes.size() > 1'000'000 ? 24 : 200;
  std::mt19937_64 random(bytes.size());
  for (int i = 0; i < rounds && !bytes.empty(); ++i) run(bytes.substr(0, random() % bytes.size()));
  std::string changed = bytes;
  for (int i = 0; i < rounds && !bytes.empty(); ++i) {
    // Near the start and the end more than in between: headers and tables stand there.
    const std::size_t span = std::min<std::size_t>(bytes.size(), i % 3 == 0 ? bytes.size() : 8192);
    const std::size_t base = i % 3 == 2 ? bytes.size() - span : 0;
    for (int k = 0; k < 1 + i % 4; ++k) changed[base + random() % span] = static_cast<char>(random());
    run(changed);
    if (i % 16 == 15) changed = bytes;
  }
}

}  // namespace

int main(int count, char** arguments) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (int i = 1; i < count; ++i) {
    if (fs::is_directory(arguments[i])) {
      for (const auto& entry : fs::recursive_directory_iterator(arguments[i]))
        if (entry.is_regular_file()) files.push_back(entry.path().string());
    } else {
      files.emplace_back(arguments[i]);
    }
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::fputs("no seeds were given\n", stderr);
    return 2;
  }
  run({});
  for (const std::string& file : files) replay(file.ends_with(".gz") ? triage::tests::gunzip_file(file) : triage::tests::read_file(file));
  std::printf("%zu seeds replayed\n", files.size());
  return 0;
}
