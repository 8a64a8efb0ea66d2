// data/illegal_access.nvcudmp.gz: a lightweight dump of driver 580 on an H200; a Triton kernel "poke" read an illegal address.
#include "parsers/snapshot/cuda_core.hpp"

#include <doctest/doctest.h>

#include "tests/support/gunzip.hpp"

using namespace triage::parsers;

namespace {

const std::string kData = TRIAGE_SOURCE_DIR "/tests/parsers/snapshot/data/";

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
}

struct Section {
  std::uint32_t type = 0;
  std::string bytes;
  std::uint64_t entry = 0;
  std::uint32_t link = 0, info = 0;
};

// A file as cudacoredump.h describes it; section 0 is added.
std::string dump_of(const std::vector<Section>& sections, std::uint16_t machine = 190, std::uint16_t type = 4) {
  std::string body, table(64, '\0');
  for (const Section& s : sections) {
    put<std::uint32_t>(table, 0);
    put<std::uint32_t>(table, s.type);
    put<std::uint64_t>(table, 2);
    put<std::uint64_t>(table, 0);
    put<std::uint64_t>(table, 64 + body.size());
    put<std::uint64_t>(table, s.bytes.size());
    put<std::uint32_t>(table, s.link);
    put<std::uint32_t>(table, s.info);
    put<std::uint64_t>(table, 0);
    put<std::uint64_t>(table, s.entry);
    body += s.bytes;
  }
  std::string out("\x7f" "ELF\x02\x01\x01\x33\x07", 9);
  out.resize(16, '\0');
  put<std::uint16_t>(out, type);
  put<std::uint16_t>(out, machine);
  put<std::uint32_t>(out, 1);
  put<std::uint64_t>(out, 0);
  put<std::uint64_t>(out, 0);
  put<std::uint64_t>(out, 64 + body.size());
  put<std::uint32_t>(out, 0);
  for (const std::size_t v : {std::size_t{64}, std::size_t{0}, std::size_t{0}, std::size_t{64}, sections.size() + 1, std::size_t{0}})
    put<std::uint16_t>(out, static_cast<std::uint16_t>(v));
  return out + body + table;
}

std::string words(std::initializer_list<std::uint32_t> values) {
  std::string out;
  for (const std::uint32_t v : values) put(out, v);
  return out;
}
std::string longs(std::initializer_list<std::uint64_t> values) {
  std::string out;
  for (const std::uint64_t v : values) put(out, v);
  return out;
}

// A cubin with one function symbol.
std::string image(const std::string& name, std::uint64_t address, std::uint64_t size) {
  std::string symbol;
  put<std::uint32_t>(symbol, 1);
  symbol += '\x12';
  symbol += '\0';
  put<std::uint16_t>(symbol, 1);
  put(symbol, address);
  put(symbol, size);
  return dump_of({{3, '\0' + name + '\0', 0, 0, 0}, {2, std::string(24, '\0') + symbol, 24, 1, 0}}, 190, 2);
}

Result<CudaCore> read(std::string_view bytes) {
  ReadAtMemory memory(bytes);
  return read_cuda_core(memory, "core.nvcudmp");
}

}  // namespace

TEST_CASE("a lightweight dump of an illegal access: device, exception, kernel and place in it") {
  const std::string bytes = triage::tests::gunzip_file(kData + "illegal_access.nvcudmp.gz");
  const auto core = read(bytes);
  REQUIRE(core.ok());
  REQUIRE(core->devices.size() == 1);
  CHECK(core->devices[0].name == "NVIDIA H200");
  CHECK(core->devices[0].sm == "sm_90");
  CHECK(core->devices[0].id == 0);
  CHECK(core->driver == "580.159");
  CHECK(core->cuda == "13.0");
  CHECK(core->time == 1796131262);
  CHECK(core->host_thread == 904);
  REQUIRE(core->exceptions.size() == 1);
  const auto& e = core->exceptions[0];
  CHECK(e.code == 14);
  CHECK(e.name == "Warp Illegal Address");
  CHECK(e.sm == 124);
  CHECK(e.error_pc == 0x7fcf177a0fb0);
  CHECK(e.kernel == "poke");
  CHECK(e.kernel_offset == 0xb0);
  CHECK(!e.block);
  CHECK(!core->truncated);
}

