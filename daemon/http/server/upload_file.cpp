#include "daemon/http/server/upload_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace triage::daemon::api {

namespace {
constexpr std::string_view kPrefix = "upload-";
}

UploadFile::~UploadFile() { close(); }

void UploadFile::create(const std::string& folder) {
  std::string name = folder + "/" + std::string(kPrefix) + "XXXXXX";
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0)
    fault_ = errno;
  else
    path_ = std::move(name);
}

void UploadFile::write(std::string_view bytes) {
  while (!bytes.empty() && fault_ == 0) {
    const ssize_t wrote = ::write(file_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0)
      fault_ = errno;
    else
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

void UploadFile::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void UploadFile::remove(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

parsers::Status UploadFile::prepare(const std::string& folder) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  std::vector<std::string> left;
  for (std::filesystem::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec))
    if (at->path().filename().string().starts_with(kPrefix)) left.push_back(at->path().string());
  if (ec) return parsers::Error(parsers::ErrorCode::io, "the upload folder " + folder + " cannot be used").because(ec.message());
  for (const std::string& path : left) remove(path);
  return parsers::done();
}

}  // namespace triage::daemon::api
