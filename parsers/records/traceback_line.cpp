#include "parsers/records/traceback_line.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kBar = "\xe2\x94\x82";  // U+2502

bool is_identifier_char(char c) { return is_alnum(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80; }

std::optional<std::int64_t> read_line_number(std::string_view& text) { return take_integer(text); }

// Endings of exception names in Python's standard library and in the libraries that training jobs use.
bool has_exception_name(std::string_view name, std::string_view last) {
  const bool dotted = name.size() > last.size();
  constexpr std::array<std::string_view, 8> kEnds = {"Error", "Exception", "Interrupt", "Exit", "Timeout", "Failure", "ExceptionGroup", "Fault"};
  // Bare words that name no kind ("Error: ...", "Timeout: ...") are prose unless a module stands before them.
  for (const std::string_view end : kEnds)
    if (last.ends_with(end)) return dotted || last.size() > end.size() || last == "Exception" || last == "ExceptionGroup";
  constexpr std::array<std::string_view, 15> kNames = {"StopIteration", "StopAsyncIteration", "OutOfResources", "BrokenProcessPool", "BrokenPipe", "BadZipFile",
                                                       "NoSuchKey", "ActorDiedError", "WorkerCrashedError", "CancelledError", "OutOfMemory",
                                                       "Empty", "Full", "InvalidStateError", "UnexpectedStatus"};
  if (std::find(kNames.begin(), kNames.end(), last) != kNames.end()) return dotted || (last != "Empty" && last != "Full");
  if (dotted && last[0] >= 'A' && last[0] <= 'Z' && !last.ends_with("Warning") && (contains(name, "errors.") || contains(name, "exceptions."))) return true;
  return dotted && (last == "error" || last == "gaierror" || last == "timeout" || last == "herror");
}

bool is_level(std::string_view word) {
  constexpr std::array<std::string_view, 9> kWords = {"INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL", "FATAL", "WARN", "NOTE", "TRACE"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace

std::optional<FrameText> read_python_frame(std::string_view text) {
  std::string_view rest = trim_left(text);
  if (!consume(rest, "File \"")) return std::nullopt;
  const std::size_t quote = rest.find("\", line ");
  if (quote == std::string_view::npos) return std::nullopt;
  FrameText frame;
  frame.file = rest.substr(0, quote);
  rest.remove_prefix(quote + 8);
  const auto line = read_line_number(rest);
  if (!line) return std::nullopt;
  frame.line = *line;
  if (consume(rest, ", in ") || consume(rest, " in ")) frame.function = trim(rest);
  else if (!trim(rest).empty()) return std::nullopt;
  return frame;
}

std::optional<FrameText> read_rich_frame(std::string_view text) {
  text = trim(text);
  if (!consume(text, kBar) && !consume(text, "|")) return std::nullopt;
  if (text.ends_with(kBar)) text.remove_suffix(kBar.size());
  else if (text.ends_with("|")) text.remove_suffix(1);
  text = trim(text);
  const std::size_t in = text.rfind(" in ");
  if (in == std::string_view::npos) return std::nullopt;
  FrameText frame;
  frame.function = text.substr(in + 4);
  std::string_view place = text.substr(0, in);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || frame.function.find(' ') != std::string_view::npos) return std::nullopt;
  const auto line = read_integer(place.substr(colon + 1));
  if (!line || *line < 0) return std::nullopt;
  frame.file = place.substr(0, colon);
  if (frame.file.empty() || (frame.file.find('/') == std::string_view::npos && frame.file.find('\\') == std::string_view::npos &&
                             !frame.file.ends_with(".py") && frame.file[0] != '<'))
    return std::nullopt;
  frame.line = *line;
  return frame;
}

namespace {

// " at x.cc:12" or " from /lib/x.so" at the end of a gdb frame.
void read_gdb_place(std::string_view rest, FrameText& frame) {
  const std::size_t at = rest.rfind(" at ");
  const std::size_t from = rest.rfind(" from ");
  if (at != std::string_view::npos) {
    const std::string_view place = trim(rest.substr(at + 4));
    const std::size_t colon = place.rfind(':');
    if (colon != std::string_view::npos) {
      if (const auto line = read_integer(place.substr(colon + 1)); line && *line >= 0) {
        frame.file = place.substr(0, colon);
        frame.line = *line;
        frame.function = trim(rest.substr(0, at));
        return;
      }
    }
  }
  if (from != std::string_view::npos) {
    frame.file = trim(rest.substr(from + 6));
    frame.function = trim(rest.substr(0, from));
    return;
  }
  frame.function = trim(rest);
}

}  // namespace

std::optional<FrameText> read_native_frame(std::string_view text) {
  std::string_view rest = trim_left(text);
  FrameText frame;
  if (consume(rest, "frame #")) {
    if (!take_integer(rest) || !consume(rest, ":")) return std::nullopt;
    rest = trim(rest);
    const std::size_t in = rest.rfind(" in ");
    if (in != std::string_view::npos) {
      frame.file = rest.substr(in + 4);
      if (frame.file.ends_with(")")) frame.file.remove_suffix(1);
      rest = rest.substr(0, in);
    }
    const std::size_t plus = rest.rfind(" + 0x");
    frame.function = trim(rest.substr(0, plus));
    return frame;
  }
  if (consume(rest, "#")) {
    if (!take_integer(rest) || !rest.starts_with(" ")) return std::nullopt;
    rest = trim_left(rest);
    if (rest.starts_with("0x")) {
      const std::size_t in = rest.find(" in ");
      if (in == std::string_view::npos || in > 24) return std::nullopt;
      rest.remove_prefix(in + 4);
    } else if (!rest.starts_with("<signal handler called>") && !contains(rest, " (")) {
      return std::nullopt;
    }
    read_gdb_place(rest, frame);
    return frame;
  }
  if (consume(rest, "@ ")) {
    rest = trim_left(rest);
    if (!consume(rest, "0x")) return std::nullopt;
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    frame.function = trim(rest.substr(space));
    return frame;
  }
  if (take_integer(rest) && consume(rest, " 0x")) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest = trim(rest.substr(space));
    const std::size_t gap = rest.rfind("  ");
    frame.function = trim(rest.substr(0, gap));
    if (gap != std::string_view::npos) {
      const std::string_view place = trim(rest.substr(gap));
      const std::size_t colon = place.rfind(':');
      frame.file = place.substr(0, colon);
      if (colon != std::string_view::npos) frame.line = std::max<std::int64_t>(0, read_integer(place.substr(colon + 1)).value_or(0));
      if (frame.file == "???") frame.file = {};
    }
    return frame;
  }
  return std::nullopt;
}

std::optional<FrameText> read_ipython_frame(std::string_view text) {
  FrameText frame;
  std::string_view rest = text;
  if (text.starts_with("Cell In[") || text.starts_with("Input In [")) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    frame.file = rest.substr(0, close + 1);
    rest.remove_prefix(close + 1);
    if (consume(rest, ", line ")) frame.line = take_integer(rest).value_or(0);
    if (consume(rest, ", in ")) frame.function = trim(rest);
    return frame;
  }
  if (consume(rest, "File ")) {
    const std::size_t in = rest.find(", in ");
    std::string_view place = rest.substr(0, in);
    const std::size_t colon = place.rfind(':');
    if (in == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
    frame.file = place.substr(0, colon);
    frame.line = read_integer(place.substr(colon + 1)).value_or(0);
    frame.function = trim(rest.substr(in + 5));
  } else {
    const std::size_t in = rest.find(" in ");
    if (in == std::string_view::npos || is_space(text.empty() ? ' ' : text[0])) return std::nullopt;
    frame.file = rest.substr(0, in);
    if (!frame.file.ends_with(".py") && !frame.file.ends_with(".pyx") && !frame.file.starts_with("<ipython-input")) return std::nullopt;
    frame.function = trim(rest.substr(in + 4));
  }
  frame.function = frame.function.substr(0, frame.function.find('('));
  return frame;
}

std::optional<DeviceAssert> read_device_assert(std::string_view text) {
  if (text.find('`') == std::string_view::npos) return std::nullopt;
  const std::size_t assertion = text.find("Assertion `");
  const std::size_t block = text.find(": block: [");
  if (assertion == std::string_view::npos || block == std::string_view::npos || block > assertion) return std::nullopt;
  const std::size_t end = text.rfind("` failed");
  if (end == std::string_view::npos || end < assertion + 11) return std::nullopt;
  DeviceAssert out;
  out.assertion = text.substr(assertion + 11, end - assertion - 11);
  const std::string_view head = text.substr(0, block);
  // file:line: function; the file may stand behind other output on the same line, the function may hold "::".
  for (std::size_t colon = head.find(':'); colon != std::string_view::npos; colon = head.find(':', colon + 1)) {
    std::string_view rest = head.substr(colon + 1);
    const auto line = take_integer(rest);
    if (!line || !consume(rest, ": ")) continue;
    const std::string_view file = head.substr(0, colon);
    const std::size_t blank = file.find_last_of(" ]\r");
    out.frame = {blank == std::string_view::npos ? file : file.substr(blank + 1), trim(rest), *line};
    return out;
  }
  return std::nullopt;
}

std::optional<ExceptionText> read_exception(std::string_view text, bool in_traceback) {
  if (text.empty() || !(is_alpha(text[0]) || text[0] == '_' || static_cast<unsigned char>(text[0]) >= 0x80)) return std::nullopt;
  std::size_t end = 0, last = 0;
  bool dotted = false, locals = false;
  while (end < text.size() && end < 200) {
    if (text[end] == '.') {
      dotted = true;
      last = end + 1;
    } else if (!is_identifier_char(text[end])) {
      if (text[end] != '<' || !text.substr(end).starts_with("<locals>")) break;
      locals = true;
      end += 7;
    }
    ++end;
  }
  if (end == last) return std::nullopt;
  const std::string_view tail = text.substr(last, end - last);
  std::string_view rest = text.substr(end);
  if (rest.starts_with("(")) {  // RayTaskError(OutOfMemoryError)
    const std::size_t close = rest.substr(0, 120).find(')');
    if (close == std::string_view::npos || !std::all_of(rest.begin() + 1, rest.begin() + static_cast<std::ptrdiff_t>(close), [](char c) { return is_identifier_char(c) || c == '.'; }))
      return std::nullopt;
    rest.remove_prefix(close + 1);
    if (!rest.starts_with(":")) return std::nullopt;
  }
  const std::string_view type = text.substr(0, text.size() - rest.size());
  if (consume(rest, ":")) {
    if (!rest.empty() && rest[0] != ' ' && rest[0] != '\t') return std::nullopt;
  } else if (!trim(rest).empty()) {
    return std::nullopt;
  }
  const bool capital = tail[0] >= 'A' && tail[0] <= 'Z';
  const bool known = has_exception_name(text.substr(0, end), tail);
  if (!known && !(in_traceback && (capital || dotted || locals))) return std::nullopt;
  if (!known && (is_level(tail) || tail == "Traceback" || tail.ends_with("Warning"))) return std::nullopt;
  return ExceptionText{type, trim(rest)};
}

bool is_mark_line(std::string_view text) {
  return text.find_first_of("^~") != std::string_view::npos && text.find_first_not_of("^~ \t") == std::string_view::npos;
}

bool is_native_stack_head(std::string_view text) {
  return text.starts_with("Exception raised from ") || text.starts_with("C++ CapturedTraceback:") || text.starts_with("C++ stack trace");
}

bool is_known_continuation(std::string_view text) {
  return starts_with_any(text, {"CUDA kernel errors might be", "HIP kernel errors might be", "XPU kernel errors might be", "For debugging consider passing",
                                "Compile with `TORCH_USE", "Compile with TORCH_USE", "Search for `cuda", "Search for `hip", "Device-side assert",
                                "Last error:", "ncclUnhandledCudaError:", "ncclSystemError:", "ncclInternalError:", "ncclRemoteError:",
                                "ncclInvalidUsage:", "ncclInvalidArgument:", "To execute", "The above operation failed", "Please ensure"});
}

bool looks_like_exception(std::string_view message) {
  std::string_view text = message.substr(0, 2048);
  const std::size_t newline = text.find('\n');
  if (newline != std::string_view::npos) text = text.substr(0, newline);
  text = trim_left(text);
  if (text.starts_with("E   ")) text = trim_left(text.substr(1));  // pytest
  if (text.empty()) return false;
  if (read_exception(text, false)) return true;
  switch (text[0]) {
    case 'w': if (text.starts_with("what():")) return true; break;
    case 't': if (text.starts_with("terminate called ")) return true; break;
    case 'F': if (text.starts_with("Fatal Python error: ")) return true; break;
    case 'E': if (text.starts_with("Error executing job")) return true; break;
    case 'U': case 'u':
      if (starts_with_ignoring_case(text, "uncaught exception") || starts_with_ignoring_case(text, "unhandled exception")) return true;
      break;
    default: break;
  }
  // A head that tells of a failure, then the exception: "main failed: RuntimeError: x".
  std::size_t start = 0;
  for (int part = 0; part < 4; ++part) {
    const std::size_t colon = text.find(": ", start);
    if (colon == std::string_view::npos) return false;
    start = colon + 2;
    if (!read_exception(text.substr(start), false)) continue;
    const std::string head = lower(text.substr(0, colon));
    const bool fails = contains(head, "exception") || contains(head, "error") || contains(head, "fail") || contains(head, "crash") ||
                       contains(head, "fatal") || contains(head, "abort");
    const bool kept = contains(head, "retry") || contains(head, "ignor") || contains(head, "skip") || contains(head, "caught") ||
                      contains(head, "fall back") || contains(head, "fallback") || contains(head, "falling back") || contains(head, "warning");
    return fails && !kept;
  }
  return false;
}

}  // namespace triage::parsers
