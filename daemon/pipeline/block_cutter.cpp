#include "daemon/pipeline/block_cutter.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "parsers/base/limits.hpp"

namespace triage::daemon {

namespace {

// The number of bytes up to and with the last line end. A '\r' that is the very last byte may belong to "\r\n" and does not count.
std::size_t whole_lines(std::string_view text) {
  if (const void* newline = memrchr(text.data(), '\n', text.size()))
    return static_cast<std::size_t>(static_cast<const char*>(newline) - text.data()) + 1;
  if (text.empty()) return 0;
  const std::size_t at = text.substr(0, text.size() - 1).rfind('\r');
  return at == std::string_view::npos ? 0 : at + 1;
}

}  // namespace

std::span<char> BlockCutter::room() {
  if (current_.bytes.empty()) {
    if (spare_.empty())
      current_.bytes.resize(kBlockBytes);
    else
      current_.bytes = std::exchange(spare_, {});
  }
  return std::span(current_.bytes).subspan(current_.size);
}

void BlockCutter::filled(std::size_t count) {
  if (!dropping_) {
    current_.size += count;
    return;
  }
  // The buffer is empty while a line is dropped: look for its end in what came.
  const char* const begin = current_.bytes.data();
  const void* const newline = std::memchr(begin, '\n', count);
  const std::size_t gone = newline ? static_cast<std::size_t>(static_cast<const char*>(newline) - begin) : count;
  current_.dropped_before += gone;
  current_.offset += gone;
  if (!newline) return;
  dropping_ = false;
  current_.size = count - gone;
  std::memmove(current_.bytes.data(), begin + gone, current_.size);
}

Block BlockCutter::cut(std::size_t size) {
  Block rest;
  rest.bytes = spare_.empty() ? std::vector<char>(kBlockBytes) : std::exchange(spare_, {});
  rest.size = current_.size - size;
  rest.offset = current_.offset + size;
  std::memcpy(rest.bytes.data(), current_.bytes.data() + size, rest.size);
  current_.size = size;
  return std::exchange(current_, std::move(rest));
}

std::optional<Block> BlockCutter::take(bool flush) {
  const bool full = current_.size == kBlockBytes;
  if (!full && !flush) return std::nullopt;
  const std::size_t size = whole_lines(current_.text());
  if (size > 0) return cut(size);
  if (!full) return std::nullopt;
  // One line longer than a block: its head is kept, the rest dropped up to its end.
  Block head = cut(parsers::limits::kLineBytes);
  const std::size_t kept = current_.size;
  current_.size = 0;
  dropping_ = true;
  filled(kept);
  return head;
}

Block BlockCutter::finish() {
  current_.last = true;
  return std::exchange(current_, Block{});
}

void BlockCutter::recycle(Block&& block) {
  if (spare_.empty()) spare_ = std::move(block.bytes);
}

}  // namespace triage::daemon
