// Judgement over whole logs: what one process and several processes say about the rank.
#include <doctest/doctest.h>

#include "tests/support/scan.hpp"

using namespace triage;

TEST_CASE("the rank of a failure is what the log shows, and 0 where only one process can be") {
  REQUIRE(tests::knowledge());
  const std::string trace = "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\n    main()\n";
  const std::string error = "ValueError: the sample has 4097 tokens\n";
  const struct {
    const char* name;
    std::string text;
    std::optional<int> rank, local_rank;
  } rows[] = {
      {"one process, no prefix", trace + error, 0, std::nullopt},
      {"a rank's prefix", "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"train.py\", line 7, in <module>\n[rank3]:     main()\n[rank3]: " + error, 3, std::nullopt},
      {"several processes, the failing one without prefix", "[rank0]: step 1\n[rank1]: RuntimeError: Connection closed by peer [10.0.0.1]:1234\n" + trace + error, std::nullopt, std::nullopt},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.name));
    const daemon::Answer answer = tests::scan_text(row.text);
    REQUIRE(answer.incidents.size() == 1);
    const auto& root = answer.incidents[0].diagnosis.root;
    if (row.rank || !root.rank) CHECK(root.rank == row.rank);
    CHECK(root.local_rank == row.local_rank);
  }
}

namespace {

const std::string kTable =
    "E1203 10:11:13.598000 4609 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: -9) local_rank: 1 (pid: 4676) of binary: /usr/bin/python3\n"
    "======================================================\ntrain.py FAILED\n------------------------------------------------------\nFailures:\n"
    "  <NO_OTHER_FAILURES>\n------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2026-12-03_10:11:12\n  host      : node7\n  rank      : 9 (local_rank: 1)\n  exitcode  : -9 (pid: 4676)\n"
    "  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 4676\n======================================================\n";
const std::string kKernel =
    "[123456.100000] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "[123456.200000] Memory cgroup out of memory: Killed process 4676 (python3) total-vm:98765432kB, anon-rss:65432100kB, file-rss:1024kB, "
    "shmem-rss:2048kB, UID:1000 pgtables:130000kB oom_score_adj:0\n";

}  // namespace

TEST_CASE("the launcher's table says which rank a killed process was") {
  const daemon::Answer answer = tests::scan_text(kTable);
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "proc.sigkill");
  CHECK(d.root.rank == 9);
  CHECK(d.root.node == "node7");
}

TEST_CASE("a kill without a word is joined with the kernel's record of it") {
  std::vector<signatures::SourceFindings> sources;
  sources.push_back(tests::take_text(kTable, 0, "train.log"));
  sources.push_back(tests::take_text(kKernel, 0, "node.txt"));
  const daemon::Answer answer = daemon::judge_sources(*tests::knowledge(), std::move(sources), tests::fixed_now());
  REQUIRE(answer.incidents.size() == 1);
  CHECK(answer.incidents[0].diagnosis.kind == "host.oom.cgroup");
  CHECK(answer.incidents[0].diagnosis.root.source == "node.txt");
}

TEST_CASE("the last line of a traceback alone is a failure, a mention of one in a log that goes on is none") {
  const daemon::Answer last = tests::scan_text("some text\nValueError: the batch has no labels\n");
  REQUIRE(last.incidents.size() == 1);
  CHECK(last.incidents[0].diagnosis.kind == "user.exception");
  CHECK(last.incidents[0].diagnosis.root.line == 2);
  std::string later = "ValueError: the batch has no labels\n";
  for (int i = 0; i < 40; ++i) later += "reading shard " + std::to_string(i) + "\n";
  CHECK(tests::scan_text(later).incidents.empty());
}

TEST_CASE("a loss that stays no number is a failure of the training, one or two steps are not") {
  const auto steps = [](std::initializer_list<const char*> losses) {
    std::string text;
    int step = 10;
    for (const char* loss : losses) text += "step: " + std::to_string(step++) + "/100 loss: " + loss + "\n";
    return tests::scan_text(text);
  };
  const daemon::Answer bad = steps({"2.5", "nan", "nan", "nan"});
  REQUIRE(bad.incidents.size() == 1);
  CHECK(bad.incidents[0].diagnosis.kind == "num.nan");
  CHECK(bad.incidents[0].diagnosis.root.line == 2);
  CHECK(steps({"2.5", "nan", "nan"}).incidents.empty());
  CHECK(steps({"nan", "nan", "nan", "2.5"}).incidents.empty());
}

