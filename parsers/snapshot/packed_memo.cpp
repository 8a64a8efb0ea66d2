#include "parsers/snapshot/packed_memo.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace triage::parsers {

std::uint32_t PackedMemo::find(std::uint64_t index) const {
  const std::uint64_t number = index / kEntries;
  if (number >= pages_.size()) return kNothing;
  const Page& page = pages_[number];
  const std::size_t at = index % kEntries;
  if (page.coded) return page.palette[page.coded[at]];
  return page.raw ? page.raw[at] : kNothing;
}

void PackedMemo::put(std::uint64_t index, std::uint32_t value) {
  if (Recent& recent = recent_[index % kRecent]; recent.index == index) recent.value = value;
  const std::uint64_t number = index / kEntries;
  if (number >= pages_.size()) pages_.resize(number + 1);
  if (number > open_) {
    pack(pages_[open_]);
    open_ = number;
  }
  Page& page = pages_[number];
  const std::size_t at = index % kEntries;
  if (page.coded) {   // a container of long ago, now known for what it is
    const std::uint32_t* const end = page.palette.get() + page.colours;
    const std::uint32_t* const found = std::find(static_cast<const std::uint32_t*>(page.palette.get()), end, value);
    if (found != end) {
      page.coded[at] = static_cast<std::uint8_t>(found - page.palette.get());
      return;
    }
    unpack(page);
  }
  if (!page.raw) {
    page.raw = std::make_unique<std::uint32_t[]>(kEntries);
    bytes_ += kRawBytes;
  }
  page.raw[at] = value;
}

void PackedMemo::pack(Page& page) {
  if (!page.raw) return;
  constexpr std::size_t kColours = 256, kSlots = 1024;
  std::array<std::uint32_t, kColours> palette{};
  std::array<std::uint16_t, kSlots> slots{};   // by the hash of a value: its colour + 1
  auto coded = std::make_unique_for_overwrite<std::uint8_t[]>(kEntries);
  std::uint32_t colours = 0;
  for (std::size_t i = 0; i < kEntries; ++i) {
    const std::uint32_t value = page.raw[i];
    std::size_t slot = (value * 0x9e3779b1U) >> 22;
    while (slots[slot] && palette[slots[slot] - 1U] != value) slot = (slot + 1) % kSlots;
    if (!slots[slot]) {
      if (colours == kColours) return;
      palette[colours++] = value;
      slots[slot] = static_cast<std::uint16_t>(colours);
    }
    coded[i] = static_cast<std::uint8_t>(slots[slot] - 1U);
  }
  page.colours = colours;
  page.palette = std::make_unique_for_overwrite<std::uint32_t[]>(colours);
  std::copy_n(palette.begin(), colours, page.palette.get());
  page.coded = std::move(coded);
  page.raw.reset();
  bytes_ = bytes_ - kRawBytes + coded_bytes(page);
}

void PackedMemo::unpack(Page& page) {
  page.raw = std::make_unique_for_overwrite<std::uint32_t[]>(kEntries);
  for (std::size_t i = 0; i < kEntries; ++i) page.raw[i] = page.palette[page.coded[i]];
  bytes_ = bytes_ + kRawBytes - coded_bytes(page);
  page.coded.reset();
  page.palette.reset();
  page.colours = 0;
}

}  // namespace triage::parsers
