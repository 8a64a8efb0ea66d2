#include "parsers/snapshot/core_file.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/snapshot/elf.hpp"

namespace triage::parsers {
namespace {

// Note types of the owner "CORE" (include/uapi/linux/elf.h).
constexpr std::uint32_t kPrStatus = 1, kPrPsInfo = 3, kAuxv = 6, kSigInfo = 0x53494749, kFileNote = 0x46494c45;
constexpr std::size_t kNoteBytes = 4096;         // of a note that is read whole; elf_prstatus has 336 (x86_64) and 392 (aarch64)
constexpr std::size_t kAuxvBytes = 16 * 1024;
constexpr std::uint64_t kNotes = 2'000'000;      // of one core: some ten a thread
constexpr std::uint64_t kExecFn = 31;            // AT_EXECFN: the address of the program's name, right above the environment
constexpr std::size_t kEnvironment = 256 * 1024; // bytes below AT_EXECFN that are searched

// Offsets in elf_prstatus: registers start at 112 on both machines (arch/*/include/uapi/asm/ptrace.h gives their order).
struct Registers {
  std::size_t instruction, stack, least;
};
Registers registers_of(std::uint16_t machine) {
  if (machine == kMachineX86_64) return {112 + 16 * 8, 112 + 19 * 8, 336};
  return {112 + 32 * 8, 112 + 31 * 8, 112 + 34 * 8};
}

struct Mapping {
  std::uint64_t start = 0, end = 0, file_offset = 0;   // bytes
  std::uint32_t file = 0;                              // index into the names
};

class CoreReader {
 public:
  CoreReader(ReadAt& file, const std::string& name) : file_(file), name_(name) {}

  Result<CoreFile> run() {
    TRIAGE_TRY(header_, read_elf_header(file_, name_));
    if (header_.type != kElfCore)
      return Error(ErrorCode::unsupported, "the ELF file is a program or a library, not a core dump").at(Place{name_, {}, {}, 16, {}});
    if (header_.machine != kMachineX86_64 && header_.machine != kMachineAarch64)
      return Error(ErrorCode::unsupported, "a core dump of machine number " + std::to_string(header_.machine) + " is not read")
          .at(Place{name_, {}, {}, 18, {}})
          .help("x86_64 and aarch64 are read");
    core_.machine = header_.machine == kMachineX86_64 ? "x86_64" : "aarch64";
    core_.claimed_bytes = file_.size();
    Status status = done();
    bool cut = false;
    std::vector<ElfSegment> notes;
    TRIAGE_CHECK(for_each_segment(file_, name_, header_, cut, [&](const ElfSegment& segment) {
      std::uint64_t end = 0;
      if (!__builtin_add_overflow(segment.offset, segment.file_size, &end)) core_.claimed_bytes = std::max(core_.claimed_bytes, end);
      if (segment.type == kSegmentNote && notes.size() < 64) notes.push_back(segment);
      return true;
    }));
    core_.truncated = cut || core_.claimed_bytes > file_.size();
    for (const ElfSegment& segment : notes) TRIAGE_CHECK(walk_notes(segment));
    if (core_.thread_count == 0) return no_threads(notes.empty());
    map_libraries();
    for (CoreThread& thread : core_.threads) place(thread);
    TRIAGE_CHECK(environment());
    return std::move(core_);
  }

 private:
  Error no_threads(bool no_segment) const {
    const bool cut = core_.truncated;
    // Headers that the file does not hold claim nothing of it that could be summed up.
    const bool no_headers = cut && core_.claimed_bytes <= file_.size();
    const std::string has = "the file has " + std::to_string(file_.size());
    const std::string why = no_headers ? "its program headers are said to stand at byte " + std::to_string(header_.program_offset) + ", " + has
                            : cut      ? "the headers claim " + std::to_string(core_.claimed_bytes) + " bytes, " + has
                                       : std::string();
    return Error(ErrorCode::syntax, cut ? "the core dump was cut before its notes end: it names no thread" : "the core dump holds no notes of a process")
        .at(Place{name_, {}, {}, no_headers ? 32 : no_segment ? header_.program_offset : file_.size(), {}})
        .because(why)
        .help("ulimit -c unlimited (Slurm: --propagate=CORE), and room where /proc/sys/kernel/core_pattern points to");
  }

