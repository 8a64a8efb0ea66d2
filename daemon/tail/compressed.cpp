#include "daemon/tail/compressed.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "daemon/tail/file_identity.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kPortion = 1 << 17;

// libarchive reads through this; no error of ours crosses it but as a number.
struct Input {
  OpenFile* file = nullptr;
  std::uint64_t offset = 0;
  std::vector<char> room = std::vector<char>(kPortion);
};

la_ssize_t read_input(archive*, void* context, const void** out) {
  auto* const input = static_cast<Input*>(context);
  const auto count = input->file->read(input->offset, input->room);
  if (!count.ok()) return -1;
  input->offset += *count;
  *out = input->room.data();
  return static_cast<la_ssize_t>(*count);
}

struct Free {
  void operator()(archive* handle) const { archive_read_free(handle); }
};

class Unpacked final : public OpenFile {
 public:
  Unpacked(std::unique_ptr<OpenFile> file, std::string path) : file_(std::move(file)), path_(std::move(path)) { input_.file = file_.get(); }

  // Unpacks all to learn the size.
  parsers::Status measure() {
    std::vector<char> room(kPortion);
    std::uint64_t size = 0;
    for (;;) {
      TRIAGE_TRY(const std::size_t count, read(size, room));
      if (count == 0) break;
      size += count;
    }
    size_ = size;
    return parsers::done();
  }

  Result<FileInfo> info() override {
    TRIAGE_TRY(FileInfo out, file_->info());
    out.size = size_;
    return out;
  }

  Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
    if (!handle_ || offset < at_) TRIAGE_CHECK(restart());
    std::array<char, 16 * 1024> skipped;
    while (at_ < offset) {
      TRIAGE_TRY(const std::size_t count, more(std::span(skipped).first(static_cast<std::size_t>(std::min<std::uint64_t>(skipped.size(), offset - at_)))));
      if (count == 0) return std::size_t{0};
    }
    std::size_t done = 0;
    while (done < room.size()) {
      TRIAGE_TRY(const std::size_t count, more(room.subspan(done)));
      if (count == 0) break;
      done += count;
    }
    return done;
  }

  void hold(bool held) override { file_->hold(held); }

 private:
  parsers::Status restart() {
    handle_.reset(archive_read_new());
    archive_read_support_filter_gzip(handle_.get());
    archive_read_support_filter_zstd(handle_.get());
    archive_read_support_filter_xz(handle_.get());
    archive_read_support_filter_bzip2(handle_.get());
    archive_read_support_format_raw(handle_.get());
    archive_read_support_format_empty(handle_.get());
    input_.offset = 0;
    at_ = 0;
    archive_entry* entry = nullptr;
    if (archive_read_open(handle_.get(), &input_, nullptr, read_input, nullptr) != ARCHIVE_OK) return damaged();
    const int code = archive_read_next_header(handle_.get(), &entry);
    ended_ = code == ARCHIVE_EOF;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN && code != ARCHIVE_EOF) return damaged();
    return parsers::done();
  }
  Result<std::size_t> more(std::span<char> room) {
    if (ended_ || at_ >= kUnpackedBytes) return std::size_t{0};
    const la_ssize_t count = archive_read_data(handle_.get(), room.data(), room.size());
    if (count < 0) return damaged();
    at_ += static_cast<std::uint64_t>(count);
    ended_ = count == 0;
    return static_cast<std::size_t>(count);
  }
  Error damaged() {
    const char* const reason = archive_error_string(handle_.get());
    Error out = Error(ErrorCode::syntax, "a packed log is damaged or still being written").at(Place{path_, {}, {}, at_, {}}).because(reason ? reason : "unknown");
    handle_.reset();
    return out;
  }

  std::unique_ptr<OpenFile> file_;
  std::string path_;
  Input input_;
  std::unique_ptr<archive, Free> handle_;
  std::uint64_t at_ = 0, size_ = 0;      // of the unpacked bytes
  bool ended_ = false;
};

}  // namespace

Result<std::unique_ptr<OpenFile>> open_unpacked(FileSystem& files, const std::string& path) {
  TRIAGE_TRY(auto file, files.open(path));
  auto out = std::make_unique<Unpacked>(std::move(file), path);
  TRIAGE_CHECK(out->measure());
  return std::unique_ptr<OpenFile>(std::move(out));
}

Result<PackedStart> packed_start(OpenFile& unpacked, std::span<const Checkpoint> known) {
  std::vector<const Checkpoint*> order;
  for (const Checkpoint& checkpoint : known)
    if (checkpoint.check_bytes > 0 && checkpoint.offset > 0) order.push_back(&checkpoint);
  std::sort(order.begin(), order.end(), [](const Checkpoint* a, const Checkpoint* b) { return a->offset < b->offset; });
  PackedStart out;
  for (const Checkpoint* const checkpoint : order) {
    TRIAGE_TRY(const bool same, content_matches(unpacked, *checkpoint));
    if (same) out = {checkpoint->offset, checkpoint->lines};
  }
  return out;
}

}  // namespace triage::daemon
