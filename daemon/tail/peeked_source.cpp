#include "daemon/tail/peeked_source.hpp"

#include <algorithm>
#include <cstring>

namespace triage::daemon {

std::string_view PeekedSource::peek(std::size_t most) {
  head_.erase(0, given_);
  given_ = 0;
  while (head_.size() < most && !ended_ && !fault_) {
    const std::size_t size = head_.size();
    head_.resize(most);
    auto count = inner_->read(std::span(head_).subspan(size));
    head_.resize(size + (count.ok() ? *count : 0));
    if (!count.ok())
      fault_ = std::move(count).error();
    else
      ended_ = *count == 0;
  }
  return std::string_view(head_).substr(0, most);
}

parsers::Result<std::size_t> PeekedSource::read(std::span<char> room) {
  if (given_ < head_.size()) {
    const std::size_t count = std::min(room.size(), head_.size() - given_);
    std::memcpy(room.data(), head_.data() + given_, count);
    given_ += count;
    return count;
  }
  if (fault_) return *fault_;
  if (ended_) return std::size_t{0};
  return inner_->read(room);
}

bool PeekedSource::seek(std::uint64_t offset) {
  if (!inner_->seek(offset)) return false;
  head_.clear();
  given_ = 0;
  ended_ = false;
  return true;
}

}  // namespace triage::daemon