TEST_CASE("several processes in the last lines are not one process") {
  const daemon::Answer answer = tests::scan_text(
      "(VllmWorker rank=5 pid=948)     raise SystemExit()\n(VllmWorker rank=0 pid=754)     raise SystemExit()\nKilled\n");
  REQUIRE(answer.incidents.size() == 1);
  CHECK(answer.incidents[0].diagnosis.kind == "proc.sigkill");
  CHECK_FALSE(answer.incidents[0].diagnosis.root.rank);
}

TEST_CASE("no space for a semaphore is /dev/shm, not a disk") {
  const daemon::Answer answer = tests::scan_text(
      "Traceback (most recent call last):\n  File \"/usr/lib/python3.10/multiprocessing/synchronize.py\", line 57, in __init__\n"
      "    sl = self._semlock = _multiprocessing.SemLock(\nOSError: [Errno 28] No space left on device\n");
  REQUIRE(answer.incidents.size() == 1);
  CHECK(answer.incidents[0].diagnosis.kind == "host.shm");
}

TEST_CASE("a log of several nodes is not that of one process") {
  const daemon::Answer answer = tests::scan_text(
      "c000001: FileNotFoundError: [Errno 2] No such file or directory: '/data/cache/a_doc_idx.npy'\n"
      "c000002: Traceback (most recent call last):\nc000002:   File \"pretrain_gpt.py\", line 7, in <module>\n");
  REQUIRE(answer.incidents.size() == 1);
  CHECK(answer.incidents[0].diagnosis.kind == "data.missing");
  CHECK_FALSE(answer.incidents[0].diagnosis.root.rank);
}

TEST_CASE("a listed process that cannot be beside this one on the card is this one") {
  const daemon::Answer answer = tests::scan_text(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 4 has a total capacity of 79.10 GiB of which 500.00 "
      "MiB is free. Process 77 has 78.60 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 6.00 GiB is "
      "reserved by PyTorch but unallocated.\n");
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind != "gpu.oom.other_process");
  REQUIRE(d.ledger);
  CHECK(d.ledger->other_processes.empty());
  CHECK(d.ledger->in_use == parsers::gib(78.60));
}

TEST_CASE("the traceback of a spawned process is the fault, and its number the local rank") {
  const daemon::Answer answer = tests::scan_text(
      "Traceback (most recent call last):\n  File \"test.py\", line 90, in <module>\n    torch.multiprocessing.spawn(loop, args=(8,), nprocs=8)\n"
      "  File \"/opt/torch/multiprocessing/spawn.py\", line 215, in join\n    raise ProcessRaisedException(msg, error_index, failed_process.pid)\n"
      "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 6 terminated with the following error:\n"
      "Traceback (most recent call last):\n  File \"/opt/torch/multiprocessing/spawn.py\", line 90, in _wrap\n    fn(i, *args)\n"
      "  File \"test.py\", line 40, in loop\n    buffer.check(rows)\nKeyError: 'rows'\n");
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "user.exception");
  CHECK(d.root.line == 14);
  CHECK(d.root.local_rank == 6);
  CHECK_FALSE(d.root.rank);
}

TEST_CASE("two processes in one line are not one process") {
  const daemon::Answer answer = tests::scan_text("RuntimeErrorRuntimeError: : mat1 and mat2 shapes cannot be multiplied (8x16 and 8x16)\n");
  REQUIRE(answer.incidents.size() == 1);
  CHECK_FALSE(answer.incidents[0].diagnosis.root.rank);
}

TEST_CASE("the end of a container has its line") {
  const daemon::Answer answer = tests::scan_text(
      "    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    137\n      Started:      Tue, 04 Mar 2025 01:00:00 +0100\n"
      "      Finished:     Tue, 04 Mar 2025 02:00:00 +0100\n");
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "proc.sigkill");
  CHECK(d.root.line == 3);
  CHECK(d.root.text.find("137") != std::string::npos);
  CHECK_FALSE(d.root.rank);
}

TEST_CASE("of a table of several jobs none is this one, unless the log has its number") {
  const std::string table =
      "JobID           JobName      State ExitCode\n------------ ---------- ---------- --------\n4711           pretrain  COMPLETED      0:0\n"
      "4712           finetune OUT_OF_ME+    0:125\n";
  CHECK(tests::scan_text(table, 0, "jobs.txt").incidents.empty());
  const daemon::Answer own = tests::scan_text(table, 0, "slurm-4712.out");
  REQUIRE(own.incidents.size() == 1);
  CHECK(own.incidents[0].diagnosis.kind == "host.oom.slurm");
  CHECK(tests::scan_text("4712           finetune OUT_OF_ME+    0:125\n", 0, "jobs.txt").incidents.size() == 1);
}

