// Packed bytes on their way into a decoder: read in portions, with their offsets, and with some of what was used before, so that a
// decoder that ran into a damage can look for the next beginning.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/tail/byte_source.hpp"

namespace triage::daemon {

class PackedBytes {
 public:
  explicit PackedBytes(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {}

  // What was read and not used. Valid until more() or find().
  std::string_view rest() const { return {buffer_.data() + begin_, end_ - begin_}; }
  std::uint64_t offset() const { return offset_; }   // of rest(), in the packed stream
  void use(std::size_t count) { begin_ += count; offset_ += count; }
  // Reads another portion behind rest(). False at the end, or where reading failed (fault()).
  bool more();
  // Reads until rest() holds `count` bytes. False where the stream ends before.
  bool want(std::size_t count);
  const std::optional<parsers::Error>& fault() const { return fault_; }

  // Goes to the first place at or after `from` where `begins` holds, which looks at `least` bytes (fewer at the end of the stream). It
  // may lie before offset(), as far back as bytes are kept (kHistory). False: there is none, and all bytes are used.
  bool find(std::uint64_t from, std::size_t least, const std::function<bool(std::string_view)>& begins);
  // Uses the zero bytes that stand next: padding of tapes and block devices.
  void skip_zeros();

 private:
  static constexpr std::size_t kHistory = 256 * 1024;   // a zstd block has 128 KiB, a damaged deflate stream is noticed much sooner
  static constexpr std::size_t kPortion = 256 * 1024;

  std::unique_ptr<ByteSource> inner_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;      // of rest(); what stands before it was used
  std::uint64_t offset_ = 0;
  bool ended_ = false;
  std::optional<parsers::Error> fault_;
};

}  // namespace triage::daemon
