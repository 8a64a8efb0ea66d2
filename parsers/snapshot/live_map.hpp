// Live blocks by address while a trace is walked: open addressing, no deletion marks (entries behind a hole are moved up).
#pragma once

#include <cstdint>
#include <vector>

#include "parsers/snapshot/stack_table.hpp"

namespace triage::parsers {

struct LiveEntry {
  std::uint64_t address = 0;
  std::int64_t size = 0;             // rounded
  std::int64_t time_us = 0;
  StackId stack = 0;
  bool used = false, pending = false;   // pending: free_requested came, free_completed not yet
};

class LiveMap {
 public:
  // The entry of this address, or null. Stays valid until the next insert or erase.
  LiveEntry* find(std::uint64_t address) {
    for (std::size_t at = home(address);; at = (at + 1) & mask()) {
      if (!slots_[at].used) return nullptr;
      if (slots_[at].address == address) return &slots_[at];
    }
  }
  // A new entry; the address must not be there.
  LiveEntry& insert(std::uint64_t address) {
    if (++count_ * 2 > slots_.size()) grow();
    std::size_t at = home(address);
    while (slots_[at].used) at = (at + 1) & mask();
    slots_[at] = LiveEntry{};
    slots_[at].address = address;
    slots_[at].used = true;
    return slots_[at];
  }
  void erase(LiveEntry* entry) {
    std::size_t hole = static_cast<std::size_t>(entry - slots_.data());
    for (std::size_t at = (hole + 1) & mask(); slots_[at].used; at = (at + 1) & mask()) {
      const std::size_t want = home(slots_[at].address);
      if (((at - want) & mask()) < ((at - hole) & mask())) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].used = false;
    --count_;
  }
  std::size_t size() const { return count_; }
  template <class Visit>
  void each(Visit visit) const {
    for (const LiveEntry& entry : slots_)
      if (entry.used) visit(entry);
  }

 private:
  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t home(std::uint64_t address) const { return static_cast<std::size_t>(((address >> 9) * 0x9e3779b97f4a7c15ULL) >> 20) & mask(); }
  void grow() {
    std::vector<LiveEntry> old(slots_.size() * 2);
    old.swap(slots_);
    for (const LiveEntry& entry : old) {
      if (!entry.used) continue;
      std::size_t at = home(entry.address);
      while (slots_[at].used) at = (at + 1) & mask();
      slots_[at] = entry;
    }
  }
  std::vector<LiveEntry> slots_ = std::vector<LiveEntry>(1024);
  std::size_t count_ = 0;
};

}  // namespace triage::parsers
