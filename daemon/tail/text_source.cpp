#include "daemon/tail/text_source.hpp"

#include <algorithm>
#include <cstring>

namespace triage::daemon {

namespace {
constexpr std::size_t kHeadBytes = 512;
constexpr std::size_t kPortionBytes = 1 << 16;
}  // namespace

parsers::Result<std::size_t> TextSource::read(std::span<char> room) {
  while (given_ == out_.size()) {
    if (ended_) return std::size_t{0};
    if (decoder_.passes()) return inner_->read(room);
    raw_.resize(out_.empty() ? kHeadBytes : kPortionBytes);
    out_.clear();
    given_ = 0;
    TRIAGE_TRY(const std::size_t count, inner_->read(raw_));
    ended_ = count == 0;
    if (ended_)
      decoder_.finish(out_);
    else
      decoder_.feed(std::string_view(raw_).substr(0, count), out_);
  }
  const std::size_t count = std::min(room.size(), out_.size() - given_);
  std::memcpy(room.data(), out_.data() + given_, count);
  given_ += count;
  return count;
}

}  // namespace triage::daemon
