// Inputs that are no text: told apart by their first bytes, read by parsers/snapshot, handed on as findings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parsers/snapshot/read_at.hpp"
#include "signatures/match/match.hpp"

namespace triage::daemon {

enum class InputKind : std::uint8_t {
  text,               // a log, or anything else that is to be scanned as lines
  core_file,          // ELF core of a process
  cuda_core,          // ELF core of a CUDA device
  flight_recorder,    // NCCL flight recorder, pickle or JSON
  elastic_error,      // torchelastic's error.json: read by scan_elastic_error
  allocator_snapshot, // PyTorch's allocator: read by snapshot_file.hpp, which refuses one in JSON
};

inline constexpr std::size_t kKindBytes = 16 * 1024;   // of the head that kind_of_input looks at

// head: the first kKindBytes of the input, or all of it.
InputKind kind_of_input(std::string_view head);

// Reads a dump of that kind (neither text nor elastic_error). A dump that cannot be read gives an Error; one that is cut gives what it holds, and a Lost.
// source: what the name of the file says (source_info).
parsers::Result<signatures::SourceFindings> read_dump(InputKind kind, parsers::ReadAt& file, signatures::SourceInfo source);

}  // namespace triage::daemon
