// Dumps through the whole scan: known by their bytes, judged alone and together with logs.
#include "daemon/pipeline/dump.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/gunzip.hpp"
#include "tests/support/scan.hpp"

using namespace triage;
using daemon::InputKind;
using daemon::kind_of_input;
namespace fs = std::filesystem;

namespace {

const std::string kData = TRIAGE_SOURCE_DIR "/tests/parsers/snapshot/data/";

// A folder of its own, gone at the end.
class Folder {
 public:
  explicit Folder(const std::string& name) : path_(fs::temp_directory_path() / ("triage-dump-test-" + name)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  void copy(const std::string& from, const std::string& name) const { write(name, tests::read_file(from)); }
  daemon::Answer scan() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(path_))
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    return tests::scan_paths(files);
  }

 private:
  fs::path path_;
};

void copy_job(const Folder& folder, const std::string& job, int without = -1) {
  for (int rank = 0; rank < 16; ++rank)
    if (rank != without) folder.copy(kData + "flight-recorder/" + job + "/_dump_" + std::to_string(rank), "_dump_" + std::to_string(rank));
}

bool says(const signatures::Diagnosis& d, const std::string& words) {
  return std::any_of(d.reasons.begin(), d.reasons.end(), [&](const std::string& reason) { return reason.find(words) != std::string::npos; });
}
bool asks(const signatures::Diagnosis& d, const std::string& words) {
  return std::any_of(d.missing.begin(), d.missing.end(), [&](const auto& missing) { return missing.set.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("the kind of an input is told by its first bytes") {
  CHECK(kind_of_input(tests::read_file(kData + "flight-recorder/lock_gil_1st/_dump_14")) == InputKind::flight_recorder);
  CHECK(kind_of_input(tests::read_file(kData + "flight-recorder/rank12.json")) == InputKind::flight_recorder);
  CHECK(kind_of_input(tests::gunzip_file(kData + "segv.core.gz").substr(0, 64)) == InputKind::core_file);
  CHECK(kind_of_input(tests::gunzip_file(kData + "illegal_access.nvcudmp.gz").substr(0, 64)) == InputKind::cuda_core);
  CHECK(kind_of_input("{\"message\": {\"message\": \"E: x\", \"extraInfo\": {\"py_callstack\": \"\"}}}") == InputKind::elastic_error);
  for (const char* json : {"{\"segments\": [{\"device\": 0, \"address\": 1, \"total_size\": 2", "{\"device_traces\": [[", "[{\"address\": 1, \"total_size\": 2, \"blocks\": ["})
    CHECK(kind_of_input(json) == InputKind::allocator_snapshot);   // refused with the way to a pickle, instead of scanned as a log
  for (const char* text : {"", "iteration 1", "[rank0]: \"device_traces", "{\"segments\": 4, \"size\": 2}", "[2026-12-01] \"total_size\" 4", "{\"level\":\"info\",\"message\":\"pg_config\"}", "\x7f" "ELF\x02\x01\x01", "\x80\x04\x95"})
    CHECK(kind_of_input(text) == InputKind::text);
}

TEST_CASE("a folder of recorder dumps alone names the ranks that were made to fail") {
  struct Row {
    const char* job;
    std::vector<int> culprits;
  };
  const Row rows[] = {{"gpu_error_1st", {12, 14}}, {"lock_gil_1st", {9, 14}}};
  for (const Row& row : rows) {
    SUBCASE(row.job) {
      Folder folder(row.job);
      copy_job(folder, row.job);
      folder.write("fault_injection.log", "Fault delay: 180.0\n");
      const auto answer = folder.scan();
      REQUIRE(answer.incidents.size() == 1);
      const auto& d = answer.incidents[0].diagnosis;
      CHECK(d.kind == "nccl.timeout");
      REQUIRE(d.collective);
      CHECK(d.collective->culprit_ranks == row.culprits);
      CHECK(d.root.rank == row.culprits.front());
      CHECK(d.root.source.find("_dump_" + std::to_string(row.culprits.front())) != std::string::npos);
      CHECK(!asks(d, "TORCH_NCCL_TRACE_BUFFER_SIZE"));
      for (const auto& fix : answer.incidents[0].plan.fixes) CHECK(fix.id != "collective.flight_recorder");
    }
  }
}

TEST_CASE("recorder dumps beside a log: one incident, the log's line stands, the dumps say who") {
  Folder folder("joined");
  copy_job(folder, "lock_gil_1st");
  folder.write("train.log",
               "[rank3]:[E923 07:01:02.100000000 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: "
               "WorkNCCL(SeqNum=7583, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=180000) ran for 180001 milliseconds before timing out.\n");
  const auto answer = folder.scan();
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "nccl.timeout");
  CHECK(d.root.source.find("train.log") != std::string::npos);
  CHECK(d.root.line == 1);
  REQUIRE(d.collective);
  CHECK(d.collective->culprit_ranks == std::vector<int>{9, 14});
  CHECK(d.root.rank == 9);
}

TEST_CASE("a fault in a log beats the dumps, and they agree about the rank") {
  Folder folder("agree");
  copy_job(folder, "gpu_error_1st");
  folder.write("train.log", "[rank12]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 4 has a total capacity of 79.15 GiB of which "
                            "1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 76.00 GiB is "
                            "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.\n");
  const auto answer = folder.scan();
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind.starts_with("gpu.oom"));
  CHECK(d.root.rank == 12);
  CHECK(says(d, "flight recorder agrees"));
}

TEST_CASE("a rank without a dump is silent and suspect") {
  Folder folder("silent");
  copy_job(folder, "lock_gil_1st", 14);
  const auto answer = folder.scan();
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  REQUIRE(d.collective);
  CHECK(d.collective->silent_ranks == std::vector<int>{14});
  CHECK(d.collective->culprit_ranks == std::vector<int>{9, 14});
  CHECK(asks(d, "all nodes share"));
}

TEST_CASE("a packed core alone gives an incident of its own") {
  const auto answer = tests::scan_paths({kData + "segv.core.gz"});
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "proc.sigsegv");
  CHECK(d.root.rank == 5);
  CHECK(d.root.pid == 3050);
  CHECK(d.summary.find("libc.so.6+0x167ad8") != std::string::npos);
  CHECK(!asks(d, "ulimit -c"));
  CHECK(asks(d, "PYTHONFAULTHANDLER"));
}

