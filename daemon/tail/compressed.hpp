// Rotated files that were packed (.gz, .zst, .xz, .bz2): read as if they were plain, and only from where the plain file was taken.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/tail/checkpoint.hpp"
#include "daemon/tail/file_system.hpp"
#include "parsers/base/units.hpp"

namespace triage::daemon {

// limit: of unpacked bytes of one file; a small packed file may hold any number of them. What lies behind is not read.
inline constexpr std::uint64_t kUnpackedBytes = 64ULL << 30;

// The unpacked content. Its size is found out by unpacking it once; reading backwards begins anew. info() has the inode and time of the packed file.
// Errors: of opening; syntax (damaged, or still being written).
parsers::Result<std::unique_ptr<OpenFile>> open_unpacked(FileSystem& files, const std::string& path);

struct PackedStart {
  std::uint64_t offset = 0, lines = 0;   // of the unpacked content: what was taken of it already
};

// Is the unpacked content that of one of the known files (few: those of the same base name)? Then where to go on; else the beginning. The furthest one counts.
parsers::Result<PackedStart> packed_start(OpenFile& unpacked, std::span<const Checkpoint> known);

// A file system in which packed files (by their names) look like what they hold, so that a Tailer reads them. One that ends too early is
// still being written: `syntax`, until it has not changed for two minutes; then it is read as far as it goes. Thread-safe as the inner one.
class UnpackingFileSystem final : public FileSystem {
 public:
  UnpackingFileSystem(FileSystem& inner, std::function<parsers::TimePoint()> clock) : inner_(inner), clock_(std::move(clock)) {}
  parsers::Result<FileInfo> info(const std::string& path, bool follow = true) override;
  parsers::Result<std::unique_ptr<OpenFile>> open(const std::string& path) override;
  parsers::Result<std::vector<FolderEntry>> list(const std::string& folder) override { return inner_.list(folder); }
  parsers::Result<std::string> real_path(const std::string& path) override { return inner_.real_path(path); }
  bool remote(const std::string& folder) override { return inner_.remote(folder); }
  // What is wrong with a packed file that is read all the same; once.
  std::optional<parsers::Error> take_damage(const std::string& path);

 private:
  struct Measured {
    FileInfo packed;
    std::uint64_t size = 0;
  };
  parsers::Result<std::unique_ptr<OpenFile>> open_settled(const std::string& path);

  FileSystem& inner_;
  const std::function<parsers::TimePoint()> clock_;
  std::mutex mutex_;
  std::unordered_map<std::string, Measured> measured_;   // so that an idle file is not unpacked for its size
  std::unordered_map<std::string, std::optional<parsers::Error>> damages_;   // empty: taken
};

// packed_start() as where a Tailer of the packed file goes on; empty: at its beginning. Errors: of opening and reading.
parsers::Result<std::optional<Checkpoint>> packed_checkpoint(UnpackingFileSystem& files, const std::string& path, std::span<const Checkpoint> known);

}  // namespace triage::daemon
