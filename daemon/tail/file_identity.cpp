#include "daemon/tail/file_identity.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "daemon/pipeline/newlines.hpp"

namespace triage::daemon {

using parsers::Result;

namespace {

std::uint64_t word(const char* at, std::size_t size) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < size; ++i) out |= static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  return out;
}

std::uint64_t finish(std::uint64_t h) {   // the 64-bit finaliser of MurmurHash3 (public domain)
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

}  // namespace

std::uint64_t content_hash(std::string_view bytes) {
  std::uint64_t h = bytes.size() * 0x9e3779b97f4a7c15ULL;
  const auto mix = [&h](std::uint64_t w) { h = std::rotl(h ^ (w * 0x87c37b91114253d5ULL), 27) * 0x9fb21c651e98df25ULL; };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) mix(word(bytes.data() + at, 8));
  if (at < bytes.size()) mix(word(bytes.data() + at, bytes.size() - at));
  return finish(h);
}

std::uint64_t check_begin(const Checkpoint& checkpoint) {
  return checkpoint.offset >= checkpoint.check_bytes ? checkpoint.offset - checkpoint.check_bytes : 0;
}

Result<bool> content_matches(OpenFile& file, const Checkpoint& checkpoint) {
  if (checkpoint.check_bytes == 0) return true;
  std::array<char, Checkpoint::kCheckBytes> room;
  if (checkpoint.check_bytes > room.size()) return false;   // written by nobody of ours
  const std::span<char> checked(room.data(), checkpoint.check_bytes);
  TRIAGE_TRY(const std::size_t count, file.read(check_begin(checkpoint), checked));
  return count == checked.size() && content_hash({checked.data(), count}) == checkpoint.check_hash;
}

parsers::Status advance(OpenFile& file, Checkpoint& checkpoint, std::string_view taken) {
  std::array<char, Checkpoint::kCheckBytes> room;
  const std::uint64_t offset = checkpoint.offset + taken.size();
  const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(offset, room.size()));
  std::string_view checked = taken.substr(taken.size() - std::min(taken.size(), wanted));
  if (checked.size() < wanted) {
    const std::size_t before = wanted - checked.size();
    TRIAGE_TRY(const std::size_t count, file.read(checkpoint.offset - before, std::span(room.data(), before)));
    if (count < before) return parsers::Error(parsers::ErrorCode::unavailable, "the file was cut while it was read");
    checked.copy(room.data() + before, checked.size());   // empty ones may be nowhere, which memcpy must not be given
    checked = {room.data(), wanted};
  }
  checkpoint.offset = offset;
  checkpoint.lines += count_newlines(taken);
  checkpoint.check_bytes = static_cast<std::uint32_t>(checked.size());
  checkpoint.check_hash = content_hash(checked);
  return parsers::done();
}

}  // namespace triage::daemon
