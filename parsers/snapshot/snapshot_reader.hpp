// Reads an allocator snapshot of any size in one pass: bytes in portions, typed values out. Only what the analysis needs is kept: events go
// straight into the compact trace, texts and stacks stand once. Read: what torch.cuda.memory._dump_snapshot writes (pickle of Python, any of
// PyTorch 2.0 to 2.11), the C++ dump, and the plain list of segments of torch.cuda.memory_snapshot().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "parsers/base/limits.hpp"
#include "parsers/base/result.hpp"
#include "parsers/snapshot/allocator.hpp"

namespace triage::parsers {

// Do these first bytes (some hundred are enough) begin an allocator snapshot? A pickle whose first words are those of the format.
bool looks_like_snapshot(std::string_view head);
// The same of one that went through a JSON writer. It is not read: finish() says how to make a pickle of it.
bool looks_like_snapshot_json(std::string_view head);

class SnapshotReader {
 public:
  // file: the name for errors. memory_bytes: bounds what is kept of the file, but for its events, texts and stacks.
  explicit SnapshotReader(std::string file, std::size_t memory_bytes = limits::kSnapshotBytes);
  ~SnapshotReader();

  // Takes the next portion, of any length. False: nothing more is wanted (the pickle is whole, or it was refused).
  bool feed(std::string_view portion);

  // The snapshot. A file that ends early, or is damaged from some byte on, gives what stood before, with `cut`. An error: no pickle, a pickle
  // with an opcode that makes objects, or one that holds no snapshot.
  Result<AllocatorSnapshot> finish();

 private:
  struct Machine;
  std::string file_, rest_;
  bool json_ = false, json_snapshot_ = false;  // it begins like JSON, like a snapshot in JSON
  std::unique_ptr<Machine> machine_;
};

// The same over bytes at hand.
Result<AllocatorSnapshot> read_snapshot(std::string_view bytes, const std::string& file);

}  // namespace triage::parsers
