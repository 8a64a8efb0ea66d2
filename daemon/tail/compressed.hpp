// Rotated files that were packed (.gz, .zst, .xz, .bz2): read as if they were plain, and only from where the plain file was taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "daemon/tail/checkpoint.hpp"
#include "daemon/tail/file_system.hpp"

namespace triage::daemon {

// limit: of unpacked bytes of one file; a small packed file may hold any number of them. What lies behind is not read.
inline constexpr std::uint64_t kUnpackedBytes = 64ULL << 30;

// The unpacked content. Its size is found out by unpacking it once; reading backwards begins anew. info() has the inode and time of the packed file.
// Errors: of opening; syntax (damaged).
parsers::Result<std::unique_ptr<OpenFile>> open_unpacked(FileSystem& files, const std::string& path);

struct PackedStart {
  std::uint64_t offset = 0, lines = 0;   // of the unpacked content: what was taken of it already
};

// Is the unpacked content that of one of the known files (few: those of the same base name)? Then where to go on; else the beginning. The furthest one counts.
parsers::Result<PackedStart> packed_start(OpenFile& unpacked, std::span<const Checkpoint> known);

}  // namespace triage::daemon
