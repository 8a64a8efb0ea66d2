#include "parsers/records/traceback.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "parsers/base/limits.hpp"
#include "parsers/lines/line_splitter.hpp"
#include "parsers/records/prefix.hpp"

using namespace triage::parsers;
using Part = TracebackAssembler::Part;

namespace {

struct Run {
  std::vector<Traceback> traces;
  std::string parts;  // one letter a line: '.', 'i', 'E'
};

Run run(const std::string& text) {
  Run out;
  Peeler peeler(2025);
  TracebackAssembler assembler;
  LineSplitter splitter;
  const auto sink = [&](const Line& line) {
    const Part part = assembler.offer(peeler.peel(line));
    out.parts.push_back(part == Part::none ? '.' : part == Part::inside ? 'i' : 'E');
    for (Traceback& trace : assembler.take_finished()) out.traces.push_back(std::move(trace));
  };
  splitter.feed(text, sink);
  splitter.finish(sink);
  for (Traceback& trace : assembler.finish()) out.traces.push_back(std::move(trace));
  CHECK_FALSE(assembler.open());
  return out;
}

const std::string kPlain =
    "Traceback (most recent call last):\n"
    "  File \"/workspace/train.py\", line 25, in <module>\n"
    "    main()\n"
    "    ~~~~^^\n"
    "  File \"/workspace/train.py\", line 12, in main\n"
    "    loss = model(x)\n"
    "           ^^^^^^^^\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";

}  // namespace

TEST_CASE("a Python traceback gives frames, sources, exception and lines") {
  const Run got = run("before\n" + kPlain + "after\n");
  CHECK(got.parts == ".iiiiiiiE.");
  REQUIRE(got.traces.size() == 1);
  const Traceback& trace = got.traces[0];
  CHECK(trace.exception == "torch.OutOfMemoryError");
  CHECK(trace.message == "CUDA out of memory. Tried to allocate 2.00 GiB.");
  CHECK(trace.complete);
  CHECK(trace.first_line == 2);
  CHECK(trace.exception_line == 9);
  CHECK(trace.last_line == 9);
  REQUIRE(trace.frames.size() == 2);
  CHECK(trace.frames[0].function == "<module>");
  CHECK(trace.frames[0].source == "main()");
  CHECK(trace.frames[1].file == "/workspace/train.py");
  CHECK(trace.frames[1].line == 12);
  CHECK(trace.frames[1].source == "loss = model(x)");
}

TEST_CASE("interleaved ranks are told apart") {
  const auto lines_of = [](const std::string& rank, const std::string& error) {
    return std::vector<std::string>{rank + " Traceback (most recent call last):", rank + "   File \"a.py\", line 1, in f" , rank + "     g()",
                                    rank + "   File \"b.py\", line 2, in g", rank + "     h()", rank + " " + error};
  };
  const std::vector<std::vector<std::string>> streams = {
      lines_of("[rank0]:", "RuntimeError: zero"), lines_of("[rank1]:", "ValueError: one"), lines_of("(Worker pid=7, ip=10.0.0.1)", "KeyError: 'two'"),
      lines_of("(Worker pid=8, ip=10.0.0.1)", "OSError: three"), lines_of("4:", "MemoryError")};
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    std::vector<std::size_t> next(streams.size(), 0);
    std::string text;
    for (;;) {
      std::vector<std::size_t> left;
      for (std::size_t i = 0; i < streams.size(); ++i)
        if (next[i] < streams[i].size()) left.push_back(i);
      if (left.empty()) break;
      const std::size_t i = left[random() % left.size()];
      text += streams[i][next[i]++] + "\n";
    }
    Run got = run(text);
    REQUIRE(got.traces.size() == streams.size());
    std::vector<std::string> exceptions;
    for (const Traceback& trace : got.traces) {
      exceptions.push_back(trace.exception);
      CHECK(trace.complete);
      CHECK(trace.frames.size() == 2);
    }
    std::sort(exceptions.begin(), exceptions.end());
    CHECK(exceptions == std::vector<std::string>{"KeyError", "MemoryError", "OSError", "RuntimeError", "ValueError"});
    CHECK(std::count(got.parts.begin(), got.parts.end(), 'E') == 5);
    CHECK(std::count(got.parts.begin(), got.parts.end(), '.') == 0);
  }
}

