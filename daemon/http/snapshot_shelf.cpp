#include "daemon/http/snapshot_shelf.hpp"

#include <openssl/rand.h>

#include <array>
#include <utility>

namespace triage::daemon::api {

std::string SnapshotShelf::put(SnapshotAnalysis analysis, std::uint64_t file_bytes) {
  std::array<unsigned char, 16> random = {};
  std::string id;
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) == 1)
    for (const unsigned char byte : random) {
      id += "0123456789abcdef"[byte >> 4];
      id += "0123456789abcdef"[byte & 15];
    }
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  entries_.push_front({id, std::make_shared<const SnapshotAnalysis>(std::move(analysis)), file_bytes, now});
  drop_old(now);
  return id;
}

std::shared_ptr<const SnapshotAnalysis> SnapshotShelf::find(const std::string& id) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  drop_old(now);
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->id != id || id.empty()) continue;
    at->used = now;
    entries_.splice(entries_.begin(), entries_, at);
    return entries_.front().analysis;
  }
  return nullptr;
}

void SnapshotShelf::drop_old(Clock::time_point now) {
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  for (auto at = entries_.begin(); at != entries_.end();) {
    bytes += at->bytes;
    const bool first = count++ == 0;
    if (now - at->used > age_ || (!first && (count > most_ || bytes > most_bytes_)))
      at = entries_.erase(at);
    else
      ++at;
  }
}

}  // namespace triage::daemon::api
