#include "parsers/records/traceback.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

using Part = TracebackAssembler::Part;
using Next = Traceback::Next;

constexpr std::uint64_t kOpenRecords = 20'000;     // records of other streams after which an unfinished trace is given up
constexpr std::uint64_t kMessageRecords = 2'000;   // the same, once its exception line was seen
constexpr std::size_t kMessageLines = 64;
constexpr std::size_t kBareMessageLines = 12;      // lines of a message without indentation, in a rank's own stream
constexpr std::size_t kSourceBytes = 512;
constexpr std::size_t kNameBytes = 1024;
constexpr int kNoise = 16;
constexpr int kHeadlessNoise = 2;
constexpr int kOtherLines = 50;                    // loggers' lines between the lines of a native trace
constexpr std::size_t kAllBytes = 64 * 1024 * 1024;  // text of all open traces, and of all finished ones

constexpr std::string_view kHeader = "Traceback (most recent call last)";
constexpr std::string_view kBoxTop = "\xe2\x95\xad", kBoxBottom = "\xe2\x95\xb0", kBoxBar = "\xe2\x94\x82", kArrow = "\xe2\x9d\xb1";

struct Header {
  enum class Kind { python, rich, ipython } kind = Kind::python;
  std::size_t indent = 0;
  bool quoted = false, group = false;
  std::string_view type;  // IPython prints it before the header
};

std::size_t blanks_before(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && (text[n] == ' ' || text[n] == '\t')) ++n;
  return n;
}

std::optional<Header> read_header(std::string_view text) {
  if (!contains(text, "(most recent")) return std::nullopt;
  const std::size_t at = text.rfind(kHeader);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at), after = trim(text.substr(at + kHeader.size()));
  Header header;
  header.indent = blanks_before(text);
  const std::string_view head = trim(before);
  if (after == ":" || after.starts_with(": (RANK ")) {  // torch.distributed.checkpoint names the rank that failed
    // A list or text that quotes a traceback: ['Traceback (most recent call last):\n', ...
    if (!head.empty() && (head.back() == '\'' || head.back() == '"' || head.back() == '`')) return std::nullopt;
    header.quoted = head.ends_with("traceback :");
    header.group = head.ends_with("Exception Group");
    if (!head.empty() && !header.quoted) header.indent = 0;
    return header;
  }
  if (head.starts_with(kBoxTop) || head.starts_with("\xe2\x94\x8f") || head.starts_with("+-")) {
    header.kind = Header::Kind::rich;
    return header;
  }
  if (after.empty() && !head.empty() && before.ends_with("  ") && read_exception(head, true)) {
    header.kind = Header::Kind::ipython;
    header.type = head;
    return header;
  }
  return std::nullopt;
}

// "│ ❱ 1501 │   return forward_call(*args)  │" or "╰──────": a box whose top was cut off.
bool is_part_of_box(std::string_view body) {
  if (body.starts_with(kBoxBottom)) return body.substr(kBoxBottom.size()).starts_with("\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80");
  return body.starts_with(kBoxBar) && body.substr(kBoxBar.size()).starts_with(" \xe2\x9d\xb1 ");
}

bool is_logger_line(const Record& record) { return record.time.has_value() || record.level != Level::unknown; }

bool is_chain_mark(std::string_view text, Next& next) {
  text = trim(text);
  if (text == "During handling of the above exception, another exception occurred:") next = Next::during_handling;
  else if (text == "The above exception was the direct cause of the following exception:") next = Next::direct_cause;
  else return false;
  return true;
}

std::string_view unquoted(std::string_view text, char open, char close) {
  const std::size_t a = text.find(open);
  if (a == std::string_view::npos) return {};
  const std::size_t b = text.find(close, a + 1);
  return text.substr(a + 1, b == std::string_view::npos ? b : b - a - 1);
}

std::string cut(std::string_view text, std::size_t most) { return repair_utf8(text.substr(0, most)); }

// The lines that begin a native trace, and the exception that they tell.
struct NativeHead {
  std::string_view exception, message;
  bool names_exception = true;
};

