// Opening what the user names: files, folders, globs, stdin; as streams of bytes. Packing is undone by unpack.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/tail/byte_source.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon {

struct ExpandedPaths {
  std::vector<std::string> files;        // in a stable order, each once
  std::vector<parsers::Error> errors;    // names that led nowhere
};

// Files that the arguments name: a folder gives all regular files under it (hidden ones and those whose ending says weights or data
// left out), a pattern with * ? [ what it matches, "-" stdin, else the file itself.
ExpandedPaths expand_paths(std::span<const std::string> arguments);

// How an input is read. All may be empty.
struct ReadOptions {
  Tell tell;                                        // the file grew, shrank or was replaced while it was read
  std::function<void(std::size_t bytes)> count;     // after every read
  std::function<bool()> stop;                       // true: the input ends here (a reader that waits for a pipe asks now and then)
};

// A file, a pipe or "-". Devices are refused, but for a terminal and /dev/null; a folder is an error.
parsers::Result<std::unique_ptr<ByteSource>> open_input(const std::string& path, ReadOptions options = {});

// The first bytes of a regular file, at most `most`; empty for stdin, pipes and devices, which can be read only once.
parsers::Result<std::string> head_of(const std::string& path, std::size_t most);

// Size in bytes for a progress bar; 0 when unknown.
std::uint64_t size_of(const std::string& path);

}  // namespace triage::daemon
