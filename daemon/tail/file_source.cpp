#include "daemon/tail/file_source.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "parsers/base/limits.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr int kWaitMs = 100;   // for a pipe, before asking whether to stop

class FileSource final : public ByteSource {
 public:
  FileSource(int fd, bool owned, std::string path, ReadOptions options) : fd_(fd), owned_(owned), path_(std::move(path)), options_(std::move(options)) {
    if (::fstat(fd_, &opened_) != 0) opened_ = {};
    regular_ = S_ISREG(opened_.st_mode);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override {
    if (owned_) ::close(fd_);
  }

  Result<std::size_t> read(std::span<char> room) override {
    for (;;) {
      if (options_.stop && (options_.stop() || !ready())) {
        if (options_.stop()) return std::size_t{0};
        continue;
      }
      const ssize_t count = ::read(fd_, room.data(), room.size());
      if (count > 0) return take(static_cast<std::size_t>(count));
      // EAGAIN: /proc/kmsg and the like, which look like files and wait for more.
      if (count == 0 || (errno == EAGAIN && regular_)) {
        at_end();
        return std::size_t{0};
      }
      if (errno == EINTR || errno == EAGAIN) continue;
      return Error(ErrorCode::io, "reading stopped before the end")
          .at(Place{path_, {}, {}, offset_, {}})
          .because(std::strerror(errno))
          .help("what was read up to there was still judged");
    }
  }

  std::uint64_t seekable_size() const override { return regular_ && owned_ ? static_cast<std::uint64_t>(opened_.st_size) : 0; }
  bool seek(std::uint64_t offset) override {
    if (seekable_size() == 0 || ::lseek(fd_, static_cast<off_t>(offset), SEEK_SET) < 0) return false;
    offset_ = offset;
    sought_ = true;
    return true;
  }

 private:
  std::size_t take(std::size_t count) {
    offset_ += count;
    if (options_.count) options_.count(count);
    if (regular_ && size_opened() > 0 && offset_ > size_opened() + parsers::limits::kGrownBytes && !std::exchange(told_, true)) {
      options_.stop = [] { return true; };
      tell(Error(ErrorCode::limit, "the file grows as fast as it is read")
               .at(Place{path_, {}, {}, offset_, {}})
               .because("it had " + std::to_string(size_opened()) + " bytes when it was opened")
               .help("what stands there by now was judged; stop the writer, or scan a copy"),
           Weight::loss);
    }
    return count;
  }

  // Pipes are waited for in steps, so that a reader can be stopped.
  bool ready() const {
    if (regular_) return true;
    pollfd wait{fd_, POLLIN, 0};
    return ::poll(&wait, 1, kWaitMs) != 0;
  }

  std::uint64_t size_opened() const { return static_cast<std::uint64_t>(opened_.st_size); }

  void at_end() {
    struct stat now {};
    if (!regular_ || sought_ || !options_.tell || std::exchange(told_, true) || ::fstat(fd_, &now) != 0) return;
    const auto size = static_cast<std::uint64_t>(now.st_size);
    if (size_opened() > 0 && (size < offset_ || size < size_opened())) {   // files of /proc state no size
      const std::uint64_t had = std::max(size_opened(), offset_);
      tell(Error(ErrorCode::io, "the file shrank while it was read")
               .at(Place{path_, {}, {}, offset_, {}})
               .because("from " + std::to_string(had) + " to " + std::to_string(size) + " bytes")
               .help("what was read up to there was still judged; if it was rotated, give the rotated file too"),
           Weight::loss);
      return;
    }
    struct stat there {};
    const bool gone = owned_ && ::stat(path_.c_str(), &there) != 0;
    if (owned_ && !gone && (there.st_dev != opened_.st_dev || there.st_ino != opened_.st_ino)) {
      tell(Error(ErrorCode::io, "the file was replaced by another one while it was read")
               .at(Place{path_, {}, {}, offset_, {}})
               .help("the old one was judged, the new one was not read: scan again"),
           Weight::loss);
    } else if (gone) {
      tell(Error(ErrorCode::io, "the file was removed or renamed while it was read; it was read to its end").at(Place{path_, {}, {}, offset_, {}}), Weight::note);
    } else if (size_opened() > 0 && offset_ > size_opened()) {
      tell(Error(ErrorCode::io, "the file grew while it was read, from " + std::to_string(size_opened()) + " to " + std::to_string(offset_) + " bytes")
               .at(Place{path_, {}, {}, offset_, {}}),
           Weight::note);
    }
  }

  void tell(Error error, Weight weight) const {
    if (options_.tell) options_.tell(std::move(error), weight);
  }

  int fd_;
  bool owned_;
  std::string path_;
  ReadOptions options_;
  struct stat opened_ {};
  bool regular_ = false, sought_ = false, told_ = false;
  std::uint64_t offset_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> make_file_source(int fd, bool owned, std::string path, ReadOptions options) {
  return std::make_unique<FileSource>(fd, owned, std::move(path), std::move(options));
}

}  // namespace triage::daemon