TEST_CASE("a core and the launcher's table of the same process are one incident") {
  Folder folder("table");
  folder.write("core.3050", tests::gunzip_file(kData + "segv.core.gz"));
  folder.write("train.log",
               "E1202 07:20:00.000000 3000 torch/distributed/elastic/multiprocessing/api.py:863] failed (exitcode: -11) local_rank: 1 (pid: 3050) of binary: "
               "/usr/bin/python\n"
               "============================================================\n"
               "train.py FAILED\n"
               "------------------------------------------------------------\n"
               "Failures:\n"
               "  <NO_OTHER_FAILURES>\n"
               "------------------------------------------------------------\n"
               "Root Cause (first observed failure):\n"
               "[0]:\n"
               "  time      : 2026-12-02_07:20:00\n"
               "  host      : node07\n"
               "  rank      : 5 (local_rank: 1)\n"
               "  exitcode  : -11 (pid: 3050)\n"
               "  error_file: <N/A>\n"
               "  traceback : Signal 11 (SIGSEGV) received by PID 3050\n"
               "============================================================\n");
  const auto answer = folder.scan();
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "proc.sigsegv");
  CHECK(d.root.source.find("core.3050") != std::string::npos);
  CHECK(d.root.rank == 5);
  CHECK(says(d, "launcher's table agrees"));
}

TEST_CASE("a core of a living process is no failure") { CHECK(tests::scan_paths({kData + "gcore.core.gz"}).incidents.empty()); }

TEST_CASE("a CUDA core alone, and beside the log that reports the error late") {
  const auto alone = tests::scan_paths({kData + "illegal_access.nvcudmp.gz"});
  REQUIRE(alone.incidents.size() == 1);
  CHECK(alone.incidents[0].diagnosis.kind == "cuda.illegal_access");
  CHECK(alone.incidents[0].diagnosis.root.device == 0);
  CHECK(alone.incidents[0].diagnosis.summary.find("kernel poke") != std::string::npos);
  Folder folder("cuda");
  folder.copy(kData + "illegal_access.nvcudmp.gz", "core_1796131262_node_904.nvcudmp.gz");
  folder.write("train.log", "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/opt/train/train.py\", line 10, in main\n[rank0]:     loss.backward()\n"
                            "[rank0]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n");
  const auto joined = folder.scan();
  REQUIRE(joined.incidents.size() == 1);
  const auto& d = joined.incidents[0].diagnosis;
  CHECK(d.kind == "cuda.illegal_access");
  CHECK(d.root.source.find("train.log") != std::string::npos);
  CHECK(says(d, "kernel poke"));
  CHECK(!asks(d, "CUDA_ENABLE_COREDUMP_ON_EXCEPTION"));
}

