#include "daemon/tail/input.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

namespace triage::daemon {

namespace fs = std::filesystem;
using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

Error io_error(std::string message, const std::string& path, int code) {
  std::string help;
  if (code == EACCES) help = "ask for read permission, or run as the user who owns the log; the other inputs were still read";
  if (code == ENOENT) help = "check the name; the other inputs were still read";
  return Error(code == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::move(message))
      .at(Place{path, {}, {}, {}, {}})
      .because(std::strerror(code))
      .help(std::move(help));
}

class FileSource : public ByteSource {
 public:
  FileSource(int fd, std::string path, bool owned) : fd_(fd), path_(std::move(path)), owned_(owned) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override {
    if (owned_) ::close(fd_);
  }
  Result<std::size_t> read(std::span<char> room) override {
    for (;;) {
      const ssize_t count = ::read(fd_, room.data(), room.size());
      if (count >= 0) {
        offset_ += static_cast<std::uint64_t>(count);
        return static_cast<std::size_t>(count);
      }
      if (errno == EINTR) continue;
      return Error(ErrorCode::io, "reading stopped before the end")
          .at(Place{path_, {}, {}, offset_, {}})
          .because(std::strerror(errno))
          .help("what was read up to there was still judged");
    }
  }

 private:
  int fd_;
  std::string path_;
  bool owned_;
  std::uint64_t offset_ = 0;
};

// Endings of files that hold no log text: weights, data, libraries, pictures.
bool no_log(const fs::path& path) {
  static const std::set<std::string> endings = {
      ".pt",  ".pth", ".bin",  ".safetensors", ".distcp", ".idx",     ".npy",   ".npz", ".so",   ".o",    ".a",    ".png",   ".jpg",       ".jpeg",
      ".gif", ".pdf", ".parquet", ".arrow",    ".whl",    ".pyc",     ".onnx",  ".gguf", ".h5",  ".hdf5", ".ckpt", ".db",    ".sqlite",    ".mp4"};
  return endings.count(path.extension().string()) > 0;
}

void add_folder(const std::string& folder, ExpandedPaths& out) {
  std::error_code code;
  auto it = fs::recursive_directory_iterator(folder, fs::directory_options::none, code);
  if (code) {
    out.errors.push_back(io_error("a folder cannot be listed", folder, code.value()));
    return;
  }
  std::vector<std::string> found;
  for (const auto end = fs::recursive_directory_iterator(); it != end;) {
    const fs::path path = it->path();
    std::error_code ignored;
    const bool folder_inside = it->is_directory(ignored) && !it->is_symlink(ignored);
    if (path.filename().string().starts_with('.')) {
      if (folder_inside) it.disable_recursion_pending();
    } else if (folder_inside) {
      if (::access(path.c_str(), R_OK | X_OK) != 0) {  // told, and the rest still walked
        out.errors.push_back(io_error("a folder cannot be listed", path.string(), errno));
        it.disable_recursion_pending();
      }
    } else if (it->is_regular_file(ignored) && !no_log(path)) {
      found.push_back(path.string());
    }
    it.increment(code);
    if (code) {
      out.errors.push_back(io_error("a folder cannot be listed", folder, code.value()));
      break;
    }
  }
  std::sort(found.begin(), found.end());
  for (std::string& name : found) out.files.push_back(std::move(name));
}

// glob(3) gives its caller no place for a context.
thread_local std::vector<std::pair<std::string, int>> unlisted_folders;

int note_unlisted(const char* folder, int code) {
  if (code != ENOTDIR && code != ENOENT) unlisted_folders.emplace_back(folder, code);
  return 0;   // go on
}

void add_pattern(const std::string& pattern, ExpandedPaths& out) {
  glob_t found{};
  unlisted_folders.clear();
  const int status = ::glob(pattern.c_str(), GLOB_BRACE, note_unlisted, &found);
  for (const auto& [folder, code] : unlisted_folders) out.errors.push_back(io_error("a folder cannot be listed", folder, code));
  if (status == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      const std::string name = found.gl_pathv[i];
      std::error_code code;
      if (fs::is_directory(name, code))
        add_folder(name, out);
      else if (!fs::is_other(name, code))   // a pipe or a device that a pattern happens to meet would be waited on for ever
        out.files.push_back(name);
    }
  } else if (unlisted_folders.empty()) {
    out.errors.push_back(Error(ErrorCode::not_found, "no file matches the pattern")
                             .at(Place{pattern, {}, {}, {}, {}})
                             .help("check the folder and the ending; the other inputs were still read"));
  }
  ::globfree(&found);
}

// A device gives no log, and some of them give bytes for ever. A terminal and /dev/null are as good as a file.
bool endless(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return false;
  if (S_ISBLK(info.st_mode)) return true;
  struct stat null {};
  const bool is_null = ::stat("/dev/null", &null) == 0 && null.st_rdev == info.st_rdev;
  return S_ISCHR(info.st_mode) && ::isatty(fd) == 0 && !is_null;
}

Error device_error(const std::string& path) {
  return Error(ErrorCode::unsupported, "a device is no log and was not read")
      .at(Place{path, {}, {}, {}, {}})
      .help("name a file, a folder or a pipe; the other inputs were still read");
}

}  // namespace

ExpandedPaths expand_paths(std::span<const std::string> arguments) {
  ExpandedPaths out;
  for (const std::string& argument : arguments) {
    std::error_code code;
    if (argument == "-") {
      out.files.push_back(argument);
      continue;
    }
    const fs::file_status status = fs::status(argument, code);
    if (fs::is_directory(status))
      add_folder(argument, out);
    else if (fs::exists(status))
      out.files.push_back(argument);
    else if (argument.find_first_of("*?[") != std::string::npos)
      add_pattern(argument, out);
    else
      out.errors.push_back(io_error("a file cannot be opened", argument, code ? code.value() : ENOENT));
  }
  std::set<std::string> seen;
  std::erase_if(out.files, [&](const std::string& name) { return !seen.insert(name).second; });
  return out;
}

Result<std::string> read_head(ByteSource& source, std::size_t most) {
  std::string head(most, '\0');
  std::size_t size = 0;
  while (size < head.size()) {
    TRIAGE_TRY(const std::size_t count, source.read(std::span(head).subspan(size)));
    if (count == 0) break;
    size += count;
  }
  head.resize(size);
  return head;
}

Result<std::string> head_of(const std::string& path, std::size_t most) {
  if (size_of(path) == 0) return std::string();
  TRIAGE_TRY(auto source, open_plain(path));
  return read_head(*source, most);
}

bool looks_packed(std::string_view text) {
  return text.starts_with("\x1f\x8b") || text.starts_with("\x28\xb5\x2f\xfd") || text.starts_with("PK\x03\x04") ||
         text.starts_with("PK\x05\x06") || text.starts_with("\xfd" "7zXZ") || text.starts_with("BZh") ||
         (text.size() >= 262 && text.substr(257, 5) == "ustar");
}

Result<bool> is_packed(const std::string& path) {
  TRIAGE_TRY(const std::string head, head_of(path, 512));
  return looks_packed(head);
}

Result<std::unique_ptr<ByteSource>> open_plain(const std::string& path) {
  if (path == "-" && endless(STDIN_FILENO)) return device_error("stdin");
  if (path == "-") return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(STDIN_FILENO, "-", false));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return io_error("a file cannot be opened", path, errno);
  if (endless(fd)) {
    ::close(fd);
    return device_error(path);
  }
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(fd, path, true));
}

std::uint64_t size_of(const std::string& path) {
  struct stat info {};
  return path != "-" && ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
}

}  // namespace triage::daemon
