// Crash reports as text from outside bytes: faulthandler, C++ and gdb stacks, Python tracebacks, coredumpctl info, torchrun's table, the kernel's
// reports. Lines go the way of a log: splitter, prefixes, assembler of tracebacks, readers of blocks.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "parsers/base/limits.hpp"
#include "parsers/events/event_reader.hpp"
#include "parsers/lines/line_splitter.hpp"
#include "parsers/records/prefix.hpp"
#include "parsers/records/traceback.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage::parsers;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Peeler peeler(2026);
  TracebackAssembler tracebacks;
  auto readers = make_event_readers();
  const auto check = [](const Traceback& trace) {
    if (trace.frames.size() > limits::kTracebackFrames + 1 || trace.last_line < trace.first_line) std::abort();
  };
  const auto take = [&](const Line& line) {
    const Record record = peeler.peel(line);
    (void)tracebacks.offer(record);
    for (const Traceback& trace : tracebacks.take_finished()) check(trace);
    for (auto& reader : readers) {
      Offer offer = reader->offer(record);
      if (offer == Offer::taken) continue;
      if (offer != Offer::not_mine) {
        (void)reader->finish();
        if (offer == Offer::ended_before) (void)reader->offer(record);   // the line may begin a block of its own
      }
    }
  };
  LineSplitter splitter;
  for (std::size_t at = 0; at < size; at += 777) splitter.feed(bytes.substr(at, 777), take);
  splitter.finish(take);
  for (const Traceback& trace : tracebacks.finish()) check(trace);
  for (auto& reader : readers) (void)reader->finish();
  for (const std::string_view name : event_parser_names()) (void)read_event(name, bytes.substr(0, 4096));
  return 0;
}
