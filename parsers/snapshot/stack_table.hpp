// Texts, frames and call stacks of a snapshot, each once, by number. A snapshot of millions of events has some thousand stacks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace triage::parsers {

using TextId = std::uint32_t;    // 0: ""
using FrameId = std::uint32_t;
using StackId = std::uint32_t;   // 0: no frames were recorded

struct StackFrame {
  TextId file = 0, function = 0;
  std::int32_t line = 0;
  TextId module = 0;             // what torch.compile knows of the frame (fx_node_name, fx_original_trace), where recorded
  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

class StackTable {
 public:
  StackTable();

  TextId text(std::string_view text);                    // the number of this text
  FrameId frame(const StackFrame& frame);
  StackId stack(std::span<const FrameId> frames);        // innermost first, as PyTorch writes them

  // Views live until the next text() call that adds one.
  std::string_view text_of(TextId id) const { return id < ends_.size() ? std::string_view(bytes_).substr(id ? ends_[id - 1] : 0, ends_[id] - (id ? ends_[id - 1] : 0)) : std::string_view(); }
  const StackFrame& frame_of(FrameId id) const { return frames_[id]; }
  std::span<const FrameId> frames_of(StackId id) const;  // innermost first; empty for 0 and unknown numbers
  std::string_view file_of(FrameId id) const { return text_of(frames_[id].file); }
  std::string_view function_of(FrameId id) const { return text_of(frames_[id].function); }

  std::size_t texts() const { return ends_.size(); }
  std::size_t frames() const { return frames_.size(); }
  std::size_t stacks() const { return stack_ends_.size(); }   // numbers 0 to stacks() - 1
  std::size_t memory_bytes() const;

 private:
  // Open addressing over numbers; the key is what the number stands for.
  struct Index {
    std::vector<std::uint32_t> slots = std::vector<std::uint32_t>(64, 0);   // number + 1; 0: empty
    std::size_t used = 0;
  };
  template <class Hash, class Same, class Make>
  std::uint32_t intern(Index& index, std::uint64_t hash, Hash hash_of, Same same, Make make);

  std::string bytes_;
  std::vector<std::size_t> ends_;
  std::vector<StackFrame> frames_;
  std::vector<FrameId> stack_frames_;
  std::vector<std::size_t> stack_ends_;
  Index text_index_, frame_index_, stack_index_;
};

}  // namespace triage::parsers
