// Packed files through libarchive: it knows the formats, we keep the bounds.
#include <archive.h>
#include <archive_entry.h>

#include <memory>

#include "daemon/tail/input.hpp"
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

Error broken(archive* handle, const std::string& name, std::uint64_t offset) {
  const char* reason = archive_error_string(handle);
  return Error(ErrorCode::syntax, "the packed file breaks off or is damaged")
      .at(Place{name, {}, {}, offset, {}})
      .because(reason ? reason : "unknown")
      .help(offset > 0 ? "what stood before that was still judged"
                       : "nothing of it could be read; zcat (zstdcat, tar) may give more of it: zcat FILE | triage scan -");
}

class MemberSource : public ByteSource {
 public:
  MemberSource(archive* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  Result<std::size_t> read(std::span<char> room) override {
    const la_ssize_t count = archive_read_data(handle_, room.data(), room.size());
    if (count < 0) return broken(handle_, name_, offset_);
    offset_ += static_cast<std::uint64_t>(count);
    return static_cast<std::size_t>(count);
  }

 private:
  archive* handle_;
  std::string name_;
  std::uint64_t offset_ = 0;
};

}  // namespace

parsers::Status for_each_member(const std::string& path, const std::function<void(const std::string&, ByteSource&)>& visit) {
  const Handle handle(archive_read_new());
  archive_read_support_filter_gzip(handle.get());
  archive_read_support_filter_zstd(handle.get());
  archive_read_support_filter_xz(handle.get());
  archive_read_support_filter_bzip2(handle.get());
  archive_read_support_format_tar(handle.get());
  archive_read_support_format_zip(handle.get());
  archive_read_support_format_raw(handle.get());
  archive_read_support_format_empty(handle.get());
  if (archive_read_open_filename(handle.get(), path.c_str(), 1 << 17) != ARCHIVE_OK) return broken(handle.get(), path, 0);
  for (std::size_t members = 0;; ++members) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(handle.get(), &entry);
    if (code == ARCHIVE_EOF) return parsers::done();
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN)
      return broken(handle.get(), path, static_cast<std::uint64_t>(archive_filter_bytes(handle.get(), -1)));
    if (members == parsers::limits::kArchiveMembers)
      return Error(ErrorCode::limit, "the archive has more than " + std::to_string(members) + " members")
          .at(Place{path, {}, {}, {}, {}})
          .help("the first ones were judged; unpack it and give the folder");
    const bool single = archive_format(handle.get()) == ARCHIVE_FORMAT_RAW;
    if (!single && archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* member = archive_entry_pathname(entry);
    const std::string name = single ? path : path + "!" + parsers::repair_utf8(member ? member : "?");
    MemberSource source(handle.get(), name);
    visit(name, source);
  }
}

}  // namespace triage::daemon
