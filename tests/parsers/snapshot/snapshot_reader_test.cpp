#include "parsers/snapshot/snapshot_reader.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "parsers/snapshot/pickle_reader.hpp"

using namespace triage::parsers;
using namespace std::string_literals;

namespace {

std::string recorded() {
  std::ifstream in(std::string(TRIAGE_SOURCE_DIR) + "/tests/parsers/snapshot/data/logits_spike.pickle", std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

// A pickle by hand, protocol 2, as PyTorch's C++ writer makes them: BINPUT behind the whole value, whole lists on the stack.
struct Writer {
  std::string out = "\x80\x02";
  int memo = 0;
  void put() { out += 'r', number(memo++, 4); }
  void number(std::int64_t value, int n) {
    for (int i = 0; i < n; ++i) out += static_cast<char>(value >> (8 * i));
  }
  void text(std::string_view t) { out += 'X', number(static_cast<std::int64_t>(t.size()), 4), out += t, put(); }
  void integer(std::int64_t value) { out += "\x8a\x08", number(value, 8); }
  void entry(std::string_view key, std::int64_t value) { text(key), integer(value); }
  void entry(std::string_view key, std::string_view value) { text(key), text(value); }
  void open(char what) { out += what, out += '('; }
  void close(char what) { out += what, put(); }
  std::string end() { return out + "."; }
};

void event(Writer& w, std::string_view action, std::int64_t address, std::int64_t size) {
  w.open('}'), w.entry("action", action), w.entry(action == "oom" ? "device_free" : "addr", address), w.entry("size", size), w.entry("stream", 0);
  w.entry("time_us", 100 + size), w.close('u');
}

std::vector<std::string> listed(const AllocatorSnapshot& snapshot) {
  std::vector<std::string> all;
  for (const DeviceTrace& trace : snapshot.traces) {
    AllocatorTrace::Cursor cursor = trace.events.events();
    TraceEvent event;
    while (cursor.next(event))
      all.push_back(std::to_string(trace.device) + " " + std::string(trace_action_name(event.action)) + " " + std::to_string(event.address) + " " +
                    std::to_string(event.size) + " " + std::to_string(event.time_us) + " " + std::to_string(event.stack));
  }
  return all;
}

}  // namespace

TEST_CASE("the streaming reader finds what the tree reader finds, to the last field") {
  const std::string bytes = recorded();
  const auto tree = read_pickle(bytes, "tree");
  const auto got = read_snapshot(bytes, "stream");
  REQUIRE(tree.ok());
  REQUIRE(got.ok());
  CHECK_FALSE(got->cut.has_value());
  CHECK(got->bytes == bytes.size());
  const PickleValue segments = tree->find("segments");
  REQUIRE(got->segments.size() == segments.size());
  const auto same_stack = [&](StackId id, const PickleValue& frames) {
    const auto have = got->stacks.frames_of(id);
    if (have.size() != frames.size()) return false;
    for (std::size_t i = 0; i < have.size(); ++i)
      if (got->stacks.file_of(have[i]) != frames[i].find("filename").text() || got->stacks.function_of(have[i]) != frames[i].find("name").text() ||
          got->stacks.frame_of(have[i]).line != frames[i].find("line").integer())
        return false;
    return true;
  };
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const SnapshotSegment& segment = got->segments[i];
    CHECK(static_cast<std::int64_t>(segment.address) == segments[i].find("address").integer());
    CHECK(segment.total_size == segments[i].find("total_size").integer());
    CHECK(segment.active_size == segments[i].find("active_size").integer());
    CHECK(segment.large == (segments[i].find("segment_type").text() == "large"));
    CHECK(same_stack(segment.stack, segments[i].find("frames")));
    const PickleValue blocks = segments[i].find("blocks");
    REQUIRE(got->blocks_of(segment).size() == blocks.size());
    std::int64_t active = 0;
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const SnapshotBlock& block = got->blocks_of(segment)[k];
      CHECK(block.size == blocks[k].find("size").integer());
      CHECK(block.requested_size == blocks[k].find("requested_size").integer());
      CHECK((block.state == BlockState::allocated) == (blocks[k].find("state").text() == "active_allocated"));
      CHECK(same_stack(block.stack, blocks[k].find("frames")));
      if (block.state != BlockState::inactive) active += block.size;
    }
    CHECK(active == segment.active_size);
  }
  REQUIRE(got->traces.size() == 1);
  const PickleValue trace = tree->find("device_traces")[0];
  REQUIRE(got->traces[0].events.size() == trace.size());
  AllocatorTrace::Cursor cursor = got->traces[0].events.events();
  TraceEvent event;
  for (std::size_t i = 0; cursor.next(event); ++i) {
    CHECK(trace_action_name(event.action) == trace[i].find("action").text());
    CHECK(static_cast<std::int64_t>(event.address) == trace[i].find(event.action == TraceAction::oom ? "device_free" : "addr").integer());
    CHECK(event.size == trace[i].find("size").integer());
    CHECK(event.time_us == trace[i].find("time_us").integer());
    CHECK(got->stacks.text_of(event.compile_context) == trace[i].find("compile_context").text());
    CHECK(same_stack(event.stack, trace[i].find("frames")));
  }
  CHECK(got->settings.known);
  CHECK_FALSE(got->settings.max_split_bytes.has_value());
  REQUIRE(got->settings.roundup_power2_divisions.size() == 16);
  CHECK(got->settings.roundup_power2_divisions[15].first == 32768);
}

