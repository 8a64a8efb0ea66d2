// Findings as the matcher makes them, for tests of the judgement: real lines of torchrun, PyTorch, NCCL, Slurm and the kernel.
#pragma once

#include <string>
#include <utility>

#include "parsers/base/units.hpp"
#include "signatures/verdict/incident_builder.hpp"

namespace triage::signatures::test {

inline Finding finding(std::string rule, std::string kind, Role role, std::uint64_t line, std::string text) {
  Finding f;
  f.rule = std::move(rule);
  f.kind = std::move(kind);
  f.role = role;
  f.line = line;
  f.last_line = line;
  f.offset = line * 100;
  f.length = text.size();
  f.message = text;
  f.text = std::move(text);
  return f;
}

inline Finding with_rank(Finding f, int rank) {
  f.text = "[rank" + std::to_string(rank) + "]: " + f.text;
  f.rank = rank;
  return f;
}

inline Finding with_frames(Finding f, std::string exception, std::string message, std::vector<parsers::Frame> frames) {
  parsers::Traceback t;
  t.exception = std::move(exception);
  t.message = std::move(message);
  t.frames = std::move(frames);
  t.first_line = f.line > 10 ? f.line - 10 : 1;
  t.last_line = t.exception_line = f.line;
  f.traceback = std::move(t);
  return f;
}

inline parsers::TimePoint at(int seconds) { return parsers::TimePoint(std::chrono::seconds(1'796'000'000 + seconds)); }

// The figures of recorded ranks-oom: 128 GiB asked of 139.80 GiB, three siblings with 1.62 GiB each.
inline parsers::OutOfMemory ranks_oom_event() {
  parsers::OutOfMemory e;
  e.backend = "cuda";
  e.device = 0;
  e.tried = parsers::gib(128);
  e.capacity = parsers::gib(139.80);
  e.free = parsers::gib(5.49);
  e.in_use = parsers::gib(129.43);
  e.allocated = parsers::gib(128.56);
  e.reserved_unallocated = parsers::mib(70.75);
  e.processes = {{519, parsers::gib(1.62)}, {521, parsers::gib(1.62)}, {518, parsers::gib(1.62)}};
  return e;
}

inline Finding oom(std::uint64_t line, const parsers::OutOfMemory& event) {
  Finding f = finding("torch.cuda.oom", "gpu.oom", Role::root, line, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 GiB.");
  f.event = event;
  return f;
}

inline parsers::Progress step(std::int64_t iteration, std::uint64_t line) {
  parsers::Progress p;
  p.iteration = iteration;
  p.line = line;
  p.printer = "generic";
  return p;
}

inline SourceFindings source(std::string name, std::vector<Finding> findings, std::vector<parsers::Progress> progress = {}) {
  SourceFindings s;
  s.source.name = std::move(name);
  s.findings = std::move(findings);
  s.progress = std::move(progress);
  for (const auto& f : s.findings) s.last_line = std::max(s.last_line, f.line);
  for (const auto& p : s.progress) s.last_line = std::max(s.last_line, p.line);
  return s;
}

inline Judgement judge_one(SourceFindings s) {
  std::vector<SourceFindings> sources;
  sources.push_back(std::move(s));
  return judge(std::move(sources), {});
}

}  // namespace triage::signatures::test
