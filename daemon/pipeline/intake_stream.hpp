// IntakeStream: an Intake for bytes that come in any portions from one thread: the output of a command, a packed file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "daemon/pipeline/block_cutter.hpp"
#include "daemon/pipeline/block_scanner.hpp"
#include "daemon/pipeline/intake.hpp"
#include "parsers/lines/text_decoder.hpp"

namespace triage::daemon {

class IntakeStream {
 public:
  IntakeStream(std::shared_ptr<const Knowledge> knowledge, signatures::SourceInfo source, int default_year, Spool* spool = nullptr)
      : scanner_(*knowledge), intake_(std::move(knowledge), std::move(source), default_year, spool) {}

  // Any portions give the same findings. flush: take what stands there now, do not wait for a full block.
  void feed(std::string_view bytes, bool flush = false);
  void lose(std::string what, std::uint64_t bytes) { intake_.lose(std::move(what), bytes); }
  const Intake& intake() const { return intake_; }
  // End of the stream. Call once.
  signatures::SourceFindings finish();

 private:
  void cut(std::string_view bytes, bool flush);
  void take(Block block);

  parsers::TextDecoder decoder_;
  std::string decoded_;
  BlockScanner scanner_;
  BlockCutter cutter_;
  ScannedBlock scratch_;
  Intake intake_;
};

}  // namespace triage::daemon
