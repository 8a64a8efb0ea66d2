// ELF cores of processes from outside bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parsers/snapshot/core_file.hpp"
#include "signatures/verdict/dump_finding.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  parsers::ReadAtMemory file(std::string_view(reinterpret_cast<const char*>(data), size));
  if (auto core = parsers::read_core_file(file, "fuzz"); core.ok()) (void)signatures::finding_of_core(std::move(core).value());
  return 0;
}
