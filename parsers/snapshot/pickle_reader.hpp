// Reads a small pickle (NCCL flight recorder, settings) into a tree of plain values. Safe on hostile bytes: no object is made, nothing is
// called, sizes, depth and memory are bounded, nothing recurses. Large allocator snapshots are read by snapshot_reader.hpp instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/limits.hpp"
#include "parsers/base/result.hpp"

namespace triage::parsers {

struct PickleLimits {
  std::size_t memory_bytes = limits::kPickleTreeBytes;   // of the tree
};

// A value of the tree: a light handle, which keeps the whole tree alive. Shared sub-objects stand in the tree once.
// Sets and tuples are lists; bytes are text. An integer over 64 bits is a real.
class PickleValue {
 public:
  enum class Kind : std::uint8_t { null, boolean, integer, real, text, list, dict };

  PickleValue() = default;   // null

  Kind kind() const;
  bool is_null() const { return kind() == Kind::null; }
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;       // integers alone
  std::optional<double> number() const;              // integers and reals
  std::optional<std::string_view> text() const;      // looks into the tree: lives as long as a handle of it

  // Lists: number of items, item i (null beyond the end). Dicts: number of entries, in the file's order; a key that comes twice stands once
  // with its last value. Other kinds: 0.
  std::size_t size() const;
  PickleValue operator[](std::size_t i) const;       // list item, or the value of dict entry i
  PickleValue key(std::size_t i) const;              // of dict entry i
  // The value of a text key (first of a dict, else null), the value of an integer key.
  PickleValue find(std::string_view key) const;
  PickleValue find(std::int64_t key) const;
  bool contains(std::string_view key) const;

  struct Tree;
  PickleValue(std::shared_ptr<const Tree> tree, std::uint32_t node) : tree_(std::move(tree)), node_(node) {}

 private:
  std::shared_ptr<const Tree> tree_;
  std::uint32_t node_ = 0;
};

struct PickleRead {
  PickleValue value;
  std::uint64_t bytes = 0;          // taken from the input
  std::optional<Error> cut;         // the file ends early, or is damaged from here on: value holds what stood before
};

// Are these the first bytes of a pickle of protocol 2 to 5? (PROTO, and an opcode that can follow.)
bool looks_like_pickle(std::string_view head);

// The whole value, or an error with file and offset: not a pickle, damaged, cut, over a limit, or with an opcode that makes objects.
Result<PickleValue> read_pickle(std::string_view bytes, const std::string& file, PickleLimits limits = {});

// The same for files that may end early: what was read up to the fault is kept, with the fault. An error where nothing was read, or where
// an opcode was refused.
Result<PickleRead> read_pickle_part(std::string_view bytes, const std::string& file, PickleLimits limits = {});

}  // namespace triage::parsers
