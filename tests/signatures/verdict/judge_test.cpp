#include "signatures/verdict/incident_builder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>

#include "findings.hpp"

using namespace triage::signatures;
using namespace triage::signatures::test;
namespace parsers = triage::parsers;

namespace {

parsers::CollectiveTimeout timeout(int rank, std::string operation, std::int64_t elements) {
  parsers::CollectiveTimeout e;
  e.rank = rank;
  e.sequence = 4084;
  e.operation = std::move(operation);
  e.elements_in = e.elements_out = elements;
  e.timeout_ms = 600000;
  e.ran_ms = 600077;
  return e;
}

Finding watchdog(std::uint64_t line, parsers::CollectiveTimeout event) {
  const int rank = *event.rank;
  Finding f = finding("nccl.watchdog.timeout", "nccl.timeout", Role::cascade, line,
                      "[Rank " + std::to_string(rank) + "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4084, OpType=" + event.operation + ")");
  f.rank = rank;
  f.event = std::move(event);
  return f;
}

Finding peer_closed(std::uint64_t line, int rank) {
  return with_rank(finding("dist.gloo.peer_closed", "dist.peer_closed", Role::cascade, line,
                           "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:36255"),
                   rank);
}

Finding table(std::uint64_t line, std::vector<parsers::ElasticFailure> failures) {
  Finding f = finding("torchrun.table", "proc.exit", Role::confirmation, line, "Root Cause (first observed failure):");
  f.event = parsers::ElasticTable{std::move(failures)};
  return f;
}

parsers::ElasticFailure entry(int rank, int exit_code, int seconds, bool root) {
  parsers::ElasticFailure e;
  e.rank = e.local_rank = rank;
  e.exit_code = exit_code;
  e.time = at(seconds);
  e.pid = 518 + rank;
  e.root = root;
  return e;
}

}  // namespace

TEST_CASE("an out-of-memory of one rank is the cause, closed connections are echoes") {
  const auto j = judge_one(source("ranks-oom.log",
                                  {with_rank(oom(60, ranks_oom_event()), 2), peer_closed(80, 1), peer_closed(100, 3),
                                   table(160, {entry(0, -15, 2, false), entry(1, -15, 1, false), entry(2, 1, 1, true)}), oom(240, ranks_oom_event())},
                                  {step(1, 9), step(2, 10), step(3, 11)}));
  REQUIRE(j.diagnoses.size() == 1);
  const auto& d = j.diagnoses[0];
  CHECK(d.kind == "gpu.oom.capacity");
  CHECK(d.root.line == 60);
  CHECK(d.root.rank == 2);
  CHECK(d.root.step == 4);
  CHECK(d.also.empty());
  CHECK(d.backend == "cuda");
  REQUIRE(d.ledger);
  CHECK(d.ledger->other_processes.size() == 3);
  CHECK(d.confidence > 0.9);
  bool seen = false;
  for (const auto& e : d.echoes)
    if (e.kind == "dist.peer_closed") seen = e.ranks == std::vector<int>{1, 3};
  CHECK(seen);
  CHECK(d.summary.find("Rank 2 asked for 128.00 GiB") == 0);
}

TEST_CASE("a fault that further steps follow is handled") {
  Finding caught = oom(3, ranks_oom_event());
  SUBCASE("two steps") {
    const auto j = judge_one(source("a.log", {caught}, {step(1, 10), step(2, 11)}));
    CHECK(j.diagnoses.empty());
    REQUIRE(j.handled.size() == 1);
    CHECK(j.handled[0].line == 3);
  }
  SUBCASE("one late step of another rank does not heal it") {
    const auto j = judge_one(source("a.log", {oom(30, ranks_oom_event()), peer_closed(40, 1)}, {step(1, 10), step(2, 31)}));
    REQUIRE(j.diagnoses.size() == 1);
    CHECK(j.diagnoses[0].kind == "gpu.oom.capacity");
  }
}

TEST_CASE("a healthy log gives nothing") {
  const auto j = judge_one(source("ok.log", {finding("advice", "gpu.oom", Role::advice, 2, "try to avoid out of memory")}, {step(1, 10), step(2, 11)}));
  CHECK(j.diagnoses.empty());
  CHECK(j.handled.empty());
}