TEST_CASE("torchelastic's error.json is judged by the traceback in it") {
  Folder folder("elastic");
  folder.write("run/attempt_0/3/error.json",
               "{\"message\": {\"message\": \"OSError: [Errno 28] No space left on device\", \"extraInfo\": {\"py_callstack\": \"Traceback (most recent call "
               "last):\\n  File \\\"/opt/train/train.py\\\", line 214, in save\\n    torch.save(state, path)\\nOSError: [Errno 28] No space left on device\\n\", "
               "\"timestamp\": \"1796131142\"}}}");
  const auto answer = folder.scan();
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "io.enospc");
  CHECK(d.root.line == 1);
  CHECK(d.root.local_rank == 3);
  REQUIRE(!d.root.frames.empty());
  CHECK(d.root.frames.back().function == "save");
}

TEST_CASE("coredumpctl info: signal, process, host, rank and the stack of the thread that crashed") {
  Folder folder("coredumpctl");
  folder.write("coredump.txt",
               "           PID: 4242 (python3)\n           UID: 1000 (train)\n        Signal: 11 (SEGV)\n     Timestamp: Tue 2026-12-01 13:19:02 UTC (2min ago)\n"
               "  Command Line: python3 train.py --rank 3\n    Executable: /usr/bin/python3.10\n      Hostname: node07\n"
               "       Storage: /var/lib/systemd/coredump/core.python3.1000.7ad2.4242.zst (present)\n"
               "       Message: Process 4242 (python3) of user 1000 dumped core.\n                \n                Stack trace of thread 4242:\n"
               "                #0  0x00007f2b8c1a2b3c ncclProxyProgress (libnccl.so.2 + 0x5a2b3c)\n"
               "                #1  0x00007f2b8c0a1234 start_thread (libc.so.6 + 0x94ac3)\n                Stack trace of thread 4243:\n"
               "                #0  0x00007f2b8c0a1111 poll (libc.so.6 + 0x118dc3)\n");
  const auto answer = folder.scan();
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "proc.sigsegv");
  CHECK(d.root.pid == 4242);
  CHECK(d.root.rank == 3);
  CHECK(d.root.node == "node07");
  REQUIRE(d.root.frames.size() == 2);
  CHECK(d.root.frames[0].function == "ncclProxyProgress");
  CHECK(d.root.frames[0].file == "libnccl.so.2 + 0x5a2b3c");
}

TEST_CASE("faulthandler's report gives the frames of the thread that crashed") {
  Folder folder("faulthandler");
  folder.write("rank2.log",
               "Fatal Python error: Segmentation fault\n\nThread 0x00007f2a4bfff640 (most recent call first):\n  File \"/usr/lib/python3.10/threading.py\", line 320 in "
               "wait\n\nCurrent thread 0x00007f2b8c5f7000 (most recent call first):\n  File \"/opt/train/model.py\", line 88 in forward\n  File "
               "\"/opt/train/train.py\", line 301 in main\n\nExtension modules: numpy.core._multiarray_umath, torch._C (total: 2)\n");
  const auto answer = folder.scan();
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  CHECK(d.kind == "proc.sigsegv");
  CHECK(d.root.rank == 2);
  REQUIRE(d.root.frames.size() == 2);
  CHECK(d.root.frames.back().function == "forward");
}

TEST_CASE("dumps that are cut or empty are told, and the rest is still judged") {
  Folder folder("cut");
  copy_job(folder, "lock_gil_1st");
  folder.write("_dump_3", tests::read_file(kData + "flight-recorder/lock_gil_1st/_dump_3").substr(0, 700));
  folder.write("_dump_5", "");
  folder.write("core.77", tests::gunzip_file(kData + "segv.core.gz").substr(0, 300));
  const auto answer = folder.scan();
  REQUIRE(answer.incidents.size() == 1);
  const auto& d = answer.incidents[0].diagnosis;
  REQUIRE(d.collective);
  for (const int rank : {9, 14}) CHECK(std::count(d.collective->culprit_ranks.begin(), d.collective->culprit_ranks.end(), rank) == 1);
}
