// A regular file read by position or from its beginning on, for dumps that are larger than memory and for the lines around a place. It is
// opened through a FileSystem, so that a link out of the watched folders is refused and a file server that does not answer can be left.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "daemon/tail/byte_source.hpp"
#include "daemon/tail/file_system.hpp"
#include "parsers/base/result.hpp"
#include "parsers/snapshot/read_at.hpp"

namespace triage::daemon {

// The size is that of now: what is appended later is not read. patience: how long an answer of a file server is waited for, in a call; a
// descriptor that was taken back is asked for again. `files` must live longer. Errors: those of FileSystem::open; not_found, too, when the
// name leads to another file meanwhile; limit and unavailable: the same may go well later.
parsers::Result<std::unique_ptr<parsers::ReadAt>> open_read_at(FileSystem& files, const std::string& path, std::chrono::milliseconds patience);
// Of the machine itself, any file.
parsers::Result<std::unique_ptr<parsers::ReadAt>> open_read_at(const std::string& path);

// Its bytes in order; `file` must live longer.
class ReadAtSource final : public ByteSource {
 public:
  explicit ReadAtSource(parsers::ReadAt& file) : file_(file) {}
  parsers::Result<std::size_t> read(std::span<char> room) override {
    TRIAGE_TRY(const std::size_t count, file_.read(offset_, room));
    offset_ += count;
    return count;
  }
  std::uint64_t seekable_size() const override { return file_.size(); }
  bool seek(std::uint64_t offset) override {
    offset_ = offset;
    return true;
  }

 private:
  parsers::ReadAt& file_;
  std::uint64_t offset_ = 0;
};

}  // namespace triage::daemon
