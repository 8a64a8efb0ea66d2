// TracebackAssembler: puts stack traces of Python, C++ and CUDA together out of the records of one source, each stream
// (rank, task, actor, node) by itself, however they are interleaved. Memory is bounded by parsers/base/limits.hpp.
//
// Read are: Python tracebacks with their chains, exception groups and marks; Rich's boxes; IPython's; Ray's remote parts;
// faulthandler's dumps; C++ "terminate called ..." with what() and c10 frames; gdb, UCX and glog back traces; device asserts.
// Not given out, though taken: quoted ones (torchrun's failure table) and those that Python says it ignored. One whose end is cut off is
// given out without an exception (`complete` false); so is one that began in the middle and never came to its exception.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "parsers/events/event.hpp"
#include "parsers/records/record.hpp"
#include "parsers/records/traceback_line.hpp"

namespace triage::parsers {

class TracebackAssembler {
 public:
  enum class Part : std::uint8_t {
    none,       // no part of a trace
    inside,     // header, frame, source, mark, or a further line of the message
    exception,  // the line that names the exception; also one that stands alone
  };

  // Literals of which one stands in the first line of every trace.
  static std::span<const std::string_view> triggers();

  // Records in the order of the source. Never fails; what does not fit ends the trace of its stream, or is passed over.
  Part offer(const Record& record);
  // Is a trace open that further records may belong to? Records need not be offered while nothing is.
  bool open() const { return !streams_.empty(); }
  // Right after offer() answered Part::exception: the trace that this line names, its message perhaps not whole yet; null for one
  // that stands alone. Valid until the next call.
  const Traceback* named() const { return named_; }
  // The traces that ended, in the order in which they ended.
  std::vector<Traceback> take_finished();
  // The same, after ending all that are open (end of input).
  std::vector<Traceback> finish();

 private:
  enum class Form : std::uint8_t { waiting, python, rich, ipython, faulthandler, cpp, cuda };

  struct Stream {
    std::uint64_t key = 0;           // Record::stream
    Form form = Form::waiting;
    Traceback trace;
    std::size_t indent = 0;          // blanks before the header: its exception line has as many
    std::size_t frames_left_out = 0;
    std::size_t message_lines = 0;
    std::size_t last_length = 0;     // bytes of the line before, for wrapped messages
    std::size_t bytes = 0;           // of text kept
    int noise = 0;                   // lines that did not fit
    bool in_message = false;         // the exception line was seen
    bool collecting = true;          // faulthandler: this thread's frames are wanted
    bool current_seen = false;       // faulthandler: the current thread's frames were read
    bool discard = false;            // quoted or ignored
    bool prefixed = false;           // the header had a logger's prefix
    bool headless = false;           // begun by a frame: the header was cut off or went to another stream
    bool group = false;              // inside an exception group: lines begin with '|'
    bool blank_seen = false;         // since the exception line
    std::uint64_t last_record = 0;
  };
  using Streams = std::list<Stream>;

  Part offer_line(const Record& record, std::string_view text);
  Part open_trace(const Record& record, std::string_view text, Stream* idle);
  // Sets `again` when the trace ended before this line, which then has to be looked at anew.
  Part go_on(Stream& stream, const Record& record, std::string_view text, bool& again);
  Part go_on_python(Stream& stream, const Record& record, std::string_view text, bool& again);
  Part go_on_message(Stream& stream, const Record& record, std::string_view text, bool& again);
  Part go_on_rich(Stream& stream, const Record& record, std::string_view text, bool& again);
  Part go_on_ipython(Stream& stream, const Record& record, std::string_view text, bool& again);
  Part go_on_faulthandler(Stream& stream, const Record& record, std::string_view text, bool& again);
  Part go_on_cpp(Stream& stream, const Record& record, std::string_view text, bool& again);

  Part take_exception(Stream& stream, const Record& record, std::string_view type, std::string_view message);
  void add_frame(Stream& stream, const FrameText& frame);
  void add_message(Stream& stream, std::string_view text);
  Part noise(Stream& stream, int most, bool& again);
  void end_trace(Stream& stream);           // gives the trace out; the stream waits
  void drop(Streams::iterator stream);
  void drop_idle();

  Streams streams_;                          // least recently used first
  std::unordered_map<std::uint64_t, Streams::iterator> by_key_;
  std::vector<Traceback> finished_;
  const Traceback* named_ = nullptr;
  std::uint64_t records_ = 0;
  std::size_t open_bytes_ = 0, finished_bytes_ = 0;
};

}  // namespace triage::parsers
