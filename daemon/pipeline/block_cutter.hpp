// BlockCutter: bytes of one source, in any portions, to blocks that end at a line end. The caller reads straight into the block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace triage::daemon {

// Whole lines of one source ('\n' or a '\r' of a progress bar ends the last one, or the source ends). Owns its bytes.
struct Block {
  std::vector<char> bytes;
  std::size_t size = 0;                  // bytes in use
  std::uint64_t offset = 0;              // of the first byte in the source
  std::uint64_t dropped_before = 0;      // bytes of an over-long line that were dropped between the last block and this one
  bool last = false;
  std::string_view text() const { return {bytes.data(), size}; }
};

class BlockCutter {
 public:
  static constexpr std::size_t kBlockBytes = 1 << 20;  // limit: a longer line is cut at limits::kLineBytes, with the loss counted

  // Where to put the next bytes; never empty between a take() and the next filled(). Valid until take().
  std::span<char> room();
  void filled(std::size_t count);
  // A block, when there is one: when the room is used up, or (flush) as soon as a line is whole.
  std::optional<Block> take(bool flush = false);
  // What is left, as the last block. Call once.
  Block finish();
  // Gives a block's memory back for re-use.
  void recycle(Block&& block);
  bool has_spare() const { return !spare_.empty(); }

 private:
  Block cut(std::size_t size);
  Block current_;
  std::vector<char> spare_;
  bool dropping_ = false;                // inside an over-long line
};

}  // namespace triage::daemon
