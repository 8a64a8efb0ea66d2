// Diagnoses made by hand for the tests of the planner: the figures are those of recorded failures.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures::tests {

inline parsers::Bytes gib(double n) { return parsers::gib(n); }

inline Diagnosis oom(std::string kind, Phase phase, std::vector<std::string> frameworks = {}) {
  Diagnosis made;
  made.kind = std::move(kind);
  made.phase = phase;
  made.backend = "cuda";
  made.frameworks = std::move(frameworks);
  made.fix_hints = {"recompute", "micro_batch", "parallelism", "allocator"};
  made.root.device = 0;
  return made;
}

// Sizes in GiB.
inline Ledger ledger(double capacity, double free, double tried, double in_use, double allocated,
                     double unallocated) {
  Ledger made;
  made.capacity = gib(capacity);
  made.free = gib(free);
  made.tried = gib(tried);
  made.in_use = gib(in_use);
  made.allocated = gib(allocated);
  made.reserved_unallocated = gib(unallocated);
  made.outside_pytorch = gib(in_use - allocated - unallocated);
  return made;
}

inline void set(Diagnosis& diagnosis, parsers::Key key, std::string_view text) {
  (void)diagnosis.config.set_text(key, text, "test").ok();
}

inline Diagnosis capacity_forward() {
  Diagnosis made = oom("gpu.oom.capacity", Phase::forward, {"huggingface"});
  made.ledger = ledger(139.80, 0.52, 2.0, 139.27, 135.08, 3.52);
  return made;
}
inline Diagnosis loss_with_checkpointing() {
  Diagnosis made = oom("gpu.oom.capacity", Phase::loss, {"huggingface"});
  made.ledger = ledger(139.80, 12.11, 62.62, 127.68, 122.44, 4.57);
  return made;
}
inline Diagnosis logits_spike() {
  Diagnosis made = oom("gpu.oom.capacity", Phase::loss, {"huggingface"});
  made.ledger = ledger(139.80, 47.88, 128.0, 91.9, 91.0, 0.3);
  return made;
}
inline Diagnosis optimizer_first_step() {
  Diagnosis made = oom("gpu.oom.capacity", Phase::optimizer_init);
  made.ledger = ledger(139.80, 0.1, 0.109, 139.69, 136.67, 2.28);
  return made;
}
inline Diagnosis fragmentation() {
  Diagnosis made = oom("gpu.oom.fragmentation", Phase::unknown);
  made.ledger = ledger(139.80, 1.2, 30.0, 138.6, 19.3, 118.6);
  return made;
}
inline Diagnosis other_process() {
  Diagnosis made = oom("gpu.oom.other_process", Phase::forward);
  made.ledger = ledger(139.80, 0.4, 0.875, 20.9, 19.8, 0.6);
  made.ledger->other_processes = {{1387, gib(118.5)}};
  return made;
}
inline Diagnosis model_load() {
  Diagnosis made = oom("gpu.oom.capacity", Phase::load, {"huggingface"});
  made.ledger = ledger(139.80, 0.0128, 0.109, 139.78, 137.86, 1.32);
  return made;
}
inline Diagnosis megatron(Phase phase) {
  Diagnosis made = oom("gpu.oom.capacity", phase, {"megatron-lm"});
  using parsers::Key;
  const std::vector<std::pair<Key, const char*>> settings = {
      {Key::framework, "megatron-lm"}, {Key::layers, "24"}, {Key::hidden, "4096"}, {Key::heads, "32"},
      {Key::seq_length, "4096"}, {Key::micro_batch, "4"}, {Key::global_batch, "64"}, {Key::world, "8"},
      {Key::tensor_parallel, "1"}, {Key::pipeline_parallel, "1"}, {Key::context_parallel, "1"},
      {Key::data_parallel, "8"}, {Key::distributed_optimizer, "true"}, {Key::recompute, "none"},
      {Key::transformer_impl, "local"}, {Key::dtype, "bf16"}, {Key::vocab, "128256"},
      {Key::sequence_parallel, "false"}, {Key::optimizer, "adam"}, {Key::fsdp, "none"}};
  for (const auto& [key, text] : settings) set(made, key, text);
  made.ledger = ledger(139.80, 2.19, 4.0, 137.60, 131.55, 5.32);
  return made;
}

// Every kind of the API.
inline std::vector<std::string> all_kinds() {
  return {"gpu.oom.capacity", "gpu.oom.fragmentation", "gpu.oom.other_process", "gpu.oom.limit", "gpu.oom.driver",
          "gpu.oom.nccl", "gpu.oom.cublas", "gpu.oom.cudnn", "gpu.oom.cudagraph", "gpu.oom.leak",
          "triton.shared_memory", "jax.oom.runtime", "jax.oom.compile", "tf.oom",
          "host.oom.kernel", "host.oom.cgroup", "host.oom.slurm", "host.oom.k8s", "host.oom.ray", "host.oom.python",
          "host.shm", "host.alloc", "host.pinned",
          "nccl.timeout", "nccl.heartbeat", "nccl.remote", "nccl.system", "nccl.net", "nccl.desync", "nccl.usage",
          "nccl.internal", "dist.store", "dist.rendezvous", "dist.gloo_timeout", "dist.peer_closed",
          "cuda.illegal_access", "cuda.illegal_instruction", "cuda.device_assert", "cuda.misaligned",
          "cuda.launch_failure", "cuda.ecc", "cuda.init", "cuda.no_kernel_image",
          "gpu.xid.13", "gpu.xid.31", "gpu.xid.48", "gpu.xid.74", "gpu.xid.79", "gpu.xid.95", "gpu.sxid.12028",
          "gpu.fallen_off_bus", "gpu.init_failed", "gpu.nvlink",
          "proc.sigsegv", "proc.sigabrt", "proc.sigbus", "proc.sigfpe", "proc.sigill", "proc.sigkill", "proc.sigterm",
          "proc.exit",
          "sched.time_limit", "sched.node_fail", "sched.preempted", "sched.cancelled", "sched.evicted",
          "sched.requeued", "sched.launch",
          "io.enospc", "io.emfile", "io.stale", "io.eio", "ckpt.corrupt", "ckpt.missing", "ckpt.mismatch",
          "num.nan", "num.spike", "data.index", "data.worker", "data.missing", "data.corrupt", "data.empty", "data.tokenizer", "data.multimodal", "config.assertion", "config.arguments", "config.attention", "config.batch_size", "config.deepspeed",
          "config.alignment", "config.divisibility", "config.key", "config.model", "config.parallelism", "config.sequence", "config.trainer",
          "env.import", "env.version", "env.compile", "env.permission", "net.hub", "user.exception", "user.exception.device", "user.exception.dtype",
          "proc.sigint", "proc.sighup", "gpu.oom", "jax.oom", "host.oom"};
}

}  // namespace triage::signatures::tests