TEST_CASE("a restarted job gives one incident an attempt") {
  auto first = with_rank(oom(20, ranks_oom_event()), 2);
  auto second = with_rank(oom(60, ranks_oom_event()), 2);
  const auto j = judge_one(source("a.log", {first, table(30, {entry(2, 1, 1, true)}), second, table(70, {entry(2, 1, 9, true)})},
                                  {step(1, 10), step(9, 11), step(5, 40), step(9, 41)}));
  REQUIRE(j.diagnoses.size() == 2);
  CHECK(j.diagnoses[0].attempt == 1);
  CHECK(j.diagnoses[1].attempt == 2);
  CHECK(j.diagnoses[0].fingerprint == j.diagnoses[1].fingerprint);
  CHECK(j.diagnoses[0].id != j.diagnoses[1].id);
}

TEST_CASE("the odd one out of a desynchronised collective is the culprit") {
  const auto j = judge_one(source("a.log", {watchdog(1, timeout(2, "ALLREDUCE", 4821568)), watchdog(2, timeout(1, "ALLREDUCE", 4821568)),
                                            watchdog(3, timeout(3, "BROADCAST", 56623104))}));
  REQUIRE(j.diagnoses.size() == 1);
  const auto& d = j.diagnoses[0];
  CHECK(d.kind == "nccl.desync");
  CHECK(d.root.line == 3);
  CHECK(d.root.rank == 3);
  REQUIRE(d.collective);
  CHECK(d.collective->culprit_ranks == std::vector<int>{3});
  CHECK(d.collective->waiting_ranks == std::vector<int>{1, 2});
}

TEST_CASE("the rank that reports no time-out is the one the others waited for") {
  const auto j = judge_one(source("a.log", {watchdog(1, timeout(2, "ALLREDUCE", 1)), watchdog(2, timeout(3, "ALLREDUCE", 1)),
                                            watchdog(3, timeout(1, "ALLREDUCE", 1))}));
  REQUIRE(j.diagnoses.size() == 1);
  CHECK(j.diagnoses[0].kind == "nccl.timeout");
  CHECK(j.diagnoses[0].root.rank == 0);
  CHECK(j.diagnoses[0].collective->silent_ranks == std::vector<int>{0});
}

TEST_CASE("ranks at different calls have no common number") {
  auto behind = timeout(1, "ALLREDUCE", 8);
  behind.sequence = 4001;
  const auto j = judge_one(source("a.log", {watchdog(1, timeout(2, "ALLREDUCE", 8)), watchdog(2, behind)}));
  REQUIRE(j.diagnoses.size() == 1);
  const auto& d = j.diagnoses[0];
  REQUIRE(d.collective);
  CHECK_FALSE(d.collective->sequence);
  CHECK(std::any_of(d.reasons.begin(), d.reasons.end(), [](const std::string& r) { return r.find("at number 4084") != std::string::npos && r.find("at 4001") != std::string::npos; }));
}

TEST_CASE("a worker that died before the others timed out is what they waited for") {
  const std::string text = "ray.exceptions.ActorDiedError: The actor died unexpectedly. The actor is dead because its worker process has died.";
  const Finding dead = finding("ray.actor_died", "proc.exit", Role::cascade, 5, text);
  const auto first = judge_one(source("a.log", {dead, watchdog(9, timeout(1, "ALLREDUCE", 8))}));
  REQUIRE(first.diagnoses.size() == 1);
  CHECK(first.diagnoses[0].root.line == 5);
  Finding late = dead;
  late.line = late.last_line = 20;
  const auto second = judge_one(source("a.log", {watchdog(9, timeout(1, "ALLREDUCE", 8)), late}));
  REQUIRE(second.diagnoses.size() == 1);
  CHECK(second.diagnoses[0].kind == "nccl.timeout");
}

TEST_CASE("a line without a rank is of the rank whose print it continues") {
  const Finding head = with_rank(finding("ascend.device_fault", "cuda.launch_failure", Role::confirmation, 4, "[ERROR] 2025-05-01 (PID:1, Device:3, RankID:3) ERR00100"), 3);
  const Finding root = finding("ascend.oom", "cuda.ecc", Role::root, 5, "HBM MULTI BIT ECC ERROR. error code is 507054");
  const auto near = judge_one(source("a.log", {head, root}));
  REQUIRE(near.diagnoses.size() == 1);
  CHECK(near.diagnoses[0].root.rank == 3);
}