TEST_CASE("a full dump gives block and thread through the chain of tables") {
  const std::string thread0 = longs({0, 0}) + words({0, 0, 0, 0, 0, 0, 0, 0}), thread1 = longs({0, 0}) + words({5, 37, 0, 0, 1, 1, 0, 0});
  const std::string warp0 = longs({0}) + words({0, 0, 0, 0, 0, 0}), warp1 = longs({0x5010}) + words({1, 0, 0, 0, 1, 0});
  const std::string grid = longs({9, 1, 2, 0x5000, 3, 0, 0}) + words({0, 0, 0, 0, 64, 2, 1, 128, 1, 1, 0, 0});
  const std::string device = longs({1, 0, 0}) + words({2, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const std::vector<Section> sections = {
      {0x80000009, device, 72, 0, 0},                             // 1
      {0x8000000b, words({7, 0}), 8, 1, 0},                       // 2 multiprocessors
      {0x8000000d, longs({9}) + words({12, 1, 0, 0}), 24, 2, 0},  // 3 blocks
      {0x8000000e, warp0 + warp1, 32, 3, 0},                      // 4 warps
      {0x8000000f, thread0 + thread1 + thread1, 48, 4, 1},        // 5 threads of warp 1
      {0x8000000c, grid, 104, 1, 0},                              // 6 grids
      {0x80000007, image("_Z6kernelPf", 0x5000, 0x100), 0, 0, 0}, // 7 module
      {3, std::string("\0NVIDIA A100\0", 13), 0, 0, 0},           // 8 strings
  };
  const auto core = read(dump_of(sections));
  REQUIRE(core.ok());
  REQUIRE(core->exceptions.size() == 1);
  const auto& e = core->exceptions[0];
  CHECK(e.device == 2);
  CHECK(e.sm == 7);
  CHECK(e.count == 2);
  CHECK(e.name == "Lane Illegal Address");
  CHECK(e.kernel == "_Z6kernelPf");
  CHECK(e.kernel_offset == 0x10);
  CHECK(e.block == CudaException::Dim{12, 1, 0});
  CHECK(e.thread == CudaException::Dim{37, 0, 0});
  CHECK(e.grid_dim == CudaException::Dim{64, 2, 1});
  CHECK(e.block_dim == CudaException::Dim{128, 1, 1});
  REQUIRE(core->kernels.size() == 1);
  CHECK(core->kernels[0].name == "_Z6kernelPf");
  CHECK(core->devices[0].name == "NVIDIA A100");
}

TEST_CASE("a CUDA dump that is cut, or none at all") {
  const std::string bytes = triage::tests::gunzip_file(kData + "illegal_access.nvcudmp.gz");
  const auto cut = read(std::string_view(bytes).substr(0, 1'000'000));
  REQUIRE(!cut.ok());
  CHECK(cut.error().message().find("was cut") != std::string::npos);
  CHECK(!read("").ok());
  CHECK(!read(dump_of({})).ok());
  CHECK(!read(dump_of({{0x80000009, std::string(72, '\0'), 72, 0, 0}}, 62)).ok());
  CHECK(read(dump_of({{0x80000009, std::string(72, '\0'), 72, 0, 0}})).ok());
  // The table of sections cut in its middle.
  const auto half = read(std::string_view(bytes).substr(0, 19492663 + 64 * 40));
  REQUIRE(half.ok());
  CHECK(half->truncated);
}

TEST_CASE("section headers with impossible numbers do no harm") {
  const std::string bytes = triage::tests::gunzip_file(kData + "illegal_access.nvcudmp.gz");
  std::string broken = bytes;
  for (std::size_t section = 1; section < 170; ++section)
    for (const std::size_t field : {4UL, 24UL, 32UL, 40UL, 56UL}) {
      const std::size_t at = 19492663 + section * 64 + field;
      const std::string before = broken.substr(at, 8);
      for (std::size_t i = 0; i < 8; ++i) broken[at + i] = static_cast<char>(0xf0 + i);
      const auto core = read(broken);
      if (core.ok()) CHECK(core->exceptions.size() <= 256);
      broken.replace(at, 8, before);
    }
}
