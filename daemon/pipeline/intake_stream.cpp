#include "daemon/pipeline/intake_stream.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace triage::daemon {

void IntakeStream::feed(std::string_view bytes, bool flush) {
  if (decoder_.passes()) return cut(bytes, flush);
  decoded_.clear();
  decoder_.feed(bytes, decoded_);
  if (flush) decoder_.flush(decoded_);
  cut(decoded_, flush);
}

void IntakeStream::cut(std::string_view bytes, bool flush) {
  while (!bytes.empty()) {
    const std::span<char> room = cutter_.room();
    const std::size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    cutter_.filled(count);
    bytes.remove_prefix(count);
    while (auto block = cutter_.take(flush && bytes.empty())) take(std::move(*block));
  }
}

void IntakeStream::take(Block block) {
  scratch_.block = std::move(block);
  scanner_.scan(scratch_);
  intake_.take(scratch_, scanner_.matcher());
  cutter_.recycle(std::move(scratch_.block));
}

signatures::SourceFindings IntakeStream::finish() {
  decoded_.clear();
  decoder_.finish(decoded_);
  cut(decoded_, false);
  take(cutter_.finish());
  return intake_.finish();
}

}  // namespace triage::daemon
