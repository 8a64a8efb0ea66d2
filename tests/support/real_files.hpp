// The real file system, for tests that change one of its answers.
#pragma once

#include "daemon/tail/posix_file_system.hpp"

namespace triage::tests {

class RealFiles : public daemon::FileSystem {
 public:
  parsers::Result<daemon::FileInfo> info(const std::string& path, bool follow) override { return files_.info(path, follow); }
  parsers::Result<std::unique_ptr<daemon::OpenFile>> open(const std::string& path) override { return files_.open(path); }
  parsers::Result<std::vector<daemon::FolderEntry>> list(const std::string& folder) override { return files_.list(folder); }
  parsers::Result<std::string> real_path(const std::string& path) override { return files_.real_path(path); }

 private:
  daemon::PosixFileSystem files_;
};

}  // namespace triage::tests
