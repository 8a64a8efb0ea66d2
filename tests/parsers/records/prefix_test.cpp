#include "parsers/records/prefix.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

using namespace triage::parsers;

namespace {

struct Want {
  std::string message;
  std::optional<int> rank = {}, local_rank = {}, task = {};
  std::string node = {};
  std::optional<std::int64_t> pid = {};
  std::string actor = {};
  Level level = Level::unknown;
  bool time = false, system = false;
  std::uint32_t repeats = 1;
};

struct Row { std::string text; Want want; };

void check(const std::vector<Row>& rows) {
  Peeler peeler(2025);
  for (const Row& row : rows) {
    CAPTURE(row.text);
    Line line;
    line.text = row.text;
    const Record got = peeler.peel(line);
    CHECK(std::string(got.message) == row.want.message);
    CHECK(got.rank == row.want.rank);
    CHECK(got.local_rank == row.want.local_rank);
    CHECK(got.task == row.want.task);
    CHECK(std::string(got.node) == row.want.node);
    CHECK(got.pid == row.want.pid);
    CHECK(std::string(got.actor) == row.want.actor);
    CHECK(static_cast<int>(got.level) == static_cast<int>(row.want.level));
    CHECK(got.time.has_value() == row.want.time);
    CHECK(got.system == row.want.system);
    CHECK(got.repeats == row.want.repeats);
  }
}

}  // namespace

TEST_CASE("launchers say whose line it is") {
  check({
      {"[rank3]: Traceback (most recent call last):", {.message = "Traceback (most recent call last):", .rank = 3}},
      {"[rank3]:   File \"x.py\", line 3, in f", {.message = "  File \"x.py\", line 3, in f", .rank = 3}},
      {"[default7]:  File \"x.py\", line 3", {.message = "  File \"x.py\", line 3", .local_rank = 7}},
      {"[default0]:[rank0]: torch.OutOfMemoryError: CUDA out of memory.",
       {.message = "torch.OutOfMemoryError: CUDA out of memory.", .rank = 0, .local_rank = 0}},
      {"[3]:RuntimeError: x", {.message = "RuntimeError: x", .local_rank = 3}},
      {"[3]:", {.message = "[3]:"}},
      {"(worker_7) : RuntimeError: x", {.message = "RuntimeError: x", .rank = 7}},
      {"2023-02-17 22:40:24,365 (worker_7) : Traceback (most recent call last):", {.message = "Traceback (most recent call last):", .rank = 7, .time = true}},
      {"dinov2.cn-d004 [stderr] [rank14]: RuntimeError: x", {.message = "RuntimeError: x", .rank = 14, .actor = "dinov2.cn-d004"}},
      {"(worker_a) : RuntimeError: x", {.message = "(worker_a) : RuntimeError: x"}},
      {"[node01:3] RuntimeError: x", {.message = "RuntimeError: x", .local_rank = 3, .node = "node01"}},
      {"[node01:12345] *** Process received signal ***", {.message = "*** Process received signal ***", .node = "node01", .pid = 12345}},
      {"12: RuntimeError: x", {.message = "RuntimeError: x", .task = 12}},
      {" 3:   File \"x.py\", line 3, in f", {.message = "  File \"x.py\", line 3, in f", .task = 3}},
      {"0: ", {.message = "", .task = 0}},
      {"0: [rank0]:[E1203 10:11:12.123456789 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught",
       {.message = "[Rank 0] Watchdog caught", .rank = 0, .task = 0, .level = Level::error, .time = true}},
      {"[1,3]<stderr>:Traceback (most recent call last):", {.message = "Traceback (most recent call last):", .task = 3}},
      {"[1,3]<stdout>:   File \"x.py\"", {.message = "  File \"x.py\"", .task = 3}},
      {"(Worker pid=12, ip=10.0.0.1) boom", {.message = "boom", .node = "10.0.0.1", .pid = 12, .actor = "Worker"}},
      {"(TaskRunner pid=1)   File \"x.py\"", {.message = "  File \"x.py\"", .pid = 1, .actor = "TaskRunner"}},
      {"\x1b[36m(Actor pid=12)\x1b[0m boom", {.message = "boom", .pid = 12, .actor = "Actor"}},
      {"[36m(Actor pid=12)[0m boom", {.message = "boom", .pid = 12, .actor = "Actor"}},
      {"(ActorModelRayActor pid=348952) ", {.message = "", .pid = 348952, .actor = "ActorModelRayActor"}},
      {"(raylet) Spilled", {.message = "Spilled", .actor = "raylet"}},
      {"(pid=7, ip=10.0.0.2) x", {.message = "x", .node = "10.0.0.2", .pid = 7}},
      {"(WorkerDict pid=9) boom [repeated 6x across cluster]", {.message = "boom", .pid = 9, .actor = "WorkerDict", .repeats = 6}},
      {"(W pid=9) boom\x1b[32m [repeated 2x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0)\x1b[0m",
       {.message = "boom", .pid = 9, .actor = "W", .repeats = 2}},
      {"(VllmWorker rank=0 pid=77) ERROR 07-02 14:12:12 multiproc_executor.py:120] boom",
       {.message = "boom", .rank = 0, .pid = 77, .actor = "VllmWorker", .level = Level::error, .time = true}},
      {"(VllmWorkerProcess pid=3001) INFO 08-07 00:12:04 model_runner.py:980] Capturing",
       {.message = "Capturing", .pid = 3001, .actor = "VllmWorkerProcess", .level = Level::info, .time = true}},
      {"[pod/llama-0/pytorch] boom", {.message = "boom", .node = "llama-0"}},
      {"pod/llama-0 pytorch boom here", {.message = "boom here", .node = "llama-0"}},
      {"llama-worker-3 pytorch boom here", {.message = "boom here", .node = "llama-worker-3"}},
      {"worker-1  | boom", {.message = "boom", .node = "worker-1"}},
      {"gpu004: boom", {.message = "boom", .node = "gpu004"}},
      {"10.0.0.5: boom", {.message = "boom", .node = "10.0.0.5"}},
      {"[1,mpirank:3,algo-1]<stderr>:boom", {.message = "boom", .task = 3, .node = "algo-1"}},
      {"algo-1-k3x2a  | boom", {.message = "boom", .node = "algo-1-k3x2a"}},
      {"aimsx-04: [rank1]: boom", {.message = "boom", .rank = 1, .node = "aimsx-04"}},
      {"nemo.collections.llm.api.pretrain/0 [default3]:boom", {.message = "boom", .local_rank = 3, .actor = "nemo.collections.llm.api.pretrain/0"}},
      {"  9%|#  | 9/100 [00:09<01:30, 1.00it/s][rank3]: boom", {.message = "boom", .rank = 3}},
      {"stderr: [rank1]: boom", {.message = "boom", .rank = 1}},
      {"[rank3][W1203 10:11:12.123456789 Utils.hpp:12] hm", {.message = "hm", .rank = 3, .level = Level::warning, .time = true}},
  });
}