TEST_CASE("a missing key while a checkpoint is read is a checkpoint that does not fit") {
  const auto raised = [](const char* function) {
    return with_frames(finding("python.exception", "user.exception", Role::root, 40, "KeyError: 'state'"), "KeyError", "'state'",
                       {parsers::Frame{"train.py", 9, "main", ""}, parsers::Frame{"megatron/core/optimizer/optimizer.py", 1244, function, ""}});
  };
  const auto mismatch = judge_one(source("a.log", {raised("load_state_dict")}));
  REQUIRE(mismatch.diagnoses.size() == 1);
  CHECK(mismatch.diagnoses[0].kind == "ckpt.mismatch");
  const auto other = judge_one(source("a.log", {raised("__getitem__")}));
  REQUIRE(other.diagnoses.size() == 1);
  CHECK(other.diagnoses[0].kind == "user.exception");
}

TEST_CASE("a local exception beats a collective time-out, whatever was printed first") {
  auto local = with_rank(finding("ckpt.corrupt", "ckpt.corrupt", Role::root, 50, "RuntimeError: PytorchStreamReader failed reading file"), 5);
  local.time = at(100);
  auto echo = watchdog(10, timeout(1, "ALLREDUCE", 8));
  echo.time = at(90);
  const auto j = judge_one(source("a.log", {echo, local}));
  REQUIRE(j.diagnoses.size() == 1);
  CHECK(j.diagnoses[0].kind == "ckpt.corrupt");
  CHECK(j.diagnoses[0].root.rank == 5);
}

TEST_CASE("only the end of processes: the signal names the kind, the earliest table the rank") {
  SUBCASE("two tables") {
    const auto j = judge_one(source("a.log", {table(12, {entry(3, 1, 52, false), entry(0, 1, 52, true)}), table(29, {entry(4, -9, 1, true)})}));
    REQUIRE(j.diagnoses.size() == 1);
    CHECK(j.diagnoses[0].kind == "proc.sigkill");
    CHECK(j.diagnoses[0].root.rank == 4);
    CHECK(j.diagnoses[0].root.line == 29);
    CHECK(j.diagnoses[0].confidence < 0.85);
    bool dmesg = false;
    for (const auto& m : j.diagnoses[0].missing) dmesg = dmesg || m.set.find("dmesg") != std::string::npos;
    CHECK(dmesg);
  }
  SUBCASE("the kernel's record joins an exit by SIGKILL") {
    auto kill = finding("kernel.oom", "host.oom.kernel", Role::root, 2, "Out of memory: Killed process 25315 (python3) total-vm:53312244kB, anon-rss:31451456kB");
    kill.system = true;
    parsers::OomKill event;
    event.pid = 25315;
    event.process = "python3";
    event.anon_rss = parsers::kib(31451456);
    kill.event = event;
    std::vector<SourceFindings> sources;
    sources.push_back(source("train.log", {table(29, {entry(4, -9, 1, true)})}));
    sources.push_back(source("dmesg", {kill}));
    const auto j = judge(std::move(sources), {});
    REQUIRE(j.diagnoses.size() == 1);
    CHECK(j.diagnoses[0].kind == "host.oom.kernel");
    CHECK(j.diagnoses[0].summary.find("29.99 GiB") != std::string::npos);
  }
}

TEST_CASE("a hardware Xid explains a CUDA error of its node; an application Xid does not") {
  for (const int code : {79, 13}) {
    CAPTURE(code);
    auto xid = finding("nvidia.xid", "gpu.xid." + std::to_string(code), Role::root, 5, "NVRM: Xid (PCI:0000:1a:00): " + std::to_string(code));
    xid.system = true;
    xid.time = at(0);
    auto error = with_rank(finding("cuda.launch", "cuda.illegal_access", Role::root, 50, "torch.AcceleratorError: CUDA error: an illegal memory access"), 1);
    error.time = at(2);
    std::vector<SourceFindings> sources;
    sources.push_back(source("dmesg", {xid}));
    sources.push_back(source("train.log", {error}));
    const auto j = judge(std::move(sources), {});
    REQUIRE(j.diagnoses.size() == 1);
    CHECK(j.diagnoses[0].kind == (code == 79 ? "gpu.xid.79" : "cuda.illegal_access"));
  }
}