std::optional<NativeHead> read_native_head(std::string_view text) {
  if (text.starts_with("terminate called after throwing an instance of")) return NativeHead{unquoted(text, '\'', '\''), {}, false};
  if (text.starts_with("terminate called ")) return NativeHead{"terminate", text.substr(17), true};
  if (text.empty() || std::string_view("[*lPTC").find(text[0]) == std::string_view::npos) return std::nullopt;
  constexpr std::string_view kLibcxx = "terminating due to uncaught exception of type ";
  if (const std::size_t at = text.find(kLibcxx); at != std::string_view::npos) {
    const std::string_view rest = text.substr(at + kLibcxx.size());
    const std::size_t colon = rest.find(": ");
    return NativeHead{rest.substr(0, colon), colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 2), true};
  }
  if (const std::size_t at = text.find("Caught signal "); at != std::string_view::npos)
    return NativeHead{text.substr(at + 7, text.find(' ', at + 14) - at - 7), unquoted(text.substr(at), '(', ')'), true};
  if (text.starts_with("*** SIG") && contains(text, "received by PID")) return NativeHead{text.substr(4, text.find(' ', 4) - 4), text, true};
  for (std::string_view head : {"Program terminated with signal ", "received signal "}) {
    const std::size_t at = text.find(head);
    if (at == std::string_view::npos || (at != 0 && !text.starts_with("Thread ") && !text.starts_with("Program "))) continue;
    const std::string_view rest = text.substr(at + head.size());
    const std::size_t comma = rest.find(',');
    return NativeHead{rest.substr(0, comma), comma == std::string_view::npos ? std::string_view() : trim(rest.substr(comma + 1)), true};
  }
  return std::nullopt;
}

}  // namespace

std::span<const std::string_view> TracebackAssembler::triggers() {
  static constexpr std::array<std::string_view, 17> kTriggers = {
      kHeader, "\", line ", "Fatal Python error: ", "(most recent call first)", "terminate called ", "terminating due to uncaught exception",
      "Exception raised from ", "Caught signal ", "received by PID ", "Assertion `", "#0  0x0000", "Program terminated with signal",
      "received signal SIG", "RayTaskError(", "Exception ignored in", "\xe2\x94\x82 \xe2\x9d\xb1 ", "\xe2\x95\xb0\xe2\x94\x80\xe2\x94\x80\xe2\x94\x80"};
  return kTriggers;
}

void TracebackAssembler::add_frame(Stream& stream, const FrameText& frame) {
  std::vector<Frame>& frames = stream.trace.frames;
  Frame made{cut(frame.file, kNameBytes), frame.line, cut(frame.function, kNameBytes), {}};
  stream.bytes += made.file.size() + made.function.size() + kSourceBytes;
  open_bytes_ += made.file.size() + made.function.size() + kSourceBytes;
  if (frames.size() < limits::kTracebackFrames) {
    frames.push_back(std::move(made));
    return;
  }
  // The second half holds the last frames, as a ring that end_trace() turns into order.
  const std::size_t half = limits::kTracebackFrames / 2;
  frames[half + stream.frames_left_out % (limits::kTracebackFrames - half)] = std::move(made);
  ++stream.frames_left_out;
}

void TracebackAssembler::add_message(Stream& stream, std::string_view text) {
  std::string& message = stream.trace.message;
  ++stream.message_lines;
  if (message.size() >= limits::kEvidenceBytes) return;
  if (!message.empty()) message.push_back('\n');
  const std::size_t before = message.size();
  message += cut(text, limits::kEvidenceBytes - before);
  stream.bytes += message.size() - before;
  open_bytes_ += message.size() - before;
}

Part TracebackAssembler::take_exception(Stream& stream, const Record& record, std::string_view type, std::string_view message) {
  stream.trace.exception = cut(type, kNameBytes);
  stream.trace.exception_line = record.line.number;
  stream.trace.last_line = record.line.number;
  stream.trace.complete = true;
  stream.trace.message.clear();
  stream.message_lines = 0;
  if (!message.empty()) add_message(stream, message);
  stream.in_message = true;
  stream.blank_seen = false;
  stream.noise = 0;
  stream.last_length = record.message.size();
  return stream.discard ? Part::inside : Part::exception;
}

