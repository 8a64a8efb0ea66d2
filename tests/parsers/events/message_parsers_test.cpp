#include <doctest/doctest.h>

#include "parsers/base/quantity.hpp"
#include "parsers/events/event_reader.hpp"

#include <string>
#include <vector>

using namespace triage::parsers;

namespace {

template <class T>
T read(std::string_view parser, std::string_view message) {
  Event event = read_event(parser, message);
  INFO(message);
  REQUIRE(std::holds_alternative<T>(event));
  return std::get<T>(event);
}
bool nothing(std::string_view parser, std::string_view message) {
  return std::holds_alternative<std::monostate>(read_event(parser, message));
}
std::optional<Bytes> bytes(std::string_view text) { return read_bytes(text); }

}  // namespace

TEST_CASE("cupy_oom reads sizes with separators, to the byte") {
  const auto oom = read<OutOfMemory>(
      "cupy_oom", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 146,028,888,064 bytes).");
  CHECK((oom.tried == Bytes(8589934592)));
  CHECK((oom.allocated == Bytes(146028888064)));
  CHECK(oom.format == "cupy");
  CHECK_FALSE(oom.truncated);
  const auto limited = read<OutOfMemory>(
      "cupy_oom", "Out of memory allocating 4,096 bytes (allocated so far: 1,024 bytes, limit set to: 2,048 bytes).");
  CHECK((limited.limit == Bytes(2048)));
  CHECK(read<OutOfMemory>("cupy_oom", "Out of memory allocating 8,589,9").truncated);
  CHECK(nothing("cupy_oom", "CUDA out of memory"));
}

