// Cores in data/ were left by one small program with four or five threads, run with RANK=5 LOCAL_RANK=1 and without any other
// environment: segv.core (strlen of address 0x1234 in the last thread), abort.core (abort(); no memory image), both by the kernel, and
// gcore.core by gdb of the living process. What is expected of them is what gdb 13 says.
#include "parsers/snapshot/core_file.hpp"

#include <doctest/doctest.h>

#include "parsers/snapshot/elf.hpp"
#include "tests/support/gunzip.hpp"

using namespace triage::parsers;

namespace {

const std::string kData = TRIAGE_SOURCE_DIR "/tests/parsers/snapshot/data/";

Result<CoreFile> read(std::string_view bytes) {
  ReadAtMemory memory(bytes);
  return read_core_file(memory, "core.1");
}

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
}

std::string note(std::uint32_t type, const std::string& description) {
  std::string out;
  put<std::uint32_t>(out, 5);
  put<std::uint32_t>(out, static_cast<std::uint32_t>(description.size()));
  put<std::uint32_t>(out, type);
  out += std::string("CORE\0\0\0\0", 8);
  out += description;
  while (out.size() % 4 != 0) out += '\0';
  return out;
}

// An ELF core with one segment of notes.
std::string core_of(std::uint16_t machine, const std::string& notes) {
  std::string out("\x7f" "ELF\x02\x01\x01", 7);
  out.resize(16, '\0');
  put<std::uint16_t>(out, 4);
  put<std::uint16_t>(out, machine);
  put<std::uint32_t>(out, 1);
  put<std::uint64_t>(out, 0);
  put<std::uint64_t>(out, 64);
  put<std::uint64_t>(out, 0);
  put<std::uint32_t>(out, 0);
  for (const int v : {64, 56, 1, 0, 0, 0}) put<std::uint16_t>(out, static_cast<std::uint16_t>(v));
  put<std::uint32_t>(out, 4);
  put<std::uint32_t>(out, 0);
  put<std::uint64_t>(out, 120);
  put<std::uint64_t>(out, 0);
  put<std::uint64_t>(out, 0);
  put<std::uint64_t>(out, notes.size());
  put<std::uint64_t>(out, 0);
  put<std::uint64_t>(out, 4);
  return out + notes;
}

// elf_prstatus of aarch64: 31 registers, then sp, pc, pstate.
std::string aarch64_status(int signal, std::int32_t tid, std::uint64_t sp, std::uint64_t pc) {
  std::string out;
  put<std::int32_t>(out, signal);
  put<std::int32_t>(out, 0);
  put<std::int32_t>(out, 0);
  put<std::uint32_t>(out, static_cast<std::uint32_t>(signal));
  put<std::uint64_t>(out, 0);
  put<std::uint64_t>(out, 0);
  put<std::int32_t>(out, tid);
  out.resize(112, '\0');
  for (int i = 0; i < 31; ++i) put<std::uint64_t>(out, 0xa0a0);
  put<std::uint64_t>(out, sp);
  put<std::uint64_t>(out, pc);
  put<std::uint64_t>(out, 0);
  out.resize(392, '\0');
  return out;
}

}  // namespace