TEST_CASE("ranks of a group count from 0, those of the job stand in the prefix") {
  const auto line = [](int rank, int in_group, int sequence, int guid) {
    const std::string head = "[rank" + std::to_string(rank) + "]:[E901 10:00:00.100000000 ProcessGroupNCCL.cpp:";
    return head + "689] [Rank " + std::to_string(in_group) + "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + std::to_string(sequence) +
           ", OpType=ALLTOALL_BASE, NumelIn=" + std::to_string(guid * 10) + ", NumelOut=64, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n" + head +
           "2293] [PG ID 6 PG GUID " + std::to_string(guid) + "(EXPERT_MODEL_PARALLEL_GROUP) Rank " + std::to_string(in_group) +
           "]  failure detected by watchdog at work sequence id: " + std::to_string(sequence) + " PG status: last enqueued work: " + std::to_string(sequence) +
           ", last completed work: " + std::to_string(sequence - 1) + "\n";
  };
  // Two groups of one description: their calls and numbers have nothing to do with each other.
  const daemon::Answer answer = tests::scan_text(line(40, 0, 7, 341) + line(41, 1, 7, 341) + line(48, 0, 7, 342) + line(49, 1, 7, 342));
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "nccl.timeout");
  REQUIRE(d.collective);
  CHECK(d.collective->waiting_ranks == std::vector<int>{40, 41, 48, 49});
  CHECK(d.collective->silent_ranks.empty());
  // One group: another size at the same number is a wrong call.
  const daemon::Answer desync = tests::scan_text(line(40, 0, 7, 341) + line(41, 1, 7, 341) + line(42, 2, 7, 341) +
                                                 "[rank43]:[E901 10:00:00.100000000 ProcessGroupNCCL.cpp:689] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
                                                 "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n");
  REQUIRE(desync.incidents.size() == 1);
  CHECK(desync.incidents[0].diagnosis.kind == "nccl.desync");
  CHECK(desync.incidents[0].diagnosis.root.rank == 43);
}

TEST_CASE("who asked for the flight recorders is told, and is no culprit") {
  const daemon::Answer answer = tests::scan_text(
      "[rank0]:[E901 10:00:00.1 ProcessGroupNCCL.cpp:1849] [PG ID 0 PG GUID 0(default_pg) Rank 0] Observed flight recorder dump signal from another rank via TCPStore.\n"
      "[rank0]:[E901 10:00:00.2 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from  rank 21 and we "
      "will try our best to dump the debug info. Last enqueued NCCL work: 100, last completed NCCL work: 98.\n");
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "nccl.timeout");
  CHECK(d.root.line == 2);
  CHECK_FALSE(d.root.rank);
  CHECK(d.summary.find("Rank 21") == 0);
}