TEST_CASE("an error of the device that the kernel driver reports explains a hang that the program prints first") {
  const auto hang = finding("rocm.hardware_exception", "cuda.launch_failure", Role::root, 2, "HW Exception by GPU node-5 (Agent handle: 0x6a9b6f0) reason :GPU Hang");
  auto ras = finding("rocm.kernel.ras", "cuda.ecc", Role::root, 3, "amdgpu 0000:1c:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!");
  ras.system = true;
  const auto j = judge_one(source("a.log", {hang, ras}));
  REQUIRE(j.diagnoses.size() == 1);
  CHECK(j.diagnoses[0].kind == "cuda.ecc");
  CHECK(j.diagnoses[0].root.line == 3);
}

TEST_CASE("a launcher that was told to end is an end, although it says so as a warning") {
  for (const auto& [rule, kind, role, number] : {std::tuple("torchrun.got_signal", "proc.sigterm", Role::confirmation, "15"), std::tuple("torchrun.hangup", "proc.sighup", Role::root, "1")}) {
    const std::string named = rule;
    CAPTURE(named);
    auto told = finding(rule, kind, role, 6, "Received " + std::string(number) + " death signal, shutting down workers");
    told.level = parsers::Level::warning;
    const auto j = judge_one(source("a.log", {told}));
    REQUIRE(j.diagnoses.size() == 1);
    CHECK(j.diagnoses[0].kind == kind);
    CHECK(!j.diagnoses[0].root.rank);
  }
}

TEST_CASE("StopIteration of a package that looks for its own library is no end of the data") {
  const std::string te = "/usr/lib/python3/dist-packages/transformer_engine/pytorch/__init__.py";
  for (const auto& [function, file, kind] : {std::tuple("_load_library", te, "env.import"), std::tuple("__next__", te, "data.empty"),
                                             std::tuple("_load_library_of_samples", std::string("/train/data.py"), "data.empty")}) {
    const std::string named = function;
    CAPTURE(named);
    const auto f = with_frames(finding("data.empty", "data.empty", Role::root, 15, "StopIteration"), "StopIteration", "",
                               {{file, 58, function, ""}});
    const auto j = judge_one(source("a.log", {f}));
    REQUIRE(j.diagnoses.size() == 1);
    CHECK(j.diagnoses[0].kind == kind);
  }
}

TEST_CASE("the end of a pipe to the process that writes checkpoints is that process's end, and of any other pipe a peer's") {
  const std::string connection = "/usr/lib/python3.12/multiprocessing/connection.py";
  for (const auto& [file, function, kind] : {std::tuple("/opt/megatron-lm/megatron/core/dist_checkpointing/strategies/filesystem_async.py", "retrieve_write_results", "proc.exit"),
                                             std::tuple("/opt/nvidia_resiliency_ext/checkpointing/async_ckpt/core.py", "is_current_async_call_done", "proc.exit"),
                                             std::tuple("/usr/lib/python3/dist-packages/torch/distributed/checkpoint/_async_process_executor.py", "_wait_for_response", "proc.exit"),
                                             std::tuple("/train/manager.py", "get", "dist.peer_closed")}) {
    const std::string named = file;
    CAPTURE(named);
    const auto f = with_frames(finding("python.peer_closed", "dist.peer_closed", Role::cascade, 15, "EOFError"), "EOFError", "",
                               {{file, 58, function, ""}, {connection, 399, "_recv", ""}});
    const auto j = judge_one(source("a.log", {f}));
    REQUIRE(j.diagnoses.size() == 1);
    CHECK(j.diagnoses[0].kind == kind);
    CHECK((j.diagnoses[0].phase == Phase::checkpoint) == (std::string(kind) == "proc.exit"));
  }
}

