// ELF as dumps use it: 64-bit little-endian headers, program headers and sections. Layout: System V ABI, "Object Files"; Linux
// include/uapi/linux/elf.h. Everything is compared with the size of the file before it is used.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/snapshot/read_at.hpp"

namespace triage::parsers {

inline constexpr std::uint16_t kElfCore = 4;            // e_type
inline constexpr std::uint16_t kMachineX86_64 = 62;     // e_machine
inline constexpr std::uint16_t kMachineAarch64 = 183;
inline constexpr std::uint16_t kMachineCuda = 190;
inline constexpr std::uint32_t kSegmentLoad = 1;        // p_type
inline constexpr std::uint32_t kSegmentNote = 4;

struct ElfHeader {
  std::uint16_t type = 0, machine = 0;
  std::uint64_t program_offset = 0, section_offset = 0;   // bytes
  std::uint64_t program_count = 0, section_count = 0;
  std::uint32_t names_section = 0;                        // index of the section with the section names
};

struct ElfSegment {
  std::uint32_t type = 0;
  std::uint64_t offset = 0, address = 0, file_size = 0, memory_size = 0;   // bytes
};

struct ElfSection {
  std::uint32_t name = 0, type = 0, link = 0, info = 0;
  std::uint64_t address = 0, offset = 0, size = 0, entry_size = 0;         // bytes
};

bool looks_like_elf(std::string_view head);
// Machine and type of an ELF file by its first bytes (20 are enough); empty if it is none, or of another byte order.
struct ElfKind {
  std::uint16_t type = 0, machine = 0;
};
std::optional<ElfKind> elf_kind(std::string_view head);

// Errors: unsupported (32-bit, big-endian, other version), syntax (not ELF, broken header).
Result<ElfHeader> read_elf_header(ReadAt& file, const std::string& name);
// Hands over the headers one after another until visit returns false. cut: set when the table goes over the end of the file.
Status for_each_segment(ReadAt& file, const std::string& name, const ElfHeader& header, bool& cut,
                        const std::function<bool(const ElfSegment&)>& visit);
Status for_each_section(ReadAt& file, const std::string& name, const ElfHeader& header, bool& cut,
                        const std::function<bool(std::uint64_t index, const ElfSection&)>& visit);

// Little-endian numbers of a buffer; 0 where it is too short.
template <class T>
T le(std::string_view bytes, std::size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return T{0};
  std::uint64_t value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return static_cast<T>(value);
}
// A text that ends with NUL or with the buffer.
std::string_view c_text(std::string_view bytes, std::size_t offset);

}  // namespace triage::parsers
