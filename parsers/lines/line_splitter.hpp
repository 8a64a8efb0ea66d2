// LineSplitter: chunks of bytes -> lines. However the input is cut into chunks, the lines are the same.
//
// '\n' ends a physical line. '\r' ends a Line but not the physical one: progress bars write many states over one another, each
// becomes a Line with the number of the physical line and its own offset. States without a byte are dropped ("\r\n", "\r\r"),
// but every physical line gives at least one Line. Other bytes, NUL among them, pass as they are.
// Memory: at most limits::kLineBytes of a line that lies in several chunks; a line inside one chunk is not copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "parsers/base/limits.hpp"
#include "parsers/lines/line.hpp"

namespace triage::parsers {

class LineSplitter {
 public:
  // Where the first chunk lies in its source: byte offset and number of the line that begins there.
  explicit LineSplitter(std::uint64_t offset = 0, std::uint64_t number = 1)
      : part_offset_(offset), line_offset_(offset), number_(number) {}

  // Calls sink(const Line&) for every Line that ends in this chunk. The Line's view is valid during the call only.
  template <class Sink>
  void feed(std::string_view chunk, Sink&& sink) {
    while (!chunk.empty()) {
      const auto* end = static_cast<const char*>(std::memchr(chunk.data(), '\n', chunk.size()));
      const std::size_t length = end ? static_cast<std::size_t>(end - chunk.data()) : chunk.size();
      std::string_view rest = chunk.substr(0, length);
      while (const auto* stop = static_cast<const char*>(std::memchr(rest.data(), '\r', rest.size()))) {
        const auto at = static_cast<std::size_t>(stop - rest.data());
        part_ends(rest.substr(0, at), sink);
        rest.remove_prefix(at + 1);
      }
      if (!end) return keep(rest);
      line_ends(rest, sink);
      chunk.remove_prefix(length + 1);
    }
  }

  // End of input: gives the last Line, if it had no '\n'. The splitter may then be fed on, as if a '\n' had been there.
  template <class Sink>
  void finish(Sink&& sink) {
    const std::uint64_t length = pending();
    if (length == 0 && !line_has_part_) return;
    if (length > 0) give({}, true, sink);
    start_line(length);
  }

  // Offset and number of the physical line that is not finished yet: where reading has to begin again to lose nothing.
  std::uint64_t line_offset() const { return line_offset_; }
  std::uint64_t line_number() const { return number_; }

 private:
  std::uint64_t pending() const { return carry_.size() + cut_; }

  // `rest`: the end of the open part. Consumes it and the '\r' or '\n' after it.
  template <class Sink>
  void part_ends(std::string_view rest, Sink& sink) {
    const std::uint64_t length = pending() + rest.size();
    if (length > 0) {
      give(rest, false, sink);
      line_has_part_ = true;
    }
    part_offset_ += length + 1;
  }

  template <class Sink>
  void line_ends(std::string_view rest, Sink& sink) {
    const std::uint64_t length = pending() + rest.size();
    if (length > 0) {
      give(rest, false, sink);
    } else if (!line_has_part_) {
      Line empty;
      empty.offset = line_offset_;
      empty.number = number_;
      sink(static_cast<const Line&>(empty));
    }
    start_line(length + 1);
  }

  template <class Sink>
  void give(std::string_view rest, bool unfinished, Sink& sink) {
    Line line;
    line.offset = part_offset_;
    line.number = number_;
    line.unfinished = unfinished;
    if (pending() == 0) {
      line.text = rest.substr(0, limits::kLineBytes);
      line.cut_bytes = rest.size() - line.text.size();
    } else {
      keep(rest);
      line.text = carry_;
      line.cut_bytes = cut_;
    }
    sink(static_cast<const Line&>(line));
    carry_.clear();
    cut_ = 0;
  }

  void start_line(std::uint64_t consumed) {
    part_offset_ += consumed;
    line_offset_ = part_offset_;
    line_has_part_ = false;
    ++number_;
  }

  void keep(std::string_view rest) {
    const std::size_t room = limits::kLineBytes - carry_.size();
    const std::size_t taken = std::min(room, rest.size());
    carry_.append(rest.data(), taken);
    cut_ += rest.size() - taken;
  }

  std::string carry_;                // the kept bytes of the open part
  std::uint64_t cut_ = 0;            // bytes of the open part beyond carry_
  std::uint64_t part_offset_ = 0;    // of the first byte of the open part
  std::uint64_t line_offset_ = 0;    // of the first byte of the open physical line
  std::uint64_t number_ = 1;
  bool line_has_part_ = false;       // a Line of this physical line was given already
};

}  // namespace triage::parsers