TEST_CASE("loggers say when and how bad") {
  check({
      {"E0603 22:45:01.123456 1234 file.cc:12] boom", {.message = "boom", .pid = 1234, .level = Level::error, .time = true}},
      {"I20230603 22:45:01.123456  1234 file.cc:12] x", {.message = "x", .pid = 1234, .level = Level::info, .time = true}},
      {"E1111 07:35:00.272763 140408571025152 error_handling.py:81] Closing", {.message = "Closing", .level = Level::error, .time = true}},
      {"W1223 05:17:58.996000 3304089 site-packages/torch/distributed/elastic/multiprocessing/api.py:908] Sending process 3 closing signal SIGTERM",
       {.message = "Sending process 3 closing signal SIGTERM", .pid = 3304089, .level = Level::warning, .time = true}},
      {"E0912 11:54:57.366000 1121181 torch/_inductor/select_algorithm.py:2100] [7/0] Runtime error during autotuning: ",
       {.message = "[7/0] Runtime error during autotuning: ", .pid = 1121181, .level = Level::error, .time = true}},
      {"[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught", {.message = "[Rank 3] Watchdog caught", .rank = 3, .level = Level::error}},
      {"[rank5]:[E901 05:20:03.110823792 ProcessGroupNCCL.cpp:1685] [PG ID 0 PG GUID 0(default_pg) Rank 5] Observed",
       {.message = "[PG ID 0 PG GUID 0(default_pg) Rank 5] Observed", .rank = 5, .level = Level::error, .time = true}},
      {"[E901 05:20:03.110823792 ProcessGroupNCCL.cpp:1685] [PG ID 12 PG GUID 99(EXPERT_MODEL_PARALLEL_GROUP) Rank 4] x",
       {.message = "[PG ID 12 PG GUID 99(EXPERT_MODEL_PARALLEL_GROUP) Rank 4] x", .level = Level::error, .time = true}},
      {"18:11:06.680 [rank4]:[E205 18:11:06.375750231 ProcessGroupNCCL.cpp:1870] x",
       {.message = "x", .rank = 4, .level = Level::error, .time = true}},
      {"2024-01-01 10:00:00,123 - name - ERROR - boom", {.message = "boom", .level = Level::error, .time = true}},
      {"2024-01-01 10:00:00,123 - ERROR - a - b", {.message = "a - b", .level = Level::error, .time = true}},
      {"2024-01-01 10:00:00,123 ERROR worker.py:1612 -- boom", {.message = "boom", .level = Level::error, .time = true}},
      {"2023-07-03 04:20:16 ERROR [__main__] main failed", {.message = "main failed", .level = Level::error, .time = true}},
      {"ERROR:root:boom: x", {.message = "boom: x", .level = Level::error}},
      {"WARNING:megatron.core.utils:CUDA out of memory.", {.message = "CUDA out of memory.", .level = Level::warning}},
      {"WARNING: could not find", {.message = "WARNING: could not find", .level = Level::warning}},
      {"WARNING batch size 4 failed", {.message = "WARNING batch size 4 failed", .level = Level::warning}},
      {"[2024-01-01 10:00:00,123] [INFO] [file.py:12:fn] [Rank 0] step=1", {.message = "step=1", .rank = 0, .level = Level::info, .time = true}},
      {"[2023-04-14 13:11:27,885] [ERROR] [launch.py:434:sigkill_handler] ['/usr/bin/python3', '-u'] exits",
       {.message = "['/usr/bin/python3', '-u'] exits", .level = Level::error, .time = true}},
      {"[2022-07-13 21:09:08,702] [INFO] [timer.py:193:stop] 0/50, SamplesPerSec=8.5",
       {.message = "0/50, SamplesPerSec=8.5", .level = Level::info, .time = true}},
      {"[2024-01-01 10:00:00,123] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1)",
       {.message = "failed (exitcode: 1)", .level = Level::error, .time = true}},
      {"[2024-01-01 10:00:00,123][__main__][ERROR] - boom", {.message = "boom", .level = Level::error, .time = true}},
      {"[NeMo W 2024-01-01 10:00:00 nemo_logging:349] text", {.message = "text", .level = Level::warning, .time = true}},
      {"2024-01-01 10:00:00.123 | ERROR    | train:main:12 - boom", {.message = "boom", .level = Level::error, .time = true}},
      {"2020-01-01 10:00:00 | INFO | fairseq.tasks | text", {.message = "fairseq.tasks | text", .level = Level::info, .time = true}},
      {"[INFO|trainer.py:1339] 2021-05-25 06:53:45,378 >> ***** Running", {.message = "***** Running", .level = Level::info, .time = true}},
      {"[INFO|2024-10-03 01:30:20] llamafactory.hparams.parser:355 >> Process", {.message = "Process", .level = Level::info, .time = true}},
      {"2017-07-31 11:36:02.748547: W tensorflow/core/common_runtime/bfc_allocator.cc:273] Allocator ran out",
       {.message = "Allocator ran out", .level = Level::warning, .time = true}},
      {"[2025-05-27 04:36:06 DP1 TP4] Scheduler hit an exception: Traceback (most recent call last):",
       {.message = "Scheduler hit an exception: Traceback (most recent call last):", .local_rank = 4, .actor = "DP1 TP4", .time = true}},
      {" [2026-12-01 13:15:13.209441] iteration        1/       3 |", {.message = "iteration        1/       3 |", .time = true}},
      {"[Rank 20] (after 20 iterations) memory (MB) | allocated: 1", {.message = "[Rank 20] (after 20 iterations) memory (MB) | allocated: 1", .rank = 20}},
      {"ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3",
       {.message = "Unexpected result nan on rank 3", .level = Level::error}},
      {"Rank 3, node n1, device 3, iteration #4: First rerun", {.message = "Rank 3, node n1, device 3, iteration #4: First rerun", .rank = 3}},
      {"[12/03/24 10:11:12] INFO     text", {.message = "text", .level = Level::info, .time = true}},
      {"2025-06-03 10:11:12 error loading file", {.message = "error loading file", .time = true}},
      {"2025-06-03 10:11:12 error: loading", {.message = "loading", .level = Level::error, .time = true}},
      {"2025-06-03 10:11:12 We saw an ERROR here", {.message = "We saw an ERROR here", .time = true}},
      {"2024-01-01 10:00:00,123: rank3[1234][MainThread]: ERROR: composer.trainer: boom: x",
       {.message = "boom: x", .rank = 3, .pid = 1234, .level = Level::error, .time = true}},
      {"[rank0]:[titan] 2024-11-01 10:00:00,123 - root - INFO - step:  1  loss: 8.0",
       {.message = "step:  1  loss: 8.0", .rank = 0, .level = Level::info, .time = true}},
      {"[2024-01-01 10:00:00,123] [ERROR] [axolotl.train.train:123] [PID:1234] [RANK:2] boom",
       {.message = "boom", .rank = 2, .pid = 1234, .level = Level::error, .time = true}},
      {"25/06/03 10:11:12 ERROR Executor: Exception in task", {.message = "Executor: Exception in task", .level = Level::error, .time = true}},
      {"ERROR 07-02 14:12:12 [core.py:390]   File \"x.py\"", {.message = "  File \"x.py\"", .level = Level::error, .time = true}},
      {"[2026-04-22 21:34:20] host-a:202016:202235 [0] misc/shmutils.cc:88 NCCL WARN Error: failed",
       {.message = "host-a:202016:202235 [0] misc/shmutils.cc:88 NCCL WARN Error: failed", .local_rank = 0, .node = "host-a", .pid = 202016, .time = true}},
      {"gpunode22:183006:183220 [1] misc/socket.cc:518 NCCL WARN Net : Call",
       {.message = "gpunode22:183006:183220 [1] misc/socket.cc:518 NCCL WARN Net : Call", .local_rank = 1, .node = "gpunode22", .pid = 183006}},
      {"0: g1002:2128869:2128880 [0] NCCL INFO Setting", {.message = "g1002:2128869:2128880 [0] NCCL INFO Setting", .local_rank = 0, .task = 0, .node = "g1002", .pid = 2128869}},
      {"[gpunode01:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)",
       {.message = "[gpunode01:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)", .node = "gpunode01", .pid = 3039}},
  });
}

