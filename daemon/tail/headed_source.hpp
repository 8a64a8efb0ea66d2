// A stream whose first bytes were read already, to tell what it is: gives them again, then the rest.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "daemon/tail/input.hpp"

namespace triage::daemon {

class HeadedSource : public ByteSource {
 public:
  HeadedSource(std::string head, std::unique_ptr<ByteSource> rest) : head_(std::move(head)), rest_(std::move(rest)) {}
  parsers::Result<std::size_t> read(std::span<char> room) override {
    if (given_ == head_.size()) return rest_->read(room);
    const std::size_t count = std::min(room.size(), head_.size() - given_);
    std::copy_n(head_.data() + given_, count, room.data());
    given_ += count;
    return count;
  }

 private:
  std::string head_;
  std::unique_ptr<ByteSource> rest_;
  std::size_t given_ = 0;
};

}  // namespace triage::daemon