  // Notes: namesz, descsz, type, name and description, each padded to 4 bytes.
  Status walk_notes(const ElfSegment& segment) {
    std::uint64_t at = segment.offset, end = 0;
    if (__builtin_add_overflow(segment.offset, segment.file_size, &end)) end = file_.size();
    end = std::min(end, file_.size());
    while (at < end && end - at >= 12) {
      if (++notes_read_ > kNotes) {
        core_.truncated = true;
        return done();
      }
      TRIAGE_TRY(const std::string head, read_range(file_, at, 12 + 16));
      if (head.size() < 12) return done();
      const std::uint64_t name_size = le<std::uint32_t>(head, 0), size = le<std::uint32_t>(head, 4);
      const std::uint32_t type = le<std::uint32_t>(head, 8);
      if (name_size == 0 && size == 0 && type == 0) {   // no writer makes one: the notes were never written
        core_.truncated = true;
        return done();
      }
      const std::uint64_t description = at + 12 + padded(name_size);
      const std::uint64_t next = description + padded(size);
      if (next > end) core_.truncated = true;
      const bool core = name_size >= 4 && std::string_view(head).substr(12, 4) == "CORE";
      if (core && description < end) TRIAGE_CHECK(note(type, description, std::min(size, end - description), size));
      at = next;
    }
    return done();
  }

  static std::uint64_t padded(std::uint64_t size) { return (size + 3) & ~std::uint64_t{3}; }

  // size: bytes of the description that the file holds; claimed: that it should have.
  Status note(std::uint32_t type, std::uint64_t at, std::uint64_t size, std::uint64_t claimed) {
    const bool known = type == kPrStatus || type == kPrPsInfo || type == kAuxv || type == kSigInfo || type == kFileNote;
    if (!known) return done();
    const std::size_t most = type == kFileNote ? limits::kCoreFileNote : type == kAuxv ? kAuxvBytes : kNoteBytes;
    TRIAGE_TRY(const std::string bytes, read_range(file_, at, static_cast<std::size_t>(std::min<std::uint64_t>(size, most))));
    if (bytes.size() < std::min<std::uint64_t>(claimed, most)) core_.truncated = true;
    switch (type) {
      case kPrStatus: status(bytes); break;
      case kPrPsInfo: process(bytes); break;
      case kSigInfo: signal_info(bytes); break;
      case kAuxv: auxiliary(bytes); break;
      default: files(bytes); break;
    }
    return done();
  }

  void status(std::string_view bytes) {
    const Registers r = registers_of(header_.machine);
    if (bytes.size() < r.least) return;
    ++core_.thread_count;
    if (core_.thread_count == 1) {
      core_.signal = le<std::uint16_t>(bytes, 12);
      if (core_.signal == 0) core_.signal = static_cast<int>(le<std::uint32_t>(bytes, 0));
    }
    if (core_.threads.size() >= limits::kCoreThreads) return;
    CoreThread thread;
    thread.id = le<std::int32_t>(bytes, 32);
    thread.instruction_pointer = le<std::uint64_t>(bytes, r.instruction);
    thread.stack_pointer = le<std::uint64_t>(bytes, r.stack);
    core_.threads.push_back(std::move(thread));
  }

  void process(std::string_view bytes) {
    if (bytes.size() < 136 || core_.pid) return;
    core_.user = le<std::uint32_t>(bytes, 16);
    core_.pid = le<std::int32_t>(bytes, 24);
    core_.parent = le<std::int32_t>(bytes, 28);
    core_.program = repair_utf8(c_text(bytes.substr(40, 16), 0));
    core_.arguments = repair_utf8(trim(c_text(bytes.substr(56, 80), 0)));
  }

