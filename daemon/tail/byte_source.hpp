// ByteSource: a stream of bytes, whatever gives them; and the way in which a source tells of faults that it survives.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "parsers/base/result.hpp"

namespace triage::daemon {

// Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to room.size() bytes; 0 at the end. Errors name the source and the offset, and nothing follows them.
  virtual parsers::Result<std::size_t> read(std::span<char> room) = 0;
  // Size in bytes of a source that can be read from any place (a regular file); 0 for all others.
  virtual std::uint64_t seekable_size() const { return 0; }
  // The next read begins at this byte. False where that cannot be.
  virtual bool seek(std::uint64_t) { return false; }
};

// Another source, for readers that own what they read; it must live longer. It cannot be read from any place.
class BorrowedSource final : public ByteSource {
 public:
  explicit BorrowedSource(ByteSource& bytes) : bytes_(bytes) {}
  parsers::Result<std::size_t> read(std::span<char> room) override { return bytes_.read(room); }

 private:
  ByteSource& bytes_;
};

// A fault that does not end a source: more bytes may follow, and what came is to be judged. weight note: nothing is lost for sure (a
// file that grows); loss: bytes of the input are missing or in doubt.
enum class Weight { note, loss };
using Tell = std::function<void(parsers::Error error, Weight weight)>;

}  // namespace triage::daemon
