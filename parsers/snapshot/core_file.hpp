// ELF core files of Linux processes: what the kernel and gdb note about the process that died. Reads notes and a few pages of the stack;
// never the memory image. Formats: Linux fs/binfmt_elf.c (fill_note_info), include/uapi/linux/elf.h, elfcore.h, siginfo.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/snapshot/read_at.hpp"

namespace triage::parsers {

struct CoreThread {
  std::int64_t id = 0;                                   // of the kernel (tid)
  std::uint64_t instruction_pointer = 0, stack_pointer = 0;
  std::string library;                                   // mapped file that the instruction pointer stands in; empty: none (JIT code, null)
  std::uint64_t offset = 0;                              // bytes from the library's load address, as addr2line -e LIBRARY takes it
};

struct CoreLibrary {
  std::string file;
  std::uint64_t start = 0, end = 0;                      // addresses: first byte of its first mapping, one behind its last
};

struct CoreFile {
  std::string machine;                                   // x86_64, aarch64
  int signal = 0;                                        // 0: taken of a living process (gcore)
  std::optional<int> code;                               // si_code
  std::optional<std::uint64_t> fault_address;            // si_addr, where the signal's code carries one
  std::optional<std::int64_t> sender;                    // pid of who sent the signal (kill, tgkill), where it was sent
  std::string program;                                   // at most 15 characters, as the kernel keeps them
  std::string arguments;                                 // the command line's first 79 characters
  std::optional<std::int64_t> pid, parent, user;
  std::vector<CoreThread> threads;                       // the one that took the signal first; at most limits::kCoreThreads
  std::uint64_t thread_count = 0;
  std::vector<CoreLibrary> libraries;                    // in order of their addresses
  std::optional<int> rank, local_rank;                   // RANK and LOCAL_RANK of the environment, where the dump holds the stack's top
  bool truncated = false;                                // the file is shorter than its headers say (RLIMIT_CORE, full disk)
  std::uint64_t claimed_bytes = 0;                       // the size that the headers claim
};

// Errors: unsupported (32-bit, big-endian, not a core, other machine), syntax (no ELF, no notes, notes cut before the first thread), io.
Result<CoreFile> read_core_file(ReadAt& file, const std::string& name);

// "SIGSEGV", "SIGRTMIN+3"; "signal 77" for a number without name.
std::string signal_name(int signal);
// What si_code says of a fault: "address not mapped", "stack overflow guard", ... ; empty when unknown.
std::string fault_words(int signal, int code);

}  // namespace triage::parsers