  // siginfo_t: si_signo, si_errno, si_code, then at byte 16 what the signal carries. gdb writes one for each thread: the first counts.
  void signal_info(std::string_view bytes) {
    if (bytes.size() < 24 || core_.code) return;
    const int signal = le<std::int32_t>(bytes, 0), code = le<std::int32_t>(bytes, 8);
    if (signal <= 0) return;
    core_.code = code;
    if (core_.signal == 0) core_.signal = signal;
    const bool fault = signal == 4 || signal == 5 || signal == 7 || signal == 8 || signal == 11;
    if (fault && code > 0 && code != 0x80) core_.fault_address = le<std::uint64_t>(bytes, 16);
    if (code <= 0 && code != -2 && code != -3 && code != -4) core_.sender = le<std::int32_t>(bytes, 16);   // SI_USER, SI_QUEUE, SI_TKILL
  }

  void auxiliary(std::string_view bytes) {
    for (std::size_t at = 0; at + 16 <= bytes.size(); at += 16)
      if (le<std::uint64_t>(bytes, at) == kExecFn) exec_name_ = le<std::uint64_t>(bytes, at + 8);
  }

  // NT_FILE: count, page size, count triples (start, end, offset in pages), then the names.
  void files(std::string_view bytes) {
    const std::uint64_t count = le<std::uint64_t>(bytes, 0), page = le<std::uint64_t>(bytes, 8);
    const std::uint64_t room = bytes.size() < 16 ? 0 : (bytes.size() - 16) / 24;
    if (count > room) core_.truncated = true;
    const std::uint64_t triples = std::min<std::uint64_t>({count, room, limits::kCoreFiles});
    std::size_t names = count > room ? bytes.size() : 16 + static_cast<std::size_t>(count) * 24;
    std::map<std::string_view, std::uint32_t> known;
    for (std::uint64_t i = 0; i < triples && names < bytes.size(); ++i) {
      const std::size_t at = 16 + static_cast<std::size_t>(i) * 24;
      const std::string_view text = c_text(bytes, names);
      names += text.size() + 1;
      Mapping m{le<std::uint64_t>(bytes, at), le<std::uint64_t>(bytes, at + 8), 0, 0};
      if (m.end <= m.start || __builtin_mul_overflow(le<std::uint64_t>(bytes, at + 16), page, &m.file_offset)) continue;
      const auto [entry, fresh] = known.emplace(text, static_cast<std::uint32_t>(names_.size()));
      if (fresh) names_.push_back(repair_utf8(text));
      m.file = entry->second;
      mappings_.push_back(m);
    }
  }

