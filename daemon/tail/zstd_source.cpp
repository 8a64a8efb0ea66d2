#include "daemon/tail/zstd_source.hpp"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>
#include <utility>

#include "daemon/tail/unpack_error.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kMagic = 4;
// A call of the library that ends in an error drops what it had put out before. So it gets its input in steps, each of which either puts
// something out or can fail: the frame's header, the header of a block, a block. It says how much it wants next, and adds the header of
// the next block to that.
constexpr std::size_t kFirstStep = 5, kBlockHeader = 3, kChecksum = 4;

bool begins_frame(std::string_view text) {
  // Bit 3 of the descriptor is reserved and zero.
  return text.size() > kMagic && text.starts_with("\x28\xb5\x2f\xfd") && (static_cast<unsigned char>(text[kMagic]) & 8) == 0;
}

}  // namespace

bool looks_zstd(std::string_view head) {
  if (head.size() < kMagic) return false;
  const bool skippable = (static_cast<unsigned char>(head[0]) & 0xf0) == 0x50 && head.substr(1).starts_with("\x2a\x4d\x18");
  return skippable || head.starts_with("\x28\xb5\x2f\xfd");
}

void ZstdSource::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

ZstdSource::ZstdSource(std::unique_ptr<ByteSource> packed, std::string name, Tell tell)
    : packed_(std::move(packed)), name_(std::move(name)), tell_(std::move(tell)), context_(ZSTD_createDCtx()) {
  if (!context_) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, parsers::limits::kZstdWindowLog);
}

ZstdSource::~ZstdSource() = default;

Result<std::size_t> ZstdSource::read(std::span<char> room) {
  std::size_t count = 0;
  while (count < room.size() && at_ != At::end) {
    if (at_ == At::between)
      begin_frame();
    else
      count += decode(room.subspan(count));
  }
  if (count == 0 && packed_.fault()) return *packed_.fault();
  return count;
}

// Behind a damage: the next frame, if there is one.
void ZstdSource::resume() {
  const std::uint64_t damage = packed_.offset();
  if (!packed_.find(frame_at_ + kMagic, kMagic + 1, begins_frame)) {
    at_ = At::end;
    return;
  }
  if (packed_.offset() > damage) tell_(resumed_error(name_, damage, packed_.offset()), Weight::loss);
  at_ = At::between;
}

void ZstdSource::begin_frame() {
  if (packed_.offset() > 0) packed_.skip_zeros();
  frame_at_ = packed_.offset();
  (void)packed_.want(kMagic);
  const std::string_view head = packed_.rest();
  if (head.empty()) {
    at_ = At::end;
    return;
  }
  if (!looks_zstd(head)) {
    const bool found = packed_.find(frame_at_, kMagic + 1, begins_frame);
    if (packed_.fault()) {
      at_ = At::end;
      return;
    }
    tell_(Error(ErrorCode::syntax, "bytes that are not zstd stand behind the packed data")
              .at(Place{name_, {}, {}, frame_at_, {}})
              .because(std::to_string(packed_.offset() - frame_at_) + " bytes, " + (found ? "then another zstd frame" : "up to the end of the file"))
              .help("they were left out; the " + std::to_string(given_) + " bytes unpacked before them were judged"),
          Weight::loss);
    at_ = found ? At::between : At::end;
    return;
  }
  ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only);
  step_ = kFirstStep;
  flushing_ = false;
  at_ = At::frame;
}

std::size_t ZstdSource::decode(std::span<char> room) {
  const std::string_view input = packed_.rest();
  ZSTD_inBuffer in{input.data(), flushing_ ? 0 : std::min(input.size(), step_), 0};   // a call that puts out what is left may not fail either
  ZSTD_outBuffer out{room.data(), room.size(), 0};
  const std::size_t code = ZSTD_decompressStream(context_.get(), &out, &in);
  packed_.use(in.pos);
  given_ += out.pos;
  flushing_ = out.pos == out.size;
  if (ZSTD_isError(code)) {
    flushing_ = false;
    switch (ZSTD_getErrorCode(code)) {
      case ZSTD_error_frameParameter_windowTooLarge:
        tell_(Error(ErrorCode::limit, "a packed file wants a window of more than " + std::to_string(1U << (parsers::limits::kZstdWindowLog - 20)) + " MiB of memory")
                  .at(Place{name_, {}, {}, frame_at_, {}})
                  .help("it was packed with --long; unpack it before the pipe: zstd -dc --long=31 FILE | triage scan -"),
              Weight::loss);
        break;
      case ZSTD_error_dictionary_wrong:
        tell_(Error(ErrorCode::unsupported, "a packed file cannot be read without the dictionary that it was packed with")
                  .at(Place{name_, {}, {}, frame_at_, {}})
                  .help("unpack it before the pipe: zstd -dc -D DICTIONARY FILE | triage scan -"),
              Weight::loss);
        break;
      case ZSTD_error_checksum_wrong:
        tell_(Error(ErrorCode::syntax, "unpacked bytes do not match their checksum")
                  .at(Place{name_, {}, {}, packed_.offset(), {}})
                  .because("a bit of the packed file was changed, or a part of it was replaced")
                  .help("they were still judged; lines of the " + std::to_string(given_) + " bytes before it may be wrong"),
              Weight::loss);
        break;
      case ZSTD_error_memory_allocation: throw std::bad_alloc();
      default: tell_(damage_error(name_, packed_.offset(), ZSTD_getErrorName(code), given_), Weight::loss);
    }
    resume();
    return out.pos;
  }
  step_ = code > kChecksum ? code - kBlockHeader : std::max<std::size_t>(code, 1);
  if (code == 0) {
    at_ = At::between;
  } else if (out.pos < out.size && packed_.rest().empty() && !packed_.more()) {
    at_ = At::end;
    if (!packed_.fault()) tell_(cut_error(name_, packed_.offset(), "the end of the zstd data is missing", given_), Weight::loss);
  }
  return out.pos;
}

}  // namespace triage::daemon