TEST_CASE("containers wrap lines in clocks and JSON") {
  check({
      {R"({"log":"[rank2]: RuntimeError: x\n","stream":"stderr","time":"2025-06-03T22:45:01.123456789Z"})",
       {.message = "RuntimeError: x", .rank = 2, .time = true}},
      {R"({"log":"\u001b[31m  File \"x.py\"\u001b[0m\r\n","stream":"stderr","time":"2025-06-03T22:45:01Z"})",
       {.message = "  File \"x.py\"", .time = true}},
      {R"({"log":"{\"level\":\"error\",\"msg\":\"boom\",\"rank\":4}\n","time":"2025-06-03T22:45:01Z"})",
       {.message = "boom", .rank = 4, .level = Level::error, .time = true}},
      {R"({"message": "boom", "levelname": "ERROR", "exc_info": "Traceback (most recent call last):\nValueError: y", "process": 12})",
       {.message = "boom\nTraceback (most recent call last):\nValueError: y", .pid = 12, .level = Level::error}},
      {R"({"MESSAGE":"NVRM: Xid (PCI:0000:1a:00): 79","_HOSTNAME":"n1","PRIORITY":"3","SYSLOG_IDENTIFIER":"kernel","__REALTIME_TIMESTAMP":"1748990701250000"})",
       {.message = "NVRM: Xid (PCI:0000:1a:00): 79", .node = "n1", .level = Level::error, .time = true, .system = true}},
      {R"({"loss": 1.2, "step": 3})", {.message = R"({"loss": 1.2, "step": 3})"}},
      {R"({"fp16": {"enabled": true, "message": "x"}})", {.message = R"({"fp16": {"enabled": true, "message": "x"}})"}},
      {R"({"log":"cut of)", {.message = "cut of"}},
      {"{'loss': 1.36}", {.message = "{'loss': 1.36}"}},
      {"2025-07-25T05:09:16.157949381+08:00 stderr F [rank1]: boom", {.message = "boom", .rank = 1, .time = true}},
      {"2025-11-14T08:52:38.3746210Z   File \"x.py\"", {.message = "  File \"x.py\"", .time = true}},
      {"2025-11-14T08:52:38.3746210Z torch.OutOfMemoryError: CUDA", {.message = "torch.OutOfMemoryError: CUDA", .time = true}},
  });
}

