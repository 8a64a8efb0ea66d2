// A program's output beside the one that was last looked at and taken as right: each change of an answer is seen in review, also one that
// no other test asks about. `write` replaces the approved text: read the difference before it is committed.
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace triage::tests {

// Prints the first lines that differ. False: some do, or there is no such file.
inline bool approved(const std::string& path, const std::string& text, bool write) {
  if (write) {
    std::ofstream(path, std::ios::binary) << text;
    return true;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string wanted((std::istreambuf_iterator<char>(file)), {});
  if (wanted == text) return true;
  std::istringstream is(text), was(wanted);
  std::string section;
  int told = 0;
  for (int number = 1; told < 10; ++number) {
    std::string a, b;
    const bool one = static_cast<bool>(std::getline(was, a)), other = static_cast<bool>(std::getline(is, b));
    if (!one && !other) break;
    if (b.starts_with("== ")) section = b;
    if (a == b) continue;
    std::printf("%s:%d (%s)\n  was %s\n  is  %s\n", path.c_str(), number, section.c_str(), a.c_str(), b.c_str());
    ++told;
  }
  std::printf("%s is not what the program says now; where that is right, write it anew (--write)\n", path.c_str());
  return false;
}

}  // namespace triage::tests
