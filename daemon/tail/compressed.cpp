#include "daemon/tail/compressed.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "daemon/tail/file_identity.hpp"
#include "daemon/tail/gzip_source.hpp"
#include "daemon/tail/peeked_source.hpp"
#include "daemon/tail/rotated_name.hpp"
#include "daemon/tail/unpack_error.hpp"
#include "daemon/tail/zstd_source.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kPortion = 1 << 17;
constexpr std::size_t kHead = 16;                  // bytes that tell the packer
constexpr std::size_t kMeasured = 10'000;
constexpr std::chrono::seconds kPacking{120};      // a packed file that ends too early and was changed since then is still being written

// The packed bytes, from the beginning.
class Packed final : public ByteSource {
 public:
  explicit Packed(OpenFile& file) : file_(file) {}
  Result<std::size_t> read(std::span<char> room) override {
    TRIAGE_TRY(const std::size_t count, file_.read(offset_, room));
    offset_ += count;
    return count;
  }

 private:
  OpenFile& file_;
  std::uint64_t offset_ = 0;
};

// xz and bzip2 through libarchive. No error crosses it but as a number.
class ArchiveSource final : public ByteSource {
 public:
  ArchiveSource(std::unique_ptr<ByteSource> packed, std::string name, Tell tell) : packed_(std::move(packed)), name_(std::move(name)), tell_(std::move(tell)) {
    archive_read_support_filter_xz(handle_.get());
    archive_read_support_filter_bzip2(handle_.get());
    archive_read_support_format_raw(handle_.get());
  }
  Result<std::size_t> read(std::span<char> room) override {
    if (!std::exchange(begun_, true)) {
      archive_entry* entry = nullptr;
      if (archive_read_open(handle_.get(), this, nullptr, read_packed, nullptr) != ARCHIVE_OK || archive_read_next_header(handle_.get(), &entry) < ARCHIVE_WARN) return end();
    }
    if (ended_) return std::size_t{0};
    const la_ssize_t count = archive_read_data(handle_.get(), room.data(), room.size());
    if (count < 0) return end();
    given_ += static_cast<std::uint64_t>(count);
    ended_ = count == 0;
    return static_cast<std::size_t>(count);
  }

 private:
  struct Free {
    void operator()(archive* handle) const { archive_read_free(handle); }
  };
  static la_ssize_t read_packed(archive*, void* context, const void** out) {
    auto* const self = static_cast<ArchiveSource*>(context);
    auto count = self->packed_->read(self->room_);
    if (!count.ok()) {
      self->error_ = std::move(count).error();
      return -1;
    }
    *out = self->room_.data();
    return static_cast<la_ssize_t>(*count);
  }
  Result<std::size_t> end() {
    ended_ = true;
    if (error_) return *std::exchange(error_, std::nullopt);
    const char* const reason = archive_error_string(handle_.get());
    tell_(damage_error(name_, static_cast<std::uint64_t>(std::max<la_int64_t>(archive_filter_bytes(handle_.get(), -1), 0)), reason ? reason : "unknown", given_), Weight::loss);
    return std::size_t{0};
  }

  std::unique_ptr<ByteSource> packed_;
  std::string name_;
  Tell tell_;
  std::unique_ptr<archive, Free> handle_{archive_read_new()};
  std::optional<Error> error_;           // of reading the packed bytes
  std::vector<char> room_ = std::vector<char>(kPortion);
  std::uint64_t given_ = 0;
  bool begun_ = false, ended_ = false;
};

std::unique_ptr<ByteSource> unpacking(std::unique_ptr<PeekedSource> packed, const std::string& name, const Tell& tell) {
  const std::string_view head = packed->peek(kHead);
  if (looks_gzip(head)) return std::make_unique<GzipSource>(std::move(packed), name, tell);
  if (looks_zstd(head)) return std::make_unique<ZstdSource>(std::move(packed), name, tell);
  if (head.starts_with("\xfd" "7zXZ") || head.starts_with("BZh")) return std::make_unique<ArchiveSource>(std::move(packed), name, tell);
  return packed;                         // a plain file under such a name
}

