#include <doctest/doctest.h>

#include "parsers/base/quantity.hpp"
#include "parsers/events/event_reader.hpp"

#include <string>
#include <vector>

using namespace triage::parsers;

namespace {

using Size = std::optional<Bytes>;
Size bytes_of(std::string_view text) { return text.empty() ? Size() : read_bytes(text); }

struct Row {
  std::string name, message, backend, format;
  std::optional<int> device;
  std::string tried, capacity, free, in_use, allocated, unallocated, pools, limit;
  std::size_t processes = 0;
  bool truncated = false, sums_agree = true;
};

const std::string kHint =
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
    "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";

const std::vector<Row> kRows{
    {"2.11, four processes on one device",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 5.49 GiB is "
     "free. Process 519 has 1.62 GiB memory in use. Including non-PyTorch memory, this process has 129.43 GiB memory in use. Process 521 has "
     "1.62 GiB memory in use. Process 518 has 1.62 GiB memory in use. Of the allocated memory 128.56 GiB is allocated by PyTorch, and 70.75 MiB "
     "is reserved by PyTorch but unallocated." + kHint,
     "cuda", "torch-2.2", 0, "128.00 GiB", "139.80 GiB", "5.49 GiB", "129.43 GiB", "128.56 GiB", "70.75 MiB", "", "", 3},
    {"2.1, misspelt",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.06 GiB. GPU 0 has a total capacty of 23.70 GiB of which 1.27 GiB is "
     "free. Including non-PyTorch memory, this process has 22.43 GiB memory in use. Of the allocated memory 12.62 GiB is allocated by PyTorch, "
     "and 8.65 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid "
     "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
     "cuda", "torch-2.1", 0, "8.06 GiB", "23.70 GiB", "1.27 GiB", "22.43 GiB", "12.62 GiB", "8.65 GiB", "", ""},
    {"CUDA graphs hold memory",
     "[rank19]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1002.00 MiB. GPU 3 has a total capacity of 276.50 GiB of which "
     "676.62 MiB is free. Including non-PyTorch memory, this process has 275.82 GiB memory in use. Of the allocated memory 210.08 GiB is "
     "allocated by PyTorch, with 3.87 GiB allocated in private pools (e.g., CUDA Graphs), and 59.51 GiB is reserved by PyTorch but unallocated." +
         kHint,
     "cuda", "torch-2.2", 3, "1002.00 MiB", "276.50 GiB", "676.62 MiB", "275.82 GiB", "210.08 GiB", "59.51 GiB", "3.87 GiB", ""},
    {"HIP with a memory fraction",
     "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 287.98 GiB of which 275.86 GiB is "
     "free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., HIP "
     "Graphs), and 54.99 MiB is reserved by PyTorch but unallocated." + kHint,
     "hip", "torch-2.2", 0, "2.00 MiB", "287.98 GiB", "275.86 GiB", "", "1017.01 MiB", "54.99 MiB", "17.00 MiB", "1.05 GiB"},
    {"a build that prints no device index",
     "CUDA out of memory. Tried to allocate 16.00 MiB. GPU  has a total capacity of 79.10 GiB of which 15.19 MiB is free. Process 16746 has "
     "20.84 GiB memory in use. Of the allocated memory 19.60 GiB is allocated by PyTorch, and 225.59 MiB is reserved by PyTorch but unallocated.",
     "cuda", "torch-2.2", std::nullopt, "16.00 MiB", "79.10 GiB", "15.19 MiB", "", "19.60 GiB", "225.59 MiB", "", "", 1},
    {"1.0 to 1.3, cached",
     "| WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity; 7.20 GiB "
     "already allocated; 17.56 MiB free; 46.25 MiB cached);",
     "cuda", "torch-1.0", 0, "20.00 MiB", "7.93 GiB", "17.56 MiB", "", "7.20 GiB", "46.25 MiB", "", ""},
    {"1.3, cached in KiB",
     "RuntimeError: CUDA out of memory. Tried to allocate 42.88 MiB (GPU 0; 7.79 GiB total capacity; 6.35 GiB already allocated; 46.38 MiB free; "
     "601.50 KiB cached)",
     "cuda", "torch-1.0", 0, "42.88 MiB", "7.79 GiB", "46.38 MiB", "", "6.35 GiB", "601.50 KiB", "", ""},
    {"XPU",
     "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.66 GiB. GPU 0 has a total capacity of 5.65 GiB of which 5.65 GiB is free. Of "
     "the allocated memory 195.50 KiB is allocated by PyTorch, and 1.81 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to "
     "release all unoccupied cached memory.",
     "xpu", "xpu", 0, "4.66 GiB", "5.65 GiB", "5.65 GiB", "", "195.50 KiB", "1.81 MiB", "", ""},
    {"XPU that does not know the free memory",
     "XPU out of memory. Tried to allocate 4.66 GiB. GPU 1 has a total capacity of 5.65 GiB. Of the allocated memory 195.50 KiB is allocated by "
     "PyTorch, and 1.81 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.",
     "xpu", "xpu", 1, "4.66 GiB", "5.65 GiB", "", "", "195.50 KiB", "1.81 MiB", "", ""},
    {"cut in the number",
     "p4_v2_perf/0 [rank54]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 6 has a total capacity of 178.35 GiB "
     "of which 117.19 MiB is free. Including non-PyTorch memory, this process has 178",
     "cuda", "torch-2.2", 6, "130.00 MiB", "178.35 GiB", "117.19 MiB", "", "", "", "", "", 0, true},
    {"cut in the word",
     "WARNING batch size 1024 failed: CUDA out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 10.45 "
     "GiB is free. Including non-PyTorch memory, this process has 129.34 GiB memo; trying 512",
     "cuda", "torch-2.2", 0, "16.00 GiB", "139.80 GiB", "10.45 GiB", "129.34 GiB", "", "", "", "", 0, true},
    {"cut behind the request",
     "RuntimeError: Failed to replace block_sparse_moe with the exception: CUDA out of memory. Tried to allocate 112.00 MiB. ",
     "cuda", "torch", std::nullopt, "112.00 MiB", "", "", "", "", "", "", "", 0, true},
    {"size garbage", "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.", "cuda", "torch-1eb", std::nullopt, "", "", "",
     "", "", "", "", ""},
    {"the driver does not see the process in a container",
     "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 0.50 GiB is free. Including non-PyTorch "
     "memory, this process has 0 bytes memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
     "PyTorch but unallocated.",
     "cuda", "torch-2.2", 0, "1.00 GiB", "79.15 GiB", "0.50 GiB", "", "70.00 GiB", "1.00 GiB", "", "", 0, false, false},
    {"a value that was never set, under WSL",
     "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.99 GiB of which 0 bytes is free. Including non-PyTorch "
     "memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 1.00 GiB is "
     "reserved by PyTorch but unallocated.",
     "cuda", "torch-2.2", 0, "1.00 GiB", "23.99 GiB", "0 bytes", "", "20.00 GiB", "1.00 GiB", "", "", 0, false, false},
    {"spilled into host memory on Windows",
     "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free. Of the allocated memory "
     "14.51 GiB is allocated by PyTorch, and 15.90 MiB is reserved by PyTorch but unallocated.",
     "cuda", "torch-2.2", 0, "20.00 MiB", "8.00 GiB", "0 bytes", "", "14.51 GiB", "15.90 MiB", "", "", 0, false, false},
    {"MPS",
     "RuntimeError: MPS backend out of memory (MPS allocated: 11.14 GB, other allocations: 6.65 GB, max allowed: 18.13 GB). Tried to allocate "
     "375.40 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).",
     "mps", "mps", std::nullopt, "375.40 MB", "", "", "", "11.14 GB", "", "", "18.13 GB"},
    {"MPS since 2.9",
     "MPS backend out of memory (MPS allocated: 14.29 GiB, other allocations: 3.65 GiB, max allowed: 20.13 GiB). Tried to allocate 2.67 GiB on "
     "shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
     "mps", "mps", std::nullopt, "2.67 GiB", "", "", "", "14.29 GiB", "", "", "20.13 GiB"},
    {"an error of the driver call", "RuntimeError: CUDA error: out of memory", "cuda", "cuda-error", std::nullopt, "", "", "", "", "", "", "", ""},
    {"0.4",
     "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58", "cuda", "torch-0.4",
     std::nullopt, "", "", "", "", "", "", "", ""},
    {"a vendor's build with its own word for the device",
     "[rank1]: torch.OutOfMemoryError: MLU out of memory. Tried to allocate 2.00 GiB. MLU 1 has a total capacity of 80.00 GiB of which 1.00 GiBis free. Of "
     "the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.",
     "mlu", "torch-2.2", 1, "2.00 GiB", "80.00 GiB", "1.00 GiB", "", "70.00 GiB", "1.00 GiB", "", ""},
    {"another vendor's build",
     "RuntimeError: MUSA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of 47.99 GiB of which 1.00 GiB is free. Of the "
     "allocated memory 40.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.",
     "musa", "torch-2.2", 2, "2.00 GiB", "47.99 GiB", "1.00 GiB", "", "40.00 GiB", "1.00 GiB", "", ""},
};

}  // namespace

