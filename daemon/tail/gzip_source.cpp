#include "daemon/tail/gzip_source.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "daemon/tail/unpack_error.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

// RFC 1952, 2.3.
constexpr std::size_t kHeader = 10, kTrailer = 8;
constexpr unsigned kHeaderChecksum = 2, kExtra = 4, kName = 8, kComment = 16, kReserved = 0xe0;

unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }
std::uint32_t little_endian(std::string_view text, std::size_t at) {
  return byte_at(text, at) | byte_at(text, at + 1) << 8 | byte_at(text, at + 2) << 16 | byte_at(text, at + 3) << 24;
}

// Stricter than looks_gzip, for a search in the midst of other bytes: the fields that writers leave at few values hold one of those.
bool begins_member(std::string_view text) {
  if (text.size() < kHeader || text[0] != '\x1f' || !looks_gzip(text)) return false;
  const unsigned extra_flags = byte_at(text, 8), system = byte_at(text, 9);
  return (extra_flags == 0 || extra_flags == 2 || extra_flags == 4) && (system <= 13 || system == 255);
}

}  // namespace

bool looks_gzip(std::string_view head) {
  return head.starts_with("\x1f\x8b") && (head.size() < 3 || head[2] == 8) && (head.size() < 4 || (byte_at(head, 3) & kReserved) == 0);
}

GzipSource::GzipSource(std::unique_ptr<ByteSource> packed, std::string name, Tell tell)
    : packed_(std::move(packed)), name_(std::move(name)), tell_(std::move(tell)) {
  if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  ready_ = true;
}

GzipSource::~GzipSource() {
  if (ready_) inflateEnd(&stream_);
}

Result<std::size_t> GzipSource::read(std::span<char> room) {
  std::size_t count = 0;
  while (count < room.size() && at_ != At::end) {
    switch (at_) {
      case At::header: header(); break;
      case At::body: count += body(room.subspan(count)); break;
      case At::trailer: trailer(); break;
      case At::end: break;
    }
  }
  if (count == 0 && packed_.fault()) return *packed_.fault();
  return count;
}

void GzipSource::cut(const char* reason) {
  at_ = At::end;
  if (!packed_.fault()) tell_(cut_error(name_, packed_.offset() + packed_.rest().size(), reason, given_), Weight::loss);
}

// Behind a damage: the next member, if there is one.
void GzipSource::resume(std::uint64_t from) {
  const std::uint64_t damage = packed_.offset();
  if (!packed_.find(from, kHeader, begins_member)) {
    at_ = At::end;
    return;
  }
  if (packed_.offset() > damage) tell_(resumed_error(name_, damage, packed_.offset()), Weight::loss);
  at_ = At::header;
}

void GzipSource::header() {
  const bool first = packed_.offset() == 0;
  if (!first) packed_.skip_zeros();
  member_at_ = packed_.offset();
  const bool whole = packed_.want(kHeader);
  const std::string_view head = packed_.rest();
  if (head.empty()) {
    at_ = At::end;
    return;
  }
  if (!looks_gzip(head)) {
    // Other tools leave out such bytes in silence or stop; here another member may stand behind them.
    const std::uint64_t begin = packed_.offset();
    const bool found = packed_.find(begin, kHeader, begins_member);
    if (packed_.fault()) {
      at_ = At::end;
      return;
    }
    tell_(Error(ErrorCode::syntax, "bytes that are not gzip stand behind the packed data")
              .at(Place{name_, {}, {}, begin, {}})
              .because(std::to_string(packed_.offset() - begin) + " bytes, " + (found ? "then another gzip member" : "up to the end of the file"))
              .help("they were left out; the " + std::to_string(given_) + " bytes unpacked before them were judged"),
          Weight::loss);
    at_ = found ? At::header : At::end;
    return;
  }
  if (!whole) return cut("the header of a gzip member is not complete");
  const unsigned flags = byte_at(head, 3);
  packed_.use(kHeader);
  if (flags & kExtra) {
    if (!packed_.want(2)) return cut("the header of a gzip member is not complete");
    const std::size_t length = byte_at(packed_.rest(), 0) | byte_at(packed_.rest(), 1) << 8;
    packed_.use(2);
    if (!packed_.want(length)) return cut("the header of a gzip member is not complete");
    packed_.use(length);
  }
  if (((flags & kName) && !skip_text()) || ((flags & kComment) && !skip_text())) return cut("the header of a gzip member is not complete");
  if (flags & kHeaderChecksum) {
    if (!packed_.want(2)) return cut("the header of a gzip member is not complete");
    packed_.use(2);
  }
  inflateReset(&stream_);
  checksum_ = crc32(0, nullptr, 0);
  member_given_ = 0;
  at_ = At::body;
}

// A text that ends in a zero, of any length.
bool GzipSource::skip_text() {
  for (;;) {
    const std::size_t end = packed_.rest().find('\0');
    if (end != std::string_view::npos) {
      packed_.use(end + 1);
      return true;
    }
    packed_.use(packed_.rest().size());
    if (!packed_.more()) return false;
  }
}

// A member that was cut may be followed by another one, whose bytes were taken for its own: deflate often does not notice.
void GzipSource::end_in_body() {
  if (packed_.fault() || !packed_.find(member_at_ + kHeader, kHeader, begins_member)) return cut("the end of the gzip data is missing");
  tell_(damage_error(name_, packed_.offset(), "a gzip member is not complete, another one begins there", given_), Weight::loss);
  at_ = At::header;
}

std::size_t GzipSource::body(std::span<char> room) {
  constexpr std::size_t kMost = 1U << 30;   // zlib counts in unsigned int
  const std::string_view input = packed_.rest();
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  stream_.avail_in = static_cast<uInt>(std::min(input.size(), kMost));
  stream_.next_out = reinterpret_cast<Bytef*>(room.data());
  stream_.avail_out = static_cast<uInt>(std::min(room.size(), kMost));
  const uInt in = stream_.avail_in, out = stream_.avail_out;
  const int code = inflate(&stream_, Z_NO_FLUSH);
  packed_.use(in - stream_.avail_in);
  const std::size_t count = out - stream_.avail_out;
  checksum_ = crc32_z(checksum_, reinterpret_cast<const Bytef*>(room.data()), count);
  member_given_ += count;
  given_ += count;
  if (code == Z_STREAM_END) {
    at_ = At::trailer;
  } else if (code == Z_OK || code == Z_BUF_ERROR) {
    if (stream_.avail_out > 0 && packed_.rest().empty() && !packed_.more()) end_in_body();
  } else {
    tell_(damage_error(name_, packed_.offset(), stream_.msg ? stream_.msg : "inflate failed", given_), Weight::loss);
    resume(member_at_ + kHeader);
  }
  return count;
}

void GzipSource::trailer() {
  if (!packed_.want(kTrailer)) return cut("the checksum at the end of the gzip data is missing");
  const std::string_view trailer = packed_.rest().substr(0, kTrailer);
  if (little_endian(trailer, 0) != static_cast<std::uint32_t>(checksum_) || little_endian(trailer, 4) != static_cast<std::uint32_t>(member_given_))
    tell_(Error(ErrorCode::syntax, "unpacked bytes do not match their checksum")
              .at(Place{name_, {}, {}, packed_.offset(), {}})
              .because("a bit of the packed file was changed, or a part of it was replaced")
              .help("they were still judged; lines of the " + std::to_string(member_given_) + " bytes before it may be wrong"),
          Weight::loss);
  packed_.use(kTrailer);
  at_ = At::header;
}

}  // namespace triage::daemon
