#include "parsers/snapshot/cuda_core.hpp"

#include <algorithm>
#include <map>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/snapshot/elf.hpp"

namespace triage::parsers {
namespace {

// Section types: CudbgSectionHeaderTypes.
constexpr std::uint32_t kUser = 0x80000000;
constexpr std::uint32_t kRelocatedImage = kUser + 7, kDevices = kUser + 9, kContexts = kUser + 10, kSms = kUser + 11, kGrids = kUser + 12,
                        kBlocks = kUser + 13, kWarps = kUser + 14, kThreads = kUser + 15, kMeta = kUser + 22;
constexpr std::uint32_t kStrings = 3, kSymbols = 2;   // SHT_STRTAB, SHT_SYMTAB
constexpr std::size_t kTableBytes = 1024 * 1024;      // of one table; 132 SMs need 6 KiB
constexpr std::size_t kSymbolBytes = 64 * 1024 * 1024;
constexpr std::uint64_t kBudget = 1024ULL * 1024 * 1024;   // bytes of tables and symbols
constexpr std::size_t kExceptions = 256, kKernels = 64, kImages = 20'000;

struct Grid {
  std::uint64_t id = 0, entry = 0;
  CudaException::Dim grid{}, block{};
  int device = 0;
};

CudaException::Dim dim_at(std::string_view row, std::size_t at) {
  return {le<std::uint32_t>(row, at), le<std::uint32_t>(row, at + 4), le<std::uint32_t>(row, at + 8)};
}

class CudaReader {
 public:
  CudaReader(ReadAt& file, const std::string& name) : file_(file), name_(name) {}

  Result<CudaCore> run() {
    TRIAGE_TRY(const ElfHeader header, read_elf_header(file_, name_));
    if (header.machine != kMachineCuda || header.type != kElfCore)
      return Error(ErrorCode::unsupported, "the ELF file is no CUDA core dump").at(Place{name_, {}, {}, 16, {}});
    if (header.section_offset >= file_.size())
      return Error(ErrorCode::syntax, "the CUDA core dump was cut: its table of sections, which stands at the end, is missing")
          .at(Place{name_, {}, {}, file_.size(), {}})
          .because("the table should stand at byte " + std::to_string(header.section_offset))
          .help("leave the process time to write it, and room on the disk; CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1 writes less");
    TRIAGE_CHECK(for_each_section(file_, name_, header, core_.truncated, [&](std::uint64_t index, const ElfSection& section) {
      remember(index, section);
      return true;
    }));
    TRIAGE_CHECK(names());
    if (!devices_)
      return Error(ErrorCode::syntax, "the CUDA core dump holds no device table").at(Place{name_, {}, {}, header.section_offset, {}});
    TRIAGE_CHECK(devices());
    TRIAGE_CHECK(meta());
    TRIAGE_CHECK(contexts());
    TRIAGE_CHECK(grids());
    TRIAGE_CHECK(threads());
    TRIAGE_CHECK(multiprocessors());
    TRIAGE_CHECK(name_kernels());
    fold();
    return std::move(core_);
  }

 private:
  void remember(std::uint64_t index, const ElfSection& section) {
    std::uint64_t end = 0;
    if (section.type != 8 && (__builtin_add_overflow(section.offset, section.size, &end) || end > file_.size())) core_.truncated = true;
    switch (section.type) {
      case kStrings: string_tables_.push_back(section); break;
      case kDevices: devices_ = section; break;
      case kMeta: meta_ = section; break;
      case kContexts: contexts_.push_back(section); break;
      case kSms: sm_tables_.emplace(index, section); break;
      case kGrids: grid_tables_.push_back(section); break;
      case kBlocks: case kWarps: case kThreads:
        if (section.size > 0 && tables_.size() < limits::kCudaCoreTables) tables_.emplace(index, section);
        break;
      case kRelocatedImage:
        if (images_.size() < kImages) images_.push_back(section);
        break;
      default: break;
    }
  }

  // Tables may be made to overlap: all that is read of one dump stays within a budget.
  Result<std::string> bytes_of(const ElfSection& section, std::size_t most = kTableBytes) {
    const std::uint64_t want = std::min<std::uint64_t>(section.size, most);
    if (want > budget_) {
      core_.truncated = true;
      return std::string();
    }
    budget_ -= want;
    return read_range(file_, section.offset, static_cast<std::size_t>(std::min<std::uint64_t>(section.size, most)));
  }

