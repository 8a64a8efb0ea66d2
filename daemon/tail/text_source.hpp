// A source of bytes whose text may have to be decoded first (UTF-16, container logs in parts).
#pragma once

#include <memory>
#include <string>

#include "daemon/tail/input.hpp"
#include "parsers/lines/text_decoder.hpp"

namespace triage::daemon {

// Reads through a TextDecoder. Once the decoder passes everything, bytes go straight from the inner source.
class TextSource : public ByteSource {
 public:
  explicit TextSource(std::unique_ptr<ByteSource> inner) : inner_(std::move(inner)) {}
  parsers::Result<std::size_t> read(std::span<char> room) override;

 private:
  std::unique_ptr<ByteSource> inner_;
  parsers::TextDecoder decoder_;
  std::string raw_, out_;
  std::size_t given_ = 0;                // of out_
  bool ended_ = false;
};

}  // namespace triage::daemon
