// Is this still the file that a checkpoint was made of? Device and inode are not enough: inodes are used again, and a file may be
// emptied and written anew in place.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/tail/checkpoint.hpp"
#include "daemon/tail/file_system.hpp"

namespace triage::daemon {

// 64 bits of the bytes; the same on every machine and in every version, for it is kept in the store. Not meant against an attacker.
std::uint64_t content_hash(std::string_view bytes);

// Where the checked bytes begin.
std::uint64_t check_begin(const Checkpoint& checkpoint);

// Do the checked bytes stand in the file? true where nothing is checked. Errors: of reading.
parsers::Result<bool> content_matches(OpenFile& file, const Checkpoint& checkpoint);

// Moves the checkpoint over `taken`, the bytes that stand at its offset, and makes the check anew. Errors: of reading (bytes before the offset
// may be needed again); the checkpoint is then unchanged.
parsers::Status advance(OpenFile& file, Checkpoint& checkpoint, std::string_view taken);

}  // namespace triage::daemon
