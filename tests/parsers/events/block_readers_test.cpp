#include <doctest/doctest.h>

#include "parsers/base/quantity.hpp"
#include "support.hpp"

using namespace triage::parsers;

namespace {

template <class T>
std::vector<T> of(const std::vector<NamedBlock>& blocks, std::string_view name) {
  std::vector<T> events;
  for (const auto& block : blocks)
    if (block.name == name) events.push_back(std::get<T>(block.block.event));
  return events;
}

const std::string kTwoAgents =
    "[3]:\n  time      : 2023-06-03_22:45:52\n  host      : gpunode187\n  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 19418)\n"
    "  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
    "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2023-06-03_22:45:52\n  host      : gpunode187\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 19414)\n"
    "  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
    "============================================================\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\nv2-1_mgpus_train_enc_dec.py FAILED\n"
    "------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n"
    "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2023-06-03_22:45:01\n  host      : gpunode188\n  rank      : 4 (local_rank: 0)\n  exitcode  : -9 (pid: 19401)\n"
    "  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 19401\n"
    "============================================================\n";

}  // namespace

TEST_CASE("elastic_table reads the table of a real four-rank failure") {
  for (const char* file : {"ranks-oom.log", "ranks-raise.log"}) {
    CAPTURE(std::string(file));
    const auto blocks = blocks_of(data_file(file));
    const auto tables = of<ElasticTable>(blocks, "elastic_table");
    REQUIRE(tables.size() == 1);
    const auto& rows = tables[0].failures;
    REQUIRE(rows.size() == 4);
    int roots = 0;
    for (const auto& row : rows) {
      CHECK(row.host == "localhost");
      CHECK(row.rank.has_value());
      CHECK((row.rank == row.local_rank));
      CHECK(row.exit_code.has_value());
      CHECK(row.pid.has_value());
      CHECK(row.time.has_value());
      CHECK(row.line > 0);
      if (!row.root) continue;
      ++roots;
      CHECK((row.rank == 2));
      CHECK((row.exit_code == 1));
      CHECK(row.error_file.ends_with("/2/error.json"));
      CHECK(row.traceback.find("Traceback (most recent call last)") == 0);
    }
    CHECK(roots == 1);
    CHECK_FALSE(blocks[0].block.truncated);
  }
}

TEST_CASE("the root's traceback in the table ends with its exception") {
  const auto tables = of<ElasticTable>(blocks_of(data_file("ranks-oom.log")), "elastic_table");
  REQUIRE(tables.size() == 1);
  const auto& root = tables[0].failures.back();
  CHECK(root.traceback.find("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 GiB.") != std::string::npos);
  const Event event = read_event("torch_oom", root.traceback);
  CHECK((std::get<OutOfMemory>(event).tried == Bytes(137438953472)));
}

TEST_CASE("two agents print two tables, one of them cut at its start") {
  const auto tables = of<ElasticTable>(blocks_of(kTwoAgents), "elastic_table");
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].failures.size() == 2);
  CHECK(tables[0].failures[1].root);
  CHECK(tables[0].failures[1].traceback.empty());
  REQUIRE(tables[1].failures.size() == 1);
  CHECK(tables[1].failures[0].host == "gpunode188");
  CHECK((tables[1].failures[0].exit_code == -9));
  CHECK(tables[1].failures[0].traceback == "Signal 9 (SIGKILL) received by PID 19401");
  CHECK(*tables[1].failures[0].time < *tables[0].failures[1].time);
}

TEST_CASE("a table goes on behind lines of others, and ends without its last line") {
  std::string text = kTwoAgents.substr(kTwoAgents.find("Failures:"));
  text.insert(text.find("  host "), "[rank3]: Traceback (most recent call last):\nsome other process said this\n");
  text.resize(text.rfind("===="), ' ');
  text.resize(text.find_last_not_of('=') + 1);
  const auto blocks = blocks_of(text);
  const auto tables = of<ElasticTable>(blocks, "elastic_table");
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].failures.size() == 1);
  CHECK(tables[0].failures[0].host == "gpunode188");
  CHECK(blocks[0].block.truncated);
  CHECK(of<ElasticTable>(blocks_of("Failures:\nnothing of a table\n"), "elastic_table").empty());
}