Part TracebackAssembler::noise(Stream& stream, int most, bool& again) {
  if (++stream.noise <= most) return Part::none;
  end_trace(stream);
  again = true;
  return Part::none;
}

void TracebackAssembler::end_trace(Stream& stream) {
  Traceback& trace = stream.trace;
  if (stream.frames_left_out > 0) {
    const std::size_t half = limits::kTracebackFrames / 2;
    const std::size_t turn = stream.frames_left_out % (limits::kTracebackFrames - half);
    std::rotate(trace.frames.begin() + static_cast<std::ptrdiff_t>(half), trace.frames.begin() + static_cast<std::ptrdiff_t>(half + turn), trace.frames.end());
  }
  if (trace.language == Traceback::Language::faulthandler) std::reverse(trace.frames.begin(), trace.frames.end());
  const bool says_something = !trace.exception.empty() || !trace.frames.empty();
  if (stream.form != Form::waiting && !stream.discard && says_something && finished_.size() < limits::kFindingsPerSource) {
    finished_bytes_ += stream.bytes;
    if (finished_bytes_ > kAllBytes) trace.frames.clear();
    finished_.push_back(std::move(trace));
  }
  open_bytes_ -= std::min(open_bytes_, stream.bytes);
  const bool group = stream.group;
  Stream fresh;
  fresh.key = stream.key;
  fresh.last_record = stream.last_record;
  fresh.group = group;
  stream = std::move(fresh);
}

void TracebackAssembler::drop(Streams::iterator stream) {
  end_trace(*stream);
  by_key_.erase(stream->key);
  streams_.erase(stream);
}

void TracebackAssembler::drop_idle() {
  while (!streams_.empty()) {
    const Stream& oldest = streams_.front();
    const std::uint64_t most = oldest.in_message ? kMessageRecords : kOpenRecords;
    if (streams_.size() <= limits::kOpenTracebacks && open_bytes_ <= kAllBytes && records_ - oldest.last_record <= most) return;
    drop(streams_.begin());
  }
}

Part TracebackAssembler::offer(const Record& record) {
  ++records_;
  Part strongest = Part::none;
  std::string_view text = record.message;
  for (;;) {
    const std::size_t newline = text.find('\n');
    strongest = std::max(strongest, offer_line(record, text.substr(0, newline)));
    if (newline == std::string_view::npos) break;
    text.remove_prefix(newline + 1);
  }
  if (!streams_.empty()) drop_idle();
  named_ = nullptr;
  if (strongest == Part::exception && !streams_.empty()) {
    const Stream& last = streams_.back();
    if (last.last_record == records_ && last.trace.exception_line == record.line.number) named_ = &last.trace;
  }
  return strongest;
}

Part TracebackAssembler::offer_line(const Record& record, std::string_view text) {
  Stream* stream = nullptr;
  if (!streams_.empty()) {
    const auto found = by_key_.find(record.stream);
    if (found != by_key_.end()) {
      streams_.splice(streams_.end(), streams_, found->second);
      stream = &*found->second;
      stream->last_record = records_;
    }
  }
  if (stream && stream->group) {
    // "  | text", "  +-+---- 1 ----", "    +------": the group's own drawing goes.
    std::string_view rest = trim_left(text);
    if (consume(rest, "|")) {
      consume(rest, " ");
      text = rest;
    } else if (rest.starts_with("+-")) {
      if (stream->form != Form::waiting) end_trace(*stream);
      return Part::inside;
    } else if (!rest.empty() && !contains(rest, kHeader)) {
      stream->group = false;
    }
  }
  if (stream && stream->form != Form::waiting) {
    bool again = false;
    const Part part = go_on(*stream, record, text, again);
    if (!again) {
      if (stream->form == Form::waiting && !stream->group && !stream->discard) drop(std::prev(streams_.end()));
      return part;
    }
  }
  return open_trace(record, text, stream);
}

