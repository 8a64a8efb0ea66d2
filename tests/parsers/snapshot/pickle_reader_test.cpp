#include "parsers/snapshot/pickle_reader.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace triage::parsers;
using namespace std::string_literals;

namespace {

std::string file_bytes(const std::string& name) {
  std::ifstream in(std::string(TRIAGE_SOURCE_DIR) + "/tests/parsers/snapshot/data/" + name, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

// A value as text, so that tables can compare it.
std::string shown(const PickleValue& value) {
  switch (value.kind()) {
    case PickleValue::Kind::null: return "None";
    case PickleValue::Kind::boolean: return *value.boolean() ? "True" : "False";
    case PickleValue::Kind::integer: return std::to_string(*value.integer());
    case PickleValue::Kind::real: return std::to_string(*value.number());
    case PickleValue::Kind::text: return "'" + std::string(*value.text()) + "'";
    case PickleValue::Kind::list: {
      std::string text = "[";
      for (std::size_t i = 0; i < value.size(); ++i) text += (i ? "," : "") + shown(value[i]);
      return text + "]";
    }
    case PickleValue::Kind::dict: {
      std::string text = "{";
      for (std::size_t i = 0; i < value.size(); ++i) text += (i ? "," : "") + shown(value.key(i)) + ":" + shown(value[i]);
      return text + "}";
    }
  }
  return {};
}

}  // namespace

TEST_CASE("plain data of protocols 2 to 5 is read") {
  struct Row { const char* name; std::string bytes, want; };
  const std::vector<Row> rows = {
      {"protocol 2 dict with one entry", "\x80\x02}q\0U\x01\x61K\x05s."s, "{'a':5}"},
      {"protocol 4 with a frame", "\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94(\x8c\x01\x61\x94K\x01\x8c\x01\x62\x94K\x02u."s, "{'a':1,'b':2}"},
      {"integers", "\x80\x02](K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\0\x8a\x01\x80\x8a\x06\0\0\0\x06\xad\x7f" "e."s,
       "[255,65535,-1,0,-128,140381106733056]"},
      {"an integer of 9 bytes is a real", "\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\x01."s, "18446744073709551616.000000"},
      {"a negative one too", "\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xfe."s, "-18446744073709551616.000000"},
      {"a float stands big end first", "\x80\x02G\x3f\xf8\0\0\0\0\0\0."s, "1.500000"},
      {"constants", "\x80\x02(N\x88\x89)t."s, "[None,True,False,[]]"},
      {"tuples", "\x80\x02K\x01K\x02K\x03\x87\x85K\x04K\x05\x86\x86."s, "[[[1,2,3]],[4,5]]"},
      {"bytes and byte arrays are text", "\x80\x05](C\x02hiB\x01\0\0\0x\x96\x01\0\0\0\0\0\0\0y\x8e\x01\0\0\0\0\0\0\0z" "e."s, "['hi','x','y','z']"},
      {"sets are lists", "\x80\x04\x8f(K\x01K\x02\x90(K\x03\x91\x86."s, "[[1,2],[3]]"},
      {"old list and dict by mark", "\x80\x02(K\x01l(K\x02K\x03" "d\x86."s, "[[1],{2:3}]"},
      {"shared by the memo", "\x80\x02](](K\x07" "eq\x05h\x05" "e."s, "[[7],[7]]"},
      {"a list in two portions", "\x80\x02]q\0(K\x01K\x02" "e(K\x03" "e."s, "[1,2,3]"},
      {"the last of equal keys counts", "\x80\x02}(U\x01\x61K\x01U\x01\x61K\x02u."s, "{'a':2}"},
      {"empty containers with empty marks", "\x80\x02](e."s, "[]"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto got = read_pickle(row.bytes, "x.pickle");
    REQUIRE(got.ok());
    CHECK(shown(*got) == row.want);
  }
}

TEST_CASE("entries are found by key") {
  const auto got = read_pickle("\x80\x02}(U\x01\x61K\x05K\x07U\x01yU\x01zNu."s, "x");
  REQUIRE(got.ok());
  CHECK(got->find("a").integer() == 5);
  CHECK(got->find(std::int64_t{7}).text() == "y");
  CHECK(got->contains("z"));
  CHECK_FALSE(got->contains("q"));
  CHECK(got->find("q").is_null());
  CHECK((*got)[9].is_null());
}

TEST_CASE("what makes objects is refused where it stands") {
  struct Row { const char* name; std::string bytes; std::uint64_t offset; std::string says; };
  const std::vector<Row> rows = {
      {"os.system", "\x80\x02" "cos\nsystem\nU\x02id\x85R."s, 2, "GLOBAL"},
      {"by stack", "\x80\x04\x8c\x02os\x8c\x06system\x93."s, 14, "STACK_GLOBAL"},
      {"REDUCE alone", "\x80\x02NNR."s, 4, "REDUCE"},
      {"BUILD", "\x80\x02}}b."s, 4, "BUILD"},
      {"INST", "\x80\x02(ios\nsystem\n."s, 3, "INST"},
      {"NEWOBJ", "\x80\x02N)\x81."s, 4, "NEWOBJ"},
      {"persistent id", "\x80\x02NQ."s, 3, "BINPERSID"},
      {"extension", "\x80\x02\x82\x01."s, 2, "EXT1"},
      {"buffer outside", "\x80\x05\x97."s, 2, "NEXT_BUFFER"},
      {"text protocol", "\x80\x02I5\n."s, 2, "INT"},
      {"protocol 6", "\x80\x06N."s, 0, "protocol 6"},
      {"protocol 0", "(lp0\n."s, 0, "not a pickle"},
      {"JSON", "{\"segments\": []}"s, 0, "not a pickle"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto got = read_pickle(row.bytes, "bad.pickle");
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().code() == ErrorCode::unsupported);
    REQUIRE(got.error().place().has_value());
    CHECK(got.error().place()->offset == row.offset);
    CHECK(got.error().place()->file == "bad.pickle");
    CHECK(got.error().message().find(row.says) != std::string::npos);
    CHECK_FALSE(read_pickle_part(row.bytes, "bad.pickle").ok());
  }
}

TEST_CASE("damage is told and bombs are bounded") {
  struct Row { const char* name; std::string bytes; ErrorCode code; };
  std::string billion = "\x80\x02](K\x01" "eq\0"s;   // lists of lists: 2^60 leaves, 61 nodes
  for (char i = 1; i < 60; ++i) billion += "]("s + 'h' + static_cast<char>(i - 1) + 'h' + static_cast<char>(i - 1) + "eq" + i;
  std::string deep_marks = "\x80\x02";
  for (int i = 0; i < 100000; ++i) deep_marks += "](";
  std::string deep_single = "\x80\x02";
  for (int i = 0; i < 100000; ++i) deep_single += "]";
  for (int i = 0; i < 99999; ++i) deep_single += "a";
  std::string deep_tuple = "\x80\x02N";
  for (int i = 0; i < 100000; ++i) deep_tuple += "\x85";
  const std::vector<Row> rows = {
      {"empty", "", ErrorCode::syntax},
      {"ends within", "\x80\x02](K\x01"s, ErrorCode::syntax},
      {"ends within an opcode", "\x80\x02](J\x01"s, ErrorCode::syntax},
      {"get of nothing", "\x80\x02h\x05."s, ErrorCode::syntax},
      {"items without a mark", "\x80\x02]e."s, ErrorCode::syntax},
      {"items for a number", "\x80\x02K\x01(K\x02" "e."s, ErrorCode::syntax},
      {"key without a value", "\x80\x02}(K\x02u."s, ErrorCode::syntax},
      {"stack runs empty", "\x80\x02" "a."s, ErrorCode::syntax},
      {"tuple below a mark", "\x80\x02N(\x85."s, ErrorCode::syntax},
      {"end with open containers", "\x80\x02](N."s, ErrorCode::syntax},
      {"end with nothing", "\x80\x02."s, ErrorCode::syntax},
      {"a list in itself", "\x80\x02]q\0h\0a."s, ErrorCode::syntax},
      {"a dict in itself", "\x80\x02}q\0(U\x01\x61h\0u."s, ErrorCode::syntax},
      {"no opcode", "\x80\x02\xff."s, ErrorCode::syntax},
      {"huge text", "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f."s, ErrorCode::limit},
      {"huge text of protocol 2", "\x80\x02X\xff\xff\xff\xff."s, ErrorCode::limit},
      {"huge integer", "\x80\x02\x8b\xff\xff\xff\x7f."s, ErrorCode::limit},
      {"memo far away", "\x80\x02Nr\xff\xff\xff\xff."s, ErrorCode::limit},
      {"deep by marks", deep_marks, ErrorCode::limit},
      {"deep by single items", deep_single, ErrorCode::limit},
      {"deep by tuples", deep_tuple, ErrorCode::limit},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto got = read_pickle(row.bytes, "bad.pickle");
    REQUIRE_FALSE(got.ok());
    CHECK(got.error().code() == row.code);
    CHECK(got.error().place().has_value());
  }
  // Shared lists stand once: 2^60 leaves cost 60 nodes, and reading them ends.
  const auto shared = read_pickle(billion + ".", "billion.pickle");
  REQUIRE_FALSE(shared.ok());   // 60 lists that wait on the stack: the end comes too early
  const auto part = read_pickle_part(billion + ".", "billion.pickle");
  REQUIRE(part.ok());
  CHECK(part->cut.has_value());
}

TEST_CASE("a budget of memory is kept") {
  std::string many = "\x80\x02](";
  for (int i = 0; i < 100000; ++i) many += "]";
  many += "e.";
  CHECK(read_pickle(many, "x").ok());
  const auto got = read_pickle(many, "x", PickleLimits{1 << 20});
  REQUIRE_FALSE(got.ok());
  CHECK(got.error().code() == ErrorCode::limit);
}

TEST_CASE("a recorded snapshot reads the same through the tree, and any cut keeps what stood before") {
  const std::string bytes = file_bytes("logits_spike.pickle");
  const auto whole = read_pickle(bytes, "logits_spike.pickle");
  REQUIRE(whole.ok());
  CHECK(whole->find("segments").size() == 44);
  CHECK(whole->find("device_traces")[0].size() == 356);
  CHECK(whole->find("device_traces")[0][355].find("action").text() == "oom");
  CHECK(whole->find("allocator_settings").find("max_split_size").integer() == -1);
  std::size_t before = 0;
  for (std::size_t cut = 0; cut < bytes.size(); cut += 997) {
    CAPTURE(cut);
    const auto part = read_pickle_part(std::string_view(bytes).substr(0, cut), "cut");
    if (!part.ok()) {
      CHECK(cut < 16);
      continue;
    }
    REQUIRE(part->cut.has_value());
    CHECK(part->cut->place()->offset == cut);
    const std::size_t segments = part->value.find("segments").size();
    CHECK(segments >= before);
    before = segments;
  }
  CHECK(before == 44);
}

TEST_CASE("the first bytes tell a pickle") {
  CHECK(looks_like_pickle("\x80\x04\x95\0"s));
  CHECK(looks_like_pickle("\x80\x02}q\0"s));
  CHECK(looks_like_pickle("\x80\x02]q\0"s));
  CHECK_FALSE(looks_like_pickle("\x80\x06}"s));
  CHECK_FALSE(looks_like_pickle("{\"a\": 1}"s));
  CHECK_FALSE(looks_like_pickle("\x80"s));
  CHECK_FALSE(looks_like_pickle(""s));
}