  // Rows of a table; its entry size is that of the driver that wrote it, at least what the first driver with such dumps wrote.
  template <class Visit>
  Status rows(const ElfSection& section, std::size_t least, Visit visit) {
    TRIAGE_TRY(const std::string bytes, bytes_of(section));
    std::size_t size = section.entry_size >= least && section.entry_size <= 4096 ? static_cast<std::size_t>(section.entry_size) : least;
    for (std::size_t at = 0; at + least <= bytes.size(); at += size)
      visit(std::string_view(bytes).substr(at, std::min(size, bytes.size() - at)), at / size);
    return done();
  }

  // Of the string tables, the one that is not the table of section names is meant; both stand at the end, .strtab first.
  Status names() {
    if (string_tables_.empty()) return done();
    TRIAGE_TRY(text_, bytes_of(string_tables_.front()));
    return done();
  }
  std::string text_at(std::uint64_t offset) const {
    return offset < text_.size() ? repair_utf8(c_text(text_, static_cast<std::size_t>(offset))) : std::string();
  }

  Status devices() {
    return rows(*devices_, 72, [&](std::string_view row, std::size_t) {
      CudaDevice d;
      d.name = text_at(le<std::uint64_t>(row, 0));
      d.type = text_at(le<std::uint64_t>(row, 8));
      d.sm = text_at(le<std::uint64_t>(row, 16));
      d.id = static_cast<int>(std::min<std::uint32_t>(le<std::uint32_t>(row, 24), 65535));
      d.pci_bus = le<std::uint32_t>(row, 28);
      d.pci_device = le<std::uint32_t>(row, 32);
      if (core_.devices.size() < 1024) core_.devices.push_back(std::move(d));
    });
  }
  int device_number(std::uint64_t index) const { return index < core_.devices.size() ? core_.devices[static_cast<std::size_t>(index)].id : 0; }

  Status meta() {
    if (!meta_) return done();
    return rows(*meta_, 32, [&](std::string_view row, std::size_t) {
      core_.generator = text_at(le<std::uint64_t>(row, 0));
      core_.driver = std::to_string(le<std::uint32_t>(row, 8)) + "." + std::to_string(le<std::uint32_t>(row, 12));
      core_.cuda = std::to_string(le<std::uint32_t>(row, 16)) + "." + std::to_string(le<std::uint32_t>(row, 20));
      core_.time = le<std::uint32_t>(row, 28);
    });
  }

  Status contexts() {
    for (const ElfSection& section : contexts_)
      TRIAGE_CHECK(rows(section, 40, [&](std::string_view row, std::size_t) {
        const auto tid = le<std::uint32_t>(row, 36);
        if (!core_.host_thread && tid > 0) core_.host_thread = tid;
      }));
    return done();
  }

  Status grids() {
    for (const ElfSection& section : grid_tables_) {
      const int device = device_number(section.info);
      TRIAGE_CHECK(rows(section, 104, [&](std::string_view row, std::size_t) {
        if (grids_.size() >= 4096) return;
        grids_.push_back({le<std::uint64_t>(row, 0), le<std::uint64_t>(row, 24), dim_at(row, 72), dim_at(row, 84), device});
      }));
    }
    return done();
  }

  // The chain thread table -> warp table -> block table -> SM table, by the sections' links.
  Status threads() {
    for (const auto& table : tables_) {
      const ElfSection& section = table.second;
      if (section.type != kThreads || core_.exceptions.size() >= kExceptions) continue;
      Status inner = done();
      TRIAGE_CHECK(rows(section, 48, [&](std::string_view row, std::size_t) {
        const auto code = le<std::uint32_t>(row, 36);
        if (code == 0 || core_.exceptions.size() >= kExceptions || !inner.ok()) return;
        CudaException e;
        e.code = code;
        e.thread = dim_at(row, 20);
        inner = locate(section, e);
        core_.exceptions.push_back(std::move(e));
      }));
      TRIAGE_CHECK(std::move(inner));
    }
    return done();
  }

