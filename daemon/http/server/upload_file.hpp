// UploadFile: the temporary file that a body is written to. Its calls block: they run on the disk thread, one after another.
#pragma once

#include <string>
#include <string_view>

#include "parsers/base/result.hpp"

namespace triage::daemon::api {

class UploadFile {
 public:
  UploadFile() = default;
  ~UploadFile();                                  // closes; the file itself stays until remove
  UploadFile(const UploadFile&) = delete;
  UploadFile& operator=(const UploadFile&) = delete;

  void create(const std::string& folder);         // a new one, for this user only
  void write(std::string_view bytes);
  void close();
  const std::string& path() const { return path_; }
  int fault() const { return fault_; }            // errno of the first call that failed, or 0

  static void remove(const std::string& path);
  // Makes the folder and removes what an earlier process left there. Errors: io.
  static parsers::Status prepare(const std::string& folder);

 private:
  std::string path_;
  int file_ = -1, fault_ = 0;
};

}  // namespace triage::daemon::api
