#include "parsers/snapshot/stack_table.hpp"

#include <algorithm>
#include <cstring>

namespace triage::parsers {
namespace {

// Mixes 64 bits (the finalizer of SplitMix64, public domain: https://prng.di.unimi.it/splitmix64.c).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t hash_bytes(std::string_view text) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL + text.size();
  while (text.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    hash = mix(hash ^ word);
    text.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  return mix(hash ^ rest);
}

std::uint64_t hash_frame(const StackFrame& frame) {
  return mix((std::uint64_t{frame.file} << 32 | frame.function) ^ mix(std::uint64_t{frame.module} << 32 | static_cast<std::uint32_t>(frame.line)));
}

std::uint64_t hash_stack(std::span<const FrameId> frames) {
  std::uint64_t hash = frames.size();
  for (const FrameId frame : frames) hash = mix(hash + 0x9e3779b97f4a7c15ULL + frame);
  return hash;
}

}  // namespace

template <class Hash, class Same, class Make>
std::uint32_t StackTable::intern(Index& index, std::uint64_t hash, Hash hash_of, Same same, Make make) {
  std::size_t mask = index.slots.size() - 1;
  std::size_t at = static_cast<std::size_t>(hash) & mask;
  while (index.slots[at]) {
    if (same(index.slots[at] - 1)) return index.slots[at] - 1;
    at = (at + 1) & mask;
  }
  const std::uint32_t number = make();
  index.slots[at] = number + 1;
  if (++index.used * 2 > index.slots.size()) {
    std::vector<std::uint32_t> larger(index.slots.size() * 2, 0);
    mask = larger.size() - 1;
    for (const std::uint32_t slot : index.slots) {
      if (!slot) continue;
      at = static_cast<std::size_t>(hash_of(slot - 1)) & mask;
      while (larger[at]) at = (at + 1) & mask;
      larger[at] = slot;
    }
    index.slots = std::move(larger);
  }
  return number;
}

StackTable::StackTable() {
  (void)text("");
  (void)stack({});
}

TextId StackTable::text(std::string_view text) {
  return intern(
      text_index_, hash_bytes(text), [this](std::uint32_t id) { return hash_bytes(text_of(id)); },
      [&](std::uint32_t id) { return text_of(id) == text; },
      [&] {
        bytes_ += text;
        ends_.push_back(bytes_.size());
        return static_cast<std::uint32_t>(ends_.size() - 1);
      });
}

FrameId StackTable::frame(const StackFrame& frame) {
  return intern(
      frame_index_, hash_frame(frame), [this](std::uint32_t id) { return hash_frame(frames_[id]); },
      [&](std::uint32_t id) { return frames_[id] == frame; },
      [&] {
        frames_.push_back(frame);
        return static_cast<std::uint32_t>(frames_.size() - 1);
      });
}

StackId StackTable::stack(std::span<const FrameId> frames) {
  return intern(
      stack_index_, hash_stack(frames), [this](std::uint32_t id) { return hash_stack(frames_of(id)); },
      [&](std::uint32_t id) { return std::ranges::equal(frames_of(id), frames); },
      [&] {
        stack_frames_.insert(stack_frames_.end(), frames.begin(), frames.end());
        stack_ends_.push_back(stack_frames_.size());
        return static_cast<std::uint32_t>(stack_ends_.size() - 1);
      });
}

std::span<const FrameId> StackTable::frames_of(StackId id) const {
  if (id >= stack_ends_.size()) return {};
  const std::size_t begin = id ? stack_ends_[id - 1] : 0;
  return std::span<const FrameId>(stack_frames_).subspan(begin, stack_ends_[id] - begin);
}

std::size_t StackTable::memory_bytes() const {
  return bytes_.capacity() + ends_.capacity() * sizeof(std::size_t) + frames_.capacity() * sizeof(StackFrame) + stack_frames_.capacity() * sizeof(FrameId) +
         stack_ends_.capacity() * sizeof(std::size_t) +
         (text_index_.slots.size() + frame_index_.slots.size() + stack_index_.slots.size()) * sizeof(std::uint32_t);
}

}  // namespace triage::parsers
