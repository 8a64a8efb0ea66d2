#include "parsers/snapshot/trace.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace triage::parsers;

namespace {

bool same(const TraceEvent& a, const TraceEvent& b) {
  return a.action == b.action && a.stack == b.stack && a.address == b.address && a.size == b.size && a.time_us == b.time_us && a.stream == b.stream &&
         a.pool == b.pool && a.compile_context == b.compile_context && a.user_metadata == b.user_metadata;
}

}  // namespace

TEST_CASE("events come back as they were appended, whatever they hold") {
  constexpr unsigned kSeed = 20260101;
  CAPTURE(kSeed);
  std::mt19937_64 random(kSeed);
  std::vector<TraceEvent> events;
  for (int i = 0; i < 200000; ++i) {
    TraceEvent event;
    event.action = static_cast<TraceAction>(random() % 10);
    const auto wild = random() % 8 == 0;
    event.address = wild ? random() : 0x7f0000000000ULL + (random() % 5000) * 512;
    event.size = wild ? static_cast<std::int64_t>(random()) : static_cast<std::int64_t>(random() % 100) * 2048;
    event.stack = static_cast<StackId>(wild ? random() : random() % 300);
    event.time_us = wild ? static_cast<std::int64_t>(random()) : 1796129440866763 + i * 3;
    event.stream = random() % 16 == 0 ? random() : 0;
    event.pool = random() % 50 == 0 ? PoolId{static_cast<std::int64_t>(random() % 7), 1} : PoolId{};
    event.user_metadata = random() % 60 == 0 ? static_cast<TextId>(random() % 1000) : 0;
    event.compile_context = random() % 60 == 0 ? static_cast<TextId>(random() % 3) : 0;
    events.push_back(event);
  }
  AllocatorTrace trace;
  for (const TraceEvent& event : events) trace.append(event);
  trace.finish();
  CHECK(trace.size() == events.size());
  for (int walk = 0; walk < 2; ++walk) {
    AllocatorTrace::Cursor cursor = trace.events();
    TraceEvent event;
    std::size_t count = 0, wrong = 0;
    while (cursor.next(event)) {
      if (count >= events.size() || !same(event, events[count])) ++wrong;
      ++count;
    }
    CHECK(count == events.size());
    CHECK(wrong == 0);
  }
}

TEST_CASE("an empty trace has no events") {
  const AllocatorTrace trace;
  AllocatorTrace::Cursor cursor = trace.events();
  TraceEvent event;
  CHECK_FALSE(cursor.next(event));
}

TEST_CASE("a steady run costs some bytes an event") {
  AllocatorTrace trace;
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    TraceEvent event;
    event.action = TraceAction::alloc;
    event.address = 0x7f0000000000ULL + (random() % 160'000'000) * 512;
    event.size = static_cast<std::int64_t>(random() % 100'000'000);
    event.stack = static_cast<StackId>(random() % 3000);
    event.time_us = 1796129440866763 + i * 30;
    trace.append(event);
    event.action = TraceAction::free_requested;
    event.stack = 0;
    event.time_us += 7;
    trace.append(event);
    event.action = TraceAction::free_completed;
    trace.append(event);
  }
  trace.finish();
  CHECK(static_cast<double>(trace.memory_bytes()) / static_cast<double>(trace.size()) < 9.0);
}

TEST_CASE("texts, frames and stacks stand once") {
  StackTable table;
  CHECK(table.text("") == 0);
  CHECK(table.stack({}) == 0);
  std::vector<FrameId> frames;
  for (int i = 0; i < 5000; ++i) {
    StackFrame frame;
    frame.file = table.text("file" + std::to_string(i % 70) + ".py");
    frame.function = table.text("function_number_" + std::to_string(i % 900));
    frame.line = i;
    frames.push_back(table.frame(frame));
  }
  CHECK(table.texts() == 971);
  CHECK(table.frames() == 5000);
  CHECK(table.function_of(frames[901]) == "function_number_1");
  CHECK(table.file_of(frames[71]) == "file1.py");
  std::vector<StackId> ids;
  for (std::size_t i = 0; i < 4000; ++i) ids.push_back(table.stack(std::span<const FrameId>(frames).subspan(i, 1 + i % 40)));
  for (std::size_t i = 0; i < 4000; ++i) CHECK(table.stack(std::span<const FrameId>(frames).subspan(i, 1 + i % 40)) == ids[i]);
  CHECK(table.frames_of(ids[79]).size() == 40);
  CHECK(table.frames_of(ids[79])[39] == frames[118]);
  CHECK(table.frames_of(4'000'000).empty());
}
