#include "daemon/tail/posix_file_system.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kTakenBackAtOnce = 16;       // when the process runs out of descriptors: others need some, too
constexpr std::size_t kKeptForOthers = 128;        // descriptors: database, connections, sinks; of a low limit, half
constexpr std::size_t kFolderEntries = 2'000'000;  // limit: of one folder; more are not looked at

Error io_error(std::string message, const std::string& path, int code) {
  ErrorCode kind = ErrorCode::io;
  std::string help;
  if (code == ENOENT || code == ENOTDIR) kind = ErrorCode::not_found;
  if (code == EMFILE || code == ENFILE || code == ENOMEM) {
    kind = ErrorCode::unavailable;
    help = "raise LimitNOFILE of the service, or watch fewer files; it is tried again";
  }
  if (code == EACCES) help = "give the service's user read permission, through a group or an ACL";
  if (code == ESTALE) help = "the file server forgot the file; it is opened again";
  return Error(kind, std::move(message)).at(Place{path, {}, {}, {}, {}}).because(std::strerror(code)).help(std::move(help));
}

FileInfo to_info(const struct stat& from) {
  FileInfo out;
  out.device = from.st_dev;
  out.inode = from.st_ino;
  out.size = from.st_size > 0 ? static_cast<std::uint64_t>(from.st_size) : 0;
  out.links = from.st_nlink;
  out.changed_ns = static_cast<std::int64_t>(from.st_mtim.tv_sec) * 1'000'000'000 + from.st_mtim.tv_nsec;
  out.kind = S_ISREG(from.st_mode) ? FileKind::file : S_ISDIR(from.st_mode) ? FileKind::folder : S_ISLNK(from.st_mode) ? FileKind::link : FileKind::other;
  return out;
}

bool inside(const std::vector<std::string>& roots, const std::string& real) {
  return std::any_of(roots.begin(), roots.end(), [&](const std::string& root) {
    return real.starts_with(root) && (real.size() == root.size() || root.ends_with('/') || real[root.size()] == '/');
  });
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

struct PosixFileSystem::Closing {
  std::vector<int> fds;
  Closing() = default;
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  ~Closing() {
    for (const int fd : fds) ::close(fd);
  }
};

class PosixFileSystem::File final : public OpenFile {
 public:
  File(PosixFileSystem& owner, int fd, std::string path) : owner_(owner), fd_(fd), path_(std::move(path)) {
    const std::lock_guard lock(owner_.mutex_);
    place_ = owner_.used_.insert(owner_.used_.end(), this);
    listed_ = true;
    used_at_ = std::chrono::steady_clock::now();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() override {
    {
      const std::lock_guard lock(owner_.mutex_);
      if (listed_) owner_.used_.erase(place_);
    }
    if (fd_ >= 0) ::close(fd_);
  }

  Result<FileInfo> info() override {
    const std::lock_guard lock(mutex_);
    if (fd_ < 0) return taken_back();
    struct stat found {};
    if (::fstat(fd_, &found) != 0) return io_error("a file cannot be asked for its size", path_, errno);
    return to_info(found);
  }

  Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
    std::size_t done = 0;
    {
      const std::lock_guard lock(mutex_);
      if (fd_ < 0) return taken_back();
      while (done < room.size()) {
        const ssize_t count = ::pread(fd_, room.data() + done, room.size() - done, static_cast<off_t>(offset + done));
        if (count == 0) break;
        if (count < 0) {
          if (errno == EINTR) continue;
          const int code = errno;
          return io_error("a file cannot be read", path_, code);
        }
        done += static_cast<std::size_t>(count);
      }
    }
    const std::lock_guard lock(owner_.mutex_);
    if (listed_) {
      owner_.used_.splice(owner_.used_.end(), owner_.used_, place_);
      used_at_ = std::chrono::steady_clock::now();
    }
    return done;
  }

  std::uint64_t data_from(std::uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    if (fd_ < 0) return offset;
    const off_t at = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
    return at < 0 ? offset : static_cast<std::uint64_t>(at);
  }

  void hold(bool held) override { held_.store(held); }

 private:
  friend class PosixFileSystem;
  Error taken_back() const { return Error(ErrorCode::unavailable, "the descriptor was needed for another file").at(Place{path_, {}, {}, {}, {}}); }

  PosixFileSystem& owner_;
  std::mutex mutex_;                     // of fd_
  int fd_;
  std::string path_;
  std::atomic<bool> held_{false};
  std::list<File*>::iterator place_;     // these three: under the owner's mutex
  bool listed_ = false;
  std::chrono::steady_clock::time_point used_at_;
};

// Descriptors are closed after the lock is gone: a file server may let that wait.
std::size_t PosixFileSystem::take_back(std::size_t count) {
  Closing closing;
  const std::lock_guard lock(mutex_);
  for (const bool held : {false, true}) {
    for (auto it = used_.begin(); it != used_.end() && closing.fds.size() < count;) {
      File& file = **it;
      ++it;
      if (file.held_.load() == held) (void)take(file, closing);
    }
  }
  return closing.fds.size();
}

// Under mutex_. false: it is being read.
bool PosixFileSystem::take(File& file, Closing& closing) {
  const std::unique_lock own(file.mutex_, std::try_to_lock);
  if (!own) return false;
  closing.fds.push_back(std::exchange(file.fd_, -1));
  used_.erase(file.place_);
  file.listed_ = false;
  return true;
}

void PosixFileSystem::close_idle(std::chrono::steady_clock::duration idle) {
  const auto now = std::chrono::steady_clock::now();
  Closing closing;
  const std::lock_guard lock(mutex_);
  for (auto it = used_.begin(); it != used_.end();) {
    File& file = **it;
    ++it;
    if (now - file.used_at_ < idle) break;   // the others were used later
    if (!file.held_.load()) (void)take(file, closing);
  }
}

std::size_t PosixFileSystem::open_descriptors() const {
  const std::lock_guard lock(mutex_);
  return used_.size();
}

void PosixFileSystem::set_roots(std::vector<std::string> roots) {
  auto next = roots.empty() ? nullptr : std::make_shared<const std::vector<std::string>>(std::move(roots));
  const std::lock_guard lock(mutex_);
  roots_ = std::move(next);
}

std::shared_ptr<const std::vector<std::string>> PosixFileSystem::roots() const {
  const std::lock_guard lock(mutex_);
  return roots_;
}

std::size_t descriptors_within_limit(std::size_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::max<std::size_t>(wanted, 1);
  const auto allowed = static_cast<std::size_t>(limit.rlim_cur);
  return std::max<std::size_t>(std::min(wanted, allowed - std::min(kKeptForOthers, allowed / 2)), 1);
}

int PosixFileSystem::open_fd(const char* path, int flags) {
  int fd = ::open(path, flags | O_CLOEXEC);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE) && take_back(kTakenBackAtOnce) > 0) fd = ::open(path, flags | O_CLOEXEC);
  return fd;
}