Part TracebackAssembler::open_trace(const Record& record, std::string_view text, Stream* idle) {
  Stream fresh;
  Part part = Part::inside;
  Traceback& trace = fresh.trace;
  trace.complete = false;
  trace.first_line = trace.last_line = record.line.number;
  std::string_view body = trim_left(text);
  if (const auto header = read_header(text)) {
    fresh.form = header->kind == Header::Kind::rich ? Form::rich : header->kind == Header::Kind::ipython ? Form::ipython : Form::python;
    fresh.indent = header->indent;
    fresh.group = header->group || (idle && idle->group);
    fresh.discard = header->quoted || (idle && idle->discard);
    trace.exception = std::string(header->type);
  } else if (body.starts_with("ray::") && contains(body, "(pid=")) {
    fresh.form = Form::python;
    fresh.indent = blanks_before(text);
  } else if (consume(body, "Fatal Python error: ") || consume(body, "Windows fatal exception: ")) {
    fresh.form = Form::faulthandler;
    trace.language = Traceback::Language::faulthandler;
    part = take_exception(fresh, record, "Fatal Python error", trim(body));
    fresh.in_message = false;
    fresh.collecting = false;
  } else if ((body.starts_with("Current thread 0x") || body.starts_with("Thread 0x")) && contains(body, "(most recent call first)")) {
    fresh.form = Form::faulthandler;
    trace.language = Traceback::Language::faulthandler;
    fresh.current_seen = body.starts_with("Current");
  } else if (const auto native = read_native_head(body)) {
    fresh.form = Form::cpp;
    trace.language = Traceback::Language::cpp;
    if (native->names_exception) {
      part = take_exception(fresh, record, native->exception, native->message);
    } else {
      trace.exception = cut(native->exception, kNameBytes);
      trace.exception_line = record.line.number;
    }
  } else if (const auto device_assert = read_device_assert(text)) {
    fresh.form = Form::cuda;
    trace.language = Traceback::Language::cuda;
    add_frame(fresh, device_assert->frame);
    part = take_exception(fresh, record, "device-side assert", "Assertion `" + std::string(device_assert->assertion.substr(0, kNameBytes)) + "` failed");
  } else if (is_native_stack_head(body) || body.starts_with("#0  0x") || body.starts_with("frame #0:")) {
    fresh.form = Form::cpp;
    trace.language = Traceback::Language::cpp;
    trace.complete = true;
    fresh.headless = !body.starts_with("#0");
    bool again = false;
    part = go_on_cpp(fresh, record, text, again);
    if (part == Part::none) part = Part::inside;
  } else if (const auto frame = read_python_frame(text)) {
    fresh.form = Form::python;
    fresh.headless = true;
    const std::size_t indent = blanks_before(text);
    fresh.indent = indent > 2 ? indent - 2 : 0;
    fresh.group = idle && idle->group;
    fresh.discard = idle && idle->discard;
    add_frame(fresh, *frame);
  } else if (is_part_of_box(body)) {
    fresh.form = Form::rich;
    fresh.headless = true;
  } else if (starts_with_any(body, {"Exception ignored in", "--- Logging error ---"})) {
    fresh.discard = true;
  } else {
    if (idle && !idle->group) drop(std::prev(streams_.end()));
    const auto exception = read_exception(text, false);
    if (!exception) return text.starts_with("  what():  ") ? Part::exception : Part::none;
    // Ray's text of a remote failure may follow without a traceback of the caller.
    if (!exception->message.starts_with("ray::") || !contains(exception->type, "RayTaskError")) return Part::exception;
    fresh.form = Form::python;
    part = take_exception(fresh, record, exception->type, exception->message);
    idle = nullptr;
  }
  fresh.prefixed = is_logger_line(record);
  fresh.last_record = records_;
  fresh.key = record.stream;
  if (idle) {
    *idle = std::move(fresh);
    return part;
  }
  streams_.push_back(std::move(fresh));
  const auto place = std::prev(streams_.end());
  const auto [entry, added] = by_key_.emplace(place->key, place);
  if (!added) {
    streams_.erase(entry->second);
    entry->second = place;
  }
  return part;
}