TEST_CASE("a core of a segmentation fault gives what gdb says of it") {
  const std::string bytes = triage::tests::gunzip_file(kData + "segv.core.gz");
  const auto core = read(bytes);
  REQUIRE(core.ok());
  CHECK(core->machine == "x86_64");
  CHECK(core->signal == 11);
  CHECK(core->code == 1);
  CHECK(core->fault_address == 0x1234);
  CHECK(!core->sender);
  CHECK(core->program == "trainer");
  CHECK(core->arguments == "./trainer segv 0x1");
  CHECK(core->pid == 3050);
  CHECK(core->thread_count == 5);
  REQUIRE(core->threads.size() == 5);
  CHECK(core->threads[0].id == 3054);
  CHECK(core->threads[0].instruction_pointer == 0x7f4cad28bad8);
  CHECK(core->threads[0].library == "/usr/lib/x86_64-linux-gnu/libc.so.6");
  CHECK(core->threads[0].offset == 0x7f4cad28bad8 - 0x7f4cad124000);
  CHECK(core->threads[1].instruction_pointer == 0x7f4cad1f7df2);
  REQUIRE(core->libraries.size() == 3);
  CHECK(core->libraries[0].file == "/srv/train/trainer");
  CHECK(core->libraries[0].start == 0x559db6409000);
  CHECK(core->libraries[2].file == "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
  CHECK(core->libraries[2].start == 0x7f4cad31b000);
  CHECK(core->rank == 5);
  CHECK(core->local_rank == 1);
  CHECK(!core->truncated);
}

TEST_CASE("a core of abort names who sent the signal, without a memory image and so without a rank") {
  const std::string bytes = triage::tests::gunzip_file(kData + "abort.core.gz");
  const auto core = read(bytes);
  REQUIRE(core.ok());
  CHECK(core->signal == 6);
  CHECK(core->code == -6);
  CHECK(core->sender == 3056);
  CHECK(!core->fault_address);
  CHECK(core->thread_count == 4);
  CHECK(core->threads[0].library == "/usr/lib/x86_64-linux-gnu/libc.so.6");
  CHECK(!core->rank);
}

TEST_CASE("a core that gdb took of a living process") {
  const std::string bytes = triage::tests::gunzip_file(kData + "gcore.core.gz");
  const auto core = read(bytes);
  REQUIRE(core.ok());
  CHECK(core->thread_count == 4);
  CHECK(core->threads[0].instruction_pointer == 0x7f83fc7dfdf2);
  CHECK(core->program == "trainer");
  CHECK(core->rank == 3);
  CHECK(core->signal == 19);
}

TEST_CASE("an aarch64 core: registers stand elsewhere, files are mapped at an offset") {
  std::string files;
  put<std::uint64_t>(files, 2);
  put<std::uint64_t>(files, 65536);
  for (const std::uint64_t v : {0x10000ULL, 0x30000ULL, 0ULL, 0x30000ULL, 0x50000ULL, 2ULL}) put<std::uint64_t>(files, v);
  files += std::string("/opt/libnccl.so.2\0/opt/libnccl.so.2\0", 36);
  std::string signal(128, '\0');
  signal[0] = 7;
  signal[8] = 2;
  signal[16] = 0x40;
  const std::string bytes = core_of(kMachineAarch64, note(1, aarch64_status(7, 77, 0xffff0000, 0x30010)) + note(0x53494749, signal) + note(0x46494c45, files));
  const auto core = read(bytes);
  REQUIRE(core.ok());
  CHECK(core->machine == "aarch64");
  CHECK(core->signal == 7);
  CHECK(core->fault_address == 0x40);
  REQUIRE(core->threads.size() == 1);
  CHECK(core->threads[0].id == 77);
  CHECK(core->threads[0].stack_pointer == 0xffff0000);
  CHECK(core->threads[0].library == "/opt/libnccl.so.2");
  CHECK(core->threads[0].offset == 0x20010);
  CHECK(fault_words(7, 2).find("/dev/shm") != std::string::npos);
}

TEST_CASE("what is no core of ours is told apart") {
  const std::string good = core_of(kMachineX86_64, note(1, std::string(336, '\1')));
  struct Row {
    const char* name;
    std::string bytes;
    ErrorCode code;
    const char* words;
  };
  std::string bit32 = good, big = good, program = good, machine = good, version = good;
  bit32[4] = 1;
  big[5] = 2;
  program[16] = 3;
  machine[18] = 8;
  version[4] = 9;
  std::string headers = good;
  headers[54] = 32;
  const Row rows[] = {
      {"empty", "", ErrorCode::syntax, "no ELF"},
      {"text", "hello world", ErrorCode::syntax, "no ELF"},
      {"cut header", good.substr(0, 40), ErrorCode::syntax, "inside its ELF header"},
      {"32 bit", bit32, ErrorCode::unsupported, "32-bit"},
      {"big-endian", big, ErrorCode::unsupported, "big-endian"},
      {"class", version, ErrorCode::syntax, "class"},
      {"library", program, ErrorCode::unsupported, "not a core"},
      {"mips", machine, ErrorCode::unsupported, "machine number 8"},
      {"no notes", core_of(kMachineX86_64, ""), ErrorCode::syntax, "no notes"},
      {"header size", headers, ErrorCode::syntax, "56 bytes"},
      {"notes cut", good.substr(0, 200), ErrorCode::syntax, "cut before"},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      const auto core = read(row.bytes);
      REQUIRE(!core.ok());
      CHECK(core.error().code() == row.code);
      CHECK(core.error().message().find(row.words) != std::string::npos);
      REQUIRE(core.error().place());
      CHECK(core.error().place()->file == "core.1");
    }
  }
}

TEST_CASE("program headers behind the end of the file are told with where they are said to stand") {
  std::string bytes = core_of(kMachineX86_64, note(1, std::string(336, '\1')));
  bytes[39] = '\x40';   // the highest byte of e_phoff
  const auto core = read(bytes);
  REQUIRE(!core.ok());
  CHECK(core.error().message().find("cut before") != std::string::npos);
  CHECK(core.error().reason() == "its program headers are said to stand at byte 4611686018427387968, the file has " + std::to_string(bytes.size()));
  REQUIRE(core.error().place());
  CHECK(core.error().place()->offset == 32);
}

TEST_CASE("a core cut at any byte gives what stands before the cut, and says that it is cut") {
  const std::string bytes = triage::tests::gunzip_file(kData + "segv.core.gz");
  std::size_t read_well = 0;
  for (std::size_t cut = 0; cut < bytes.size(); cut += cut < 16384 ? 37 : 9973) {
    const auto core = read(std::string_view(bytes).substr(0, cut));
    if (!core.ok()) continue;
    ++read_well;
    CHECK(core->truncated);
    CHECK(core->signal == 11);
    CHECK(core->claimed_bytes == bytes.size());
  }
  CHECK(read_well > 100);
}

TEST_CASE("numbers that cannot be do no harm") {
  const std::string bytes = triage::tests::gunzip_file(kData + "abort.core.gz");
  // Every 8 bytes of the headers and the first notes, overwritten with the largest number and with ones near the sizes.
  for (std::size_t at = 16; at + 8 < 16000; at += 8) {
    for (const int fill : {0xff, 0x7f, 0x01}) {
      std::string broken = bytes;
      for (std::size_t i = 0; i < 8; ++i) broken[at + i] = static_cast<char>(fill);
      const auto core = read(broken);
      if (core.ok()) CHECK(core->threads.size() <= core->thread_count);
    }
  }
}
