// The typed events that parsers read out of messages: the one header that all later layers share.
// All own their text. Unknown is an empty optional or an empty string, never a guess.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "parsers/base/units.hpp"

namespace triage::parsers {

struct ProcessMemory {
  std::int64_t pid = 0;
  Bytes bytes;
};

// What an allocator said when it could not give memory. Formats: every PyTorch from 0.4 on and its HIP, XPU, MPS, NPU kin,
// cudaMallocAsync, cuMem, NCCL, cuBLAS, CuPy, XLA, TensorFlow BFC.
struct OutOfMemory {
  std::string backend;                          // cuda, hip, xpu, mps, npu, mlu, gcu, musa, tpu, cpu
  std::string format;                           // which printed form was read, e.g. "torch-2.2", "torch-1.4", "mps", "cupy"
  std::optional<int> device;
  std::optional<Bytes> tried, capacity, free, in_use, allocated, reserved, reserved_unallocated, private_pools;
  std::optional<Bytes> limit;                   // memory fraction ("allowed"), MPS high watermark, CuPy pool limit
  std::vector<ProcessMemory> processes;         // every "Process N has M", as printed (verdict decides whose they are)
  bool truncated = false;                       // the message ends in the middle
  bool sums_agree = true;                       // allocated + unallocated <= in_use <= capacity - free, within rounding
  std::string sums_note;                        // what does not agree, in words
};

struct Frame {
  std::string file;
  std::int64_t line = 0;
  std::string function;
  std::string source;                           // the echoed source line
};

struct Traceback {
  enum class Language { python, cpp, cuda, faulthandler, java };
  Language language = Language::python;
  std::string exception;                        // torch.OutOfMemoryError, std::runtime_error
  std::string message;                          // may have several lines
  std::vector<Frame> frames;                    // outermost first; for C++ frame #0 first, as printed
  bool complete = true;                         // its last line (the exception) was seen
  std::uint64_t first_line = 0, last_line = 0;  // 1-based, in the source
  std::uint64_t exception_line = 0;             // 1-based line of "Type: message", 0 if none
  // What followed it in the same stream: nothing; an exception raised while this one was handled; one raised because of it; or the
  // failure that caused it (the remote part of Ray's, the DataLoader worker's or the spawned process's original traceback).
  enum class Next { none, during_handling, direct_cause, its_cause };
  Next next = Next::none;
};

// One completed step of a training loop.
struct Progress {
  std::optional<std::int64_t> iteration, total;
  std::optional<double> loss, grad_norm, step_seconds;
  bool bad_number = false;                      // loss or gradient norm printed as nan or inf, or "number of nan iterations" > 0
  std::optional<int> rank;                      // of the record, where it has one
  std::string printer;                          // megatron, bridge, nemo, deepspeed, torchtitan, huggingface, lightning, verl, maxtext, tqdm, generic
  std::optional<TimePoint> time;
  std::uint64_t line = 0;
};

// What a run reports about its memory while it is well.
struct MemoryReport {
  std::optional<int> rank;
  std::optional<std::int64_t> iteration;
  std::optional<Bytes> allocated, max_allocated, active, reserved, max_reserved, capacity;
  std::optional<std::int64_t> retries;          // allocation retries (cudaMalloc after freeing the cache)
  std::string printer;
  std::uint64_t line = 0;
};

// ProcessGroupNCCL's and HCCL's "Watchdog caught collective operation timeout", its state lines and the gloo kin.
struct CollectiveTimeout {
  std::optional<int> rank;
  std::string process_group;                    // id or description
  std::optional<std::int64_t> sequence;
  std::string operation;                        // ALLREDUCE, BROADCAST, ...
  std::optional<std::int64_t> elements_in, elements_out, timeout_ms, ran_ms;
  std::optional<std::int64_t> last_enqueued, last_completed;
};

// One entry of torchrun's failure table.
struct ElasticFailure {
  std::optional<TimePoint> time;
  std::string host;
  std::optional<int> rank, local_rank;
  std::optional<int> exit_code;                 // negative: signal
  std::optional<std::int64_t> pid;
  std::string error_file, traceback;
  bool root = false;                            // "Root Cause (first observed failure)"
  std::uint64_t line = 0;                       // of its exit code, else of its time
  std::string text;                             // that line as printed
  std::uint64_t time_line = 0;
  std::string time_text;                        // the line of its time as printed
};
struct ElasticTable { std::vector<ElasticFailure> failures; };

// How a process ended, as a launcher, shell, scheduler or container runtime printed it.
struct ProcessExit {
  std::optional<int> exit_code;                 // 0..255
  std::optional<int> signal;                    // 1..64
  std::optional<int> rank, local_rank, task;
  std::optional<std::int64_t> pid;
  std::string node, printer;
  std::string reason;                           // the printer's own word: OOMKilled, OUT_OF_MEMORY, DUE TO TIME LIMIT, Evicted: ...
  bool out_of_memory = false;                   // the printer itself says OOM (Slurm OUT_OF_MEMORY, OOMKilled)
  std::vector<Frame> frames;                    // of the thread that crashed, where the printer shows them (coredumpctl); #0 first
};

struct Xid {
  std::string pci;                              // 0000:1a:00
  int code = 0;
  std::optional<std::int64_t> pid;
  std::string process, text;
  bool nvswitch = false;                        // SXid
};

// The kernel's oom-killer report, folded into one event.
struct OomKill {
  std::optional<std::int64_t> pid;              // victim
  std::string process;
  std::optional<Bytes> total_vm, anon_rss, file_rss, shmem_rss, limit, usage;
  std::string constraint, cgroup;               // CONSTRAINT_MEMCG, /kubepods/...
};

// What a dump file says (parsers/snapshot). Shared and never changed: findings are copied, and a dump is large.
struct CoreFile;
struct CudaCore;
struct Recording;
using CoreFileEvent = std::shared_ptr<const CoreFile>;
using CudaCoreEvent = std::shared_ptr<const CudaCore>;
using RecordingEvent = std::shared_ptr<const Recording>;

using Event = std::variant<std::monostate, OutOfMemory, Traceback, Progress, MemoryReport, CollectiveTimeout, ElasticTable,
                           ProcessExit, Xid, OomKill, CoreFileEvent, CudaCoreEvent, RecordingEvent>;

}  // namespace triage::parsers
