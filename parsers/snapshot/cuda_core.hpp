// CUDA core dumps (.nvcudmp), full and lightweight: device, exception, kernel, block and thread. Format: NVIDIA's public
// cudacoredump.h (CUDA toolkit); exceptions: CUDBGException_t of cudadebugger.h. Memory images are never read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/snapshot/read_at.hpp"

namespace triage::parsers {

struct CudaDevice {
  int id = 0;                                  // CUDA device number
  std::string name, type, sm;                  // "NVIDIA H200", "GH100GL-A", "sm_90"
  std::uint32_t pci_bus = 0, pci_device = 0;
};

struct CudaException {
  int device = 0;                              // CUDA device number
  std::uint32_t sm = 0;                        // streaming multiprocessor
  std::uint32_t code = 0;                      // CUDBGException_t
  std::string name;                            // "Warp Illegal Address"
  std::optional<std::uint64_t> error_pc;       // address in device memory
  std::string kernel;                          // as the module names it (mangled for C++); empty: unknown
  std::uint64_t kernel_offset = 0;             // bytes of error_pc behind the kernel's first instruction
  using Dim = std::array<std::uint32_t, 3>;
  std::optional<Dim> block, thread, grid_dim, block_dim;   // missing where the blocks had ended before the dump (lightweight dumps)
  std::uint64_t count = 1;                     // threads or SMs with the same exception in the same kernel
};

struct CudaKernel {
  std::string name;
  int device = 0;
  std::array<std::uint32_t, 3> grid_dim{}, block_dim{};
};

struct CudaCore {
  std::vector<CudaDevice> devices;
  std::vector<CudaException> exceptions;       // those with a place first
  std::vector<CudaKernel> kernels;             // grids on the devices, at most 64
  std::optional<std::int64_t> host_thread;     // tid of the thread that owns the first context
  std::string generator, driver, cuda;         // "580.159", "13.0"
  std::optional<std::int64_t> time;            // seconds since 1970, of the dump
  bool truncated = false;
};

// Errors: unsupported (not a CUDA core), syntax (no device table), limit, io.
Result<CudaCore> read_cuda_core(ReadAt& file, const std::string& name);

std::string cuda_exception_name(std::uint32_t code);

}  // namespace triage::parsers
