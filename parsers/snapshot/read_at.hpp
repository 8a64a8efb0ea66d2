// ReadAt: bytes of a file by position, so that a dump larger than memory is read where it matters. Implemented by daemon over pread;
// here over bytes that are in memory already.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "parsers/base/result.hpp"

namespace triage::parsers {

class ReadAt {
 public:
  virtual ~ReadAt() = default;
  virtual std::uint64_t size() const = 0;      // bytes
  // Fills room from offset on; fewer bytes only at the end of the file, 0 behind it. Errors: io.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<char> room) = 0;
};

// Looks into bytes of the caller.
class ReadAtMemory final : public ReadAt {
 public:
  explicit ReadAtMemory(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t count = std::min<std::size_t>(room.size(), bytes_.size() - static_cast<std::size_t>(offset));
    std::memcpy(room.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  std::string_view bytes_;
};

// The bytes [offset, offset + length), shorter where the file ends. length: already compared with a limit.
inline Result<std::string> read_range(ReadAt& file, std::uint64_t offset, std::size_t length) {
  if (offset >= file.size()) return std::string();
  std::string out(std::min<std::uint64_t>(length, file.size() - offset), '\0');
  TRIAGE_TRY(const std::size_t count, file.read(offset, std::span(out)));
  out.resize(count);
  return out;
}

}  // namespace triage::parsers