TEST_CASE("lines of the kernel and of daemons are marked") {
  check({
      {"[ 1843.308145] NVRM: The NVIDIA GPU", {.message = "NVRM: The NVIDIA GPU", .system = true}},
      {"[ 1843.308145][ T1234] Out of memory: Killed process", {.message = "Out of memory: Killed process", .system = true}},
      {"[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 119", {.message = "NVRM: Xid (PCI:0000:9b:00): 119", .time = true, .system = true}},
      {"[Sun Feb 23 16:24:18 2025]  show_stack+0x52/0x5c", {.message = " show_stack+0x52/0x5c", .time = true, .system = true}},
      {"Jun  3 22:45:01 node7 kernel: [123.456789] NVRM: Xid", {.message = "NVRM: Xid", .node = "node7", .time = true, .system = true}},
      {"Jun  3 22:45:01 node7 python3[77]: RuntimeError: x", {.message = "RuntimeError: x", .node = "node7", .pid = 77, .time = true}},
      {"Jun  3 22:45:01 node7 slurmd[77]: error: x", {.message = "slurmd[77]: error: x", .node = "node7", .pid = 77, .time = true, .system = true}},
      {"Jun 03 22:45:01 node7 systemd[1]: a.service: Main process exited",
       {.message = "systemd[1]: a.service: Main process exited", .node = "node7", .pid = 1, .time = true, .system = true}},
      {"2025-06-03T22:45:01+0000 node7 kernel: oom-kill:constraint=X", {.message = "oom-kill:constraint=X", .node = "node7", .time = true, .system = true}},
      {"        NVRM: Xid (PCI:0000:1a:00): 13, pid=7", {.message = "        NVRM: Xid (PCI:0000:1a:00): 13, pid=7", .system = true}},
      {"2025-06-03T22:45:01Z Loading model: x", {.message = "Loading model: x", .time = true}},
      {"6,3973,227996636,-;NVRM: Xid", {.message = "NVRM: Xid", .level = Level::info, .system = true}},
      {"<4>[ 12.345678] NVRM: Xid", {.message = "NVRM: Xid", .level = Level::warning, .system = true}},
      {"kern  :err   : [ 12.345678] NVRM: Xid", {.message = "NVRM: Xid", .level = Level::error, .system = true}},
      {"kern  :warn  : 2025-06-03T22:45:01,123456+00:00 NVRM: Xid", {.message = "NVRM: Xid", .level = Level::warning, .time = true, .system = true}},
      {"slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2021-05-24T09:50:34 DUE TO TIME LIMIT ***",
       {.message = "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2021-05-24T09:50:34 DUE TO TIME LIMIT ***", .level = Level::error, .system = true}},
      {"srun: error: n1: task 4: Out Of Memory", {.message = "srun: error: n1: task 4: Out Of Memory", .level = Level::error, .system = true}},
      {"19:14:43  NVRM: Xid (PCI:0000:1a:00): 13, x", {.message = "NVRM: Xid (PCI:0000:1a:00): 13, x", .system = true}},
      {"Memory cgroup out of memory: Killed process 1 (python)", {.message = "Memory cgroup out of memory: Killed process 1 (python)", .system = true}},
  });
}