TEST_CASE("jax_oom reads run time and compile time forms") {
  const auto runtime = read<OutOfMemory>(
      "jax_oom", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.");
  CHECK((runtime.tried == Bytes(4770354232)));
  CHECK(runtime.format == "xla-runtime");
  CHECK_FALSE(runtime.truncated);
  const auto newer = read<OutOfMemory>("jax_oom", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1.50GiB.");
  CHECK((newer.tried == bytes("1.50 GiB")));
  const auto compile = read<OutOfMemory>(
      "jax_oom", "Compilation failure: Ran out of memory in memory space hbm. Used 41.74G of 16.00G hbm. Exceeded hbm capacity by 25.74G.");
  CHECK(compile.format == "xla-compile");
  CHECK(compile.backend == "tpu");
  CHECK((compile.tried == bytes("41.74 GiB")));
  CHECK((compile.capacity == bytes("16 GiB")));
  const auto program = read<OutOfMemory>(
      "jax_oom",
      "XlaRuntimeError: RESOURCE_EXHAUSTED: Error loading program: Attempting to reserve 8.24G at the bottom of memory. That was not possible. "
      "There are 7.66G free, 0B reserved, and 7.66G reservable.");
  CHECK(program.format == "xla-program");
  CHECK((program.tried == bytes("8.24 GiB")));
  CHECK((program.free == bytes("7.66 GiB")));
  const auto bfc = read<OutOfMemory>(
      "jax_oom", "Allocator (GPU_3_bfc) ran out of memory trying to allocate 4.44GiB (rounded to 4770354432)requested by op");
  CHECK((bfc.tried == Bytes(4770354432)));
  CHECK((bfc.device == 3));
  const auto stream = read<OutOfMemory>(
      "jax_oom", "failed to allocate 15.90GiB (17072603136 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  CHECK((stream.tried == Bytes(17072603136)));
  CHECK(stream.backend == "cuda");
  CHECK(nothing("jax_oom", "Failed to allocate 3 workers"));
  CHECK(nothing("jax_oom", "RESOURCE_EXHAUSTED: grpc message too large"));
}

TEST_CASE("tf_oom reads the allocator's line and the size of the tensor") {
  const auto tensor = read<OutOfMemory>(
      "tf_oom",
      "OOM when allocating tensor with shape[1000,1000,250,4] and type float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator "
      "GPU_1_bfc");
  CHECK((tensor.tried == Bytes(4000000000)));
  CHECK((tensor.device == 1));
  CHECK(tensor.backend == "cuda");
  const auto untyped = read<OutOfMemory>("tf_oom", "Resource exhausted: OOM when allocating tensor with shape[1000,1000,250,4]");
  CHECK_FALSE(untyped.tried.has_value());
  const auto host = read<OutOfMemory>(
      "tf_oom", "Allocator (cuda_host_bfc) ran out of memory trying to allocate 3.72GiB.  Current allocation summary follows.");
  CHECK((host.tried == bytes("3.72 GiB")));
  CHECK(host.backend == "cpu");
  const auto huge = read<OutOfMemory>(
      "tf_oom", "OOM when allocating tensor with shape[9223372036854775807,9223372036854775807] and type float on /device:GPU:0");
  CHECK_FALSE(huge.tried.has_value());
}

TEST_CASE("triton_resources and nccl_alloc") {
  const auto triton = read<OutOfMemory>(
      "triton_resources",
      "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 65536. Reducing block sizes or "
      "`num_stages` may help.");
  CHECK((triton.tried == Bytes(131072)));
  CHECK((triton.limit == Bytes(65536)));
  CHECK(triton.format == "triton-shared-memory");
  const auto inductor =
      read<OutOfMemory>("triton_resources", "OutOfMemoryError: out of resource: triton_red_fused_7 Required: 264224 Hardware limit:232448");
  CHECK((inductor.tried == Bytes(264224)));
  CHECK((inductor.limit == Bytes(232448)));
  const auto threads = read<OutOfMemory>("triton_resources", "out of resource: threads, Required: 2048, Hardware limit: 1024.");
  CHECK_FALSE(threads.tried.has_value());
  CHECK(nothing("triton_resources", "CUDA out of memory"));

  const auto calloc = read<OutOfMemory>(
      "nccl_alloc", "gpunode03:3063028:3066152 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 bytes");
  CHECK((calloc.tried == Bytes(6291456)));
  CHECK((calloc.device == 3));
  const auto async = read<OutOfMemory>("nccl_alloc", "[2025-06-01 10:00:00] h:1:2 [0] include/alloc.h:228 NCCL WARN Failed to CUDA calloc async 9640 bytes");
  CHECK((async.tried == Bytes(9640)));
  CHECK((async.device == 0));
  for (const char* line : {"h:1:2 [0] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'", "NCCL WARN Cuda failure 2 'out of memory'"})
    CHECK(read<OutOfMemory>("nccl_alloc", line).format == "nccl");
  CHECK(nothing("nccl_alloc", "NCCL WARN Cuda failure 700 'an illegal memory access was encountered'"));
}

TEST_CASE("collective_timeout reads the watchdog of every age") {
  const auto full = read<CollectiveTimeout>(
      "collective_timeout",
      "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4084, OpType=ALLREDUCE, NumelIn=4821568, NumelOut=4821569, "
      "Timeout(ms)=600000) ran for 600077 milliseconds before timing out.");
  CHECK((full.rank == 2));
  CHECK((full.sequence == 4084));
  CHECK(full.operation == "ALLREDUCE");
  CHECK((full.elements_in == 4821568));
  CHECK((full.elements_out == 4821569));
  CHECK((full.timeout_ms == 600000));
  CHECK((full.ran_ms == 600077));
  const auto old = read<CollectiveTimeout>(
      "collective_timeout",
      "  what():  [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLGATHER, Timeout(ms)=1800000) ran for "
      "1807414 milliseconds before timing out.");
  CHECK((old.rank == 3));
  CHECK_FALSE(old.elements_in.has_value());
  CHECK((old.ran_ms == 1807414));
  const auto state = read<CollectiveTimeout>(
      "collective_timeout",
      "[PG 0 Rank 3] Timeout at NCCL work: 4084, last enqueued NCCL work: 4085, last completed NCCL work: 4083.");
  CHECK((state.rank == 3));
  CHECK(state.process_group == "0");
  CHECK((state.sequence == 4084));
  CHECK((state.last_enqueued == 4085));
  CHECK((state.last_completed == 4083));
  const auto dump = read<CollectiveTimeout>(
      "collective_timeout",
      "[PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from  rank 34 and we will try our best to dump "
      "the debug info. Last enqueued NCCL work: 460631, last completed NCCL work: 460630.This is most likely caused by incorrect usages");
  CHECK((dump.rank == 5));
  CHECK(dump.process_group == "default_pg");
  CHECK((dump.last_enqueued == 460631));
  CHECK((dump.last_completed == 460630));
  const auto newer = read<CollectiveTimeout>(
      "collective_timeout",
      "[PG ID 2 PG GUID 3 Rank 1]  failure detected by watchdog at work sequence id: 12 PG status: last enqueued work: 14, last completed work: -1");
  CHECK((newer.sequence == 12));
  CHECK((newer.last_completed == -1));
  CHECK(newer.process_group == "2");
  const auto gloo = read<CollectiveTimeout>(
      "collective_timeout",
      "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete");
  CHECK((gloo.timeout_ms == 1800000));
  CHECK(gloo.operation == "recv");
  const auto hccl = read<CollectiveTimeout>(
      "collective_timeout",
      "[Rank 1] Watchdog caught collective operation timeout: WorkHCCL(SeqNum=7, OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800100 "
      "milliseconds before timing out.");
  CHECK(hccl.operation == "BROADCAST");
  const auto notify = read<CollectiveTimeout>(
      "collective_timeout",
      "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank "
      "[0].base information: [streamID:[14], taskID[4], taskType[Notify Wait], tag[HcomAllReduce_6629421139219749105_0].]");
  CHECK(notify.operation == "AllReduce");
  CHECK_FALSE(notify.rank.has_value());
  CHECK(nothing("collective_timeout", "ProcessGroupNCCL initialization options: TIMEOUT(ms): 600000"));
  CHECK(nothing("collective_timeout", "ReadTimeoutError: HTTPSConnectionPool read timed out"));
}

TEST_CASE("process_exit reads launchers, schedulers, containers and shells") {
  struct Row {
    std::string message, printer;
    std::optional<int> code, signal;
    std::optional<int> rank, local_rank, task;
    std::optional<std::int64_t> pid;
    std::string node;
    bool oom = false;
    std::string reason;
  };
  const std::optional<int> no;
  const std::optional<std::int64_t> none;
  const std::vector<Row> rows{
      {"failed (exitcode: -9) local_rank: 3 (pid: 123) of binary: /usr/bin/python", "torchrun", no, 9, no, 3, no, 123, "", false, ""},
      {"  exitcode  : 1 (pid: 19418)", "torchrun", 1, no, no, no, no, 19418, "", false, ""},
      {"traceback : Signal 15 (SIGTERM) received by PID 518", "torchrun", no, 15, no, no, no, 518, "", false, ""},
      {"torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15", "torchrun", no, 15, no, no, no, 77, "", false, ""},
      {"['/usr/bin/python3', '-u', 'main.py', '--local_rank=0'] exits with return code = -9", "deepspeed", no, 9, no, no, no, none, "", false, ""},
      {"srun: error: gpu-12: task 3: Killed", "srun", no, 9, no, no, 3, none, "gpu-12", false, ""},
      {"srun: error: gpu-12: tasks 2-3: Exited with exit code 1", "srun", 1, no, no, no, 2, none, "gpu-12", false, ""},
      {"srun: error: gpu-12: task 4: Out Of Memory", "srun", no, no, no, no, 4, none, "gpu-12", true, "Out Of Memory"},
      {"srun: error: gpu-12: task 0: Segmentation fault (core dumped)", "srun", no, 11, no, no, 0, none, "gpu-12", false, ""},
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been OOM Killed.", "slurm", no, 9, no, no, no,
       none, "", true, "oom_kill event"},
      {"slurmstepd: error: Detected 3 oom-kill event(s) in step 5.batch cgroup.", "slurm", no, 9, no, no, no, none, "", true, "oom_kill event"},
      {"slurmstepd: error: *** STEP 1999616.0 ON gpunode001 CANCELLED AT 2021-05-27T21:42:11 DUE TO TIME LIMIT ***", "slurm", no, no, no, no, no,
       none, "gpunode001", false, "CANCELLED DUE TO TIME LIMIT"},
      {"5.0   python   OUT_OF_ME+   0:125", "slurm", 0, no, no, no, no, none, "", true, "OUT_OF_MEMORY"},
      {"   JobState=FAILED Reason=NonZeroExitCode Dependency=(null) ExitCode=1:0", "slurm", 1, no, no, no, no, none, "", false, "FAILED"},
      {"State: OUT_OF_MEMORY (exit code 0)", "slurm", no, no, no, no, no, none, "", true, "OUT_OF_MEMORY"},
      {"mpirun noticed that process rank 7 with PID 0 on node node3 exited on signal 9 (Killed).", "mpirun", no, 9, 7, no, no, none, "node3", false, ""},
      {"prterun noticed that process rank 2 with PID 1617008 on node cpu155 exited on", "mpirun", no, no, 2, no, no, 1617008, "cpu155", false, ""},
      {"=   KILLED BY SIGNAL: 9 (Killed)", "mpirun", no, 9, no, no, no, none, "", false, ""},
      {"subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.", "python", no, 9, no, no, no, none, "", false, ""},
      {"subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.", "python", 1, no, no, no, no, none, "", false, ""},
      {"RuntimeError: DataLoader worker (pid 1234) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
       "dataloader", no, 7, no, no, no, 1234, "", false, ""},
      {"RuntimeError: DataLoader worker (pid(s) 1234, 1235) exited unexpectedly", "dataloader", no, no, no, no, no, 1234, "", false, ""},
      {"torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGSEGV", "torch-spawn", no, 11, no, 2, no, none, "", false, ""},
      {"train.service: Main process exited, code=killed, status=9/KILL", "systemd", no, 9, no, no, no, none, "", false, ""},
      {"train.service: Failed with result 'oom-kill'.", "systemd", no, no, no, no, no, none, "", true, "oom-kill"},
      {"trainer-1 exited with code 137", "docker", 137, 9, no, no, no, none, "", false, ""},
      {"command terminated with exit code 137", "kubernetes", 137, 9, no, no, no, none, "", false, ""},
      {"containerStatuses: reason: OOMKilled, exitCode: 137", "kubernetes", 137, 9, no, no, no, none, "", true, "OOMKilled"},
      {"Killed", "shell", no, 9, no, no, no, none, "", false, ""},
      {"Segmentation fault (core dumped)", "shell", no, 11, no, no, no, none, "", false, ""},
      {"./run.sh: line 12: 12345 Killed                  python train.py", "shell", no, 9, no, no, no, 12345, "", false, ""},
      {"/var/spool/slurmd/job1/slurm_script: line 3:   999 Aborted                 (core dumped) python x", "shell", no, 6, no, no, no, 999, "", false, ""},
      {"A worker died or was killed while executing a task by an unexpected system error. Worker ID: aa Node ID: bb Worker IP address: 10.0.0.1 "
       "Worker port: 1 Worker PID: 4242 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits. There are some potential root "
       "causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage.",
       "ray", no, no, no, no, no, 4242, "10.0.0.1", false, "SYSTEM_ERROR"},
      {"1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node", "ray", no, no, no, no, no, none, "",
       true, "memory pressure"},
      {"ray.exceptions.OutOfMemoryError: 1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 10.10.10.1, ID: 4cb) was "
       "110.41GB / 121.63GB (0.907749), which exceeds the memory usage threshold of 0.900000.",
       "ray", no, no, no, no, no, none, "10.10.10.1", true, "memory pressure"},
      {"Process finished with exit code 139", "generic", 139, 11, no, no, no, none, "", false, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const Event event = read_event("process_exit", row.message);
    const auto* exit = std::get_if<ProcessExit>(&event);
    CHECK(exit != nullptr);
    if (exit == nullptr) continue;
    CHECK(exit->printer == row.printer);
    CHECK((exit->exit_code == row.code));
    CHECK((exit->signal == row.signal));
    CHECK((exit->rank == row.rank));
    CHECK((exit->local_rank == row.local_rank));
    CHECK((exit->task == row.task));
    CHECK((exit->pid == row.pid));
    CHECK(exit->node == row.node);
    CHECK(exit->out_of_memory == row.oom);
    CHECK(exit->reason == row.reason);
  }
  for (const char* text : {"training finished", "\"OOMKilled\": false,", "Killed 3 zombies in the test", "", "exit code of the step is unknown"})
    CHECK(nothing("process_exit", text));
}

TEST_CASE("xid reads driver, NVSwitch and fabric manager lines") {
  const auto gsp = read<Xid>("xid",
                             "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 "
                             "GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4).");
  CHECK(gsp.code == 119);
  CHECK(gsp.pci == "0000:9b:00");
  CHECK((gsp.pid == 2024380));
  CHECK(gsp.process == "nvidia-smi");
  CHECK(gsp.text.starts_with("Timeout after 6s"));
  const auto old = read<Xid>("xid", "NVRM: Xid (0000:1a:00.0): 31, Ch 00000010, engmask 00000101, intr 10000000");
  CHECK(old.code == 31);
  CHECK(old.pci == "0000:1a:00");
  CHECK(old.text == "Ch 00000010, engmask 00000101, intr 10000000");
  const auto unknown = read<Xid>("xid", "NVRM: Xid (PCI:0000:0f:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
  CHECK_FALSE(unknown.pid.has_value());
  CHECK(unknown.process.empty());
  CHECK(unknown.text == "GPU has fallen off the bus.");
  CHECK(read<Xid>("xid", "Xid 31 PCI:0000:f0:00 pid=477448 ... UNRECOGNIZED_CLIENT ...").code == 31);
  const auto sxid = read<Xid>("xid", "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)");
  CHECK(sxid.nvswitch);
  CHECK(sxid.code == 12028);
  CHECK(nothing("xid", "see Xid (PCI) errors in the guide"));
  CHECK(nothing("xid", "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64 580.82.07"));
}

TEST_CASE("oom_kill reads the victim") {
  const auto kill = read<OomKill>(
      "oom_kill",
      "Out of memory: Killed process 25315 (python3) total-vm:53312244kB, anon-rss:31451456kB, file-rss:74816kB, shmem-rss:12296kB, UID:0 "
      "pgtables:69068kB oom_score_adj:0");
  CHECK((kill.pid == 25315));
  CHECK(kill.process == "python3");
  CHECK((kill.anon_rss == Bytes(31451456LL * 1024)));
  CHECK((kill.total_vm == Bytes(53312244LL * 1024)));
  CHECK((kill.shmem_rss == Bytes(12296LL * 1024)));
  const auto cgroup = read<OomKill>("oom_kill", "Memory cgroup out of memory: Killed process 7 (pt_main_thread) total-vm:1kB, anon-rss:1kB");
  CHECK(cgroup.constraint == "CONSTRAINT_MEMCG");
  CHECK(cgroup.process == "pt_main_thread");
  const auto old = read<OomKill>("oom_kill", "Out of memory: Kill process 123 (python) score 900 or sacrifice child");
  CHECK((old.pid == 123));
  CHECK(nothing("oom_kill", "CUDA out of memory"));
}

TEST_CASE("the name of a block reader reads what one message holds of the block") {
  const auto kill = read<OomKill>("oom_kill_report", "Memory cgroup out of memory: Killed process 7 (python3) total-vm:1kB, anon-rss:9kB");
  CHECK((kill.anon_rss == Bytes(9 * 1024)));
  const auto async = read<OutOfMemory>("cuda_malloc_async_oom",
                                       "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated "
                                       "    : 21.97 GiB\nRequested               : 1.00 GiB\nDevice limit            : 23.50 GiB\nFree (according to CUDA): "
                                       "12.00 MiB\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB");
  CHECK((async.tried == bytes("1 GiB")));
  CHECK_FALSE(async.truncated);
  CHECK(read<ProcessExit>("k8s_describe", "train-worker-0   0/1     OOMKilled   0          3h").out_of_memory);
  const auto evicted = read<ProcessExit>("k8s_describe", "Message:        The node was low on resource: memory. Container train was using 200Gi");
  CHECK(evicted.out_of_memory);
  CHECK(evicted.reason.starts_with("Evicted: "));
  CHECK(nothing("elastic_table", "Root Cause (first observed failure):"));
  const auto eager = read<OutOfMemory>(
      "tf_oom", "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__Mul_device_/job:localhost/device:GPU:2}} failed to "
                "allocate memory [Op:Mul]");
  CHECK((eager.device == 2));
}

TEST_CASE("every registered parser takes any text without harm") {
  const std::vector<std::string> texts{"", " ", "(", "[", "Xid (", "SeqNum=", "(SeqNum=99999999999999999999", std::string(70'000, '['),
                                       std::string(70'000, '9'), "Tried to allocate ", "Process Process Process", std::string("\0\xff\xfe", 3),
                                       "exit code -99999999999999999999", "shape[" + std::string(60'000, ',')};
  for (const auto name : event_parser_names())
    for (const auto& text : texts) read_event(name, text);
  CHECK(nothing("no such parser", "Killed"));
}
