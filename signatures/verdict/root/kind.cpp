#include "signatures/verdict/root/kind.hpp"

#include <algorithm>

#include "parsers/base/text.hpp"
#include "signatures/verdict/exits.hpp"
#include "signatures/verdict/fingerprint.hpp"
#include "signatures/verdict/phase.hpp"

namespace triage::signatures {
namespace {

constexpr std::ptrdiff_t kReaderFrames = 2;   // innermost frames among which a reader raises its own error

// "KeyError: 'state'" or "ValueError: lengths differ" say nothing; raised inside the code that reads a checkpoint, they say that it does
// not fit this run.
void kind_of_reader_fault(const Case& c, Diagnosis& d) {
  const Finding& f = *c.root.finding;
  if (d.kind != "user.exception" || f.rule != "python.exception") return;
  const std::string name = exception_name(f);
  const auto& frames = d.root.frames;
  const bool key = name == "KeyError";
  if (!key && name != "ValueError" && name != "RuntimeError" && name != "AssertionError" && name != "IndexError") return;
  // A missing key may come to light far below the reader; the others are meant where the reader itself raises them.
  const auto from = key || frames.size() < kReaderFrames ? frames.begin() : frames.end() - kReaderFrames;
  if (!std::any_of(from, frames.end(), [](const parsers::Frame& frame) { return reads_checkpoint(frame); })) return;
  d.kind = "ckpt.mismatch";
  if (d.phase == Phase::unknown) d.phase = Phase::load;
  d.reasons.push_back(key ? "the key is missing while a checkpoint is read: it was written by another layout, version or optimizer"
                           : "it was raised while a checkpoint is read: it was written by another layout, version or optimizer");
}

// Transformer Engine's loader takes the first library that it finds, and lets StopIteration out when there is none.
void kind_of_loader_fault(const Case& c, Diagnosis& d) {
  const Finding& f = *c.root.finding;
  const auto& frames = d.root.frames;
  if (f.rule != "data.empty" || exception_name(f) != "StopIteration" || frames.empty()) return;
  if (!frames.back().function.starts_with("_load_library") || !parsers::contains(frames.back().file, "transformer_engine")) return;
  d.kind = "env.import";
  d.fix_hints.push_back("config.install");
  d.reasons.push_back("it was raised while a package looks for its own compiled library: that part is not installed, or was built for another framework");
}

// A DeviceMesh keeps the groups of its dimensions only on the ranks that are in it; asked elsewhere, the list is empty.
// Source: pytorch/pytorch: torch/distributed/device_mesh.py.
void kind_of_mesh_fault(const Case& c, Diagnosis& d) {
  const Finding& f = *c.root.finding;
  const auto& frames = d.root.frames;
  if (f.rule != "python.exception" || exception_name(f) != "IndexError" || frames.empty()) return;
  const auto& inner = frames.back();
  if (!parsers::contains(inner.file, "torch/distributed/device_mesh.py") || !parsers::contains(inner.source, "_dim_group_")) return;
  d.kind = "config.parallelism";
  d.fix_hints.push_back("config");
  d.reasons.push_back("it was raised where a device mesh is asked for the group of one of its dimensions: this rank is not in that mesh, or the mesh has no such dimension");
}

// Megatron's and NVIDIA's asynchronous saving ask queues of helper processes (multiprocessing.Manager, the persistent writer): EOFError there
// says that such a helper ended, no peer. Sources: NVIDIA/Megatron-LM: core/dist_checkpointing/strategies/{filesystem_async,async_utils}.py,
// NVIDIA/nvidia-resiliency-ext: checkpointing/async_ckpt, pytorch/pytorch: distributed/checkpoint/_async_process_executor.py.
void kind_of_lost_writer(const Case& c, Diagnosis& d) {
  const auto& frames = d.root.frames;
  const std::string name = exception_name(*c.root.finding);
  const bool pipe = name == "EOFError" || name == "BrokenPipeError" || name == "ConnectionResetError";
  if (c.root.finding->rule != "python.peer_closed" || !pipe || !std::any_of(frames.begin(), frames.end(), asks_checkpoint_writer)) return;
  d.kind = "proc.exit";
  d.phase = Phase::checkpoint;
  d.reasons.push_back("it was raised where the training asks the process that writes its checkpoint in the background: that process ended, no other rank");
  d.fix_hints.push_back("host");
}

// Semaphores and shared tensors of Python's multiprocessing are files of /dev/shm.
bool in_shared_memory(const Finding& f) {
  if (!f.traceback || f.traceback->frames.empty()) return false;
  const auto& inner = f.traceback->frames.back();
  return parsers::contains(inner.file, "multiprocessing/synchronize.py") || parsers::contains(inner.file, "multiprocessing/shared_memory.py") ||
         parsers::contains(inner.file, "multiprocessing/heap.py") || parsers::contains(inner.source, "SemLock(") ||
         parsers::contains(inner.source, "_share_fd") || parsers::contains(inner.source, "_share_filename");
}

bool sigbus_of_shared_memory(const Finding& f) {
  if (parsers::contains(f.text, "nonexistent physical address")) return true;
  if (!f.traceback) return false;
  return std::any_of(f.traceback->frames.begin(), f.traceback->frames.end(), [](const parsers::Frame& frame) {
    return parsers::contains(frame.file, "libnccl") || parsers::contains(frame.function, "nccl") ||
           parsers::contains(frame.file, "multiprocessing") || parsers::contains(frame.file, "dataloader");
  });
}

std::size_t tables(const std::vector<Item>& items) {
  return static_cast<std::size_t>(std::count_if(items.begin(), items.end(), [](const Item& item) { return std::holds_alternative<parsers::ElasticTable>(item.finding->event); }));
}

void use_table(const Case& c, const FirstFailure& first, Diagnosis& d) {
  const auto& failure = *first.failure;
  const auto ending = failure.exit_code ? ending_of_code(*failure.exit_code) : Ending{};
  d.kind = kind_of_ending(ending);
  d.root.source = c.sources[first.source].source.name;
  d.root.line = first.finding->line;
  d.root.offset = first.finding->offset;
  d.root.text = first.finding->text;
  // The row itself: its exit code; of several tables the time, by which it is the first.
  const bool by_time = failure.time_line > 0 && tables(c.items) > 1;
  if (by_time || failure.line > 0) {
    d.root.line = by_time ? failure.time_line : failure.line;
    d.root.text = by_time ? failure.time_text : failure.text;
  }
  d.root.rank = failure.rank;
  d.root.local_rank = failure.local_rank;
  d.root.pid = failure.pid;
  if (!failure.host.empty()) d.root.node = failure.host;
  if (failure.time) d.root.time = *failure.time + c.sources[first.source].clock_ahead;
  std::string reason = "the launcher's failure table lists ";
  reason += failure.rank ? "rank " + std::to_string(*failure.rank) : "it";
  reason += " as the first to end, with " + ending_text(ending);
  d.reasons.push_back(std::move(reason));
  double next = -1;
  for (const auto* other : table_entries(c.items)) {
    if (other == &failure || !other->time || !failure.time || *other->time <= *failure.time) continue;
    const double gap = std::chrono::duration<double>(*other->time - *failure.time).count();
    if (next < 0 || gap < next) next = gap;
  }
  if (next >= 1) d.reasons.push_back("the next process ended " + std::to_string(static_cast<long>(next)) + " s later");
}

// Exits and signals: the kind says which; a table names the rank.
void kind_of_process(const Case& c, Diagnosis& d) {
  const Finding& f = *c.root.finding;
  if (kind_is(d.kind, "proc.sigbus") && sigbus_of_shared_memory(f)) {
    d.kind = "host.shm";
    d.reasons.push_back("a bus error inside NCCL's or the data loader's shared memory: /dev/shm is full");
    return;
  }
  if (d.kind == "io.enospc" && in_shared_memory(f)) {
    d.kind = "host.shm";
    d.reasons.push_back("no space for a semaphore or a tensor that processes share: that is /dev/shm, not a disk");
    return;
  }
  if (c.root.strength != Strength::exit) return;
  if (const auto* table = std::get_if<parsers::ElasticTable>(&f.event)) {
    const auto first = first_failure(c.items);
    if (!first || table->failures.empty()) return;
    use_table(c, *first, d);
    return;
  }
  if (const auto ending = ending_of(f)) {
    if (kind_is(d.kind, "proc") || f.role != Role::root) d.kind = kind_of_ending(*ending);
    d.reasons.push_back("a process ended with " + ending_text(*ending) + ", and no line says why");
  }
}

// "invoked oom-killer" begins the report of the node's and of a cgroup's shortage alike; a later line of it says which.
void kind_of_host_memory(const Case& c, Diagnosis& d) {
  if (d.kind != "host.oom.kernel") return;
  for (const Item& item : c.items) {
    const auto& f = *item.finding;
    if (item.source == c.root.source && f.system && kind_is(f.kind, "host.oom.cgroup") && f.line >= c.root.finding->line &&
        f.line < c.root.finding->line + 200)
      d.kind = "host.oom.cgroup";
  }
}

}  // namespace

void refine_kind(const Case& c, Diagnosis& d) {
  kind_of_reader_fault(c, d);
  kind_of_loader_fault(c, d);
  kind_of_mesh_fault(c, d);
  kind_of_lost_writer(c, d);
  kind_of_process(c, d);
  kind_of_host_memory(c, d);
}

}  // namespace triage::signatures