TEST_CASE("the marks that a ticket puts around a line are taken off") {
  check({
      {"> [rank1]: RuntimeError: x", {.message = "RuntimeError: x", .rank = 1}},
      {"> RuntimeError: x", {.message = "RuntimeError: x"}},
      {"`RuntimeError: CUDA error: out of memory`", {.message = "RuntimeError: CUDA error: out of memory"}},
      {"**RuntimeError: CUDA error: out of memory**", {.message = "RuntimeError: CUDA error: out of memory"}},
      {"> and more prose", {.message = "> and more prose"}},
      {"*** Process received signal ***", {.message = "*** Process received signal ***"}},
      {"`a` and `b` differ", {.message = "`a` and `b` differ"}},
  });
}

TEST_CASE("places that hold a rank") {
  check({
      {"[PID: 1] x (PID:927000, Device:3, RankID:11)", {.message = "[PID: 1] x (PID:927000, Device:3, RankID:11)", .rank = 11, .local_rank = 3, .pid = 927000}},
      {"x (PID:927000, Device:3, RankID:-1)", {.message = "x (PID:927000, Device:3, RankID:-1)", .local_rank = 3, .pid = 927000}},
      {"2024-02-06 14:51:05.332 wandb: ERROR Run initialization has timed out after 90.0 sec.",
       {.message = "wandb: ERROR Run initialization has timed out after 90.0 sec.", .time = true}},
  });
}

