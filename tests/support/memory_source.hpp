// Bytes in memory as a source, in portions of a given size.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/tail/byte_source.hpp"

namespace triage::tests {

class MemorySource final : public daemon::ByteSource {
 public:
  MemorySource(std::string bytes, std::size_t portion) : bytes_(std::move(bytes)), portion_(portion) {}
  parsers::Result<std::size_t> read(std::span<char> room) override {
    const std::size_t count = std::min({room.size(), bytes_.size() - at_, portion_});
    std::memcpy(room.data(), bytes_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  std::string bytes_;
  std::size_t portion_, at_ = 0;
};

}  // namespace triage::tests