  Status locate(const ElfSection& threads, CudaException& e) {
    const auto warps = tables_.find(threads.link);
    if (warps == tables_.end() || warps->second.type != kWarps) return done();
    TRIAGE_CHECK(rows(warps->second, 32, [&](std::string_view row, std::size_t index) {
      if (index == threads.info && le<std::uint32_t>(row, 24) != 0) e.error_pc = le<std::uint64_t>(row, 0);
    }));
    const auto blocks = tables_.find(warps->second.link);
    if (blocks == tables_.end() || blocks->second.type != kBlocks) return done();
    std::uint64_t grid = 0;
    TRIAGE_CHECK(rows(blocks->second, 24, [&](std::string_view row, std::size_t index) {
      if (index != warps->second.info) return;
      grid = le<std::uint64_t>(row, 0);
      e.block = dim_at(row, 8);
    }));
    const auto sms = sm_tables_.find(blocks->second.link);
    if (sms != sm_tables_.end()) {
      e.device = device_number(sms->second.info);
      TRIAGE_CHECK(rows(sms->second, 8, [&](std::string_view row, std::size_t index) {
        if (index == blocks->second.info) e.sm = le<std::uint32_t>(row, 0);
      }));
    }
    for (const Grid& g : grids_) {
      if (g.id != grid || g.device != e.device) continue;
      e.grid_dim = g.grid;
      e.block_dim = g.block;
      if (!e.error_pc) entry_of_[core_.exceptions.size()] = g.entry;
    }
    return done();
  }

  // Since driver r555 an SM keeps its exception when all blocks that had it are gone: lightweight dumps hold nothing else.
  Status multiprocessors() {
    for (const auto& [index, section] : sm_tables_) {
      if (section.entry_size < 24) continue;
      const int device = device_number(section.info);
      TRIAGE_CHECK(rows(section, 24, [&](std::string_view row, std::size_t) {
        const auto code = le<std::uint32_t>(row, 8), sm = le<std::uint32_t>(row, 0);
        if (code == 0 || core_.exceptions.size() >= kExceptions) return;
        for (const CudaException& known : core_.exceptions)
          if (known.device == device && known.sm == sm && known.thread) return;
        CudaException e;
        e.device = device;
        e.sm = sm;
        e.code = code;
        if (le<std::uint32_t>(row, 12) != 0) e.error_pc = le<std::uint64_t>(row, 16);
        core_.exceptions.push_back(std::move(e));
      }));
    }
    return done();
  }

  // Addresses that need a name: where the faults were, and where the grids' kernels begin.
  struct Wanted {
    std::uint64_t address = 0, start = 0;
    std::string name;
  };

  Status name_kernels() {
    std::vector<Wanted> wanted;
    const auto want = [&](std::uint64_t address) {
      if (address != 0) wanted.push_back({address, 0, {}});
    };
    for (const CudaException& e : core_.exceptions)
      if (e.error_pc) want(*e.error_pc);
    for (const Grid& g : grids_) want(g.entry);
    const auto by_address = [](const Wanted& a, const Wanted& b) { return a.address < b.address; };
    std::sort(wanted.begin(), wanted.end(), by_address);
    wanted.erase(std::unique(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) { return a.address == b.address; }), wanted.end());
    for (const ElfSection& image : images_) {
      if (std::all_of(wanted.begin(), wanted.end(), [](const Wanted& w) { return !w.name.empty(); })) break;
      if (image.size > limits::kCudaImageBytes) continue;
      look_into(image, wanted);   // a broken image names nothing
    }
    const auto found = [&](std::uint64_t address) -> const Wanted* {
      const auto w = std::lower_bound(wanted.begin(), wanted.end(), address, [](const Wanted& a, std::uint64_t b) { return a.address < b; });
      return w != wanted.end() && w->address == address && !w->name.empty() ? &*w : nullptr;
    };
    for (std::size_t i = 0; i < core_.exceptions.size(); ++i) {
      CudaException& e = core_.exceptions[i];
      e.name = cuda_exception_name(e.code);
      const auto entry = entry_of_.find(i);
      const Wanted* w = e.error_pc ? found(*e.error_pc) : entry != entry_of_.end() ? found(entry->second) : nullptr;
      if (w == nullptr) continue;
      e.kernel = w->name;
      if (e.error_pc) e.kernel_offset = *e.error_pc - w->start;
    }
    for (const Grid& g : grids_) {
      if (core_.kernels.size() >= kKernels) break;
      const Wanted* w = found(g.entry);
      core_.kernels.push_back({w == nullptr ? std::string() : w->name, g.device, g.grid, g.block});
    }
    return done();
  }

