#include "daemon/tail/read_at_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

class ReadAtFile final : public parsers::ReadAt {
 public:
  ReadAtFile(int fd, std::uint64_t size, std::string path) : fd_(fd), size_(size), path_(std::move(path)) {}
  ReadAtFile(const ReadAtFile&) = delete;
  ReadAtFile& operator=(const ReadAtFile&) = delete;
  ~ReadAtFile() override { ::close(fd_); }
  std::uint64_t size() const override { return size_; }
  Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
    std::size_t done = 0;
    while (done < room.size() && offset + done < size_) {
      const ssize_t count = ::pread(fd_, room.data() + done, room.size() - done, static_cast<off_t>(offset + done));
      if (count == 0) break;
      if (count < 0) {
        if (errno == EINTR) continue;
        return Error(ErrorCode::io, "reading stopped before the end").at(Place{path_, {}, {}, offset + done, {}}).because(std::strerror(errno));
      }
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

 private:
  int fd_;
  std::uint64_t size_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<parsers::ReadAt>> open_read_at(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0) {
    const int code = errno;
    if (fd >= 0) ::close(fd);
    return Error(code == ENOENT ? ErrorCode::not_found : ErrorCode::io, "a file cannot be opened").at(Place{path, {}, {}, {}, {}}).because(std::strerror(code));
  }
  return std::unique_ptr<parsers::ReadAt>(std::make_unique<ReadAtFile>(fd, static_cast<std::uint64_t>(info.st_size), path));
}

}  // namespace triage::daemon
