// Checkpoint: how far one generation of a file was taken. Values only; kept by the store with what was found up to there.
#pragma once

#include <cstdint>

namespace triage::daemon {

// device and inode 0: no file was met yet. The check tells whether a file that carries the known inode is still the known file.
struct Checkpoint {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t offset = 0;              // bytes taken, always at a line begin
  std::uint64_t lines = 0;               // line ends before offset
  std::uint64_t size = 0;                // bytes of the file when it was last looked at
  std::uint32_t check_bytes = 0;         // at most kCheckBytes
  // Hash (content_hash) of the check_bytes bytes before offset; at offset 0 of the first check_bytes bytes of the file. With check_bytes 0
  // (an empty file) it is the time of the file's last change in ns: an empty file has nothing else to be known by.
  std::uint64_t check_hash = 0;

  static constexpr std::uint32_t kCheckBytes = 4096;
  bool known() const { return device != 0 || inode != 0; }
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

}  // namespace triage::daemon
