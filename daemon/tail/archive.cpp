#include "daemon/tail/archive.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/tail/unpack_error.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

struct Free {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using Handle = std::unique_ptr<archive, Free>;

// What libarchive reads from. It calls back in C, so nothing may be thrown.
struct Below {
  ByteSource& bytes;
  std::vector<char> room = std::vector<char>(1 << 18);
  std::optional<Error> fault;
  std::uint64_t offset = 0;
};

la_ssize_t read_below(archive* handle, void* data, const void** buffer) {
  Below& below = *static_cast<Below*>(data);
  *buffer = below.room.data();
  try {
    auto count = below.bytes.read(below.room);
    if (count.ok()) {
      below.offset += *count;
      return static_cast<la_ssize_t>(*count);
    }
    below.fault = std::move(count).error();
    archive_set_error(handle, EIO, "%s", below.fault->reason().c_str());
  } catch (...) {
    archive_set_error(handle, ENOMEM, "there is not enough memory");
  }
  return -1;
}

la_int64_t seek_below(archive*, void* data, la_int64_t offset, int whence) {
  Below& below = *static_cast<Below*>(data);
  const auto size = static_cast<la_int64_t>(below.bytes.seekable_size());
  const la_int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_END ? size : static_cast<la_int64_t>(below.offset);
  la_int64_t to = 0;
  if (__builtin_add_overflow(from, offset, &to) || to < 0 || !below.bytes.seek(static_cast<std::uint64_t>(to))) return ARCHIVE_FATAL;
  below.offset = static_cast<std::uint64_t>(to);
  return to;
}

std::string reason_of(archive* handle) {
  const char* reason = archive_error_string(handle);
  return reason ? reason : "unknown";
}

Error damaged_archive_error(const std::string& name, std::uint64_t offset, std::string reason, std::size_t members) {
  return Error(ErrorCode::syntax, "the archive breaks off or is damaged")
      .at(Place{name, {}, {}, offset, {}})
      .because(std::move(reason))
      .help(members > 0 ? "the " + std::to_string(members) + " members before that were still judged" : "nothing of it could be read");
}

// The bytes of one member. Holes of a sparse one are zeros, as long as the archive's budget of them lasts.
class MemberSource final : public ByteSource {
 public:
  MemberSource(archive* handle, Below& below, std::string name, std::uint64_t& holes) : handle_(handle), below_(below), name_(std::move(name)), holes_(holes) {}

  Result<std::size_t> read(std::span<char> room) override {
    for (;;) {
      if (hole_ > 0) {
        const std::size_t count = std::min<std::uint64_t>(room.size(), hole_);
        std::memset(room.data(), 0, count);
        hole_ -= count;
        given_ += count;
        return count;
      }
      if (!rest_.empty()) {
        const std::size_t count = std::min(room.size(), rest_.size());
        std::memcpy(room.data(), rest_.data(), count);
        rest_.remove_prefix(count);
        given_ += count;
        return count;
      }
      if (ended_) return std::size_t{0};
      TRIAGE_CHECK(next());
    }
  }

 private:
  parsers::Status next() {
    const void* data = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int code = archive_read_data_block(handle_, &data, &size, &offset);
    if (code != ARCHIVE_OK && code != ARCHIVE_EOF && code != ARCHIVE_WARN) {
      if (below_.fault) return *below_.fault;
      return cut_error(name_, given_, reason_of(handle_), given_);
    }
    ended_ = code == ARCHIVE_EOF;
    rest_ = ended_ ? std::string_view() : std::string_view(static_cast<const char*>(data), size);
    const auto at = static_cast<std::uint64_t>(std::max<la_int64_t>(offset, 0));
    if (at <= at_) {
      at_ += rest_.size();
      return parsers::done();
    }
    const std::uint64_t hole = at - at_;
    if (hole > parsers::limits::kHoleBytes - holes_) {
      ended_ = true;
      rest_ = {};
      return Error(ErrorCode::limit, "the holes of sparse files in an archive come to more than " + std::to_string(parsers::limits::kHoleBytes) + " bytes")
          .at(Place{name_, {}, {}, at_, {}})
          .help("what stood before that was judged; unpack it and give the folder");
    }
    holes_ += hole;
    hole_ = hole;
    at_ = at + rest_.size();
    return parsers::done();
  }

