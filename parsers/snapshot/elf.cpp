#include "parsers/snapshot/elf.hpp"

#include <algorithm>

#include "parsers/base/limits.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kHeaderBytes = 64, kSegmentBytes = 56, kSectionBytes = 64;
constexpr std::size_t kBatch = 1024;   // headers read at once

Error broken(const std::string& name, std::uint64_t offset, std::string what) {
  return Error(ErrorCode::syntax, std::move(what)).at(Place{name, {}, {}, offset, {}});
}

ElfSection section_of(std::string_view bytes, std::size_t at) {
  ElfSection s;
  s.name = le<std::uint32_t>(bytes, at);
  s.type = le<std::uint32_t>(bytes, at + 4);
  s.address = le<std::uint64_t>(bytes, at + 16);
  s.offset = le<std::uint64_t>(bytes, at + 24);
  s.size = le<std::uint64_t>(bytes, at + 32);
  s.link = le<std::uint32_t>(bytes, at + 40);
  s.info = le<std::uint32_t>(bytes, at + 44);
  s.entry_size = le<std::uint64_t>(bytes, at + 56);
  return s;
}

// Walks a table of fixed-size records in batches. visit: bytes, position in them; false ends the walk.
Status for_each_record(ReadAt& file, std::uint64_t offset, std::uint64_t count, std::size_t size, bool& cut,
                       const std::function<bool(std::uint64_t, std::string_view, std::size_t)>& visit) {
  const std::uint64_t room = offset < file.size() ? (file.size() - offset) / size : 0;
  if (count > room) {
    cut = true;
    count = room;
  }
  for (std::uint64_t done_count = 0; done_count < count;) {
    const std::uint64_t batch = std::min<std::uint64_t>(kBatch, count - done_count);
    TRIAGE_TRY(const std::string bytes, read_range(file, offset + done_count * size, static_cast<std::size_t>(batch) * size));
    for (std::uint64_t i = 0; i < bytes.size() / size; ++i)
      if (!visit(done_count + i, bytes, static_cast<std::size_t>(i) * size)) return done();
    if (bytes.size() < batch * size) {   // the file became shorter under us
      cut = true;
      return done();
    }
    done_count += batch;
  }
  return done();
}

}  // namespace

bool looks_like_elf(std::string_view head) {
  return head.size() >= 4 && head[0] == '\x7f' && head[1] == 'E' && head[2] == 'L' && head[3] == 'F';
}

std::optional<ElfKind> elf_kind(std::string_view head) {
  if (!looks_like_elf(head) || head.size() < 20 || head[5] != 1) return std::nullopt;
  return ElfKind{le<std::uint16_t>(head, 16), le<std::uint16_t>(head, 18)};
}

Result<ElfHeader> read_elf_header(ReadAt& file, const std::string& name) {
  TRIAGE_TRY(const std::string bytes, read_range(file, 0, kHeaderBytes));
  if (!looks_like_elf(bytes)) return broken(name, 0, "the file is no ELF file");
  if (bytes.size() < kHeaderBytes)
    return broken(name, bytes.size(), "the file ends inside its ELF header").help("the disk was full or the core size limit was near 0: ulimit -c unlimited");
  if (bytes[4] == 1)
    return Error(ErrorCode::unsupported, "a 32-bit ELF dump is not read").at(Place{name, {}, {}, 4, {}}).help("only 64-bit programs are known to train");
  if (bytes[4] != 2) return broken(name, 4, "the ELF class is neither 32 nor 64 bits");
  if (bytes[5] == 2)
    return Error(ErrorCode::unsupported, "a big-endian ELF dump is not read").at(Place{name, {}, {}, 5, {}}).help("only x86_64 and aarch64 little-endian dumps are read");
  if (bytes[5] != 1) return broken(name, 5, "the ELF byte order is neither little nor big");
  ElfHeader header;
  header.type = le<std::uint16_t>(bytes, 16);
  header.machine = le<std::uint16_t>(bytes, 18);
  header.program_offset = le<std::uint64_t>(bytes, 32);
  header.section_offset = le<std::uint64_t>(bytes, 40);
  header.program_count = le<std::uint16_t>(bytes, 56);
  header.section_count = le<std::uint16_t>(bytes, 60);
  header.names_section = le<std::uint16_t>(bytes, 62);
  if (header.program_count > 0 && le<std::uint16_t>(bytes, 54) != kSegmentBytes)
    return broken(name, 54, "the size of a program header is not 56 bytes");
  const bool extended = header.program_count == 0xffff || (header.section_count == 0 && header.section_offset != 0) || header.names_section == 0xffff;
  if ((header.section_count > 0 || extended) && header.section_offset != 0 && le<std::uint16_t>(bytes, 58) != kSectionBytes)
    return broken(name, 58, "the size of a section header is not 64 bytes");
  if (extended && header.section_offset != 0) {   // more than 16 bits: the numbers stand in section 0 (PN_XNUM, SHN_XINDEX)
    TRIAGE_TRY(const std::string first, read_range(file, header.section_offset, kSectionBytes));
    if (first.size() == kSectionBytes) {
      const ElfSection zero = section_of(first, 0);
      if (header.program_count == 0xffff) header.program_count = zero.info;
      if (header.section_count == 0) header.section_count = zero.size;
      if (header.names_section == 0xffff) header.names_section = zero.link;
    }
  }
  if (header.program_count > limits::kElfHeaders || header.section_count > limits::kElfHeaders)
    return Error(ErrorCode::limit, "the ELF file claims more than " + std::to_string(limits::kElfHeaders) + " headers").at(Place{name, {}, {}, 0, {}});
  return header;
}

Status for_each_segment(ReadAt& file, const std::string&, const ElfHeader& header, bool& cut,
                        const std::function<bool(const ElfSegment&)>& visit) {
  return for_each_record(file, header.program_offset, header.program_count, kSegmentBytes, cut,
                         [&](std::uint64_t, std::string_view bytes, std::size_t at) {
                           ElfSegment s;
                           s.type = le<std::uint32_t>(bytes, at);
                           s.offset = le<std::uint64_t>(bytes, at + 8);
                           s.address = le<std::uint64_t>(bytes, at + 16);
                           s.file_size = le<std::uint64_t>(bytes, at + 32);
                           s.memory_size = le<std::uint64_t>(bytes, at + 40);
                           return visit(s);
                         });
}

Status for_each_section(ReadAt& file, const std::string&, const ElfHeader& header, bool& cut,
                        const std::function<bool(std::uint64_t, const ElfSection&)>& visit) {
  return for_each_record(file, header.section_offset, header.section_count, kSectionBytes, cut,
                         [&](std::uint64_t index, std::string_view bytes, std::size_t at) { return visit(index, section_of(bytes, at)); });
}

std::string_view c_text(std::string_view bytes, std::size_t offset) {
  if (offset >= bytes.size()) return {};
  bytes.remove_prefix(offset);
  return bytes.substr(0, bytes.find('\0'));
}

}  // namespace triage::parsers