TEST_CASE("the sentence of an answer says what decides, also where the exception's own line does not") {
  const std::string torch = "/usr/lib/python3/dist-packages/torch/";
  const auto trace = [](const std::string& file, const std::string& function, const std::string& source, const std::string& error) {
    return "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/train/train.py\", line 7, in <module>\n[rank3]:     main()\n[rank3]:   File \"" + file +
           "\", line 12, in " + function + "\n[rank3]:     " + source + "\n" + error;
  };
  const struct {
    const char* name;
    std::string text;
    const char *kind, *says;
  } rows[] = {
      {"an assertion without words", trace("/train/train.py", "main", "assert labels.shape == (n_rows,)", "[rank3]: AssertionError\n"), "user.exception",
       "of: AssertionError: assert labels.shape == (n_rows,)"},
      {"a bare raise says no more than its name", trace("/train/train.py", "main", "raise NotImplementedError", "[rank3]: NotImplementedError\n"), "user.exception", "of: NotImplementedError"},
      {"an exception that announces the next line", trace("/train/train.py", "main", "load()", "[rank3]: ValueError: these keys differ:\n[rank3]: head.weight\n"), "user.exception",
       "ValueError: these keys differ: head.weight"},
      {"NCCL's last error", trace(torch + "distributed/distributed_c10d.py", "broadcast", "work = group.broadcast([tensor], opts)",
             "[rank3]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, internal error - please report this "
             "issue to the NCCL developers, NCCL version 2.21.5\n[rank3]: ncclInternalError: Internal check failed.\n[rank3]: Last error:\n[rank3]: no such thing in /dev\n"),
       "nccl.internal", ": no such thing in /dev"},
      {"a topology that NCCL cannot read", trace(torch + "distributed/distributed_c10d.py", "broadcast", "work = group.broadcast([tensor], opts)",
             "[rank3]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, internal error - please report this "
             "issue to the NCCL developers, NCCL version 2.21.5\n[rank3]: ncclInternalError: Internal check failed.\n[rank3]: Last error:\n[rank3]: Attribute busid of node nic not found\n"),
       "config.topology", "Attribute busid of node nic not found"},
      {"fake tensors, before 2.7", trace("/train/train.py", "main", "loss = model(x)",
             "[rank3]: torch._dynamo.exc.TorchRuntimeError: Failed running call_function <function cross_entropy at 0x7f>(*(FakeTensor(..., size=(90752, 8)),), **{}):\n"
             "[rank3]: Attempting to broadcast a dimension of length 90752 at -1! Mismatching argument at index 1\n"),
       "user.exception", "Attempting to broadcast a dimension of length 90752 at -1!"},
      {"fake tensors, since 2.7", trace("/train/train.py", "main", "loss = model(x)",
             "[rank3]: torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node with fake tensors: call_method view(*(FakeTensor(..., size=(8, 24576)), -1, 576), **{}): "
             "got RuntimeError(\"shape '[-1, 576]' is invalid for input of size 196608\")\n"),
       "user.exception", "shape '[-1, 576]' is invalid for input of size 196608"},
      {"a rank that is not in the mesh", trace(torch + "distributed/device_mesh.py", "get_group", "return not_none(_find_pg_by_ranks_and_tag(*self._dim_group_infos[mesh_dim][:2]))",
             "[rank3]: IndexError: list index out of range\n"),
       "config.parallelism", "list index out of range"},
      {"a list of the program that is too short", trace("/train/device_mesh.py", "get_group", "return groups[dim]", "[rank3]: IndexError: list index out of range\n"), "user.exception",
       "list index out of range"},
  };
  for (const bool prefixed : {true, false})
    for (const auto& row : rows) {
      CAPTURE(std::string(row.name));
      CAPTURE(prefixed);
      std::string text = row.text;
      for (std::size_t at = 0; !prefixed && (at = text.find("[rank3]: ", at)) != std::string::npos;) text.erase(at, 9);
      const daemon::Answer answer = tests::scan_text(text);
      REQUIRE(answer.incidents.size() == 1);
      const auto& d = answer.incidents[0].diagnosis;
      CHECK(d.kind == row.kind);
      CHECK_MESSAGE(d.summary.find(row.says) != std::string::npos, d.summary);
      CHECK(d.summary.find("raise ") == std::string::npos);
    }
}

TEST_CASE("what HPE's launcher, jsrun and aprun say of the end of a rank, and that an echo is no root") {
  const struct {
    const char *text, *kind;
    int rank;
  } rows[] = {
      {"x3005c0s31b0n0.hsn.example.gov: rank 0 died from signal 15\nx3005c0s31b0n0.hsn.example.gov: rank 3 died from signal 11 and dumped core\n", "proc.sigsegv", 3},
      {"x3102c0s7b0n0.hsn.example.gov: rank 7 exited with code 255\nx3102c0s37b1n0.hsn.example.gov: rank 0 died from signal 15\n", "proc.exit", 7},
      {"ERROR:  One or more process (first noticed rank 12) terminated with signal 9\n", "proc.sigkill", 12},
      {"_pmiu_daemon(SIGCHLD): [NID 00123] [c0-0c1s2n3] [Mon Dec  1 10:00:00 2025] PE RANK 7 exit signal Killed\n", "proc.sigkill", 7},
  };
  for (const auto& row : rows) {
    CAPTURE(std::string(row.text));
    const daemon::Answer answer = tests::scan_text(row.text);
    REQUIRE(answer.incidents.size() == 1);
    CHECK(answer.incidents[0].diagnosis.kind == row.kind);
    CHECK(answer.incidents[0].diagnosis.root.rank == row.rank);
  }
}

TEST_CASE("of a container that did not start, enroot's own line is the cause") {
  const daemon::Answer answer = tests::scan_text(
      "0: slurmstepd: error: pyxis: container start failed with error code: 1\n0: slurmstepd: error: pyxis: printing enroot log file:\n"
      "0: slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory\n"
      "0: slurmstepd: error: pyxis: couldn't start container\n0: slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1\n");
  REQUIRE(answer.incidents.size() == 1);
  CHECK(answer.incidents[0].diagnosis.kind == "sched.launch");
  CHECK(answer.incidents[0].diagnosis.root.line == 3);
}
