#include "daemon/pipeline/dump.hpp"

#include <optional>
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/snapshot/core_file.hpp"
#include "parsers/snapshot/cuda_core.hpp"
#include "parsers/snapshot/elastic_error.hpp"
#include "parsers/snapshot/elf.hpp"
#include "parsers/snapshot/flight_recorder.hpp"
#include "parsers/snapshot/snapshot_reader.hpp"
#include "signatures/verdict/dump_finding.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using signatures::Finding;
using signatures::SourceFindings;

namespace {

// "_dump_12", "trace.12": recorders end the name in the rank, whatever stands before it.
std::optional<int> number_at_end(std::string_view name) {
  std::size_t begin = name.size();
  while (begin > 0 && parsers::is_digit(name[begin - 1])) --begin;
  const auto value = parsers::read_integer(name.substr(begin));
  if (!value || *value >= parsers::limits::kRanks) return std::nullopt;
  return static_cast<int>(*value);
}

void lose(SourceFindings& out, std::string what) { out.lost.push_back({out.source.name, std::move(what), 0, out.source.bytes, 0, 1}); }

SourceFindings with(signatures::SourceInfo source, Finding finding) {
  SourceFindings out;
  if (!finding.rank) finding.rank = source.rank;
  if (!finding.local_rank) finding.local_rank = source.local_rank;
  source.dump = true;
  if (!source.rank) source.rank = finding.rank;
  out.source = std::move(source);
  if (finding.rank) out.processes.push_back(*finding.rank);
  out.findings.push_back(std::move(finding));
  return out;
}

}  // namespace

InputKind kind_of_input(std::string_view head) {
  if (const auto elf = parsers::elf_kind(head)) {
    if (elf->machine == parsers::kMachineCuda && elf->type == parsers::kElfCore) return InputKind::cuda_core;
    if (elf->type == parsers::kElfCore) return InputKind::core_file;
    return InputKind::text;
  }
  // A core of another word size or byte order is told as what it is.
  if (parsers::looks_like_elf(head) && head.size() > 17 && head[5] == 2 && head[16] == 0 && head[17] == 4) return InputKind::core_file;
  if (parsers::looks_like_recorder_pickle(head) || parsers::looks_like_recorder_json(head)) return InputKind::flight_recorder;
  if (parsers::looks_like_elastic_error(head)) return InputKind::elastic_error;
  if (parsers::looks_like_snapshot(head) || parsers::looks_like_snapshot_json(head)) return InputKind::allocator_snapshot;
  return InputKind::text;
}

Result<SourceFindings> read_dump(InputKind kind, parsers::ReadAt& file, signatures::SourceInfo source) {
  const std::string name = source.name;
  source.bytes = file.size();
  switch (kind) {
    case InputKind::core_file: {
      TRIAGE_TRY(auto core, parsers::read_core_file(file, name));
      const bool cut = core.truncated;
      SourceFindings out = with(std::move(source), signatures::finding_of_core(std::move(core)));
      if (cut) lose(out, "the core dump is cut: its memory image is not complete");
      return out;
    }
    case InputKind::cuda_core: {
      TRIAGE_TRY(auto core, parsers::read_cuda_core(file, name));
      const bool cut = core.truncated;
      SourceFindings out = with(std::move(source), signatures::finding_of_cuda_core(std::move(core)));
      if (cut) lose(out, "the CUDA core dump is cut");
      return out;
    }
    case InputKind::flight_recorder: {
      if (file.size() > parsers::limits::kRecorderBytes)
        return Error(ErrorCode::limit, "the flight recorder dump is too large").at(Place{name, {}, {}, 0, {}});
      TRIAGE_TRY(const std::string bytes, parsers::read_range(file, 0, static_cast<std::size_t>(file.size())));
      TRIAGE_TRY(auto recording, parsers::read_flight_recorder(bytes, name));
      std::optional<int> rank = source.rank ? source.rank : recording.rank;
      if (!rank) rank = number_at_end(name);
      const bool cut = recording.cut;
      SourceFindings out = with(std::move(source), signatures::finding_of_recording(std::move(recording), rank));
      if (cut) lose(out, "the flight recorder dump is cut: calls at its end are missing");
      return out;
    }
    case InputKind::text:
    case InputKind::elastic_error:
    case InputKind::allocator_snapshot: break;
  }
  return Error(ErrorCode::internal, "a text was given to the reader of dumps").at(Place{name, {}, {}, {}, {}});
}

}  // namespace triage::daemon
