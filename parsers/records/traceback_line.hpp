// What one line of a stack trace is. Pure functions over the text of one message; views look into it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace triage::parsers {

struct FrameText {
  std::string_view file, function;
  std::int64_t line = 0;
};

struct ExceptionText {
  std::string_view type, message;
};

// `  File "x.py", line 3, in f` of Python, `  File "x.py", line 3 in f` of faulthandler, `  File "x.py", line 3` of a SyntaxError.
std::optional<FrameText> read_python_frame(std::string_view text);
// `│ /x/module.py:1501 in _call_impl    │` of Rich.
std::optional<FrameText> read_rich_frame(std::string_view text);
// `frame #0: c10::Error::Error(...) + 0x96 (0x7f in /x/libc10.so)`, gdb `#1  0x7f in f (a=1) at x.cc:12`, `#0  f () from /lib/x.so`,
// UCX ` 2 0x7587d ncclGroupEnd()  ???:0`, glog `    @     0x7f abort`. `file` is the library where no source file is known.
std::optional<FrameText> read_native_frame(std::string_view text);
// IPython: `Cell In[3], line 5`, `File ~/x.py:12, in f(a)`, `/x/y.py in f(a)`.
std::optional<FrameText> read_ipython_frame(std::string_view text);
// ".../Indexing.cu:1292: indexSelectLargeIndex: block: [0,0,0], thread: [1,0,0] Assertion `x` failed." message: the assertion.
struct DeviceAssert {
  FrameText frame;
  std::string_view assertion;
};
std::optional<DeviceAssert> read_device_assert(std::string_view text);

// The first word, when it is the name of an exception: "torch.OutOfMemoryError: CUDA ...", "KeyboardInterrupt",
// "ray.exceptions.RayTaskError(OutOfMemoryError): ray::...". With `in_traceback` any name with a capital counts, else only names
// that exceptions bear.
std::optional<ExceptionText> read_exception(std::string_view text, bool in_traceback);

// Only '^', '~' and blanks: Python's marks under a source line.
bool is_mark_line(std::string_view text);
// Lines with which a native error's message is known to go on ("CUDA kernel errors might be asynchronously ...", "Last error:").
bool is_known_continuation(std::string_view text);
// "Exception raised from f at file:line (most recent call first):" and its kin.
bool is_native_stack_head(std::string_view text);

// Does the message name an exception: at its front, or behind a head that tells of a failure ("Error executing job: X")?
bool looks_like_exception(std::string_view message);

}  // namespace triage::parsers