TEST_CASE("torch_oom reads every printed form") {
  for (const Row& row : kRows) {
    SUBCASE(row.name.c_str()) {
      const Event event = read_event("torch_oom", row.message);
      const auto* oom = std::get_if<OutOfMemory>(&event);
      REQUIRE(oom != nullptr);
      CHECK(oom->backend == row.backend);
      CHECK(oom->format == row.format);
      CHECK((oom->device == row.device));
      CHECK((oom->tried == bytes_of(row.tried)));
      CHECK((oom->capacity == bytes_of(row.capacity)));
      CHECK((oom->free == bytes_of(row.free)));
      if (row.backend != "mps") CHECK((oom->in_use == bytes_of(row.in_use)));
      CHECK((oom->allocated == bytes_of(row.allocated)));
      CHECK((oom->reserved_unallocated == bytes_of(row.unallocated)));
      CHECK((oom->private_pools == bytes_of(row.pools)));
      CHECK((oom->limit == bytes_of(row.limit)));
      CHECK(oom->processes.size() == row.processes);
      CHECK(oom->truncated == row.truncated);
      INFO(oom->sums_note);
      CHECK(oom->sums_agree == row.sums_agree);
      CHECK(oom->sums_note.empty() == row.sums_agree);
    }
  }
}

TEST_CASE("torch_oom fills reserved and unallocated from one another") {
  const Event old = read_event("torch_oom",
                               "CUDA out of memory. Tried to allocate 128.00 MiB (GPU 0; 4.00 GiB total capacity; 2.50 GiB already allocated; "
                               "74.77 MiB free; 2.75 GiB reserved in total by PyTorch) (malloc at ..\\c10\\cuda\\CUDACachingAllocator.cpp:289)");
  const auto& a = std::get<OutOfMemory>(old);
  CHECK(a.format == "torch-1.4");
  CHECK((a.reserved == read_bytes("2.75 GiB")));
  CHECK((a.reserved_unallocated == read_bytes("0.25 GiB")));
  const Event npu = read_event("torch_oom",
                               "NPU out of memory. Tried to allocate 386.00 MiB (NPU 2; 60.97 GiB total capacity; 59.57 GiB already allocated; 59.57 "
                               "GiB current active; 16.54 MiB free; 60.06 GiB reserved in total by PyTorch) If reserved memory is >> allocated "
                               "memory try setting max_split_size_mb to avoid fragmentation.");
  const auto& b = std::get<OutOfMemory>(npu);
  CHECK(b.backend == "npu");
  CHECK((b.device == 2));
  CHECK((b.reserved == read_bytes("60.06 GiB")));
  CHECK(b.sums_agree);
  CHECK_FALSE(b.truncated);
}