TEST_CASE("chained exceptions are traces of their own that know what followed") {
  const Run got = run(
      "[rank0]: Traceback (most recent call last):\n"
      "[rank0]:   File \"a.py\", line 1, in f\n"
      "[rank0]: AssertionError: first\n"
      "[rank0]: \n"
      "[rank0]: During handling of the above exception, another exception occurred:\n"
      "[rank0]: \n"
      "[rank0]: Traceback (most recent call last):\n"
      "[rank0]:   File \"a.py\", line 2, in g\n"
      "[rank0]: TypeError: second\n"
      "[rank0]: \n"
      "[rank0]: The above exception was the direct cause of the following exception:\n"
      "[rank0]: \n"
      "[rank0]: Traceback (most recent call last):\n"
      "[rank0]:   File \"a.py\", line 3, in h\n"
      "[rank0]: RuntimeError: third\n");
  REQUIRE(got.traces.size() == 3);
  CHECK(got.traces[0].exception == "AssertionError");
  CHECK(got.traces[0].next == Traceback::Next::during_handling);
  CHECK(got.traces[1].next == Traceback::Next::direct_cause);
  CHECK(got.traces[2].exception == "RuntimeError");
  CHECK(got.traces[2].next == Traceback::Next::none);
}

TEST_CASE("a message may have several lines, and ends before foreign lines") {
  const Run got = run(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "torch.AcceleratorError: CUDA error: device-side assert triggered\n"
      "CUDA kernel errors might be asynchronously reported at some other API call.\n"
      "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
      "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
      "\n"
      "training resumed\n");
  CHECK(got.parts == "iiEiii..");
  REQUIRE(got.traces.size() == 1);
  CHECK(got.traces[0].message ==
        "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.");
  CHECK(got.traces[0].last_line == 6);

  const Run sizes = run(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "RuntimeError: Error(s) in loading state_dict for Net:\n"
      "\tMissing key(s) in state_dict: \"a\".\n"
      "\tsize mismatch for b\n"
      "step 4\n");
  CHECK(sizes.parts == "iiEii.");
}

