// A folder of its own for one test, gone after it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace triage::tests {

class TempFolder {
 public:
  TempFolder() {
    std::string name = std::filesystem::temp_directory_path() / "triage-test-XXXXXX";
    if (!::mkdtemp(name.data())) std::abort();
    path_ = std::filesystem::canonical(name);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }
  void append(std::string_view name, std::string_view bytes) const { std::ofstream(*this / name, std::ios::binary | std::ios::app) << bytes; }

 private:
  std::string path_;
};

}  // namespace triage::tests
