// Owner of a Vectorscan database of literals, for the few that are too short for GramFilter. Exists only where the library was there
// at compile time and the processor can run it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "signatures/match/gram_filter.hpp"
#include "signatures/match/literal.hpp"

namespace triage::signatures {

class Vectorscan {
 public:
  // Working memory of one thread.
  class Scratch {
   public:
    Scratch() = default;
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Vectorscan;
    void* scratch_ = nullptr;
  };

  // Null: not compiled in, not for this processor, or it does not take these literals.
  static std::unique_ptr<const Vectorscan> compile(const std::vector<Literal>& literals, const std::vector<std::uint32_t>& numbers);
  ~Vectorscan();
  Vectorscan(const Vectorscan&) = delete;
  Vectorscan& operator=(const Vectorscan&) = delete;

  // Gives the scratch what it needs for this database. False: no memory.
  bool prepare(Scratch& scratch) const;
  // Appends all hits (`at` is the literal's last byte). False: the library refused; nothing is known of the block.
  bool scan(std::string_view block, Scratch& scratch, std::vector<LiteralHit>& out) const;

 private:
  explicit Vectorscan(void* database) : database_(database) {}
  void* database_;
};

}  // namespace triage::signatures