TEST_CASE("what belongs to the message stays") {
  for (const std::string text :
       {"200: OK", "404: Not Found", "RuntimeError: CUDA error: out of memory", "torch.OutOfMemoryError: CUDA out of memory.",
        "  File \"x.py\", line 12, in f", "    return forward_call(*args, **kwargs)", "ValueError: 12: bad", "step 3 | loss 1.2",
        "time (ms) | forward-compute: 1", "[2]", "[epoch 3] loss", "[1/10] building", "(no backtrace available)", "['a', 'b']",
        "  4: 0.12", "cuda:0 is used", "gpu0: 35C", "layer3: 12", "Error: boom", "  time      : 2026-12-01_13:19:02", "[0]:", "",
        "(after 20 iterations)", "train: 12", "10:11 text", "| 0   N/A  N/A  12 |", "  0%|          | 0/16 [00:00<?, ?it/s]",
        "Exception: Jun 3", "model.py:12: warning"}) {
    CAPTURE(text);
    Peeler peeler(2025);
    Line line;
    line.text = text;
    const Record got = peeler.peel(line);
    CHECK(std::string(got.message) == text);
    CHECK_FALSE(got.task);
    CHECK_FALSE(got.rank);
    CHECK_FALSE(got.local_rank);
    CHECK_FALSE(got.time);
  }
}

TEST_CASE("numbers beyond the largest rank are text") {
  check({{"[rank1000000]: x", {.message = "[rank1000000]: x"}},
         {"[rank999999]: x", {.message = "x", .rank = 999999}},
         {"[rank99999999999999999999]: x", {.message = "[rank99999999999999999999]: x"}},
         {"(A pid=99999999999999999999) x", {.message = "(A pid=99999999999999999999) x"}}});
}

TEST_CASE("any beginning and any end of a prefixed line is read without harm") {
  const std::vector<std::string> lines = {
      "0: [default7]:[rank3]:[E1203 10:11:12.123456789 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank 5] x",
      R"({"log":"[rank2]: \ud83d\ude00 \\ \n","stream":"stderr","time":"2025-06-03T22:45:01.1Z","x":[{"a":"]"},2]})",
      "(A(b) rank=2 pid=12, ip=10.0.0.1) INFO 08-07 00:12:04 model_runner.py:980] x [repeated 6x across cluster]",
      "kern  :err   : [ 12.345678] NVRM: Xid", "Jun  3 22:45:01 node7 kernel: [123.456789] n:1:2 [0] NCCL WARN x",
      "[2024-01-01 10:00:00,123] [INFO] [file.py:12:fn] [Rank 0] step=1", "6,3973,227996636,-;x", "[INFO|t.py:1] 2021-05-25 06:53:45,378 >> x"};
  Peeler peeler(2025);
  for (const std::string& text : lines)
    for (std::size_t start = 0; start <= text.size(); ++start)
      for (std::size_t length = 0; start + length <= text.size(); ++length) {
        const std::string part = text.substr(start, length);
        Line line;
        line.text = part;
        CHECK(peeler.peel(line).message.size() <= part.size() + 3);
      }
}