TEST_CASE("elastic_table reads the table of PyTorch 1.9") {
  const auto tables = of<ElasticTable>(
      blocks_of("*****************************************\n        train.py FAILED            \n=======================================\nRoot "
                "Cause:\n[0]:\n  time: 2021-07-13_08:58:25\n  rank: 1 (local_rank: 1)\n  exitcode: 1 (pid: 12345)\n  error_file: <N/A>\n  msg: "
                "\"Process failed with exitcode 1\"\n=======================================\nOther Failures:\n[1]:\n  time: "
                "2021-07-13_08:58:26\n  rank: 0 (local_rank: 0)\n  exitcode: -6 (pid: 12344)\n  error_file: <N/A>\n  msg: \"Signal 6 (SIGABRT) "
                "received by PID 12344\"\n*****************************************\n"),
      "elastic_table");
  REQUIRE(tables.size() == 1);
  REQUIRE(tables[0].failures.size() == 2);
  CHECK(tables[0].failures[0].root);
  CHECK((tables[0].failures[0].rank == 1));
  CHECK_FALSE(tables[0].failures[1].root);
  CHECK((tables[0].failures[1].exit_code == -6));
}

TEST_CASE("oom_kill_report folds the kernel's report into one event") {
  const std::string report =
      "[  100.0] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
      "[  100.1] CPU: 3 PID: 77 Comm: python3 Not tainted 5.15.0\n[  100.1] Call Trace:\n"
      "[  100.2] memory: usage 536870912kB, limit 536870912kB, failcnt 1234\n"
      "[  100.2] memory+swap: usage 0kB, limit 9007199254740988kB, failcnt 0\n"
      "[  100.3] Tasks state (memory values in pages):\n[  100.3] [     77]     0    77  1000  900  1 0 0 python3\n"
      "a line of a program\n"
      "[  100.4] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/"
      "c,task=python3,pid=77,uid=0\n"
      "[  100.5] Memory cgroup out of memory: Killed process 77 (python3) total-vm:100kB, anon-rss:90kB, file-rss:1kB, shmem-rss:2kB, UID:0\n";
  const auto blocks = blocks_of(report);
  const auto kills = of<OomKill>(blocks, "oom_kill_report");
  REQUIRE(kills.size() == 1);
  CHECK((kills[0].pid == 77));
  CHECK(kills[0].process == "python3");
  CHECK(kills[0].constraint == "CONSTRAINT_MEMCG");
  CHECK(kills[0].cgroup == "/kubepods/pod1");
  CHECK((kills[0].limit == Bytes(536870912LL * 1024)));
  CHECK((kills[0].usage == Bytes(536870912LL * 1024)));
  CHECK((kills[0].anon_rss == Bytes(90 * 1024)));
  CHECK(blocks[0].block.first_line == 1);
  CHECK(blocks[0].block.last_line == 10);
  // A log that begins at the constraint, as dmesg is often quoted.
  const auto tail = of<OomKill>(
      blocks_of("[2059991.491436] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice,"
                "task=python3,pid=25315,uid=0\n[2059991.491542] Out of memory: Killed process 25315 (python3) total-vm:53312244kB, "
                "anon-rss:31451456kB, file-rss:74816kB, shmem-rss:12296kB, UID:0 pgtables:69068kB oom_score_adj:0\n"),
      "oom_kill_report");
  REQUIRE(tail.size() == 1);
  CHECK(tail[0].constraint == "CONSTRAINT_NONE");
  CHECK((tail[0].anon_rss == Bytes(31451456LL * 1024)));
  // Two reports, the first broken off.
  CHECK(of<OomKill>(blocks_of(report.substr(0, report.find("a line of")) + report), "oom_kill_report").size() == 2);
}