TEST_CASE("the portions in which bytes come do not matter") {
  const std::string bytes = recorded();
  const std::vector<std::string> want = listed(*read_snapshot(bytes, "whole"));
  for (const std::size_t step : {1u, 7u, 100u, 4096u}) {
    CAPTURE(step);
    SnapshotReader reader("portions");
    for (std::size_t at = 0; at < bytes.size(); at += step) reader.feed(std::string_view(bytes).substr(at, step));
    const auto got = reader.finish();
    REQUIRE(got.ok());
    CHECK(listed(*got) == want);
  }
}

TEST_CASE("the dump of the C++ writer is read, several devices, an empty one between") {
  Writer w;
  w.open('}'), w.text("segments"), w.open(']');
  w.open('}'), w.entry("device", 2), w.entry("address", 4096), w.entry("total_size", 2097152), w.entry("active_size", 512), w.text("segment_pool_id");
  w.integer(0), w.integer(5), w.out += '\x86', w.put();
  w.text("is_expandable"), w.out += '\x88', w.text("blocks"), w.open(']');
  w.open('}'), w.entry("address", 4096), w.entry("size", 512), w.entry("requested_size", 100), w.entry("state", "active_pending_free"), w.close('u');
  w.open('}'), w.entry("address", 4608), w.entry("size", 2096640), w.entry("requested_size", 0), w.entry("state", "inactive"), w.close('u');
  w.close('e'), w.close('u'), w.close('e');
  w.text("device_traces"), w.open(']');
  w.open(']');
  for (int i = 0; i < 2500; ++i) event(w, i % 2 ? "free_completed" : "alloc", 512 * (i / 2), 100);
  w.close('e');
  w.open(']'), w.close('e');
  w.open(']'), event(w, "segment_map", 4096, 2097152), event(w, "oom", 777, 99), event(w, "some_new_action", 1, 2), w.close('e');
  w.close('e'), w.close('u');
  const auto got = read_snapshot(w.end(), "cpp");
  REQUIRE(got.ok());
  CHECK_FALSE(got->cut.has_value());
  REQUIRE(got->segments.size() == 1);
  CHECK(got->segments[0].pool == PoolId{0, 5});
  CHECK(got->segments[0].expandable);
  REQUIRE(got->blocks_of(got->segments[0]).size() == 2);
  CHECK(got->blocks_of(got->segments[0])[0].state == BlockState::pending_free);
  REQUIRE(got->traces.size() == 2);
  CHECK(got->traces[0].device == 0);
  CHECK(got->traces[0].events.size() == 2500);
  CHECK(got->traces[1].device == 2);
  CHECK(listed(*got).back() == "2 other 1 2 102 0");
  CHECK(listed(*got)[2501] == "2 oom 777 99 199 0");
  CHECK(got->devices() == std::vector<int>{0, 2});
}

