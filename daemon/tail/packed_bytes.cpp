#include "daemon/tail/packed_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace triage::daemon {

bool PackedBytes::more() {
  if (ended_ || fault_) return false;
  if (buffer_.empty()) buffer_.resize(kHistory + 2 * kPortion);
  if (buffer_.size() - end_ < kPortion) {
    const std::size_t from = begin_ > kHistory ? begin_ - kHistory : 0;
    std::memmove(buffer_.data(), buffer_.data() + from, end_ - from);
    begin_ -= from;
    end_ -= from;
    if (buffer_.size() - end_ < kPortion) buffer_.resize(end_ + kPortion);   // someone wants more than a portion at once
  }
  auto count = inner_->read(std::span(buffer_).subspan(end_, kPortion));
  if (!count.ok()) {
    fault_ = std::move(count).error();
    return false;
  }
  ended_ = *count == 0;
  end_ += *count;
  return !ended_;
}

bool PackedBytes::want(std::size_t count) {
  while (end_ - begin_ < count)
    if (!more()) return false;
  return true;
}

bool PackedBytes::find(std::uint64_t from, std::size_t least, const std::function<bool(std::string_view)>& begins) {
  const std::uint64_t first = offset_ - begin_;   // of the buffer's first byte
  if (from < first) from = first;
  if (from < offset_) {
    begin_ -= static_cast<std::size_t>(offset_ - from);
    offset_ = from;
  }
  while (from > offset_) {
    if (rest().empty() && !more()) return false;
    use(static_cast<std::size_t>(std::min<std::uint64_t>(rest().size(), from - offset_)));
  }
  for (;;) {
    if (!want(std::max<std::size_t>(least, 1)) && rest().empty()) return false;
    const std::string_view held = rest();
    const std::size_t places = held.size() >= least ? held.size() - least + 1 : held.size();
    for (std::size_t i = 0; i < places; ++i)
      if (begins(held.substr(i))) {
        use(i);
        return true;
      }
    use(places);
  }
}

void PackedBytes::skip_zeros() {
  do {
    const std::string_view held = rest();
    const std::size_t zeros = std::min(held.find_first_not_of('\0'), held.size());
    use(zeros);
  } while (rest().empty() && more());
}

}  // namespace triage::daemon
