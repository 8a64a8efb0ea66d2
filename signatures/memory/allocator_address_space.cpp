#include "signatures/memory/allocator_address_space.hpp"

#include <algorithm>
#include <iterator>

namespace triage::signatures {
namespace {
constexpr int kLargeHolesLookedAt = 1024;   // then a new piece is taken: the order of addresses is a tie-break, no more
}

AllocatorAddressSpace::AllocatorAddressSpace(std::uint64_t top) : bottom_(top / kPiece * kPiece - kPiece) {
  add_hole(bottom_ + kContext, kPiece - kContext);
}

std::size_t AllocatorAddressSpace::size_class(std::uint64_t bytes) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(bytes / kUnit, kSizes)) - 1;
}

void AllocatorAddressSpace::add_hole(std::uint64_t address, std::uint64_t bytes) {
  if (bytes < kUnit) return;
  holes_.emplace(address, bytes);
  by_size_[size_class(bytes)].insert(address);
}

void AllocatorAddressSpace::drop_hole(std::map<std::uint64_t, std::uint64_t>::iterator hole) {
  by_size_[size_class(hole->second)].erase(hole->first);
  holes_.erase(hole);
}

std::uint64_t AllocatorAddressSpace::take(std::int64_t bytes) {
  const std::uint64_t need = (static_cast<std::uint64_t>(bytes) + kUnit - 1) / kUnit * kUnit;
  std::uint64_t lowest = 0;
  for (std::size_t c = size_class(need); c + 1 < kSizes; ++c)
    if (!by_size_[c].empty() && (lowest == 0 || *by_size_[c].begin() < lowest)) lowest = *by_size_[c].begin();
  int looked = 0;
  for (const std::uint64_t address : by_size_[kSizes - 1]) {
    if ((lowest != 0 && address > lowest) || ++looked > kLargeHolesLookedAt) break;
    if (holes_.find(address)->second < need) continue;
    lowest = address;
    break;
  }
  if (lowest != 0) {
    const auto hole = holes_.find(lowest);
    const std::uint64_t size = hole->second;
    drop_hole(hole);
    add_hole(lowest + need, size - need);
    taken_.emplace(lowest, need);
    return lowest;
  }
  const std::uint64_t pieces = (need + kPiece - 1) / kPiece * kPiece;
  if (bottom_ < pieces + kPiece) return 0;
  bottom_ -= pieces;
  add_hole(bottom_ + need, pieces - need);
  taken_.emplace(bottom_, need);
  return bottom_;
}

bool AllocatorAddressSpace::take_at(std::uint64_t address, std::int64_t bytes) {
  const std::uint64_t size = (static_cast<std::uint64_t>(bytes) + kUnit - 1) / kUnit * kUnit;
  const std::uint64_t end = address + size;
  if (address % kUnit != 0 || end < address || address < kPiece) return false;
  const auto above = taken_.lower_bound(address);
  if (above != taken_.end() && above->first < end) return false;
  if (above != taken_.begin() && std::prev(above)->first + std::prev(above)->second > address) return false;
  taken_.emplace(address, size);
  auto hole = holes_.upper_bound(address);
  if (hole != holes_.begin() && std::prev(hole)->first + std::prev(hole)->second > address) --hole;
  while (hole != holes_.end() && hole->first < end) {
    const auto next = std::next(hole);
    const std::uint64_t begin = hole->first, stop = begin + hole->second;
    drop_hole(hole);
    if (begin < address) add_hole(begin, address - begin);
    if (stop > end) add_hole(end, stop - end);
    hole = next;
  }
  if (address < bottom_) {
    const std::uint64_t begin = address / kPiece * kPiece;
    const std::uint64_t stop = std::min(bottom_, (end + kPiece - 1) / kPiece * kPiece);
    add_hole(begin, address - begin);
    if (stop > end) add_hole(end, stop - end);
    bottom_ = begin;
  }
  return true;
}

void AllocatorAddressSpace::give(std::uint64_t address) {
  const auto segment = taken_.find(address);
  if (segment == taken_.end()) return;
  std::uint64_t begin = address, end = address + segment->second;
  taken_.erase(segment);
  auto after = holes_.lower_bound(begin);
  // Pieces were reserved one by one: a hole does not reach over the border of two.
  if (after != holes_.end() && after->first == end && end % kPiece != 0) {
    end += after->second;
    drop_hole(after);
  }
  auto before = holes_.lower_bound(begin);
  if (begin % kPiece != 0 && before != holes_.begin() && (--before)->first + before->second == begin) {
    begin = before->first;
    drop_hole(before);
  }
  add_hole(begin, end - begin);
}

}  // namespace triage::signatures
