#include "parsers/snapshot/flight_recorder.hpp"

#include <doctest/doctest.h>

#include "tests/support/gunzip.hpp"

using namespace triage::parsers;
using triage::tests::read_file;

namespace {

const std::string kData = TRIAGE_SOURCE_DIR "/tests/parsers/snapshot/data/flight-recorder/";

Recording read(const std::string& text) {
  auto r = read_flight_recorder(text, "dump");
  REQUIRE(r.ok());
  return std::move(r).value();
}

// One entry of a JSON dump.
std::string entry(int record, const std::string& name, int sequence, int p2p, const std::string& state, const std::string& more = "") {
  return "{\"record_id\":" + std::to_string(record) + ",\"pg_id\":0,\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":" + std::to_string(sequence) +
         ",\"p2p_seq_id\":" + std::to_string(p2p) + ",\"profiling_name\":\"" + name + "\",\"time_created_ns\":" + std::to_string(1000 + record) + ",\"state\":\"" +
         state + "\",\"retired\":" + (state == "completed" ? "true" : "false") + more + "}";
}
std::string json(const std::string& entries) {
  return "{\"version\":\"2.9\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1, 2, 3]\"}},\"pg_status\":{},\"entries\":[" + entries + "]}";
}

}  // namespace

TEST_CASE("a pickle dump of a real job: groups, status, open calls, own rank") {
  const Recording r = read(read_file(kData + "gpu_error_1st/_dump_12"));
  CHECK(r.version == "2.9");
  CHECK(r.library == "2.27.3");
  CHECK(r.rank == 12);
  CHECK(r.groups.size() == 13);
  CHECK(r.entries == 27);
  CHECK(r.completed == 0);
  REQUIRE(r.pending.size() == 27);
  const RecordedOp& first = r.pending.front();
  CHECK(first.name == "_all_gather_base");
  CHECK(first.sequence == 42806);
  CHECK(first.inputs == "BFloat16[4096,1,5120]");
  CHECK(first.elements_in == 4096 * 5120);
  CHECK(first.timeout_ms == 180000);
  CHECK(first.state == RecordedOp::State::scheduled);
  const RecordedGroup& group = r.groups[first.group];
  CHECK(group.description == "TENSOR_MODEL_PARALLEL_GROUP");
  CHECK(group.ranks == std::vector<int>{12, 13});
  CHECK(group.last_enqueued == 42817);
  CHECK(group.status_completed == 42805);
  REQUIRE(r.newest);
  CHECK(r.newest->sequence == 20536);
}

TEST_CASE("a dump without a call still tells what its rank had called, by pg_status") {
  const Recording r = read(read_file(kData + "lock_gil_1st/_dump_9"));
  CHECK(r.pending.empty());
  CHECK(r.rank == 9);
  CHECK(r.has_status);
  bool found = false;
  for (const auto& group : r.groups) {
    if (group.description != "EXPERT_MODEL_PARALLEL_GROUP") continue;
    found = true;
    CHECK(group.last_enqueued == 45264);
    CHECK(group.enqueued_by_status);
  }
  CHECK(found);
}

TEST_CASE("the JSON form gives the same as the pickle") {
  const Recording a = read(read_file(kData + "gpu_error_1st/_dump_12")), b = read(read_file(kData + "rank12.json"));
  CHECK(b.rank == a.rank);
  CHECK(b.library == a.library);
  REQUIRE(b.pending.size() == a.pending.size());
  for (std::size_t i = 0; i < a.pending.size(); ++i) {
    CHECK(a.pending[i].name == b.pending[i].name);
    CHECK(a.pending[i].sequence == b.pending[i].sequence);
    CHECK(a.pending[i].inputs == b.pending[i].inputs);
    CHECK(a.groups[a.pending[i].group].name == b.groups[b.pending[i].group].name);
  }
  for (const auto& group : a.groups)
    for (const auto& other : b.groups)
      if (group.name == other.name) CHECK(group.last_enqueued == other.last_enqueued);
}

