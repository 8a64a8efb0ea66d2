// A source whose first bytes may be looked at before they are read: pipes and members of archives can be read only once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/tail/byte_source.hpp"

namespace triage::daemon {

class PeekedSource final : public ByteSource {
 public:
  explicit PeekedSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {}

  // The first bytes that are not read yet, at most `most`, less only at the end (or where reading failed: then read() gives the bytes
  // and after them the error). Valid until the next call of any function.
  std::string_view peek(std::size_t most);

  parsers::Result<std::size_t> read(std::span<char> room) override;
  std::uint64_t seekable_size() const override { return inner_->seekable_size(); }
  bool seek(std::uint64_t offset) override;

 private:
  std::unique_ptr<ByteSource> inner_;
  std::string head_;                     // [given_, size) is still to be read
  std::size_t given_ = 0;
  bool ended_ = false;
  std::optional<parsers::Error> fault_;
};

}  // namespace triage::daemon
