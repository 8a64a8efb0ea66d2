#include "signatures/verdict/summary.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"
#include "signatures/verdict/collective.hpp"
#include "signatures/verdict/exits.hpp"
#include "signatures/verdict/item.hpp"

namespace triage::signatures {
namespace {

using parsers::bytes_text;

std::string_view phase_words(Phase phase) {
  switch (phase) {
    case Phase::init: return "while the model was built";
    case Phase::load: return "while weights were loaded";
    case Phase::optimizer_init: return "when the optimizer made its states";
    case Phase::forward: return "in the forward pass";
    case Phase::loss: return "in the loss";
    case Phase::backward: return "in the backward pass";
    case Phase::optimizer_step: return "in the optimizer step";
    case Phase::comm: return "in communication";
    case Phase::checkpoint: return "while a checkpoint was saved";
    case Phase::eval: return "in evaluation or generation";
    case Phase::capture: return "while a CUDA graph was captured";
    case Phase::compile: return "while code was compiled";
    case Phase::unknown: break;
  }
  return {};
}

std::string who(const Diagnosis& d) {
  if (d.root.rank) return "Rank " + std::to_string(*d.root.rank);
  if (d.root.local_rank) return "Local rank " + std::to_string(*d.root.local_rank);
  if (!d.root.node.empty()) return "A process on " + d.root.node;
  return "A process";
}

std::string in_phase(const Diagnosis& d) {
  const auto words = phase_words(d.phase);
  return words.empty() ? "" : " " + std::string(words);
}

std::string at_step(const Diagnosis& d) { return d.root.step ? " at step " + std::to_string(*d.root.step) : ""; }

// "76.20 of 79.20 GiB" where both have one unit, else both in full.
std::string of_text(parsers::Bytes part, parsers::Bytes whole) {
  const std::string a = bytes_text(part), b = bytes_text(whole);
  const auto x = a.rfind(' '), y = b.rfind(' ');
  if (x != std::string::npos && y != std::string::npos && a.substr(x) == b.substr(y)) return a.substr(0, x) + " of " + b;
  return a + " of " + b;
}

std::string cut(std::string_view words) {
  words = parsers::trim(words);
  const std::string_view head = parsers::whole_head(words, 160);
  return std::string(head) + (head.size() < words.size() ? "..." : "");
}

// The first line of `text` that is not blank.
std::string_view first_line(std::string_view text) {
  text = parsers::trim(text);
  return parsers::trim(text.substr(0, text.find('\n')));
}

// The line of a message that says what its first line only announces; empty if there is none.
// Sources: pytorch/pytorch: torch/csrc/distributed/c10d/NCCLUtils.cpp ("Last error:"), torch/_dynamo/utils.py (": got RuntimeError(...)"; older:
// "Failed running call_function ...:"), torch/_dynamo/exc.py ("backend='inductor' raised:").
std::string_view decisive(const Finding& root) {
  if (!root.traceback) return {};
  const std::string_view message = root.traceback->message;
  constexpr std::string_view last_error = "\nLast error:", fake = "failed to run FX node with fake tensors: ", got = ": got ";
  if (const auto at = message.find(last_error); at != std::string_view::npos) return first_line(message.substr(at + last_error.size()));
  if (const auto at = message.find(fake); at != std::string_view::npos)
    if (const auto inner = message.find(got, at); inner != std::string_view::npos) return first_line(message.substr(inner + got.size()));
  const auto end = message.find('\n');
  if (end == std::string_view::npos || !parsers::trim(message.substr(0, end)).ends_with(':')) return {};
  return first_line(message.substr(end));
}

// What the program said, in one line: the source line of an exception without words, the next line of one that only announces it.
std::string said(const Finding& root) {
  if (root.traceback && parsers::trim(root.traceback->message).empty() && !root.traceback->frames.empty()) {
    const std::string& source = root.traceback->frames.back().source;
    if (!source.empty() && !source.starts_with("raise ")) return cut(source);
  }
  std::string out = cut(first_line(words_of(root)));
  if (const auto inner = decisive(root); out.ends_with(':') && !inner.empty()) out += " " + cut(inner);
  return out;
}

std::string memory_summary(const Diagnosis& d) {
  std::string out = who(d);
  const auto& l = d.ledger;
  if (!l || !l->tried) {
    out += " could get no more device memory" + in_phase(d) + at_step(d);
    if (l && l->allocated && l->capacity) out += "; " + of_text(*l->allocated, *l->capacity) + " were allocated";
    return out + ".";
  }
  out += " asked for " + bytes_text(*l->tried) + in_phase(d) + at_step(d);
  if (l->limit && d.kind == "gpu.oom.capacity" && l->capacity && *l->limit < *l->capacity && l->allocated) {
    return out + "; " + bytes_text(*l->allocated) + " of its own limit of " + bytes_text(*l->limit) + " were allocated (the device has " +
           bytes_text(*l->capacity) + ").";
  }
  if (kind_is(d.kind, "gpu.oom.other_process") && !l->other_processes.empty() && l->capacity) {
    parsers::Bytes sum;
    for (const auto& p : l->other_processes) sum += p.bytes;
    out += "; " + std::string(l->other_processes.size() == 1 ? "another process (" + std::to_string(l->other_processes.front().pid) + ")"
                                                             : std::to_string(l->other_processes.size()) + " other processes") +
           " held " + of_text(sum, *l->capacity);
    return out + ".";
  }
  if (kind_is(d.kind, "gpu.oom.fragmentation") && l->reserved_unallocated) {
    out += "; " + bytes_text(*l->reserved_unallocated) + " were reserved but unallocated, in pieces too small";
    if (l->allocated && l->capacity) out += " (" + of_text(*l->allocated, *l->capacity) + " allocated)";
    return out + ".";
  }
  if (l->allocated && l->capacity && *l->allocated > *l->capacity) {
    // The Windows driver moves what does not fit into host memory.
    return out + "; " + bytes_text(*l->allocated) + " were allocated on a device of " + bytes_text(*l->capacity) +
           ": the driver keeps the rest in host memory.";
  }
  if (l->in_use && l->capacity) {
    out += "; " + of_text(*l->in_use, *l->capacity) + " were in use";
  } else if (l->allocated && l->capacity) {
    out += "; " + of_text(*l->allocated, *l->capacity) + " were allocated";
  } else if (l->allocated && l->limit) {
    out += "; " + bytes_text(*l->allocated) + " were allocated, the limit is " + bytes_text(*l->limit);
  }
  if (l->free) out += (parsers::contains(out, ";") ? ", " + bytes_text(*l->free) : "; only " + bytes_text(*l->free) + " were") + " free";
  return out + ".";
}

std::string collective_summary(const Diagnosis& d, const Finding& root) {
  const auto& c = d.collective;
  if (!c) return who(d) + ": " + said(root) + ".";
  std::string call = c->operation.empty() ? "A collective" : c->operation;
  if (c->sequence) call += " number " + std::to_string(*c->sequence);
  if (kind_is(d.kind, "nccl.desync"))
    return "The ranks called different collectives: " +
           (c->culprit_ranks.empty() ? "at " + call : ranks_text(c->culprit_ranks) + " called " + call + ", the others something else") + ".";
  std::string out = call + " timed out";
  if (!c->waiting_ranks.empty()) out += " on " + ranks_text(c->waiting_ranks);
  if (!c->culprit_ranks.empty()) {
    out += "; they waited for " + ranks_text(c->culprit_ranks);
  } else if (!c->one_of.empty()) {
    out += "; one of " + ranks_text(c->one_of.front()) + " stands still, the dumps do not tell which";
  } else if (!c->silent_ranks.empty() && c->silent_ranks.size() <= 64) {
    out += "; " + ranks_text(c->silent_ranks) + " reported nothing";
  }
  return out + ".";
}

std::string host_summary(const Diagnosis& d, const Finding& root) {
  const auto* kill = std::get_if<parsers::OomKill>(&root.event);
  if (kill == nullptr) return {};
  std::string out = "The kernel killed process ";
  out += kill->pid ? std::to_string(*kill->pid) : "?";
  if (!kill->process.empty()) out += " (" + kill->process + ")";
  if (kill->anon_rss) out += " with " + bytes_text(*kill->anon_rss) + " of host memory";
  const bool group = kill->constraint == "CONSTRAINT_MEMCG" || kind_is(d.kind, "host.oom.cgroup");
  out += group ? ": the cgroup's limit" : ": the host's memory";
  if (group && kill->limit) out += " of " + bytes_text(*kill->limit);
  return out + (group ? " was reached." : " ran out.");
}

}  // namespace

std::string summary_of(const Diagnosis& d, const Finding& root, const std::string& rule_summary) {
  if (kind_is(d.kind, "gpu.oom") && (d.ledger || rule_summary.empty())) return memory_summary(d);
  if (kind_is(d.kind, "host.oom"))
    if (auto text = host_summary(d, root); !text.empty()) return text;
  if (d.collective && (kind_is(d.kind, "nccl.timeout") || kind_is(d.kind, "nccl.desync"))) return collective_summary(d, root);
  if (kind_is(d.kind, "proc") && std::holds_alternative<parsers::ElasticTable>(root.event)) {
    const auto ending = d.kind;
    return who(d) + " ended first (" + ending + "); the logs given do not say why.";
  }
  if (kind_is(d.kind, "proc"))
    if (const auto ending = ending_of(root); ending && rule_summary.empty())
      return who(d) + " ended with " + ending_text(*ending) + in_phase(d) + at_step(d) + ".";
  std::string out;
  if (!rule_summary.empty()) {
    out = rule_summary;
    const bool announces = out.back() == ':' || kind_is(root.kind, "nccl") || root.rule == "user.fake_tensor";
    if (out.back() == '.' || out.back() == ':') out.pop_back();
    if (const auto inner = decisive(root); announces && !inner.empty() && !parsers::contains(out, inner)) out += ": " + cut(inner);
    if (out.back() == '.' && !out.ends_with("...")) out.pop_back();
    const std::string rank = d.root.rank ? "rank " + std::to_string(*d.root.rank) : "";
    if (!rank.empty() && !parsers::contains(parsers::lower(out), rank)) out += " (" + rank + at_step(d) + ")";
    return out + ".";
  }
  const std::string name = exception_name(root);
  std::string words = said(root);
  if (!name.empty() && !parsers::contains(words.substr(0, 80), name)) words = name + ": " + words;
  return who(d) + " died" + in_phase(d) + at_step(d) + " of: " + words;
}

namespace {

bool uses(const Diagnosis& d, std::string_view framework) {
  return std::any_of(d.frameworks.begin(), d.frameworks.end(), [&](const std::string& name) { return parsers::contains(name, framework); });
}

// pytorch/pytorch: torch/cuda/memory.py; NVIDIA/Megatron-LM: megatron/training/arguments.py; pytorch/torchtitan: job configuration.
std::string memory_history(const Diagnosis& d) {
  if (uses(d, "megatron")) return "--record-memory-history --memory-snapshot-path /shared/snapshot.pickle";
  if (uses(d, "torchtitan")) return "--profiling.enable_memory_snapshot --profiling.save_memory_snapshot_folder memory_snapshot";
  return "torch.cuda.memory._record_memory_history(max_entries=100000) at the start and torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") when "
         "torch.OutOfMemoryError is caught (Megatron-LM: --record-memory-history --memory-snapshot-path FILE; torchtitan: "
         "--profiling.enable_memory_snapshot)";
}

// pytorch/pytorch: ProcessGroupNCCL.hpp, FlightRecorder.hpp: since 2.9 the variables begin with TORCH_FR; the old names stay.
std::string flight_recorder(const Diagnosis& d) {
  if (uses(d, "torchtitan")) return "--comm.trace_buf_size 20000 --comm.save_traces_folder comm_traces (on a file system that all nodes share)";
  return "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/shared/nccl_trace_rank_ "
         "(PyTorch 2.9 and later: TORCH_FR_BUFFER_SIZE=2000 TORCH_FR_DUMP_TEMP_FILE=/shared/nccl_trace_rank_), and all ranks' files as input";
}

void missing_of_crash(const Diagnosis& d, const Finding& root, const Knowledge& knowledge, std::vector<Missing>& out) {
  const bool crash = kind_is(d.kind, "proc.sigsegv") || kind_is(d.kind, "proc.sigabrt") || kind_is(d.kind, "proc.sigbus") || kind_is(d.kind, "proc.sigfpe") ||
                     kind_is(d.kind, "proc.sigill");
  if (!crash) return;
  const bool python = root.traceback && root.traceback->language != parsers::Traceback::Language::cpp;
  if (!python) out.push_back({"the Python stack at the crash", "PYTHONFAULTHANDLER=1 (prints \"Fatal Python error\" with the stack of each thread)"});
  if (!knowledge.core_file)
    out.push_back({"a core dump: the library and the address of the crash",
                   "ulimit -c unlimited before the launch (Slurm: srun --propagate=CORE; Docker: --ulimit core=-1); cat /proc/sys/kernel/core_pattern says "
                   "where it goes; with systemd: coredumpctl dump PID -o core.PID"});
}

}  // namespace