  archive* handle_;
  Below& below_;
  std::string name_;
  std::uint64_t& holes_;
  std::string_view rest_;                // of libarchive's block
  std::uint64_t hole_ = 0;               // zeros that come before rest_
  std::uint64_t at_ = 0;                 // offset in the member behind rest_
  std::uint64_t given_ = 0;
  bool ended_ = false;
};

// UTF-8 where the archive says what its names are in, else the bytes as they stand.
std::string member_name(archive_entry* entry) {
  const char* name = archive_entry_pathname_utf8(entry);
  if (!name) name = archive_entry_pathname(entry);
  return parsers::repair_utf8(name ? name : "?");
}

// A tar header holds the sum of its bytes, with its own field as blanks; old writers took the bytes as signed.
bool tar_header(std::string_view head) {
  constexpr std::size_t kField = 148, kFieldSize = 8, kHeader = 512;
  if (head.size() < kHeader || head[0] == '\0') return false;
  long plain = 0, with_sign = 0, stated = 0;
  bool digits = false, over = false;
  for (std::size_t i = 0; i < kHeader; ++i) {
    const bool field = i >= kField && i < kField + kFieldSize;
    plain += field ? ' ' : static_cast<unsigned char>(head[i]);
    with_sign += field ? ' ' : static_cast<signed char>(head[i]);
    if (!field || over) continue;
    if (head[i] >= '0' && head[i] <= '7') {
      stated = stated * 8 + (head[i] - '0');
      digits = true;
    } else if (head[i] == ' ' || head[i] == '\0') {
      over = digits;
    } else {
      return false;
    }
  }
  return digits && (stated == plain || stated == with_sign);
}

}  // namespace

ArchiveKind archive_kind(std::string_view head) {
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06")) return ArchiveKind::zip;
  if (head.starts_with("\xfd" "7zXZ") || (head.starts_with("BZh") && head.size() >= 10 && head.substr(4, 6) == "\x31\x41\x59\x26\x53\x59"))
    return ArchiveKind::compressed;
  return tar_header(head) ? ArchiveKind::tar : ArchiveKind::none;
}

bool for_each_archive_member(ByteSource& bytes, ArchiveKind kind, const std::string& name, const Tell& tell, const std::function<bool()>& quiet,
                             const std::function<void(const std::string&, std::unique_ptr<ByteSource>)>& visit) {
  const Handle handle(archive_read_new());
  if (!handle) throw std::bad_alloc();
  Below below{bytes, {}, {}, 0};
  below.room.resize(1 << 18);
  archive* const reader = handle.get();
  if (kind == ArchiveKind::compressed) {
    archive_read_support_filter_xz(reader);
    archive_read_support_filter_bzip2(reader);
    archive_read_support_format_raw(reader);
  }
  if (kind == ArchiveKind::zip) archive_read_support_format_zip(reader);
  if (kind == ArchiveKind::tar || kind == ArchiveKind::compressed) archive_read_support_format_tar(reader);
  if (kind == ArchiveKind::tar) archive_read_set_option(reader, "tar", "read_concatenated_archives", "1");
  archive_read_set_read_callback(reader, read_below);
  if (bytes.seekable_size() > 0) archive_read_set_seek_callback(reader, seek_below);
  archive_read_set_callback_data(reader, &below);
  std::size_t members = 0;
  const auto broken = [&] {
    if (below.fault)
      tell(*below.fault, Weight::loss);
    else if (!quiet())
      tell(damaged_archive_error(name, below.offset, reason_of(reader), members), Weight::loss);
    return false;
  };
  if (archive_read_open1(reader) != ARCHIVE_OK) return broken();
  std::uint64_t holes = 0;
  for (;; ++members) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(reader, &entry);
    if (code == ARCHIVE_EOF) return true;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) return broken();
    if (members == parsers::limits::kArchiveMembers) {
      tell(Error(ErrorCode::limit, "the archive has more than " + std::to_string(members) + " members")
               .at(Place{name, {}, {}, {}, {}})
               .help("the first ones were judged; unpack it and give the folder"),
           Weight::loss);
      return false;
    }
    const bool single = archive_format(reader) == ARCHIVE_FORMAT_RAW;
    if (!single && archive_entry_filetype(entry) != AE_IFREG) continue;
    const std::string member = single ? std::string() : member_name(entry);
    visit(member, std::make_unique<MemberSource>(reader, below, single ? name : name + "!" + member, holes));
  }
}

}  // namespace triage::daemon
