#include "daemon/tail/input.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "daemon/tail/file_source.hpp"

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

// Endings of files that hold no log text: weights, data, libraries, pictures.
bool no_log(std::string_view name) {
  static const std::set<std::string> endings = {
      ".pt",  ".pth", ".bin",  ".safetensors", ".distcp", ".idx",     ".npy",   ".npz", ".so",   ".o",    ".a",    ".png",   ".jpg",       ".jpeg",
      ".gif", ".pdf", ".parquet", ".arrow",    ".whl",    ".pyc",     ".onnx",  ".gguf", ".h5",  ".hdf5", ".ckpt", ".db",    ".sqlite",    ".mp4"};
  return endings.count(fs::path(name).extension().string()) > 0;
}

// One level of a folder. Links to folders are not followed (they make loops), links to files are.
void list_folder(const std::string& folder, std::vector<std::string>& files, std::vector<std::string>& folders, ExpandedPaths& out) {
  DIR* const listing = ::opendir(folder.c_str());
  if (!listing) {
    out.errors.push_back(io_error("a folder cannot be listed", folder, errno));
    return;
  }
  const auto next = [listing] {
    errno = 0;                            // what an entry left there is no fault of the listing
    return ::readdir(listing);
  };
  while (const dirent* entry = next()) {
    const std::string_view name = entry->d_name;
    if (name.starts_with('.')) continue;
    std::string path = folder;
    if (!path.ends_with('/')) path += '/';
    path += name;
    unsigned char type = entry->d_type;
    if (type == DT_LNK || type == DT_UNKNOWN) {
      struct stat info {};
      if ((type == DT_UNKNOWN ? ::lstat(path.c_str(), &info) : ::stat(path.c_str(), &info)) != 0) continue;   // a link that leads nowhere
      if (type == DT_UNKNOWN && S_ISLNK(info.st_mode) && (::stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode))) continue;
      if (S_ISDIR(info.st_mode) && type == DT_LNK) continue;
      type = S_ISDIR(info.st_mode) ? DT_DIR : S_ISREG(info.st_mode) ? DT_REG : DT_CHR;
    }
    if (type == DT_DIR)
      folders.push_back(std::move(path));
    else if (type == DT_REG && !no_log(name))
      files.push_back(std::move(path));
  }
  if (errno != 0) out.errors.push_back(io_error("a folder was listed in part only", folder, errno));
  ::closedir(listing);
}

// One folder open at a time, however deep they lie in each other.
void add_folder(const std::string& folder, ExpandedPaths& out) {
  std::vector<std::string> found, open = {folder};
  while (!open.empty()) {
    const std::string next = std::move(open.back());
    open.pop_back();
    list_folder(next, found, open, out);
  }
  std::sort(found.begin(), found.end());
  for (std::string& name : found) out.files.push_back(std::move(name));
}

// Files that are the same one by another name (given twice, hard links, links to it) stand once: by the first name that is no link, else
// by the first.
void drop_doubles(std::vector<std::string>& files) {
  std::map<std::pair<dev_t, ino_t>, std::pair<std::size_t, bool>> seen;   // place in kept, is a link
  std::set<std::string> names;
  std::vector<std::string> kept;
  for (std::string& name : files) {
    if (!names.insert(name).second) continue;
    struct stat info {}, itself {};
    if (name == "-" || ::stat(name.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      kept.push_back(std::move(name));
      continue;
    }
    const bool link = ::lstat(name.c_str(), &itself) == 0 && S_ISLNK(itself.st_mode);
    const auto [place, fresh] = seen.try_emplace({info.st_dev, info.st_ino}, kept.size(), link);
    if (fresh) {
      kept.push_back(std::move(name));
    } else if (place->second.second && !link) {
      kept[place->second.first] = std::move(name);
      place->second.second = false;
    }
  }
  files = std::move(kept);
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
  drop_doubles(out.files);
  return out;
}

Result<std::unique_ptr<ByteSource>> open_input(const std::string& path, ReadOptions options) {
  if (path == "-") {
    if (endless(STDIN_FILENO)) return device_error("stdin");
    return make_file_source(STDIN_FILENO, false, "stdin", std::move(options));
  }
  // What looks like a file and waits for more (/proc/kmsg) must not hang; a pipe is opened as pipes are.
  struct stat info {};
  const bool regular = ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular ? O_NONBLOCK : 0));
  if (fd < 0) return io_error("a file cannot be opened", path, errno);
  if (endless(fd)) {
    ::close(fd);
    return device_error(path);
  }
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return make_file_source(fd, true, path, std::move(options));
}

Result<std::string> head_of(const std::string& path, std::size_t most) {
  if (size_of(path) == 0) return std::string();
  TRIAGE_TRY(auto source, open_input(path));
  std::string head(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    TRIAGE_TRY(const std::size_t count, source->read(std::span(head).subspan(size)));
    if (count == 0) break;
    size += count;
  }
  head.resize(size);
  return head;
}

std::uint64_t size_of(const std::string& path) {
  struct stat info {};
  return path != "-" && ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
}

}  // namespace triage::daemon
