// Opening what the user names: files, folders, globs, stdin, compressed files and archives; as streams of bytes, one a source.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"

namespace triage::daemon {

// A stream of bytes from the operating system. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to room.size() bytes; 0 at the end. Errors name the source and the offset.
  virtual parsers::Result<std::size_t> read(std::span<char> room) = 0;
};

struct ExpandedPaths {
  std::vector<std::string> files;        // in a stable order, each once
  std::vector<parsers::Error> errors;    // names that led nowhere
};

// Files that the arguments name: a folder gives all regular files under it (hidden ones and those whose ending says weights or data
// left out), a pattern with * ? [ what it matches, "-" stdin, else the file itself.
ExpandedPaths expand_paths(std::span<const std::string> arguments);

// The first bytes of a regular file, at most `most`; empty for stdin, pipes and devices, which can be read only once.
parsers::Result<std::string> head_of(const std::string& path, std::size_t most);

// The first bytes of a stream, at most `most`; fewer only at its end.
parsers::Result<std::string> read_head(ByteSource& source, std::size_t most);

// Is it an archive or a compressed file (by its first bytes, 512 are enough)? Those are read through for_each_member.
bool looks_packed(std::string_view head);
parsers::Result<bool> is_packed(const std::string& path);

// A plain file, a pipe or "-". Devices are refused, but for a terminal and /dev/null.
parsers::Result<std::unique_ptr<ByteSource>> open_plain(const std::string& path);

// Walks the members of a packed file in order: .gz .zst .xz .bz2 of one file (the name stays that of the file), .tar, .zip, and their
// compressed forms (names archive!member). visit reads the member; what it leaves unread is skipped. Bounded by limits::kArchiveMembers.
parsers::Status for_each_member(const std::string& path, const std::function<void(const std::string& name, ByteSource& member)>& visit);

// Size in bytes for a progress bar; 0 when unknown.
std::uint64_t size_of(const std::string& path);

}  // namespace triage::daemon