Result<FileInfo> PosixFileSystem::info(const std::string& path, bool follow) {
  struct stat found {};
  if ((follow ? ::stat(path.c_str(), &found) : ::lstat(path.c_str(), &found)) != 0) return io_error("a file cannot be found", path, errno);
  return to_info(found);
}

// O_PATH opens nothing: a device is not touched, a pipe not waited for. What it leads to is looked at, and only then opened.
Result<std::unique_ptr<OpenFile>> PosixFileSystem::open(const std::string& path) {
  const Descriptor found(open_fd(path.c_str(), O_PATH));
  if (found.get() < 0) return io_error("a file cannot be opened", path, errno);
  struct stat info {};
  if (::fstat(found.get(), &info) != 0) return io_error("a file cannot be opened", path, errno);
  if (!S_ISREG(info.st_mode))
    return Error(ErrorCode::unsupported, "only regular files are watched").at(Place{path, {}, {}, {}, {}}).because("it is a folder, a device, a pipe or a socket");
  const std::string link = "/proc/self/fd/" + std::to_string(found.get());
  if (const auto roots = this->roots()) {
    std::array<char, PATH_MAX> real;
    const ssize_t size = ::readlink(link.c_str(), real.data(), real.size());
    if (size < 0) return io_error("a file's place cannot be found", path, errno);
    if (!inside(*roots, std::string(real.data(), static_cast<std::size_t>(size))))
      return Error(ErrorCode::unsupported, "a link leads out of the folders that are watched")
          .at(Place{path, {}, {}, {}, {}})
          .because("it leads to " + std::string(real.data(), static_cast<std::size_t>(size)))
          .help("name that folder under 'links_into', if its files are to be read");
  }
  Descriptor opened(open_fd(link.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK));
  if (opened.get() < 0) return io_error("a file cannot be opened", path, errno);
  bool full;
  {
    const std::lock_guard lock(mutex_);
    full = used_.size() >= std::max<std::size_t>(options_.descriptors, 1);
  }
  if (full) take_back(1);
  return std::unique_ptr<OpenFile>(std::make_unique<File>(*this, opened.release(), path));
}

Result<std::vector<FolderEntry>> PosixFileSystem::list(const std::string& folder) {
  Descriptor fd(open_fd(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK));
  if (fd.get() < 0) return io_error("a folder cannot be listed", folder, errno);
  const std::unique_ptr<DIR, CloseFolder> open(::fdopendir(fd.get()));
  if (!open) return io_error("a folder cannot be listed", folder, errno);
  fd.release();
  std::vector<FolderEntry> out;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (!entry) {
      if (errno != 0) return io_error("a folder cannot be listed", folder, errno);
      return out;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (out.size() == kFolderEntries) return out;
    const auto type = entry->d_type;
    const FileKind kind = type == DT_REG ? FileKind::file : type == DT_DIR ? FileKind::folder : type == DT_LNK ? FileKind::link : FileKind::other;
    out.push_back({std::string(name), entry->d_ino, kind, type != DT_UNKNOWN});
  }
}

Result<std::string> PosixFileSystem::real_path(const std::string& path) {
  std::array<char, PATH_MAX> room;
  if (!::realpath(path.c_str(), room.data())) return io_error("a name cannot be followed", path, errno);
  return std::string(room.data());
}

bool PosixFileSystem::remote(const std::string& folder) {
  const auto real = real_path(folder);
  return !mounts_.find(real.ok() ? *real : folder).empty();
}

}  // namespace triage::daemon
