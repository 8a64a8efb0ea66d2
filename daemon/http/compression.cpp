#include "daemon/http/compression.hpp"

#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "parsers/base/text.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

constexpr std::size_t kStep = 64 * 1024;

Error too_large(std::size_t limit) {
  return Error(ErrorCode::limit, "the body is larger than " + std::to_string(limit) + " bytes when it is unpacked")
      .help("send smaller batches");
}

Error broken(std::string_view coding, std::string why) {
  return Error(ErrorCode::syntax, "the body is not valid " + std::string(coding)).because(std::move(why));
}

// window: 15 + 16 for gzip, 15 for zlib, -15 for bare deflate.
Result<std::string> inflate_all(std::string_view bytes, int window, std::size_t limit) {
  z_stream stream = {};
  if (inflateInit2(&stream, window) != Z_OK) return Error(ErrorCode::internal, "zlib could not start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  std::size_t left = bytes.size();
  std::string out;
  const char* name = window > 15 ? "gzip" : "deflate";
  for (;;) {
    if (stream.avail_in == 0 && left > 0) {
      stream.avail_in = static_cast<uInt>(std::min<std::size_t>(left, 1U << 30));
      left -= stream.avail_in;
    }
    const std::size_t had = out.size();
    const std::size_t room = std::min(std::max(kStep, had / 2), limit - had + 1);
    out.resize(had + room);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream.avail_out = static_cast<uInt>(room);
    const int state = inflate(&stream, Z_NO_FLUSH);
    out.resize(had + room - stream.avail_out);
    if (out.size() > limit) return too_large(limit);
    if (state == Z_STREAM_END) {
      if (stream.avail_in == 0 && left == 0) return out;
      if (window <= 15) return broken(name, "bytes follow its end at byte " + std::to_string(stream.total_in));
      if (inflateReset(&stream) != Z_OK) return broken(name, "its second member cannot be read");
      continue;
    }
    if (state == Z_BUF_ERROR || (state == Z_OK && stream.avail_in == 0 && left == 0 && stream.avail_out > 0))
      return broken(name, "it breaks off after " + std::to_string(bytes.size()) + " bytes");
    if (state != Z_OK) return broken(name, (stream.msg ? std::string(stream.msg) : "damaged data") + " at byte " + std::to_string(stream.total_in));
  }
}

Result<std::string> unpack_zstd(std::string_view bytes, std::size_t limit) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) return Error(ErrorCode::internal, "zstd could not start");
  // The window is memory that the header asks for: 8 MiB is what shippers' levels use at most.
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, 23);
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  std::string out;
  std::size_t state = 1;
  while (in.pos < in.size || state != 0) {
    const std::size_t had = out.size();
    const std::size_t room = std::min(std::max(kStep, had / 2), limit - had + 1);
    out.resize(had + room);
    ZSTD_outBuffer to = {out.data() + had, room, 0};
    const std::size_t before = in.pos;
    state = ZSTD_decompressStream(context.get(), &to, &in);
    out.resize(had + to.pos);
    if (ZSTD_isError(state)) return broken("zstd", std::string(ZSTD_getErrorName(state)) + " at byte " + std::to_string(in.pos));
    if (out.size() > limit) return too_large(limit);
    if (state != 0 && in.pos == in.size && before == in.pos && to.pos == 0) return broken("zstd", "it breaks off after " + std::to_string(bytes.size()) + " bytes");
  }
  return out;
}

Result<std::string> unpack_snappy(std::string_view bytes, std::size_t limit) {
  std::size_t size = 0;
  if (!snappy::GetUncompressedLength(bytes.data(), bytes.size(), &size)) return broken("snappy", "its length cannot be read");
  if (size > limit) return too_large(limit);
  // A block grows at most some 21 times (a copy of 64 bytes takes 3): a larger length is a lie, and no memory is given for it.
  if (size > 64 + bytes.size() * 32) return broken("snappy", "its length does not go with its size");
  std::string out(size, '\0');
  if (!snappy::RawUncompress(bytes.data(), bytes.size(), out.data())) return broken("snappy", "its data is damaged");
  return out;
}

}  // namespace

std::string gzip(std::string_view bytes, int level) {
  z_stream stream = {};
  if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int state = deflate(&stream, Z_FINISH);
  out.resize(state == Z_STREAM_END ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

std::optional<Coding> read_coding(std::string_view text) {
  text = parsers::trim(text);
  const auto is = [text](std::string_view name) { return parsers::equal_ignoring_case(text, name); };
  if (text.empty() || is("identity")) return Coding::identity;
  if (is("gzip") || is("x-gzip")) return Coding::gzip;
  if (is("deflate")) return Coding::deflate;
  if (is("zstd")) return Coding::zstd;
  if (is("snappy")) return Coding::snappy;
  return std::nullopt;
}

Result<std::string> unpack(Coding coding, std::string_view bytes, std::size_t limit) {
  switch (coding) {
    case Coding::identity:
      if (bytes.size() > limit) return too_large(limit);
      return std::string(bytes);
    case Coding::gzip: return inflate_all(bytes, 15 + 16, limit);
    case Coding::deflate: {
      // "deflate" means zlib's form, but some programs send the bare one; the first two bytes tell.
      const bool zlib_form = bytes.size() >= 2 && (static_cast<unsigned char>(bytes[0]) & 15) == 8 &&
                             (static_cast<unsigned>(static_cast<unsigned char>(bytes[0])) * 256 + static_cast<unsigned char>(bytes[1])) % 31 == 0;
      return inflate_all(bytes, zlib_form ? 15 : -15, limit);
    }
    case Coding::zstd: return unpack_zstd(bytes, limit);
    case Coding::snappy: return unpack_snappy(bytes, limit);
  }
  return Error(ErrorCode::unsupported, "the coding is not known");
}

}  // namespace triage::daemon::api