TEST_CASE("cuda_malloc_async_oom reads its six lines, under a rank's prefix too") {
  const std::string text =
      "torch.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)\nCurrently allocated     : 9.43 GiB\n"
      "Requested               : 640.00 MiB\nDevice limit            : 11.59 GiB\nFree (according to CUDA): 7.12 MiB\n"
      "PyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB\n";
  std::string prefixed;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) prefixed += "[rank1]: " + line + "\nanother process\n";
  for (const auto& input : {text, prefixed}) {
    const auto found = of<OutOfMemory>(blocks_of(input), "cuda_malloc_async_oom");
    REQUIRE(found.size() == 1);
    CHECK((found[0].device == 1));
    CHECK((found[0].allocated == read_bytes("9.43 GiB")));
    CHECK((found[0].tried == read_bytes("640 MiB")));
    CHECK((found[0].capacity == read_bytes("11.59 GiB")));
    CHECK((found[0].free == read_bytes("7.12 MiB")));
    CHECK_FALSE(found[0].limit.has_value());
    CHECK_FALSE(found[0].truncated);
    CHECK(found[0].sums_agree);
  }
  const auto cut = of<OutOfMemory>(blocks_of(text.substr(0, text.find("Requested"))), "cuda_malloc_async_oom");
  REQUIRE(cut.size() == 1);
  CHECK(cut[0].truncated);
}

TEST_CASE("k8s_describe reads the end of a container and an eviction") {
  const auto killed = of<ProcessExit>(
      blocks_of("    State:          Waiting\n      Reason:       CrashLoopBackOff\n    Last State:     Terminated\n      Reason:       OOMKilled\n"
                "      Exit Code:    137\n      Started:      Mon, 01 Dec 2025 10:00:00 +0000\n      Finished:     Mon, 01 Dec 2025 11:00:00 +0000\n"
                "    Ready:          False\n"),
      "k8s_describe");
  REQUIRE(killed.size() == 1);
  CHECK(killed[0].out_of_memory);
  CHECK((killed[0].exit_code == 137));
  CHECK((killed[0].signal == 9));
  CHECK(killed[0].reason == "OOMKilled");
  const auto yaml = of<ProcessExit>(
      blocks_of("    lastState:\n      terminated:\n        containerID: containerd://1\n        exitCode: 1\n        reason: Error\n        startedAt: x\n"),
      "k8s_describe");
  REQUIRE(yaml.size() == 1);
  CHECK((yaml[0].exit_code == 1));
  const auto evicted = of<ProcessExit>(
      blocks_of("Status:         Failed\nReason:         Evicted\nMessage:        The node was low on resource: ephemeral-storage. Container train was "
                "using 7499Mi, which exceeds its request of 0.\n"),
      "k8s_describe");
  REQUIRE(evicted.size() == 1);
  CHECK(evicted[0].reason.starts_with("Evicted: The node was low on resource: ephemeral-storage."));
  CHECK(of<ProcessExit>(blocks_of("    State:          Terminated\n      Reason:       Completed\n      Exit Code:    0\n"), "k8s_describe").empty());
}

TEST_CASE("event readers keep a bounded amount of endless blocks") {
  std::string text = "Failures:\n  time      : 2023-06-03_22:45:52\n  traceback : Traceback (most recent call last):\n";
  for (int i = 0; i < 20'000; ++i) text += "    File \"/usr/lib/python3/x.py\", line 1, in f\n";
  text += "    ValueError: the last line\n";
  const auto tables = of<ElasticTable>(blocks_of(text), "elastic_table");
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].failures[0].traceback.size() < 24'000);
  CHECK(tables[0].failures[0].traceback.starts_with("Traceback"));
  CHECK(tables[0].failures[0].traceback.ends_with("ValueError: the last line"));
}

TEST_CASE("a victim's line without its report is a block of its own") {
  const auto kills = of<OomKill>(blocks_of("May  1 10:00:00 node1 kernel: Out of memory: Killed process 4242 (python) total-vm:10kB, anon-rss:5kB\nnext\n"),
                                 "oom_kill_report");
  REQUIRE(kills.size() == 1);
  CHECK((kills[0].pid == 4242));
  CHECK((kills[0].anon_rss == Bytes(5 * 1024)));
  const auto old = of<OomKill>(blocks_of("[1.0] Out of memory: Kill process 4242 (python) score 945 or sacrifice child\n[1.1] Killed process 4242 (python) "
                                         "total-vm:10kB, anon-rss:6kB, file-rss:0kB\n"),
                               "oom_kill_report");
  REQUIRE(old.size() == 1);
  CHECK((old[0].anon_rss == Bytes(6 * 1024)));
}