  // A part of the file as a file of its own: a module's ELF image inside the dump.
  class Part final : public ReadAt {
   public:
    Part(ReadAt& whole, std::uint64_t offset, std::uint64_t size) : whole_(whole), offset_(offset), size_(size) {}
    std::uint64_t size() const override { return size_; }
    Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
      if (offset >= size_) return std::size_t{0};
      return whole_.read(offset_ + offset, room.first(static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), size_ - offset))));
    }

   private:
    ReadAt& whole_;
    std::uint64_t offset_, size_;
  };

  void look_into(const ElfSection& image, std::vector<Wanted>& wanted) {
    if (image.offset >= file_.size()) return;
    Part part(file_, image.offset, std::min(image.size, file_.size() - image.offset));
    const auto header = read_elf_header(part, name_);
    if (!header.ok()) return;
    std::vector<ElfSection> sections;
    bool cut = false;
    const Status walked = for_each_section(part, name_, *header, cut, [&](std::uint64_t, const ElfSection& section) {
      sections.push_back(section);
      return sections.size() < 100'000;
    });
    if (!walked.ok()) return;
    for (const ElfSection& symbols : sections) {
      if (symbols.type != kSymbols || symbols.link >= sections.size() || symbols.size > std::min<std::uint64_t>(kSymbolBytes, budget_)) continue;
      budget_ -= symbols.size;
      const auto table = read_range(part, symbols.offset, static_cast<std::size_t>(symbols.size));
      if (!table.ok()) continue;
      const ElfSection& strings = sections[symbols.link];
      for (std::size_t at = 0; at + 24 <= table->size(); at += 24) {   // Elf64_Sym: name, info, other, shndx, value, size
        const bool function = (static_cast<unsigned char>((*table)[at + 4]) & 15) == 2;
        const std::uint64_t value = le<std::uint64_t>(*table, at + 8), size = le<std::uint64_t>(*table, at + 16);
        if (!function || size == 0) continue;
        auto next = std::lower_bound(wanted.begin(), wanted.end(), value, [](const Wanted& w, std::uint64_t address) { return w.address < address; });
        for (; next != wanted.end() && next->address - value < size; ++next) {
          Wanted& w = *next;
          if (!w.name.empty()) continue;
          const std::uint64_t name_at = le<std::uint32_t>(*table, at);
          if (name_at >= strings.size) continue;
          const auto text = read_range(part, strings.offset + name_at, static_cast<std::size_t>(std::min<std::uint64_t>(strings.size - name_at, 4096)));
          if (!text.ok()) continue;
          w.name = repair_utf8(c_text(*text, 0));
          w.start = value;
        }
      }
    }
  }

  // Threads of one kernel with the same exception are one; those with a place first.
  void fold() {
    std::vector<CudaException> out;
    for (CudaException& e : core_.exceptions) {
      const auto same = std::find_if(out.begin(), out.end(), [&](const CudaException& o) {
        return o.device == e.device && o.code == e.code && o.kernel == e.kernel && (o.error_pc == e.error_pc || !e.kernel.empty());
      });
      if (same == out.end())
        out.push_back(std::move(e));
      else
        ++same->count;
    }
    std::stable_sort(out.begin(), out.end(), [](const CudaException& a, const CudaException& b) { return a.thread.has_value() > b.thread.has_value(); });
    core_.exceptions = std::move(out);
  }

  ReadAt& file_;
  const std::string& name_;
  CudaCore core_;
  std::optional<ElfSection> devices_, meta_;
  std::vector<ElfSection> contexts_, grid_tables_, images_, string_tables_;
  std::map<std::uint64_t, ElfSection> sm_tables_, tables_;   // by section number
  std::vector<Grid> grids_;
  std::map<std::size_t, std::uint64_t> entry_of_;            // exception -> entry address of its grid's kernel
  std::string text_;
  std::uint64_t budget_ = kBudget;
};

}  // namespace

Result<CudaCore> read_cuda_core(ReadAt& file, const std::string& name) { return CudaReader(file, name).run(); }

std::string cuda_exception_name(std::uint32_t code) {
  constexpr std::array<const char*, 20> names = {
      "", "Lane Illegal Address", "Lane User Stack Overflow", "Device Hardware Stack Overflow", "Warp Illegal Instruction",
      "Warp Out-of-range Address", "Warp Misaligned Address", "Warp Invalid Address Space", "Warp Invalid PC", "Warp Hardware Stack Overflow",
      "Device Illegal Address", "Lane Misaligned Address", "Warp Assert", "Lane Syscall Error", "Warp Illegal Address",
      "Lane Non-migratable Atomic", "Lane Invalid Atomic", "Cluster Out-of-range Address", "Cluster Block Not Present", "Warp Stack Canary"};
  if (code > 0 && code < names.size()) return names[code];
  return "exception " + std::to_string(code);
}

}  // namespace triage::parsers
