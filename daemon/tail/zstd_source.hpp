// Bytes out of zstd (RFC 8878), a frame at a time. All blocks that can be decoded are given, whatever is wrong behind them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/tail/byte_source.hpp"
#include "daemon/tail/packed_bytes.hpp"

struct ZSTD_DCtx_s;

namespace triage::daemon {

// Does a frame begin here, or one that decoders skip (pzstd begins with one)? 4 bytes are needed.
bool looks_zstd(std::string_view head);

// Frames that follow each other are one stream. A frame that is cut or damaged, or that wants a window larger than
// limits::kZstdWindowLog, is told, and the next one is looked for. Zeros behind the last frame are padding; anything else is told.
// read() gives the errors of the inner source only.
class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> packed, std::string name, Tell tell);
  ~ZstdSource() override;
  parsers::Result<std::size_t> read(std::span<char> room) override;

 private:
  void begin_frame();
  std::size_t decode(std::span<char> room);
  void resume();

  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  PackedBytes packed_;
  std::string name_;
  Tell tell_;
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
  enum class At { between, frame, end } at_ = At::between;
  std::size_t step_ = 0;                 // bytes for the next call of the library
  bool flushing_ = false;                // the last call filled the room: there may be more without input
  std::uint64_t frame_at_ = 0;           // offset of the frame
  std::uint64_t given_ = 0;
};

}  // namespace triage::daemon