std::vector<Missing> missing_of(const Diagnosis& d, const Finding& root, const Knowledge& knowledge) {
  std::vector<Missing> out;
  const auto add = [&](std::string what, std::string set) { out.push_back({std::move(what), std::move(set)}); };
  if (kind_is(d.kind, "gpu.oom")) {
    if (!knowledge.snapshot && (d.backend.empty() || d.backend == "cuda" || d.backend == "hip"))
      add("allocator history: what filled the device", memory_history(d));
    if (!d.ledger || !d.ledger->tried)
      add("the allocator's figures", "the worker's own log with the line \"Tried to allocate ...\", not the launcher's copy");
    if (d.config.empty()) add("the run's configuration", "the start of the log with the argument block, or the configuration file as one more input");
    if (d.phase == Phase::unknown) add("the traceback", "the lines before the message, with all frames");
  }
  if (kind_is(d.kind, "nccl") || kind_is(d.kind, "dist.gloo_timeout")) {
    if (!knowledge.flight_recorder && !kind_is(d.kind, "dist") && !uses(d, "jax"))
      add("what each rank called last", flight_recorder(d));
    if (knowledge.flight_recorder && d.collective && !d.collective->silent_ranks.empty())
      add("the flight recorder dumps of " + ranks_text(d.collective->silent_ranks), "a folder that all nodes share in TORCH_NCCL_DEBUG_INFO_TEMP_FILE; a rank that died leaves none");
    if (d.collective && d.collective->culprit_ranks.empty())
      add("the logs of the ranks that reported nothing", "torchrun --log-dir DIR --redirects 3 (one file a rank), and all of them as input");
  }
  if (kind_is(d.kind, "proc.sigkill"))
    add("who sent SIGKILL",
        "on the node: dmesg -T | grep -i -E 'oom|killed process'; cat /sys/fs/cgroup/memory.events; Slurm: sacct -j JOB -o State,ExitCode,MaxRSS; "
        "Kubernetes: kubectl describe pod");
  if (kind_is(d.kind, "proc.exit"))
    add("the error of the process that ended first",
        "decorate main with torch.distributed.elastic.multiprocessing.errors.record: it writes error.json into TORCHELASTIC_ERROR_FILE (torchrun sets it, "
        "under --log-dir DIR); and torchrun --redirects 3 keeps each rank's output");
  missing_of_crash(d, root, knowledge, out);
  if (kind_is(d.kind, "cuda") && !kind_is(d.kind, "cuda.ecc") && !kind_is(d.kind, "cuda.init") && !kind_is(d.kind, "cuda.no_kernel_image") && !knowledge.cuda_core)
    add("the kernel that failed: the error is reported later than it happens",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1 CUDA_COREDUMP_FILE=/shared/core_%h_%p.nvcudmp (costs nothing while all is "
        "well), or CUDA_LAUNCH_BLOCKING=1 for a short run");
  if (kind_is(d.kind, "cuda.ecc") || kind_is(d.kind, "cuda.launch_failure"))
    add("the driver's record of the device", "dmesg -T | grep -i -E 'xid|nvrm|amdgpu' of the node as one more input");
  if (!d.root.rank && !root.system && !kind_is(d.kind, "sched") && !uses(d, "jax"))
    add("which rank it was", "PyTorch 2.2 or later prefixes its own errors with [rankN]; torchrun --log-dir DIR --redirects 3, or srun --label");
  return out;
}

}  // namespace triage::signatures