TEST_CASE("the rank that mpirun saw end by a signal is the one that crashed") {
  const auto crash = finding("crash.fortran", "proc.sigill", Role::root, 1, "Program received signal SIGILL: Illegal instruction.");
  auto seen = finding("mpirun.ended_rank", "proc.exit", Role::confirmation, 7, "prterun noticed that process rank 2 with PID 1617008 on node cpu155 exited on");
  seen.rank = 2;
  seen.pid = 1617008;
  seen.node = "cpu155";
  const auto j = judge_one(source("a.log", {crash, seen}));
  REQUIRE(j.diagnoses.size() == 1);
  CHECK(j.diagnoses[0].kind == "proc.sigill");
  CHECK(j.diagnoses[0].root.rank == 2);
  CHECK(j.diagnoses[0].root.node == "cpu155");
}

TEST_CASE("a log in which the launcher ends several processes is not of rank 0 of one") {
  for (const std::int64_t last : {45099, 45098}) {
    CAPTURE(last);
    std::vector<Finding> lines{finding("deepspeed.loss_scale", "num.nan", Role::root, 7, "Exception: Current loss scale already at minimum - cannot decrease scale anymore.")};
    for (const std::int64_t pid : {std::int64_t{45098}, last}) {
      lines.push_back(finding("launcher.kills_children", "none", Role::fact, 9 + lines.size(), "Killing subprocess " + std::to_string(pid)));
      lines.back().captures.emplace_back("process", pid);
    }
    const auto j = judge_one(source("a.log", lines));
    REQUIRE(j.diagnoses.size() == 1);
    CHECK(j.diagnoses[0].root.rank.has_value() == (last == 45098));
  }
}

TEST_CASE("Xid 45 alone is no cause") {
  auto xid = finding("nvidia.xid", "gpu.xid.45", Role::root, 5, "NVRM: Xid (PCI:0000:1a:00): 45");
  CHECK(judge_one(source("dmesg", {xid})).diagnoses.empty());
}

TEST_CASE("a caught error becomes the cause if the run broke right after it") {
  auto caught = finding("fairseq.oom.with_exception", "gpu.oom", Role::root, 1, "| WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 20.00 MiB");
  auto word = finding("fairseq.oom.skipping_batch", "gpu.oom", Role::handled, 2, " Skipping batch");
  auto spawn = with_frames(finding("python.exception", "user.exception", Role::root, 12, "Exception:"), "Exception", "",
                           {{"/lib/python3.6/site-packages/torch/multiprocessing/spawn.py", 114, "join", ""}});
  const auto j = judge_one(source("a.log", {caught, word, spawn}));
  REQUIRE(j.diagnoses.size() == 1);
  CHECK(j.diagnoses[0].kind == "gpu.oom.capacity");
  CHECK(j.diagnoses[0].root.line == 1);
}

TEST_CASE("a time limit beats what the killed processes print") {
  auto limit = finding("slurm.time_limit", "sched.time_limit", Role::root, 10, "slurmstepd: error: *** JOB 494583 ON node001 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***");
  auto error = finding("python.exception", "user.exception", Role::root, 12, "RuntimeError: DataLoader worker (pid 5) exited");
  const auto j = judge_one(source("a.log", {limit, error}));
  REQUIRE(j.diagnoses.size() == 1);
  CHECK(j.diagnoses[0].kind == "sched.time_limit");
}

TEST_CASE("a message that is cut still gives a sentence with its figures") {
  parsers::OutOfMemory event;
  event.backend = "cuda";
  event.tried = parsers::mib(130);
  event.free = parsers::mib(117.19);
  event.truncated = true;
  const auto j = judge_one(source("a.log", {with_rank(oom(13, event), 54)}));
  REQUIRE(j.diagnoses.size() == 1);
  CHECK(j.diagnoses[0].summary == "Rank 54 asked for 130.00 MiB; only 117.19 MiB were free.");
}

TEST_CASE("the same bytes give the same identity, another rank and size the same fingerprint") {
  auto a = judge_one(source("/x/a.log", {with_rank(oom(60, ranks_oom_event()), 2)})).diagnoses.at(0);
  auto b = judge_one(source("a.log", {with_rank(oom(60, ranks_oom_event()), 2)})).diagnoses.at(0);
  auto c = judge_one(source("a.log", {with_rank(oom(61, ranks_oom_event()), 5)})).diagnoses.at(0);
  CHECK(a.id == b.id);
  CHECK(a.fingerprint == c.fingerprint);
  CHECK(a.id != c.id);
  CHECK(a.fingerprint.size() == 19);
}

