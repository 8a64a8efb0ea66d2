// ELF cores and CUDA cores from outside bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parsers/snapshot/core_file.hpp"
#include "parsers/snapshot/cuda_core.hpp"
#include "signatures/verdict/dump_finding.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  parsers::ReadAtMemory file(bytes);
  if (auto core = parsers::read_core_file(file, "fuzz"); core.ok()) (void)signatures::finding_of_core(std::move(core).value());
  if (auto core = parsers::read_cuda_core(file, "fuzz"); core.ok()) (void)signatures::finding_of_cuda_core(std::move(core).value());
  return 0;
}
