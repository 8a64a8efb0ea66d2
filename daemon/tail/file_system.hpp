// FileSystem: what the tailers ask of the operating system. The real one is posix_file_system.hpp, the tests have one in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parsers/base/result.hpp"

namespace triage::daemon {

enum class FileKind : std::uint8_t { file, folder, link, other };   // other: device, pipe, socket

struct FileInfo {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::uint64_t links = 1;               // names of the file; 0: deleted, and only held open
  std::int64_t changed_ns = 0;           // time of the last change of its bytes, ns since 1970
  FileKind kind = FileKind::file;
};

struct FolderEntry {
  std::string name;
  std::uint64_t inode = 0;
  FileKind kind = FileKind::other;
  bool kind_known = true;                // some file systems do not tell the kind in a listing
};

// A regular file, read by position. Its descriptor may be taken back when descriptors run short: then every call gives `unavailable`,
// and the file has to be opened and identified again. One thread at a time.
class OpenFile {
 public:
  virtual ~OpenFile() = default;
  virtual parsers::Result<FileInfo> info() = 0;
  // Up to room.size() bytes from `offset`; fewer only at the end of the file.
  virtual parsers::Result<std::size_t> read(std::uint64_t offset, std::span<char> room) = 0;
  // The first offset >= `offset` that may hold data: what lies before it is a hole.
  virtual std::uint64_t data_from(std::uint64_t offset) { return offset; }
  // The file may have no name any more: others give their descriptors first.
  virtual void hold(bool) {}
};

// Descriptors, or an answer of a file server: the same call may go well another time. What it was for must not count as missing.
inline bool comes_later(const parsers::Error& error) { return error.code() == parsers::ErrorCode::unavailable || error.code() == parsers::ErrorCode::limit; }

// Errors: not_found; unsupported (not a regular file, or outside the folders that may be read); unavailable (no descriptors left); limit (no
// answer within the time that is waited for one: the same call gets it later); io.
// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Follows symbolic links if `follow`.
  virtual parsers::Result<FileInfo> info(const std::string& path, bool follow = true) = 0;
  // Regular files only; never waits for a pipe, never touches a device.
  virtual parsers::Result<std::unique_ptr<OpenFile>> open(const std::string& path) = 0;
  // Without "." and "..", in no order.
  virtual parsers::Result<std::vector<FolderEntry>> list(const std::string& folder) = 0;
  // Where the name leads, without links. Errors: not_found, io (a loop of links).
  virtual parsers::Result<std::string> real_path(const std::string& path) = 0;
  // Does the folder lie on a file system that other hosts change, so that inotify does not tell of it?
  virtual bool remote(const std::string&) { return false; }
};

}  // namespace triage::daemon