TEST_CASE("an exception of the code that reads a checkpoint is a checkpoint that does not fit") {
  struct Row {
    const char* name;
    const char* exception;
    std::vector<parsers::Frame> frames;
    const char* want;
  };
  const parsers::Frame main{"/w/train.py", 1, "main", ""}, reader{"/lib/optimizer.py", 1244, "load_state_dict", ""}, below{"/lib/util.py", 3, "merge", ""},
      deep{"/lib/util.py", 9, "one", ""}, step{"/w/train.py", 9, "train_step", ""};
  const Row rows[] = {{"a key is missing far below", "KeyError", {main, reader, below, deep, deep}, "ckpt.mismatch"},
                      {"the reader raises", "ValueError", {main, reader, below}, "ckpt.mismatch"},
                      {"far below the reader", "ValueError", {main, reader, below, deep, deep}, "user.exception"},
                      {"another class", "TypeError", {main, reader}, "user.exception"},
                      {"no reader", "ValueError", {main, step}, "user.exception"}};
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      Finding f = with_frames(finding("python.exception", "user.exception", Role::root, 20, std::string(row.exception) + ": it"), row.exception, "it", row.frames);
      const auto j = judge_one(source("train.log", {f}));
      REQUIRE(j.diagnoses.size() == 1);
      CHECK(j.diagnoses[0].kind == row.want);
    }
  }
}

TEST_CASE("the phase comes from a stack beside the error whose end is cut off") {
  auto s = source("train.log", {oom(20, ranks_oom_event())});
  parsers::Traceback stack;
  stack.complete = false;
  stack.first_line = 22;
  stack.last_line = 30;
  stack.frames = {{"/lib/deepspeed/runtime/pipe/engine.py", 735, "_exec_forward_pass", ""}};
  s.unfinished.push_back(stack);
  auto far = s;
  far.unfinished[0].first_line = far.unfinished[0].last_line = 200;
  CHECK(judge_one(std::move(s)).diagnoses.at(0).phase == Phase::forward);
  CHECK(judge_one(std::move(far)).diagnoses.at(0).phase == Phase::unknown);
}

TEST_CASE("the process that the launcher saw end by a signal is the one that aborted") {
  Finding abort = finding("crash.cpp_terminate", "proc.sigabrt", Role::root, 10, "terminate called without an active exception");
  Finding ended = finding("launcher.sigabrt", "proc.sigabrt", Role::confirmation, 12, "failed (exitcode: -6) local_rank: 3 (pid: 3042) of binary: /usr/bin/python");
  ended.local_rank = 3;
  auto other = ended;
  other.line = other.last_line = 13;
  other.local_rank = 1;
  CHECK(judge_one(source("train.log", {abort, ended})).diagnoses.at(0).root.local_rank == 3);
  const auto two = judge_one(source("train.log", {abort, ended, other})).diagnoses.at(0);
  CHECK_FALSE(two.root.local_rank);
}

TEST_CASE("ranks that wait in the barrier of a checkpoint's saving wait for the one that writes it") {
  const std::vector<parsers::Frame> saving = {{"/w/recipe.py", 745, "save_checkpoint", ""}, {"/lib/torch/distributed/distributed_c10d.py", 4556, "barrier", ""}};
  const std::vector<parsers::Frame> training = {{"/w/recipe.py", 745, "train", ""}, {"/lib/torch/distributed/distributed_c10d.py", 4556, "barrier", ""}};
  const auto waiting = [](int rank, const std::vector<parsers::Frame>& frames) {
    return with_frames(with_rank(finding("dist.gloo.timeout", "dist.gloo_timeout", Role::root, 20 + static_cast<std::uint64_t>(rank), "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"), rank),
                       "RuntimeError", "Timed out waiting 1800000ms for recv operation to complete", frames);
  };
  CHECK(judge_one(source("a.log", {waiting(2, saving)})).diagnoses.at(0).root.rank == 0);
  CHECK_FALSE(judge_one(source("a.log", {waiting(2, training)})).diagnoses.at(0).root.rank);
  CHECK_FALSE(judge_one(source("a.log", {waiting(0, saving), waiting(2, saving)})).diagnoses.at(0).root.rank);
}