Part TracebackAssembler::go_on(Stream& stream, const Record& record, std::string_view text, bool& again) {
  // A logger's line in the middle of what was printed without a logger is another's.
  if (is_logger_line(record) && !stream.prefixed && !read_header(text)) {
    if (stream.form == Form::cpp || stream.form == Form::faulthandler) return noise(stream, kOtherLines, again);
    if (!stream.in_message) return Part::none;
    end_trace(stream);
    again = true;
    return Part::none;
  }
  if (stream.form != Form::cuda && read_device_assert(text)) return Part::none;
  switch (stream.form) {
    case Form::python: return stream.in_message ? go_on_message(stream, record, text, again) : go_on_python(stream, record, text, again);
    case Form::rich: return stream.in_message ? go_on_message(stream, record, text, again) : go_on_rich(stream, record, text, again);
    case Form::ipython: return stream.in_message ? go_on_message(stream, record, text, again) : go_on_ipython(stream, record, text, again);
    case Form::faulthandler: return go_on_faulthandler(stream, record, text, again);
    case Form::cpp: return go_on_cpp(stream, record, text, again);
    case Form::cuda: {
      const auto next = read_device_assert(text);
      const Frame& frame = stream.trace.frames.front();
      if (next && next->frame.line == frame.line && next->frame.file == frame.file) {
        stream.trace.last_line = record.line.number;
        return Part::inside;
      }
      end_trace(stream);
      again = true;
      return Part::none;
    }
    case Form::waiting: break;
  }
  return Part::none;
}

Part TracebackAssembler::go_on_python(Stream& stream, const Record& record, std::string_view text, bool& again) {
  Next next = Next::none;
  if (read_header(text) || is_chain_mark(text, next)) {
    const bool waits = stream.trace.frames.empty() && stream.trace.exception.empty();
    if (!waits) stream.trace.complete = false;
    end_trace(stream);
    again = true;
    return Part::none;
  }
  stream.trace.last_line = std::max(stream.trace.last_line, record.line.number);
  if (const auto frame = read_python_frame(text)) {
    add_frame(stream, *frame);
    stream.noise = 0;
    return Part::inside;
  }
  const std::size_t indent = blanks_before(text);
  if (indent == text.size()) return Part::inside;
  if (indent > stream.indent) {
    Frame* last = stream.trace.frames.empty() ? nullptr : &stream.trace.frames.back();
    if (last && last->source.empty() && stream.frames_left_out == 0 && !is_mark_line(text)) last->source = cut(trim(text), kSourceBytes);
    return Part::inside;
  }
  const std::string_view body = text.substr(indent);
  if (body.starts_with("ray::") && contains(body, "(pid=")) return Part::inside;
  if (const auto exception = read_exception(body, true)) return take_exception(stream, record, exception->type, exception->message);
  return noise(stream, stream.headless ? kHeadlessNoise : kNoise, again);
}

Part TracebackAssembler::go_on_message(Stream& stream, const Record& record, std::string_view text, bool& again) {
  const auto more = [&](bool keep) {
    if (keep) add_message(stream, trim_right(text));
    stream.trace.last_line = std::max(stream.trace.last_line, record.line.number);
    stream.last_length = record.message.size();
    return Part::inside;
  };
  const std::string_view body = trim_left(text);
  if (body.empty()) {
    stream.blank_seen = true;
    return Part::none;
  }
  // multiprocessing quotes a worker's traceback: the quotes stand on lines of their own.
  if (trim_right(body) == "\"\"\"" || trim_right(body) == "'''") return Part::inside;
  // torch.multiprocessing.spawn: the traceback of the process follows.
  if (body.starts_with("-- Process ") && contains(body, "terminated with the following error")) return more(true);
  if (read_header(text) && (body.starts_with("Original Traceback") || contains(stream.trace.message, "terminated with the following error")))
    stream.trace.next = Next::its_cause;
  Next next = Next::none;
  if (is_chain_mark(text, next)) {
    stream.trace.next = next;
    end_trace(stream);
    return Part::inside;
  }
  const bool remote = contains(stream.trace.message, "ray::");
  const bool frame = read_python_frame(text).has_value();
  const bool goes_on = !read_header(text) && stream.message_lines < kMessageLines && !read_native_head(body) && !body.starts_with("ray::");
  if (frame && remote) {
    // The remote part of a Ray failure is a trace of its own.
    const std::size_t indent = stream.indent;
    const bool prefixed = stream.prefixed, group = stream.group, discard = stream.discard;
    stream.trace.next = Next::its_cause;
    end_trace(stream);
    stream.form = Form::python;
    stream.indent = indent;
    stream.prefixed = prefixed;
    stream.group = group;
    stream.discard = discard;
    stream.trace.complete = false;
    stream.trace.first_line = record.line.number;
    return go_on_python(stream, record, text, again);
  }
  if (goes_on && !frame) {
    if (is_native_stack_head(body) || body.starts_with("frame #") || body.starts_with("C++ ")) return more(false);
    if (is_known_continuation(body)) return more(true);
    const bool fits = !read_exception(body, false) && !is_logger_line(record);
    if (blanks_before(text) > stream.indent && !stream.blank_seen) return more(true);
    if (fits && !stream.blank_seen && stream.form == Form::rich && stream.last_length >= 60) return more(true);
    if (fits && !stream.blank_seen && record.rank && stream.message_lines < kBareMessageLines) return more(true);
    // "Last error:", "Failed running call_function ...:" announce the line that follows.
    if (fits && !stream.blank_seen && trim_right(stream.trace.message).ends_with(':')) return more(true);
  }
  end_trace(stream);
  again = true;
  return Part::none;
}

