// The memo of a pickle with millions of entries, most of which hold the same few values (an event that was taken already, a stack that many
// events share): pages of 1024 entries, packed to one byte an entry once the writer has moved on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace triage::parsers {

class PackedMemo {
 public:
  static constexpr std::uint32_t kNothing = 0;   // never a value that is put

  // Sets entry `index`, which may be changed later. Memory grows with the largest index: the caller bounds it.
  void put(std::uint64_t index, std::uint32_t value);
  // The entry; kNothing where none was put.
  std::uint32_t get(std::uint64_t index) {
    Recent& recent = recent_[index % kRecent];
    if (__builtin_expect(recent.index != index, 0)) recent = {index, find(index)};
    return recent.value;
  }
  std::size_t memory_bytes() const { return bytes_ + pages_.size() * sizeof(Page); }

 private:
  static constexpr std::size_t kEntries = 1024;
  struct Page {
    std::unique_ptr<std::uint32_t[]> raw;
    std::unique_ptr<std::uint8_t[]> coded;
    std::unique_ptr<std::uint32_t[]> palette;
    std::uint32_t colours = 0;
  };
  // Entries that were asked for last, each at the place of its number: the same few keys and frames come again and again.
  static constexpr std::size_t kRecent = 512;
  struct Recent {
    std::uint64_t index = UINT64_MAX;
    std::uint32_t value = kNothing;
  };
  std::uint32_t find(std::uint64_t index) const;
  static constexpr std::size_t kRawBytes = kEntries * sizeof(std::uint32_t);
  static std::size_t coded_bytes(const Page& page) { return kEntries + page.colours * sizeof(std::uint32_t); }
  void pack(Page& page);
  void unpack(Page& page);

  std::array<Recent, kRecent> recent_;
  std::vector<Page> pages_;
  std::uint64_t open_ = 0;   // the page that is written to
  std::size_t bytes_ = 0;    // of the pages' entries
};

}  // namespace triage::parsers
