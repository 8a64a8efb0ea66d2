#include "parsers/snapshot/packed_memo.hpp"

#include <algorithm>

namespace triage::parsers {

void PackedMemo::put(std::uint64_t index, std::uint32_t value) {
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
  if (!page.raw) page.raw = std::make_unique<std::uint32_t[]>(kEntries);
  page.raw[at] = value;
}

void PackedMemo::pack(Page& page) {
  if (!page.raw) return;
  std::vector<std::uint32_t> colours(page.raw.get(), page.raw.get() + kEntries);
  std::ranges::sort(colours);
  colours.erase(std::unique(colours.begin(), colours.end()), colours.end());
  if (colours.size() > 256) return;
  page.colours = static_cast<std::uint32_t>(colours.size());
  page.palette = std::make_unique_for_overwrite<std::uint32_t[]>(colours.size());
  std::ranges::copy(colours, page.palette.get());
  page.coded = std::make_unique_for_overwrite<std::uint8_t[]>(kEntries);
  for (std::size_t i = 0; i < kEntries; ++i)
    page.coded[i] = static_cast<std::uint8_t>(std::ranges::lower_bound(colours, page.raw[i]) - colours.begin());
  page.raw.reset();
}

void PackedMemo::unpack(Page& page) {
  page.raw = std::make_unique_for_overwrite<std::uint32_t[]>(kEntries);
  for (std::size_t i = 0; i < kEntries; ++i) page.raw[i] = page.palette[page.coded[i]];
  page.coded.reset();
  page.palette.reset();
  page.colours = 0;
}

std::size_t PackedMemo::memory_bytes() const {
  std::size_t bytes = pages_.capacity() * sizeof(Page);
  for (const Page& page : pages_) bytes += page.raw ? kEntries * 4 : page.coded ? kEntries + page.colours * 4U : 0;
  return bytes;
}

}  // namespace triage::parsers
