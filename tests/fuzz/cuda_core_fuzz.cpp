// CUDA core dumps from outside bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parsers/snapshot/cuda_core.hpp"
#include "signatures/verdict/dump_finding.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  parsers::ReadAtMemory file(std::string_view(reinterpret_cast<const char*>(data), size));
  if (auto core = parsers::read_cuda_core(file, "fuzz"); core.ok()) (void)signatures::finding_of_cuda_core(std::move(core).value());
  return 0;
}
