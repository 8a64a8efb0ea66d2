#include "daemon/tail/dump_gate.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "parsers/base/text.hpp"
#include "parsers/snapshot/elf.hpp"
#include "parsers/snapshot/pickle_reader.hpp"

namespace triage::daemon {

using parsers::Result;
using parsers::TimePoint;

namespace {

constexpr std::size_t kDone = 100'000;        // dumps remembered as read; then the names that sort first are forgotten
constexpr std::size_t kHeaders = 65'536;      // program headers of a core that are looked through

std::uint64_t little(const char* at, std::size_t size) {
  std::uint64_t out = 0;
  for (std::size_t i = size; i-- > 0;) out = out << 8 | static_cast<unsigned char>(at[i]);
  return out;
}

// ELF64, little-endian: gabi, "ELF Header", "Program Header". Segments of a core lie in the file up to p_offset + p_filesz.
Result<bool> core_reaches_end(OpenFile& file, std::uint64_t size, const std::array<char, 512>& head) {
  const char* const bytes = head.data();
  const std::uint64_t table = little(bytes + 32, 8), sections = little(bytes + 40, 8);
  const std::size_t entry = static_cast<std::size_t>(little(bytes + 54, 2)), count = static_cast<std::size_t>(little(bytes + 56, 2));
  const std::uint64_t section_bytes = little(bytes + 58, 2) * little(bytes + 60, 2);
  if (sections > size || section_bytes > size - sections) return false;
  if (count == 0 || entry < 56) return true;
  if (table > size) return false;
  for (std::size_t i = 0; i < std::min(count, kHeaders); ++i) {
    std::array<char, 56> header;
    TRIAGE_TRY(const std::size_t read, file.read(table + i * entry, header));
    if (read < header.size()) return false;
    const char* const at = header.data();
    const std::uint64_t offset = little(at + 8, 8), bytes_there = little(at + 32, 8);
    if (offset > size || bytes_there > size - offset) return false;
  }
  return true;
}

}  // namespace

Result<bool> ends_whole(OpenFile& file, std::uint64_t size) {
  std::array<char, 512> head{}, tail{};
  TRIAGE_TRY(const std::size_t count, file.read(0, head));
  const std::string_view text(head.data(), count);
  if (text.empty()) return false;
  if (const auto elf = parsers::elf_kind(text); elf && count >= 64) return core_reaches_end(file, size, head);
  TRIAGE_TRY(const std::size_t end, file.read(size > tail.size() ? size - tail.size() : 0, tail));
  const std::string_view last(tail.data(), end);
  if (parsers::looks_like_pickle(text)) return last.ends_with('.');
  if (text.starts_with('{') || text.starts_with('[')) {
    const std::string_view trimmed = parsers::trim_right(last);
    return trimmed.ends_with('}') || trimmed.ends_with(']');
  }
  return true;
}

namespace {

bool same(const FileInfo& a, const FileInfo& b) { return a.size == b.size && a.inode == b.inode && a.changed_ns == b.changed_ns; }

}  // namespace

void DumpGate::offer(const std::string& path, TimePoint now) {
  const auto info = files_->info(path);
  if (!info.ok() || info->kind != FileKind::file) {
    waiting_.erase(path);
    return;
  }
  if (const auto it = done_.find(path); it != done_.end() && it->second.inode == info->inode && it->second.size == info->size &&
                                        (it->second.changed_ns == info->changed_ns || it->second.changed_ns == 0)) {
    it->second.changed_ns = info->changed_ns;
    return;
  }
  const auto [it, fresh] = waiting_.try_emplace(path);
  Waiting& waiting = it->second;
  if (!fresh && same(waiting.info, *info)) return;
  waiting.info = *info;
  waiting.closed = false;
  // A dump that is old when it is met stood still already.
  const TimePoint changed(std::chrono::duration_cast<TimePoint::duration>(std::chrono::nanoseconds(info->changed_ns)));
  waiting.still_since = fresh ? std::min(now, changed) : now;
  waiting.look_at = waiting.still_since + options_.quiet;
}

void DumpGate::closed(const std::string& path, TimePoint now) {
  offer(path, now);
  const auto it = waiting_.find(path);
  if (it == waiting_.end()) return;
  it->second.closed = true;
  it->second.look_at = now;
}

void DumpGate::known(const std::string& path, std::uint64_t inode, std::uint64_t size, std::int64_t changed_ns) {
  if (done_.size() < kDone) done_[path] = {inode, size, changed_ns};
}

std::vector<DumpGate::Ready> DumpGate::take(TimePoint now) {
  std::vector<Ready> out;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Waiting& waiting = it->second;
    waiting.still_since = std::min(waiting.still_since, now);   // the clock may have been set back
    waiting.look_at = std::min(waiting.look_at, now + options_.quiet);
    if (now < waiting.look_at) {
      ++it;
      continue;
    }
    const auto info = files_->info(it->first);
    if (!info.ok()) {
      it = waiting_.erase(it);
      continue;
    }
    waiting.look_at = now + options_.quiet;
    if (!same(*info, waiting.info)) {
      waiting.info = *info;
      waiting.still_since = now;
      waiting.closed = false;
      ++it;
      continue;
    }
    const auto file = files_->open(it->first);
    if (!file.ok()) {   // no descriptors, no permission: both may come
      ++it;
      continue;
    }
    const auto ends = ends_whole(**file, info->size);
    const bool whole = ends.ok() && *ends;
    const auto still = now - waiting.still_since;
    if (whole ? !waiting.closed && still < options_.quiet : still < options_.given_up) {
      ++it;
      continue;
    }
    out.push_back({it->first, info->device, info->inode, info->size, info->changed_ns, whole});
    if (done_.size() >= kDone) done_.erase(done_.begin());
    done_[it->first] = {info->inode, info->size, info->changed_ns};
    it = waiting_.erase(it);
  }
  return out;
}

std::optional<TimePoint> DumpGate::wake() const {
  std::optional<TimePoint> out;
  for (const auto& [path, waiting] : waiting_) out = out ? std::min(*out, waiting.look_at) : waiting.look_at;
  return out;
}

}  // namespace triage::daemon
