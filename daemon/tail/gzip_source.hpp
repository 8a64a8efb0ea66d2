// Bytes out of gzip (RFC 1952), a member at a time. All that can be decoded is given, whatever is wrong behind it.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/tail/byte_source.hpp"
#include "daemon/tail/packed_bytes.hpp"

namespace triage::daemon {

// Does a gzip member begin here? 10 bytes are needed for a sure answer.
bool looks_gzip(std::string_view head);

// Members that follow each other are one stream. A member that is cut or damaged is told, and the next one is looked for. Zeros behind
// the last member are padding; anything else there is told. read() gives the errors of the inner source only.
class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> packed, std::string name, Tell tell);
  ~GzipSource() override;
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  parsers::Result<std::size_t> read(std::span<char> room) override;

 private:
  enum class At { header, body, trailer, end };
  void header();
  bool skip_text();
  std::size_t body(std::span<char> room);
  void end_in_body();
  void trailer();
  void resume(std::uint64_t from);
  void cut(const char* reason);

  PackedBytes packed_;
  std::string name_;
  Tell tell_;
  z_stream stream_{};
  bool ready_ = false;                   // stream_ is one of zlib's
  At at_ = At::header;
  std::uint64_t member_at_ = 0;          // offset of the member's header
  std::uint64_t given_ = 0;              // bytes given
  std::uint64_t member_given_ = 0;       // of this member
  unsigned long checksum_ = 0;           // of this member
};

}  // namespace triage::daemon
