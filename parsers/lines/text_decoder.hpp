// TextDecoder: bytes as files and containers hold them -> bytes of lines in UTF-8. Two forms are changed, all else passes as it is:
// UTF-16 (PowerShell's redirections; its byte order mark may be cut off), and the log files of Kubernetes' container runtimes, which cut
// long lines into parts ("<clock> stderr P text", the last one tagged F; kubelet's CRI log format, 16 KiB a part).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace triage::parsers {

// However the input is cut into chunks, the output is the same. A line joined of parts stands at the place of its first one and an empty
// line for each further one, so the numbers of lines stay those of the file. Parts of stdout and stderr may be mixed.
// limit: byte offsets of lines count the output, not the file.
class TextDecoder {
 public:
  // Appends to `out` what is decided of the bytes so far.
  void feed(std::string_view bytes, std::string& out);
  // What was held back until the form is known or a line is whole. For live output; a part may then be given out alone.
  void flush(std::string& out);
  // The same at the end of the input.
  void finish(std::string& out);
  // The form is known and needs no change: later bytes may go round the decoder.
  bool passes() const { return form_ == Form::plain && head_.empty(); }

 private:
  enum class Form : std::uint8_t { unknown, plain, utf16_little, utf16_big, cri };

  bool decide(bool at_end);
  void settle(std::string& out);
  void decode(std::string_view bytes, std::string& out);
  void utf16(std::string_view bytes, std::string& out);
  void unit(std::uint32_t value, std::string& out);
  void cri(std::string_view bytes, std::string& out);
  void cri_line(std::string_view line, std::string& out);   // with its '\n', if it has one
  void release(std::string& out);

  Form form_ = Form::unknown;
  std::string head_;                      // bytes until the form is known
  int half_ = -1;                         // UTF-16: first byte of a unit
  std::uint32_t high_ = 0;                // UTF-16: first unit of a pair
  std::string carry_;                     // CRI: a line that is not whole
  bool raw_line_ = false;                 // CRI: inside a line too long to be looked at
  std::vector<std::string> held_;         // CRI: lines from the first open one on
  std::size_t held_bytes_ = 0;
  std::array<std::size_t, 2> open_{};     // CRI: 1 + index in held_ of the line whose parts are awaited, by stream
};

}  // namespace triage::parsers