TEST_CASE("the list form and the history of PyTorch 2.0 are read") {
  Writer w;
  w.open(']');
  w.open('}'), w.entry("device", 0), w.entry("address", 8192), w.entry("total_size", 2097152), w.entry("active_size", 1024), w.text("blocks"), w.open(']');
  w.open('}'), w.entry("size", 1024), w.entry("state", "active_allocated"), w.text("history"), w.open(']');
  w.open('}'), w.entry("addr", 8192), w.entry("real_size", 1000), w.text("frames"), w.open(']');
  w.open('}'), w.entry("name", "forward"), w.entry("filename", "m.py"), w.entry("line", 7), w.close('u'), w.close('e');
  w.close('u'), w.close('e'), w.close('u');
  w.open('}'), w.entry("size", 2096128), w.entry("state", "inactive"), w.close('u');
  w.close('e'), w.close('u'), w.close('e');
  const auto got = read_snapshot(w.end(), "list");
  REQUIRE(got.ok());
  CHECK_FALSE(got->has_traces);
  REQUIRE(got->segments.size() == 1);
  const auto blocks = got->blocks_of(got->segments[0]);
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].requested_size == 1000);
  CHECK(blocks[1].address == 8192 + 1024);
  REQUIRE(got->stacks.frames_of(blocks[0].stack).size() == 1);
  CHECK(got->stacks.function_of(got->stacks.frames_of(blocks[0].stack)[0]) == "forward");
}

TEST_CASE("a cut snapshot keeps what stood before, wherever it is cut") {
  const std::string bytes = recorded();
  const std::vector<std::string> want = listed(*read_snapshot(bytes, "whole"));
  std::size_t segments = 0, events = 0;
  for (std::size_t cut = 0; cut < bytes.size(); cut += 211) {
    CAPTURE(cut);
    const auto got = read_snapshot(std::string_view(bytes).substr(0, cut), "cut.pickle");
    if (!got.ok()) {
      CHECK(cut < 500);
      continue;
    }
    REQUIRE(got->cut.has_value());
    CHECK(got->cut->place()->offset == cut);
    CHECK(got->segments.size() >= segments);
    segments = got->segments.size();
    const std::vector<std::string> have = listed(*got);
    CHECK(have.size() >= events);
    events = have.size();
    // The last event may lack the fields that were cut off.
    for (std::size_t i = 0; i + 1 < have.size(); ++i) REQUIRE(have[i] == want[i]);
  }
  CHECK(segments == 44);
  CHECK(events == 356);
}

TEST_CASE("any damaged byte gives an answer or an error, no crash") {
  const std::string bytes = recorded();
  std::uint64_t random = 42;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = bytes.substr(0, 12000);
    for (int k = 0; k < 3; ++k) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      damaged[(random >> 33) % damaged.size()] = static_cast<char>(random >> 20);
    }
    const auto got = read_snapshot(damaged, "damaged");
    if (!got.ok()) CHECK_FALSE(got.error().message().empty());
  }
}

TEST_CASE("what is no snapshot is refused with its reason") {
  struct Row { const char* name; std::string bytes, says; };
  const std::vector<Row> rows = {
      {"nothing", "", "empty"},
      {"JSON", "{\"segments\": []}"s, "not a pickle"},
      {"a snapshot in JSON", "{\"segments\": [{\"device\": 0, \"address\": 4096, \"total_size\": 2097152, \"blocks\": []}], \"device_traces\": [[]]}"s, "allocator snapshot in JSON"},
      {"its segments alone in JSON", " [{\"device\": 0, \"address\": 4096, \"total_size\": 2097152, \"blocks\": []}]"s, "allocator snapshot in JSON"},
      {"another pickle", "\x80\x04}(\x8c\x01\x61K\x01\x8c\x01\x62K\x02u."s, "no allocator snapshot"},
      {"code", "\x80\x02" "cos\nsystem\nU\x02id\x85R."s, "GLOBAL"},
      {"code inside", "\x80\x02}U\x08segments](cos\nsystem\n"s, "GLOBAL"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto got = read_snapshot(row.bytes, "bad.pickle");
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().message().find(row.says) != std::string::npos);
    CHECK(got.error().place()->file == "bad.pickle");
    if (row.says.find("in JSON") != std::string::npos) CHECK(got.error().help_text().find("pickle.dump(json.load(") != std::string::npos);
  }
}