TEST_CASE("a logger's line in the middle is another's, a logger's prefix on every line is not") {
  const Run foreign = run(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "W1201 13:20:17.367000 731 torch/distributed/run.py:851] Sending process 3 closing signal SIGTERM\n"
      "    g()\n"
      "ValueError: x\n");
  CHECK(foreign.parts == "ii.iE");
  REQUIRE(foreign.traces.size() == 1);
  CHECK(foreign.traces[0].frames[0].source == "g()");

  const Run own = run(
      "ERROR 07-02 14:12:12 [core.py:390] Traceback (most recent call last):\n"
      "ERROR 07-02 14:12:12 [core.py:390]   File \"a.py\", line 1, in f\n"
      "ERROR 07-02 14:12:12 [core.py:390]     g()\n"
      "ERROR 07-02 14:12:12 [core.py:390] ValueError: x\n");
  CHECK(own.parts == "iiiE");
  REQUIRE(own.traces.size() == 1);
  CHECK(own.traces[0].message == "x");

  const Run scheduler = run(
      "[2025-05-27 04:36:06 DP1 TP4] Scheduler hit an exception: Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "RuntimeError: CUDA error: an illegal memory access was encountered\n");
  CHECK(scheduler.parts == "iiE");
}

TEST_CASE("exception groups give each part") {
  const Run got = run(
      "  + Exception Group Traceback (most recent call last):\n"
      "  |   File \"a.py\", line 1, in <module>\n"
      "  |     f()\n"
      "  | ExceptionGroup: workers (2 sub-exceptions)\n"
      "  +-+---------------- 1 ----------------\n"
      "    | Traceback (most recent call last):\n"
      "    |   File \"a.py\", line 2, in f\n"
      "    | ValueError: one\n"
      "    +---------------- 2 ----------------\n"
      "    | Traceback (most recent call last):\n"
      "    |   File \"a.py\", line 3, in f\n"
      "    | TypeError: two\n"
      "    +------------------------------------\n"
      "after\n");
  CHECK(got.parts == "iiiEiiiEiiiEi.");
  REQUIRE(got.traces.size() == 3);
  CHECK(got.traces[0].exception == "ExceptionGroup");
  CHECK(got.traces[1].exception == "ValueError");
  CHECK(got.traces[2].message == "two");
}

TEST_CASE("a SyntaxError keeps its place") {
  const Run got = run(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in <module>\n"
      "    import b\n"
      "  File \"b.py\", line 7\n"
      "    foo(\n"
      "       ^\n"
      "SyntaxError: '(' was never closed\n");
  REQUIRE(got.traces.size() == 1);
  REQUIRE(got.traces[0].frames.size() == 2);
  CHECK(got.traces[0].frames[1].line == 7);
  CHECK(got.traces[0].exception == "SyntaxError");
}

TEST_CASE("a box of Rich whose top was cut off is read from its middle, or by the exception below it") {
  const Run middle = run(
      "│ ❱ 25 │   main()                                                              │\n"
      "│                                                                              │\n"
      "│ /opt/lib/loader.py:77 in load_state                                          │\n"
      "│                                                                              │\n"
      "│ ❱ 77 │   return state['optimizer']                                           │\n"
      "╰──────────────────────────────────────────────────────────────────────────────╯\n"
      "KeyError: 'optimizer'\n");
  REQUIRE(middle.traces.size() == 1);
  CHECK(middle.traces[0].exception == "KeyError");
  REQUIRE(middle.traces[0].frames.size() == 1);
  CHECK(middle.traces[0].frames[0].function == "load_state");
  const Run bottom = run(
      "╰──────────────────────────────────────────────────────────────────────────────╯\n"
      "KeyError: 'optimizer'\n");
  REQUIRE(bottom.traces.size() == 1);
  CHECK(bottom.traces[0].exception == "KeyError");
  // A table or panel that is none is given up after two lines, and gives nothing.
  const Run panel = run("╰──────────────────────────────╯\nepoch 1 done\nepoch 2 done\nepoch 3 done\nafter\n");
  CHECK(panel.traces.empty());
}

TEST_CASE("Rich's boxes are read") {
  const Run got = run(
      "╭───────────────────── Traceback (most recent call last) ──────────────────────╮\n"
      "│ /workspace/train.py:25 in <module>                                           │\n"
      "│                                                                              │\n"
      "│   24 if __name__ == '__main__':                                              │\n"
      "│ ❱ 25 │   main()                                                              │\n"
      "│                                                                              │\n"
      "│ /opt/lib/module.py:1501 in _call_impl                                        │\n"
      "│                                                                              │\n"
      "│ ❱ 1501 │   │   │   return forward_call(*args, **kwargs)                      │\n"
      "╰──────────────────────────────────────────────────────────────────────────────╯\n"
      "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 \n"
      "GiB total capacity; 20.00 GiB already allocated)\n"
      "\n"
      "after\n");
  CHECK(got.parts == "iiiiiiiiiiEi..");
  REQUIRE(got.traces.size() == 1);
  REQUIRE(got.traces[0].frames.size() == 2);
  CHECK(got.traces[0].frames[0].source == "main()");
  CHECK(got.traces[0].frames[1].line == 1501);
  CHECK(got.traces[0].frames[1].source == "return forward_call(*args, **kwargs)");
  CHECK(got.traces[0].message ==
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69\nGiB total capacity; 20.00 GiB already allocated)");
}

TEST_CASE("IPython's tracebacks are read") {
  const Run got = run(
      "---------------------------------------------------------------------------\n"
      "OutOfMemoryError                          Traceback (most recent call last)\n"
      "Cell In[3], line 5\n"
      "      3 x = 1\n"
      "----> 5 trainer.train()\n"
      "\n"
      "File ~/lib/trainer.py:1539, in Trainer.train(self, x)\n"
      "   1538 a\n"
      "-> 1539 return inner(\n"
      "\n"
      "OutOfMemoryError: CUDA out of memory.\n");
  REQUIRE(got.traces.size() == 1);
  CHECK(got.traces[0].exception == "OutOfMemoryError");
  REQUIRE(got.traces[0].frames.size() == 2);
  CHECK(got.traces[0].frames[0].line == 5);
  CHECK(got.traces[0].frames[1].function == "Trainer.train");
  CHECK(got.traces[0].frames[1].line == 1539);
}

TEST_CASE("Ray's remote failures give the caller's and the worker's trace") {
  const Run got = run(
      "Traceback (most recent call last):\n"
      "  File \"main.py\", line 9, in <module>\n"
      "    ray.get(x)\n"
      "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Worker.step() (pid=1234, ip=10.0.0.2, actor_id=ab)\n"
      "  File \"worker.py\", line 22, in step\n"
      "    y = f(x)\n"
      "torch.OutOfMemoryError: CUDA out of memory.\n");
  CHECK(got.parts == "iiiEiiE");
  REQUIRE(got.traces.size() == 2);
  CHECK(got.traces[0].exception == "ray.exceptions.RayTaskError(OutOfMemoryError)");
  CHECK(got.traces[0].next == Traceback::Next::its_cause);
  CHECK(got.traces[1].exception == "torch.OutOfMemoryError");
  REQUIRE(got.traces[1].frames.size() == 1);
  CHECK(got.traces[1].frames[0].file == "worker.py");
}

TEST_CASE("tracebacks of workers and spawned processes are told as causes") {
  const Run loader = run(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "RuntimeError: Caught ValueError in DataLoader worker process 0.\n"
      "Original Traceback (most recent call last):\n"
      "  File \"b.py\", line 2, in g\n"
      "ValueError: x\n");
  REQUIRE(loader.traces.size() == 2);
  CHECK(loader.traces[0].next == Traceback::Next::its_cause);
  CHECK(loader.traces[1].exception == "ValueError");

  const Run spawn = run(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "torch.multiprocessing.spawn.ProcessRaisedException: \n"
      "\n"
      "-- Process 3 terminated with the following error:\n"
      "Traceback (most recent call last):\n"
      "  File \"b.py\", line 2, in g\n"
      "ValueError: x\n");
  REQUIRE(spawn.traces.size() == 2);
  CHECK(spawn.traces[0].next == Traceback::Next::its_cause);

  const Run pool = run(
      "multiprocessing.pool.RemoteTraceback: \n"
      "\"\"\"\n"
      "Traceback (most recent call last):\n"
      "  File \"b.py\", line 2, in g\n"
      "ValueError: x\n"
      "\"\"\"\n"
      "\n"
      "The above exception was the direct cause of the following exception:\n"
      "\n"
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in f\n"
      "ValueError: x\n");
  REQUIRE(pool.traces.size() == 2);
  CHECK(pool.traces[0].next == Traceback::Next::direct_cause);
}

TEST_CASE("faulthandler's dumps give the current thread, outermost first") {
  const Run got = run(
      "Fatal Python error: Segmentation fault\n"
      "\n"
      "Thread 0x00007f01 (most recent call first):\n"
      "  File \"pool.py\", line 5 in wait\n"
      "\n"
      "Current thread 0x00007f02 (most recent call first):\n"
      "  File \"inner.py\", line 12 in leaf\n"
      "  File \"outer.py\", line 3 in main\n"
      "\n"
      "Extension modules: numpy.core, torch._C (total: 50)\n"
      "after\n");
  CHECK(got.parts == "Eiiiiiiiii.");
  REQUIRE(got.traces.size() == 1);
  CHECK(got.traces[0].language == Traceback::Language::faulthandler);
  CHECK(got.traces[0].message == "Segmentation fault");
  REQUIRE(got.traces[0].frames.size() == 2);
  CHECK(got.traces[0].frames[0].file == "outer.py");
  CHECK(got.traces[0].frames[1].function == "leaf");
}

TEST_CASE("C++ terminations, c10 frames, gdb and UCX are read") {
  const Run cpp = run(
      "terminate called after throwing an instance of 'c10::DistBackendError'\n"
      "  what():  [PG ID 0 Rank 1] Process group watchdog thread terminated with exception: CUDA error: ECC\n"
      "CUDA kernel errors might be asynchronously reported\n"
      "\n"
      "Exception raised from check at /pytorch/c10/cuda/CUDAException.cpp:44 (most recent call first):\n"
      "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f12 in /x/libc10.so)\n"
      "frame #1: <unknown function> + 0xd6df4 (0x7f13 in /lib/libstdc++.so.6)\n"
      "\n"
      "Aborted\n");
  CHECK(cpp.parts == "iEi.iii..");
  REQUIRE(cpp.traces.size() == 1);
  CHECK(cpp.traces[0].language == Traceback::Language::cpp);
  CHECK(cpp.traces[0].exception == "c10::DistBackendError");
  CHECK(cpp.traces[0].exception_line == 2);
  REQUIRE(cpp.traces[0].frames.size() == 3);
  CHECK(cpp.traces[0].frames[0].file == "/pytorch/c10/cuda/CUDAException.cpp");
  CHECK(cpp.traces[0].frames[0].line == 44);
  CHECK(cpp.traces[0].frames[1].function == "c10::Error::Error(c10::SourceLocation, std::string)");
  CHECK(cpp.traces[0].frames[2].file == "/lib/libstdc++.so.6");

  const Run gdb = run(
      "Program terminated with signal SIGSEGV, Segmentation fault.\n"
      "#0  0x00007f01 in raise () from /lib/libc.so.6\n"
      "#1  0x00007f02 in f (a=1) at /src/file.cc:12\n"
      "#2  <signal handler called>\n");
  REQUIRE(gdb.traces.size() == 1);
  CHECK(gdb.traces[0].exception == "SIGSEGV");
  REQUIRE(gdb.traces[0].frames.size() == 3);
  CHECK(gdb.traces[0].frames[0].file == "/lib/libc.so.6");
  CHECK(gdb.traces[0].frames[1].line == 12);

  const Run ucx = run(
      "[gpunode01:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)\n"
      "==== backtrace (tid:   3095) ====\n"
      " 0 0x0000000000043090 killpg()  ???:0\n"
      " 1 0x00000000000489b1 ncclX()  /usr/lib/libnccl.so.2:0\n"
      "=================================\n"
      "after\n");
  CHECK(ucx.parts == "Eiiii.");
  REQUIRE(ucx.traces.size() == 1);
  CHECK(ucx.traces[0].message == "Bus error: nonexistent physical address");
  REQUIRE(ucx.traces[0].frames.size() == 2);
  CHECK(ucx.traces[0].frames[1].file == "/usr/lib/libnccl.so.2");
}

TEST_CASE("device asserts of one place are one trace") {
  std::string text;
  for (int i = 0; i < 32; ++i)
    text += "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1515: indexSelectSmallIndex: block: [0,0,0], thread: [" + std::to_string(i) +
            ",0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n";
  const Run got = run(text + "next\n");
  CHECK(got.parts == "E" + std::string(31, 'i') + ".");
  REQUIRE(got.traces.size() == 1);
  CHECK(got.traces[0].language == Traceback::Language::cuda);
  CHECK(got.traces[0].message == "Assertion `srcIndex < srcSelectDimSize` failed");
  CHECK(got.traces[0].frames[0].function == "indexSelectSmallIndex");
  CHECK(got.traces[0].last_line == 32);
}

TEST_CASE("quoted and ignored traces are taken and not given out") {
  const Run table = run(
      "Root Cause (first observed failure):\n"
      "[0]:\n"
      "  time      : 2026-12-01_13:19:02\n"
      "  traceback : Traceback (most recent call last):\n"
      "    File \"a.py\", line 1, in f\n"
      "      g()\n"
      "  torch.OutOfMemoryError: CUDA out of memory.\n"
      "  \n");
  CHECK(table.traces.empty());
  CHECK(table.parts == "...iiii.");
  const Run list = run("['Traceback (most recent call last):\\n', '  File \"x.py\", line 1, in f\\n']\n");
  CHECK(list.traces.empty());
  const Run ignored = run(
      "Exception ignored in: <function Pool.__del__ at 0x7f>\n"
      "Traceback (most recent call last):\n"
      "  File \"pool.py\", line 268, in __del__\n"
      "ResourceWarning: unclosed\n"
      "TypeError: x\n");
  CHECK(ignored.traces.empty());
  const Run said = run("see the Traceback (most recent call last): above for more\n");
  CHECK(said.parts == ".");
}

TEST_CASE("a trace without header or without end gives what there is") {
  const Run headless = run("  File \"a.py\", line 1, in f\n    g()\nRuntimeError: x\n");
  REQUIRE(headless.traces.size() == 1);
  CHECK(headless.traces[0].exception == "RuntimeError");
  CHECK(headless.traces[0].frames.size() == 1);
  const Run cut = run("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n");
  REQUIRE(cut.traces.size() == 1);
  CHECK_FALSE(cut.traces[0].complete);
  CHECK(cut.traces[0].exception_line == 0);
  const Run middle = run("  File \"a.py\", line 1, in f\n    g()\n");   // head and end cut off
  REQUIRE(middle.traces.size() == 1);
  CHECK_FALSE(middle.traces[0].complete);
  CHECK(middle.traces[0].exception.empty());
  const Run alone = run("RuntimeError: x\nafter\n");
  CHECK(alone.traces.empty());
  CHECK(alone.parts == "E.");
}

TEST_CASE("a JSON logger's line may hold a whole traceback") {
  const Run got = run(R"({"message": "boom", "exc_info": "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\nValueError: y"})" "\n");
  REQUIRE(got.traces.size() == 1);
  CHECK(got.traces[0].message == "y");
  CHECK(got.parts == "E");
}

TEST_CASE("the trace of an exception line can be had at once") {
  Peeler peeler(2025);
  TracebackAssembler assembler;
  LineSplitter splitter;
  bool seen = false;
  splitter.feed(kPlain, [&](const Line& line) {
    if (assembler.offer(peeler.peel(line)) != Part::exception) {
      CHECK(assembler.named() == nullptr);
      return;
    }
    REQUIRE(assembler.named() != nullptr);
    CHECK(assembler.named()->frames.size() == 2);
    seen = true;
  });
  CHECK(seen);
}

TEST_CASE("memory stays bounded") {
  std::string deep = "Traceback (most recent call last):\n";
  for (int i = 0; i < 3000; ++i) deep += "  File \"a.py\", line " + std::to_string(i) + ", in f\n    f()\n";
  deep += "RecursionError: maximum recursion depth exceeded\n";
  const Run got = run(deep);
  REQUIRE(got.traces.size() == 1);
  REQUIRE(got.traces[0].frames.size() == limits::kTracebackFrames);
  CHECK(got.traces[0].frames.front().line == 0);
  CHECK(got.traces[0].frames[limits::kTracebackFrames / 2 - 1].line == static_cast<std::int64_t>(limits::kTracebackFrames / 2) - 1);
  CHECK(got.traces[0].frames[limits::kTracebackFrames / 2].line == 3000 - static_cast<std::int64_t>(limits::kTracebackFrames / 2));
  CHECK(got.traces[0].frames.back().line == 2999);

  std::string many;
  for (int rank = 0; rank < 6000; ++rank) many += "[rank" + std::to_string(rank) + "]: Traceback (most recent call last):\n[rank" + std::to_string(rank) + "]:   File \"a.py\", line 1, in f\n";
  CHECK(run(many).traces.size() == 6000);

  std::string endless = "[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: x\n";
  for (int i = 0; i < 500; ++i) endless += "[rank0]:   " + std::string(1000, 'y') + "\n";
  const Run message = run(endless);
  REQUIRE(message.traces.size() == 1);
  CHECK(message.traces[0].message.size() <= limits::kEvidenceBytes);
  CHECK(message.parts.back() == '.');
}

TEST_CASE("a stream that went silent does not keep the assembler open for ever") {
  Peeler peeler(2025);
  TracebackAssembler assembler;
  const auto offer = [&](const std::string& text) {
    Line line;
    line.text = text;
    assembler.offer(peeler.peel(line));
  };
  offer("[rank3]: Traceback (most recent call last):");
  offer("[rank3]: ValueError: x");
  for (int i = 0; i < 2500 && assembler.open(); ++i) offer("[rank0]: step");
  CHECK_FALSE(assembler.open());
  CHECK(assembler.take_finished().size() == 1);
}

TEST_CASE("messages that name an exception are known") {
  for (const std::string text :
       {"RuntimeError: x", "torch.OutOfMemoryError: CUDA out of memory.", "KeyboardInterrupt", "SystemExit: 1", "socket.timeout: timed out", "MemoryError",
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::f()", "  what():  boom", "terminate called after throwing an instance of 'x'",
        "Fatal Python error: Aborted", "Error executing job with overrides: []", "E   ValueError: x", "main failed: torch.OutOfMemoryError: CUDA",
        "Exception: boom", "struct.error: unpack requires", "triton.runtime.errors.OutOfResources: out of resource", "subprocess.CalledProcessError: Command",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED", "  torch.OutOfMemoryError: CUDA", "concurrent.futures.process.BrokenProcessPool: x"}) {
    CAPTURE(text);
    CHECK(looks_like_exception(text));
  }
  for (const std::string text :
       {"", "step: 3", "Error: x", "INFO: loaded", "UserWarning: x", "loss 1.2", "WARNING: RuntimeError: x", "Retrying after error: TimeoutError: x",
        "Ignoring failed batch: RuntimeError: x", "we saw a RuntimeError: x", "If you see OutOfMemoryError: lower the batch", "RuntimeErrors: 3",
        "epoch: 3: RuntimeError", "http://x.y/Error: z", "Timeout: 30"}) {
    CAPTURE(text);
    CHECK_FALSE(looks_like_exception(text));
  }
}

TEST_CASE("hostile text does no harm") {
  std::mt19937 random(11);
  const std::vector<std::string> pieces = {"Traceback (most recent call last)", ":", "\n", "  ", "File \"", "\", line ", "1", ", in ", "ValueError", "|", "+-",
                                           "╭", "│", "❱", "ray::", "(pid=", "Assertion `", "` failed", ": block: [", "frame #0:", "#0  0x", " in ", " from ",
                                           " at ", "what():", "terminate called after throwing an instance of '", "Caught signal ", "Thread 0x",
                                           "(most recent call first)", "Fatal Python error: ", "Exception raised from ", "[rank1]: ", "{\"log\":\"", "\\n", "\xff"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t i = random() % 40; i > 0; --i) text += pieces[random() % pieces.size()];
    CHECK(run(text).traces.size() <= 40);
  }
}