Part TracebackAssembler::go_on_rich(Stream& stream, const Record& record, std::string_view text, bool& again) {
  Next next = Next::none;
  if (read_header(text) || is_chain_mark(text, next)) {
    end_trace(stream);
    again = true;
    return Part::none;
  }
  stream.trace.last_line = std::max(stream.trace.last_line, record.line.number);
  const std::string_view body = trim(text);
  if (const auto frame = read_rich_frame(text)) {
    add_frame(stream, *frame);
    return Part::inside;
  }
  if (body.starts_with(kBoxBar) || body.starts_with("|")) {
    // "│ ❱ 1501 │   │   │   return forward_call(*args)        │": the line that was running.
    const std::size_t arrow = body.find(kArrow);
    if (arrow != std::string_view::npos && arrow < 12 && !stream.trace.frames.empty() && stream.trace.frames.back().source.empty()) {
      std::string_view source = body.substr(arrow + kArrow.size());
      const std::size_t bar = source.find(kBoxBar);
      source = bar == std::string_view::npos ? source : source.substr(bar);
      while (consume(source, kBoxBar) || consume(source, " ")) {}
      if (source.ends_with(kBoxBar)) source.remove_suffix(kBoxBar.size());
      stream.trace.frames.back().source = cut(trim(source), kSourceBytes);
    }
    return Part::inside;
  }
  if (body.empty() || body.starts_with(kBoxBottom) || body.starts_with("\xe2\x94\x97") || body.starts_with("+-")) return Part::inside;
  if (const auto exception = read_exception(text, true)) return take_exception(stream, record, exception->type, exception->message);
  return noise(stream, stream.headless ? kHeadlessNoise : kNoise, again);
}

Part TracebackAssembler::go_on_ipython(Stream& stream, const Record& record, std::string_view text, bool& again) {
  if (read_header(text)) {
    end_trace(stream);
    again = true;
    return Part::none;
  }
  stream.trace.last_line = std::max(stream.trace.last_line, record.line.number);
  std::string_view rest = text;
  if (consume(rest, stream.trace.exception) && (rest.empty() || rest.starts_with(":"))) {
    if (!rest.empty()) rest.remove_prefix(1);
    const std::string type = stream.trace.exception;
    return take_exception(stream, record, type, trim(rest));
  }
  if (const auto frame = read_ipython_frame(text)) {
    add_frame(stream, *frame);
    return Part::inside;
  }
  if (text.starts_with("--") && contains(text.substr(0, 12), "> ")) {
    std::string_view arrow = text.substr(text.find("> ") + 2);
    arrow = trim_left(arrow);
    const auto line = take_integer(arrow);
    if (line && !stream.trace.frames.empty()) {
      if (stream.trace.frames.back().line == 0) stream.trace.frames.back().line = *line;
      stream.trace.frames.back().source = cut(trim(arrow), kSourceBytes);
    }
    return Part::inside;
  }
  return ++stream.noise > 5000 ? noise(stream, 0, again) : Part::inside;
}