TEST_CASE("what a hostile file may have kept is bounded, and the byte is told at which it became too much") {
  constexpr std::size_t kBudget = 1 << 20;
  const auto times = [](std::size_t count, std::string_view what) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += what;
    return out;
  };
  const std::string words = "\x80\x02U\x05stateq\0U\x04sizeq\x01U\x07""addressq\x02U\x0atotal_sizeq\x03U\x05stageq\x04U\x04nameq\x05U\x09real_sizeq\x06"s;
  struct Row { const char* name; std::string bytes, says; };
  const std::vector<Row> rows = {
      {"memo", "\x80\x04]" + times(2'000'000, "\x94"), "more memory"},
      {"blocks", words + times(100'000, "}(h\0K\x01h\x01K\x01u"s), "more memory"},
      {"segments", words + times(100'000, "}(h\x03K\x01h\x02K\x01u"), "more memory"},
      {"marks", words + times(100'000, "}(h\x04K\x01h\x05K\x01u"), "more memory"},
      {"histories", words + times(100'000, "}(h\x06K\x01u"), "more memory"},
      {"pairs", "\x80\x02" + [] {
         std::string out;
         for (int i = 0; i < 100'000; ++i) out += {'M', static_cast<char>(i), static_cast<char>(i >> 8), 'J', static_cast<char>(i >> 4), 0, 0, 1, '\x86'};
         return out;
       }(), "more memory"},
      {"lists of blocks", words + "}(h\0K\x01h\x01K\x01uq\x07"s + times(200'000, "](h\x07""e"), "more memory"},
      {"waiting", "\x80\x02" + times(3'000'000, "N"), "wait on the stack"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    SnapshotReader reader("hostile.pickle", kBudget);
    CHECK_FALSE(reader.feed(row.bytes));
    const auto got = reader.finish();
    const Error& error = got.ok() ? got->cut.value() : got.error();
    CHECK(error.code() == ErrorCode::limit);
    CHECK(error.message().find(row.says) != std::string::npos);
    CHECK(error.place()->offset.value() < row.bytes.size());
    if (got.ok()) CHECK(got->segments.size() * sizeof(SnapshotSegment) + got->blocks.size() * sizeof(SnapshotBlock) <= kBudget);
  }
}

TEST_CASE("a pool that went through JSON is a list of two numbers, and read as well") {
  Writer w;
  w.open(']');
  w.open('}'), w.entry("device", 0), w.entry("address", 8192), w.entry("total_size", 2097152), w.text("segment_pool_id");
  w.open(']'), w.integer(0), w.integer(7), w.close('e'), w.close('u');
  w.close('e');
  const auto got = read_snapshot(w.end(), "from-json");
  REQUIRE(got.ok());
  REQUIRE(got->segments.size() == 1);
  CHECK(got->segments[0].pool == PoolId{0, 7});
}

TEST_CASE("short files cannot make long stacks") {
  // One list of frames, fetched and lengthened again and again.
  std::string bytes = "\x80\x02}q\0(U\x08segments](}q\x01(U\x08""filenameU\x01xU\x04lineK\x01uq\x01"s + "]q\x02"s;
  for (int i = 0; i < 20000; ++i) bytes += "(h\x01" "e"s;
  const auto got = read_snapshot(bytes, "long");
  if (got.ok()) CHECK(got->stacks.memory_bytes() < 1'000'000);
}
