#include "daemon/tail/read_at_file.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "daemon/tail/posix_file_system.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kPause(20);   // between two looks whether the answer has come

class ReadAtFile final : public parsers::ReadAt {
 public:
  ReadAtFile(FileSystem& files, std::string path, std::chrono::milliseconds patience) : files_(files), path_(std::move(path)), patience_(patience) {}

  // The first time notes which file it is; later ones want the same.
  parsers::Status open() {
    TRIAGE_TRY(auto file, patiently<std::unique_ptr<OpenFile>>([this] { return files_.open(path_); }));
    TRIAGE_TRY(const FileInfo info, patiently<FileInfo>([&] { return file->info(); }));
    if (known_ && (info.device != info_.device || info.inode != info_.inode))
      return Error(ErrorCode::not_found, "the file was replaced while it was read").at(Place{path_, {}, {}, {}, {}});
    if (!std::exchange(known_, true)) info_ = info;
    file_ = std::move(file);
    return parsers::done();
  }

  std::uint64_t size() const override { return info_.size; }

  Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
    if (offset >= info_.size) return std::size_t{0};
    room = room.first(static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), info_.size - offset)));
    for (int turn = 0;; ++turn) {
      auto count = patiently<std::size_t>([&] { return file_->read(offset, room); });
      if (count.ok() || count.error().code() != ErrorCode::unavailable || turn == kTurns) return count;
      TRIAGE_CHECK(open());   // the descriptor was taken back
    }
  }

 private:
  static constexpr int kTurns = 3;

  // `limit` says that the answer comes later, to the same call.
  template <class T, class Call>
  Result<T> patiently(Call call) const {
    const auto end = Clock::now() + patience_;
    for (;;) {
      Result<T> out = call();
      if (out.ok() || out.error().code() != ErrorCode::limit || Clock::now() >= end) return out;
      std::this_thread::sleep_for(kPause);
    }
  }

  FileSystem& files_;
  const std::string path_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<OpenFile> file_;
  FileInfo info_;
  bool known_ = false;
};

}  // namespace

Result<std::unique_ptr<parsers::ReadAt>> open_read_at(FileSystem& files, const std::string& path, std::chrono::milliseconds patience) {
  auto file = std::make_unique<ReadAtFile>(files, path, patience);
  TRIAGE_CHECK(file->open());
  return std::unique_ptr<parsers::ReadAt>(std::move(file));
}

Result<std::unique_ptr<parsers::ReadAt>> open_read_at(const std::string& path) {
  static PosixFileSystem machine;
  return open_read_at(machine, path, std::chrono::milliseconds(0));
}

}  // namespace triage::daemon