TEST_CASE("calls of a coalescing region have the state of the region") {
  const std::string sizes = ",\"input_sizes\":[[4]],\"input_dtypes\":[\"Float\"]";
  SUBCASE("complete sends") {
    const Recording r = read(json(entry(0, "nccl:send 0->1", 3, 7, "scheduled", ",\"is_p2p\":true" + sizes) + "," +
                                  entry(1, "nccl:recv 0<-1", 3, 7, "scheduled", ",\"is_p2p\":true" + sizes) + "," +
                                  entry(2, "nccl:coalesced", 3, 7, "completed", ",\"is_p2p\":false") + "," +
                                  entry(3, "nccl:all_reduce", 4, 7, "scheduled", ",\"is_p2p\":false" + sizes)));
    REQUIRE(r.pending.size() == 1);
    CHECK(r.pending[0].name == "all_reduce");
    CHECK(r.completed == 3);
    CHECK(r.rank == 0);
  }
  SUBCASE("open collectives") {
    const Recording r = read(json(entry(0, "nccl:_all_gather_base", 5, 0, "scheduled", sizes) + "," + entry(1, "nccl:_all_gather_base", 5, 0, "scheduled", sizes) + "," +
                                  entry(2, "nccl:ALLGATHER_coalesced", 5, 0, "started")));
    REQUIRE(r.pending.size() == 3);
    for (const auto& op : r.pending) CHECK(op.state == RecordedOp::State::started);
  }
  SUBCASE("the region's own entry left out: it was complete") {
    const Recording r = read(json(entry(0, "nccl:send 0->1", 3, 7, "scheduled", ",\"is_p2p\":true" + sizes) + "," +
                                  entry(1, "nccl:recv 0<-1", 3, 7, "scheduled", ",\"is_p2p\":true" + sizes) + "," +
                                  entry(3, "nccl:all_reduce", 4, 7, "scheduled", ",\"is_p2p\":false" + sizes)));
    CHECK(r.pending.size() == 1);
  }
}

TEST_CASE("what a file says in another way, or not at all, does no harm") {
  struct Row {
    const char* name;
    std::string text;
    bool ok;
  };
  std::string many = "[";
  for (int i = 0; i < 200; ++i) many += "[";
  const Row rows[] = {
      {"empty", "", false},
      {"text", "hello", false},
      {"a list", "[1,2,3]", false},
      {"nothing in it", "{}", false},
      {"no entries", "{\"version\":\"2.9\"}", true},
      {"version 1", "{\"version\":\"1.5\",\"entries\":[]}", false},
      {"cut", "{\"version\":\"2.9\",\"entries\":[{\"pg_id\":0", false},
      {"deep", "{\"version\":\"2.9\",\"entries\":" + many, false},
      {"wrong types", "{\"version\":2,\"pg_config\":[1],\"pg_status\":\"x\",\"entries\":[1,null,\"a\",{},{\"pg_id\":\"x\"},{\"pg_id\":1,\"profiling_name\":7,\"state\":{}}]}", true},
      {"huge numbers", json(entry(0, "nccl:send 99999999999->88888888888", 1, 1, "scheduled", ",\"input_sizes\":[[9223372036854775807,9223372036854775807]]")), true},
      {"ranks are no numbers", "{\"version\":\"2.9\",\"pg_config\":{\"0\":{\"ranks\":\"[a, 99999999999999999999, 3]\"}},\"entries\":[]}", true},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      const auto r = read_flight_recorder(row.text, "dump");
      CHECK(r.ok() == row.ok);
      if (!r.ok()) CHECK(r.error().place()->file == "dump");
    }
  }
}

TEST_CASE("a dump cut at any byte is told, or gives what stood before") {
  const std::string bytes = read_file(kData + "gpu_error_1st/_dump_14"), text = read_file(kData + "rank12.json");
  std::size_t partly = 0;
  for (std::size_t cut = 0; cut < bytes.size(); cut += 11) {
    const auto r = read_flight_recorder(bytes.substr(0, cut), "dump");
    if (r.ok()) {
      ++partly;
      CHECK(r->cut);
    }
  }
  CHECK(partly > 50);
  for (std::size_t cut = 0; cut < text.size(); cut += 101) CHECK(!read_flight_recorder(text.substr(0, cut), "dump").ok());
}

TEST_CASE("a hundred thousand calls") {
  std::string entries;
  for (int i = 0; i < 100'000; ++i) entries += (i > 0 ? "," : "") + entry(i, "nccl:all_reduce", i + 1, 0, i < 50'000 ? "completed" : "scheduled");
  const Recording r = read(json(entries));
  CHECK(r.entries == 100'000);
  CHECK(r.completed == 50'000);
  CHECK(r.pending.size() == 512);
  CHECK(r.pending_dropped);
  CHECK(r.pending.front().sequence == 50'001);
  CHECK(r.groups[0].last_enqueued == 100'000);
}

TEST_CASE("a recorder dump is known by its first bytes") {
  CHECK(looks_like_recorder_pickle(read_file(kData + "lock_gil_1st/_dump_9").substr(0, 512)));
  CHECK(looks_like_recorder_json(read_file(kData + "rank12.json").substr(0, 4096)));
  CHECK(!looks_like_recorder_json("{\"message\":\"all is well\"}"));
  CHECK(!looks_like_recorder_pickle("\x80\x04\x95 segments device_traces"));
}