class Unpacked final : public OpenFile {
 public:
  Unpacked(std::unique_ptr<OpenFile> file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  // Unpacks all to learn the size. Returns the first damage, if there is one: what can be read of the file is read all the same.
  Result<std::optional<Error>> measure() {
    std::vector<char> room(kPortion);
    std::uint64_t size = 0;
    for (;;) {
      TRIAGE_TRY(const std::size_t count, read(size, room));
      if (count == 0) break;
      size += count;
    }
    size_ = size;
    return damage_;
  }

  Result<FileInfo> info() override {
    TRIAGE_TRY(FileInfo out, file_->info());
    out.size = size_;
    return out;
  }

  Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
    if (!source_ || offset < at_) restart();
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
  void restart() {
    damage_.reset();
    at_ = 0;
    const Tell tell = [this](Error error, Weight weight) {
      if (weight == Weight::loss && !damage_) damage_ = std::move(error);
    };
    source_ = unpacking(std::make_unique<PeekedSource>(std::make_unique<Packed>(*file_)), path_, tell);
  }
  Result<std::size_t> more(std::span<char> room) {
    if (at_ >= kUnpackedBytes) return std::size_t{0};
    auto count = source_->read(room);
    if (!count.ok()) {
      source_.reset();
      return std::move(count).error();
    }
    at_ += *count;
    return *count;
  }

  std::unique_ptr<OpenFile> file_;
  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::optional<Error> damage_;
  std::uint64_t at_ = 0, size_ = 0;      // of the unpacked bytes
};

struct Opened {
  std::unique_ptr<Unpacked> file;
  std::optional<Error> damage;
};

Result<Opened> open_and_measure(FileSystem& files, const std::string& path) {
  TRIAGE_TRY(auto file, files.open(path));
  Opened out{std::make_unique<Unpacked>(std::move(file), path), {}};
  TRIAGE_TRY(out.damage, out.file->measure());
  return out;
}

}  // namespace

Result<std::unique_ptr<OpenFile>> open_unpacked(FileSystem& files, const std::string& path) {
  TRIAGE_TRY(Opened opened, open_and_measure(files, path));
  if (opened.damage) return *std::move(opened.damage);
  return std::unique_ptr<OpenFile>(std::move(opened.file));
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

Result<std::optional<Checkpoint>> packed_checkpoint(UnpackingFileSystem& files, const std::string& path, std::span<const Checkpoint> known) {
  TRIAGE_TRY(const auto file, files.open(path));
  TRIAGE_TRY(const PackedStart start, packed_start(*file, known));
  if (start.offset == 0) return std::optional<Checkpoint>();
  TRIAGE_TRY(const FileInfo info, file->info());
  Checkpoint out;
  for (const Checkpoint& one : known)
    if (one.offset == start.offset && one.lines == start.lines) out = one;   // its check is that of the unpacked bytes
  out.device = info.device;
  out.inode = info.inode;
  out.size = info.size;
  return std::optional<Checkpoint>(out);
}

Result<std::unique_ptr<OpenFile>> UnpackingFileSystem::open_settled(const std::string& path) {
  TRIAGE_TRY(Opened opened, open_and_measure(inner_, path));
  if (!opened.damage) return std::unique_ptr<OpenFile>(std::move(opened.file));
  TRIAGE_TRY(const FileInfo info, opened.file->info());
  const auto changed = parsers::TimePoint(std::chrono::duration_cast<parsers::TimePoint::duration>(std::chrono::nanoseconds(info.changed_ns)));
  if (clock_() - changed < kPacking) return *std::move(opened.damage);
  const std::lock_guard lock(mutex_);
  if (damages_.size() >= kMeasured) damages_.clear();
  damages_.try_emplace(path, std::move(opened.damage));
  return std::unique_ptr<OpenFile>(std::move(opened.file));
}

std::optional<Error> UnpackingFileSystem::take_damage(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = damages_.find(path);
  return it == damages_.end() ? std::nullopt : std::exchange(it->second, std::nullopt);
}

Result<FileInfo> UnpackingFileSystem::info(const std::string& path, bool follow) {
  TRIAGE_TRY(FileInfo info, inner_.info(path, follow));
  if (info.kind != FileKind::file || !has_packed_ending(path)) return info;
  {
    const std::lock_guard lock(mutex_);
    const auto it = measured_.find(path);
    if (it != measured_.end() && it->second.packed.inode == info.inode && it->second.packed.size == info.size && it->second.packed.changed_ns == info.changed_ns) {
      info.size = it->second.size;
      return info;
    }
  }
  TRIAGE_TRY(const auto file, open_settled(path));
  TRIAGE_TRY(const FileInfo unpacked, file->info());
  const std::lock_guard lock(mutex_);
  if (measured_.size() >= kMeasured) measured_.clear();
  measured_[path] = {info, unpacked.size};
  return unpacked;
}

Result<std::unique_ptr<OpenFile>> UnpackingFileSystem::open(const std::string& path) {
  return has_packed_ending(path) ? open_settled(path) : inner_.open(path);
}

}  // namespace triage::daemon