TEST_CASE("torch_oom gives the bytes that the labelled recordings expect") {
  const auto tried = [](std::string_view text) {
    return std::get<OutOfMemory>(read_event("torch_oom", "CUDA out of memory. Tried to allocate " + std::string(text) + ".")).tried->count();
  };
  CHECK(tried("62.62 GiB") == 67237713019);
  CHECK(tried("112.00 MiB") == 117440512);
  CHECK(tried("1.96 GiB") == 2104533975);
  CHECK(tried("2.00 GiB") == 2147483648);
}

TEST_CASE("torch_oom refuses what is not an allocator's message, and reads every cut of one") {
  for (const char* text : {"To avoid CUDA out of memory, lower the batch size.", "", "out of memory. Tried to allocate 5 GiB",
                           "If you are running out of memory, consider decreasing `gpu_memory_utilization`"})
    CHECK(std::holds_alternative<std::monostate>(read_event("torch_oom", text)));
  for (const Row& row : kRows) {
    for (std::size_t length = 0; length < row.message.size(); ++length) {
      const Event event = read_event("torch_oom", row.message.substr(0, length));
      const auto* oom = std::get_if<OutOfMemory>(&event);
      if (oom == nullptr) continue;
      // What was read of a cut message is what the whole one says.
      if (oom->tried) CHECK((oom->tried == bytes_of(row.tried)));
      if (oom->capacity) CHECK((oom->capacity == bytes_of(row.capacity)));
      if (oom->allocated) CHECK((oom->allocated == bytes_of(row.allocated)));
    }
  }
}