  // A library's load address is where its byte 0 is mapped; without that mapping, where it would be.
  void map_libraries() {
    std::sort(mappings_.begin(), mappings_.end(), [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
    std::vector<bool> seen(names_.size(), false);
    std::vector<std::size_t> index(names_.size(), 0);
    for (const Mapping& m : mappings_) {
      if (!seen[m.file]) {
        seen[m.file] = true;
        index[m.file] = core_.libraries.size();
        core_.libraries.push_back({names_[m.file], m.start - std::min(m.start, m.file_offset), m.end});
      }
      CoreLibrary& library = core_.libraries[index[m.file]];
      library.end = std::max(library.end, m.end);
    }
  }

  void place(CoreThread& thread) const {
    const auto after = std::upper_bound(mappings_.begin(), mappings_.end(), thread.instruction_pointer,
                                        [](std::uint64_t address, const Mapping& m) { return address < m.start; });
    if (after == mappings_.begin()) return;
    const Mapping& m = *std::prev(after);
    if (thread.instruction_pointer >= m.end) return;
    thread.library = names_[m.file];
    // The nearest mapping of byte 0 below: a file can be mapped twice.
    std::uint64_t base = m.start - std::min(m.start, m.file_offset);
    for (auto it = after; it != mappings_.begin();) {
      --it;
      if (it->file == m.file && it->file_offset == 0) {
        base = it->start;
        break;
      }
      if (it->file != m.file && after - it > 64) break;
    }
    thread.offset = thread.instruction_pointer - base;
  }

  // The environment stands right below the program's name, at the top of the stack. Only the rank is taken out of it.
  Status environment() {
    if (exec_name_ == 0) return done();
    ElfSegment stack;
    bool cut = false;
    TRIAGE_CHECK(for_each_segment(file_, name_, header_, cut, [&](const ElfSegment& s) {
      if (s.type != kSegmentLoad || exec_name_ < s.address || exec_name_ - s.address >= s.file_size) return true;
      stack = s;
      return false;
    }));
    if (stack.file_size == 0) return done();
    const std::uint64_t above = exec_name_ - stack.address;
    const std::uint64_t length = std::min<std::uint64_t>(above, kEnvironment);
    std::uint64_t from = 0;
    if (__builtin_add_overflow(stack.offset, above - length, &from)) return done();
    TRIAGE_TRY(const std::string bytes, read_range(file_, from, static_cast<std::size_t>(length)));
    core_.rank = variable(bytes, "RANK");
    core_.local_rank = variable(bytes, "LOCAL_RANK");
    if (!core_.rank) core_.rank = variable(bytes, "OMPI_COMM_WORLD_RANK");
    if (!core_.rank) core_.rank = variable(bytes, "SLURM_PROCID");
    if (!core_.local_rank) core_.local_rank = variable(bytes, "SLURM_LOCALID");
    return done();
  }

  static std::optional<int> variable(std::string_view bytes, std::string_view name) {
    const std::string head = '\0' + std::string(name) + '=';
    const auto at = bytes.rfind(head);
    if (at == std::string_view::npos) return std::nullopt;
    const auto value = read_integer(c_text(bytes, at + head.size()));
    if (!value || *value < 0 || *value >= limits::kRanks) return std::nullopt;
    return static_cast<int>(*value);
  }

  ReadAt& file_;
  const std::string& name_;
  ElfHeader header_;
  CoreFile core_;
  std::vector<std::string> names_;
  std::vector<Mapping> mappings_;
  std::uint64_t exec_name_ = 0, notes_read_ = 0;
};

}  // namespace

Result<CoreFile> read_core_file(ReadAt& file, const std::string& name) { return CoreReader(file, name).run(); }

std::string signal_name(int signal) {
  // Linux on x86_64 and aarch64 (include/uapi/asm-generic/signal.h).
  constexpr std::array<const char*, 32> names = {
      "",        "SIGHUP",  "SIGINT",  "SIGQUIT", "SIGILL",  "SIGTRAP", "SIGABRT", "SIGBUS",  "SIGFPE",    "SIGKILL",  "SIGUSR1",
      "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN",
      "SIGTTOU", "SIGURG",  "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR",   "SIGSYS"};
  if (signal > 0 && signal < 32) return names[static_cast<std::size_t>(signal)];
  if (signal >= 34 && signal <= 64) return "SIGRTMIN+" + std::to_string(signal - 34);
  return "signal " + std::to_string(signal);
}

std::string fault_words(int signal, int code) {
  // include/uapi/asm-generic/siginfo.h
  if (code == 0) return "sent by another process";
  if (code == -6) return "sent by the process to itself";
  if (code == 0x80) return "raised by the kernel: a non-canonical address or a protection fault";
  if (signal == 11) {
    switch (code) {
      case 1: return "address not mapped";
      case 2: return "no permission for the mapping";
      case 3: return "bounds check failed";
      case 4: return "protection key";
      default: return {};
    }
  }
  if (signal == 7) {
    switch (code) {
      case 1: return "wrong alignment";
      case 2: return "nonexistent physical address: a file or /dev/shm was full or became shorter";
      case 3: return "object-specific hardware error";
      case 4: case 5: return "memory error of the hardware";
      default: return {};
    }
  }
  if (signal == 8) {
    switch (code) {
      case 1: return "integer division by zero";
      case 2: return "integer overflow";
      case 3: return "floating point division by zero";
      case 4: return "floating point overflow";
      case 5: return "floating point underflow";
      case 6: return "inexact floating point result";
      case 7: return "invalid floating point operation";
      default: return {};
    }
  }
  if (signal == 4) {
    switch (code) {
      case 1: return "illegal opcode: the program may be built for a newer processor";
      case 2: return "illegal operand";
      case 5: case 6: return "privileged instruction";
      default: return {};
    }
  }
  return {};
}

}  // namespace triage::parsers
