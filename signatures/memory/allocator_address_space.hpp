// Virtual addresses that cudaMalloc gives out, as far as they decide which of two equally large cached blocks is taken (the one
// at the lower address). Observed on driver 580 (CUDA 13): address space is taken in pieces of 32 MiB from the top down, each
// new piece below all earlier ones; what is left in a piece is used by later segments that fit, the lowest address first. The
// first piece has 8 MiB of the context in it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>

namespace triage::signatures {

class AllocatorAddressSpace {
 public:
  explicit AllocatorAddressSpace(std::uint64_t top);

  // The address of a segment of `bytes` (> 0, rounded up to 2 MiB); 0: no address is left.
  std::uint64_t take(std::int64_t bytes);
  // The range [address, address + bytes), where a recording saw a segment; false: a segment of this replay stands there.
  bool take_at(std::uint64_t address, std::int64_t bytes);
  // The segment that was taken at that address; nothing happens if there is none.
  void give(std::uint64_t address);

 private:
  static constexpr std::uint64_t kPiece = 32ULL << 20, kUnit = 2ULL << 20, kContext = 8ULL << 20;
  static constexpr std::size_t kSizes = 17;   // holes of 2, 4 ... 32 MiB, and larger ones

  static std::size_t size_class(std::uint64_t bytes);
  void add_hole(std::uint64_t address, std::uint64_t bytes);
  void drop_hole(std::map<std::uint64_t, std::uint64_t>::iterator hole);

  std::uint64_t bottom_;                                   // every piece below is free
  std::map<std::uint64_t, std::uint64_t> taken_;           // address -> bytes
  std::map<std::uint64_t, std::uint64_t> holes_;           // address -> bytes
  std::array<std::set<std::uint64_t>, kSizes> by_size_;    // addresses of holes of one size class
};

}  // namespace triage::signatures