Part TracebackAssembler::go_on_faulthandler(Stream& stream, const Record& record, std::string_view text, bool& again) {
  const std::string_view body = trim(text);
  const auto inside = [&] {
    stream.trace.last_line = std::max(stream.trace.last_line, record.line.number);
    stream.trace.complete = true;
    return Part::inside;
  };
  if (body.empty()) return Part::inside;
  const bool current = body.starts_with("Current thread 0x");
  if ((current || body.starts_with("Thread 0x")) && contains(body, "(most recent call first)")) {
    if (current && !stream.current_seen) {
      stream.trace.frames.clear();
      stream.frames_left_out = 0;
    }
    stream.collecting = current || (stream.trace.frames.empty() && !stream.current_seen);
    stream.current_seen = stream.current_seen || current;
    return inside();
  }
  if (const auto frame = read_python_frame(text)) {
    if (stream.collecting) add_frame(stream, *frame);
    return inside();
  }
  if (body.starts_with("Extension modules:")) {
    inside();
    end_trace(stream);
    return Part::inside;
  }
  if (starts_with_any(body, {"...", "<no Python frame>", "Python runtime state:", "Current thread's C stack trace", "Binary file \"", "<cannot get C stack",
                             "Thread 0x", "<truncated rest of calls>", "<invalid frame>"}))
    return inside();
  if (read_header(text) || read_native_head(body) || body.starts_with("Fatal Python error: ") || read_exception(text, false)) {
    end_trace(stream);
    again = true;
    return Part::none;
  }
  return noise(stream, 4, again);
}

Part TracebackAssembler::go_on_cpp(Stream& stream, const Record& record, std::string_view text, bool& again) {
  const std::string_view body = trim(text);
  const auto inside = [&] {
    stream.trace.last_line = std::max(stream.trace.last_line, record.line.number);
    stream.noise = 0;
    return Part::inside;
  };
  if (body.empty()) return Part::none;
  if (body.starts_with("what():") && !stream.in_message) {
    const std::string type = stream.trace.exception;
    return take_exception(stream, record, type, trim(body.substr(7)));
  }
  if (is_native_stack_head(body)) {
    // "Exception raised from f at file:line (most recent call first):" is the innermost frame of all.
    const std::size_t from = body.find("Exception raised from ");
    if (from != std::string_view::npos && stream.trace.frames.empty()) {
      const std::string_view rest = body.substr(from + 22);
      const std::size_t at = rest.find(" at ");
      const std::size_t end = rest.find(" (most recent");
      if (at != std::string_view::npos) {
        const std::string_view place = rest.substr(at + 4, end == std::string_view::npos ? end : end - at - 4);
        const std::size_t colon = place.rfind(':');
        const std::int64_t line = colon == std::string_view::npos ? 0 : read_integer(place.substr(colon + 1)).value_or(0);
        add_frame(stream, {place.substr(0, colon), rest.substr(0, at), std::max<std::int64_t>(0, line)});
      }
    }
    return inside();
  }
  if (const auto frame = read_native_frame(text)) {
    if (body.starts_with("#0 ") && !stream.trace.frames.empty()) {  // the next thread's, or another dump
      end_trace(stream);
      again = true;
      return Part::none;
    }
    add_frame(stream, *frame);
    return inside();
  }
  if (body.starts_with("====")) {
    inside();
    if (contains(body, "backtrace")) return Part::inside;
    end_trace(stream);
    return Part::inside;
  }
  if (read_header(text) || read_native_head(body) || body.starts_with("Fatal Python error: ") || read_exception(text, false)) {
    end_trace(stream);
    again = true;
    return Part::none;
  }
  if (stream.in_message && stream.trace.frames.empty() && stream.message_lines < kMessageLines && is_known_continuation(body)) {
    add_message(stream, trim_right(text));
    return inside();
  }
  if (blanks_before(text) >= 4 && !stream.trace.frames.empty()) return inside();  // a gdb frame goes on
  return noise(stream, 3, again);
}

std::vector<Traceback> TracebackAssembler::take_finished() {
  finished_bytes_ = 0;
  named_ = nullptr;
  return std::exchange(finished_, {});
}

std::vector<Traceback> TracebackAssembler::finish() {
  while (!streams_.empty()) drop(streams_.begin());
  return take_finished();
}

}  // namespace triage::parsers
