// The readers of pushed bodies.
#include <doctest/doctest.h>

#include "daemon/http/json_view.hpp"
#include "daemon/http/push/batch.hpp"
#include "daemon/http/push/source_of_labels.hpp"
#include "tests/support/wire_writer.hpp"

using namespace triage;
using namespace triage::daemon::api;
using namespace triage::tests;
using daemon::time_text;

namespace {

// "{a=1,b=2}\n  TIME line\n..." for comparison.
std::string shown(const PushedBatch& batch) {
  std::string out;
  for (const auto& stream : batch.streams) {
    out += "{";
    for (const auto& [name, value] : stream.labels) out += (out.ends_with("{") ? "" : ",") + name + "=" + value;
    out += "}";
    for (const auto& line : stream.lines) out += " [" + (line.time ? time_text(*line.time) : std::string("-")) + "] " + line.text + ";";
    out += "\n";
  }
  return out;
}

const std::string kLoki =
    R"({"streams":[{"stream":{"job":"train","node":"n1"},"values":[["1700000000123456789","one"],["1700000001000000000","two \u00e9",{"level":"info"}]]},)"
    R"({"values":[["1700000002000000000","three"]],"stream":{"node":"n1","job":"train"}},{"stream":{"job":"other"},"values":[]}]})";
const std::string kLokiShown = "{job=train,node=n1} [2023-11-14T22:13:20.123456Z] one; [2023-11-14T22:13:21Z] two \xc3\xa9; [2023-11-14T22:13:22Z] three;\n";

std::string loki_protobuf() {
  const auto entry = [](std::uint64_t s, std::uint64_t ns, const std::string& line) {
    return wire_bytes(2, wire_bytes(1, wire_number(1, s) + wire_number(2, ns)) + wire_bytes(2, line) + wire_bytes(3, wire_bytes(1, "level") + wire_bytes(2, "info")));
  };
  return wire_bytes(1, wire_bytes(1, R"({job="train", node="n1"})") + entry(1700000000, 123456789, "one") + entry(1700000001, 0, "two \xc3\xa9") + wire_number(3, 42)) +
         wire_bytes(1, entry(1700000002, 0, "three") + wire_bytes(1, R"({node="n1",job="train"})"));
}

const std::string kOtlp =
    R"({"resourceLogs":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"n1"}},{"key":"service.name","value":{"stringValue":"train"}},{"key":"n","value":{"intValue":"5"}}]},)"
    R"("scopeLogs":[{"scope":{},"logRecords":[{"timeUnixNano":"1700000000000000000","severityText":"INFO","body":{"stringValue":"one"},"attributes":[{"key":"log.file.path","value":{"stringValue":"/l/rank3.log"}},{"key":"offset","value":{"intValue":7}}]},)"
    R"({"observedTimeUnixNano":"1700000001000000000","body":{"kvlistValue":{"values":[{"key":"level","value":{"stringValue":"x"}},{"key":"message","value":{"stringValue":"two"}}]}}},)"
    R"({"timeUnixNano":"1700000002000000000"},{"body":{"doubleValue":1.5}}]}]}]})";
const std::string kOtlpShown =
    "{host.name=n1,log.file.path=/l/rank3.log,n=5,service.name=train} [2023-11-14T22:13:20Z] one;\n"
    "{host.name=n1,n=5,service.name=train} [2023-11-14T22:13:21Z] two; [-] 1.5;\n";

std::string otlp_protobuf() {
  const auto text = [](const std::string& value) { return wire_bytes(1, value); };
  const auto pair = [](const std::string& key, const std::string& value) { return wire_bytes(1, key) + wire_bytes(2, value); };
  const std::string resource = wire_bytes(1, pair("host.name", text("n1"))) + wire_bytes(1, pair("service.name", text("train"))) + wire_bytes(1, pair("n", wire_number(3, 5)));
  const std::string list = wire_bytes(6, wire_bytes(1, pair("level", text("x"))) + wire_bytes(1, pair("message", text("two"))));
  const std::string one = wire_fixed64(1, 1700000000000000000ULL) + wire_number(2, 9) + wire_bytes(3, "INFO") + wire_bytes(5, text("one")) + wire_bytes(6, pair("log.file.path", text("/l/rank3.log"))) +
                          wire_bytes(6, pair("offset", wire_number(3, 7)));
  const std::string two = wire_fixed64(11, 1700000001000000000ULL) + wire_bytes(5, list);
  const std::string three = wire_fixed64(1, 1700000002000000000ULL);
  const std::string four = wire_bytes(5, wire_fixed64(4, 0x3ff8000000000000ULL));
  return wire_bytes(1, wire_bytes(1, resource) + wire_bytes(2, wire_bytes(1, "") + wire_bytes(2, one) + wire_bytes(2, two) + wire_bytes(2, three) + wire_bytes(2, four)));
}

}  // namespace

TEST_CASE("Loki: JSON and protobuf say the same") {
  const auto json = read_loki_json(kLoki);
  REQUIRE(json.ok());
  CHECK(shown(*json) == kLokiShown);
  CHECK(json->lines == 3);
  const auto wire = read_loki_protobuf(loki_protobuf());
  REQUIRE(wire.ok());
  CHECK(shown(*wire) == kLokiShown);
}

TEST_CASE("OTLP: JSON and protobuf say the same; a record without a body is counted") {
  const auto json = read_otlp_json(kOtlp);
  REQUIRE(json.ok());
  CHECK(shown(*json) == kOtlpShown);
  CHECK(json->rejected == 1);
  const auto wire = read_otlp_protobuf(otlp_protobuf());
  REQUIRE(wire.ok());
  CHECK(shown(*wire) == kOtlpShown);
  CHECK(wire->rejected == 1);
}

TEST_CASE("records of HTTP sinks, in each form") {
  struct Row {
    const char* name;
    const char* body;
    const char* want;
  };
  const Row rows[] = {
      {"Vector: array", R"([{"message":"a","timestamp":"2023-11-14T22:13:20Z","host":"n1","file":"/l/a.log","source_type":"file"},{"message":"b","host":"n1","file":"/l/a.log"}])",
       "{file=/l/a.log,host=n1} [2023-11-14T22:13:20Z] a; [-] b;\n"},
      {"Fluent Bit: json_lines", "{\"date\":1700000000.5,\"log\":\"a\",\"stream\":\"stderr\"}\n{\"date\":1700000001.0,\"log\":\"b\",\"stream\":\"stderr\"}\n", "{stream=stderr} [2023-11-14T22:13:20.5Z] a; [2023-11-14T22:13:21Z] b;\n"},
      {"Fluent Bit: json_stream", R"({"log":"a"}{"log":"b"})", "{} [-] a; [-] b;\n"},
      {"kubernetes members", R"({"log":"a","kubernetes":{"pod_name":"p-0","labels":{"job-name":"j","other":"x"},"annotations":{"deep":{"er":1}}}})", "{kubernetes.labels.job-name=j,kubernetes.pod_name=p-0} [-] a;\n"},
      {"message before log", R"({"log":"raw","message":"a","msg":"no"})", "{} [-] a;\n"},
      {"journald", R"({"MESSAGE":"a","_HOSTNAME":"n1","_SYSTEMD_UNIT":"u.service","PRIORITY":"6"})", "{_HOSTNAME=n1,_SYSTEMD_UNIT=u.service} [-] a;\n"},
      {"bare texts", R"(["a","b"])", "{} [-] a; [-] b;\n"},
      {"milliseconds", R"({"msg":"a","ts":1700000000123})", "{} [2023-11-14T22:13:20.123Z] a;\n"},
      {"a number that no time has", R"({"msg":"a","ts":1700000000.5e300,"rank":3})", "{rank=3} [-] a;\n"},
      {"nothing", "", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto batch = read_ndjson(row.body, {});
    REQUIRE(batch.ok());
    CHECK(shown(*batch) == row.want);
  }
  const auto given = read_ndjson(R"({"msg":"a","host":"x","job":"y"})", {{"job", "mine"}});
  REQUIRE(given.ok());
  CHECK(shown(*given) == "{host=x,job=mine} [-] a;\n");
  const auto odd = read_ndjson("{\"level\":\"x\"} 5 {\"msg\":\"a\"} null {\"msg\":5}", {});
  REQUIRE(odd.ok());
  CHECK(odd->lines == 1);
  CHECK(odd->rejected == 4);
}

TEST_CASE("malformed bodies are named with their byte") {
  struct Row {
    const char* body;
    std::uint64_t offset;
  };
  const Row loki[] = {{"", 0}, {"[]", 0}, {"{\"streams\":{}}", 11}, {"{\"streams\":[5]}", 12}, {"{\"streams\":[{\"stream\":{\"a\":1}}]}", 27}, {"{\"streams\":[{\"values\":[[1,2]]}]}", 26},
                      {"{\"streams\":[{\"values\":[[\"x\",\"a\"]]}]}", 24}, {"{\"streams\":[{\"values\":[[]]}]}", 24}, {"{\"streams\":[]} x", 15}, {"{\"streams\":[{\"values\":[[\"1\",\"a\"", 31}};
  for (const Row& row : loki) {
    CAPTURE(std::string(row.body));
    const auto batch = read_loki_json(row.body);
    REQUIRE_FALSE(batch.ok());
    CHECK(batch.error().place()->offset.value_or(999) == row.offset);
  }
  const Row otlp[] = {{"5", 0}, {"{\"resourceLogs\":5}", 16}, {"{\"resourceLogs\":[{\"resource\":5}]}", 29}, {"{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"body\":\"x\"}]}]}]}", 54}};
  for (const Row& row : otlp) {
    CAPTURE(std::string(row.body));
    const auto batch = read_otlp_json(row.body);
    REQUIRE_FALSE(batch.ok());
    CHECK(batch.error().place()->offset.value_or(999) == row.offset);
  }
  const auto lines = read_ndjson("{\"msg\":\"a\"}\n{\"msg\":}\n", {});
  REQUIRE_FALSE(lines.ok());
  CHECK(lines.error().place()->offset == 19);
}

TEST_CASE("a protobuf cut anywhere is refused or read, and never more than it holds") {
  for (const std::string& whole : {loki_protobuf(), otlp_protobuf()}) {
    int refused = 0;
    for (std::size_t cut = 0; cut < whole.size(); ++cut) {
      const std::string_view part = std::string_view(whole).substr(0, cut);
      refused += !read_loki_protobuf(part).ok();
      refused += !read_otlp_protobuf(part).ok();
    }
    CHECK(refused > 100);
  }
  CHECK_FALSE(read_loki_protobuf("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").ok());
  CHECK_FALSE(read_loki_protobuf("\x0b").ok());   // a group
  CHECK_FALSE(read_loki_protobuf(wire_bytes(1, wire_bytes(1, "{job=train}"))).ok());
}

TEST_CASE("limits of a batch") {
  std::string many = R"({"streams":[{"stream":{)";
  for (int i = 0; i < 70; ++i) many += (i ? ",\"l" : "\"l") + std::to_string(i) + "\":\"v\"";
  const auto labels = read_loki_json(many + R"(},"values":[]}]})");
  REQUIRE_FALSE(labels.ok());
  CHECK(labels.error().code() == parsers::ErrorCode::limit);
  const auto label = read_loki_json(R"({"streams":[{"stream":{"a":")" + std::string(5000, 'x') + R"("},"values":[]}]})");
  REQUIRE_FALSE(label.ok());
  CHECK(label.error().code() == parsers::ErrorCode::limit);
  std::string streams = "[";
  for (int i = 0; i < 20'002; ++i) streams += (i ? "," : "") + std::string(R"({"msg":"a","pod":")") + std::to_string(i) + "\"}";
  const auto batch = read_ndjson(streams + "]", {});
  REQUIRE_FALSE(batch.ok());
  CHECK(batch.error().code() == parsers::ErrorCode::limit);
}

TEST_CASE("label text") {
  CHECK(read_label_text(R"({a="b", c_d="e\"f\\\n\x41\u00e9\101"})") == Labels{{"a", "b"}, {"c_d", "e\"f\\\nAé" "A"}});
  CHECK(read_label_text("{}") == Labels{});
  CHECK(read_label_text("{a=`raw\\`,}") == Labels{{"a", "raw\\"}});
  for (const char* bad : {"", "a", "{a}", "{a=b}", "{a=\"b}", "{a=\"b\"", "{a=\"b\" c=\"d\"}", "{=\"b\"}", "{a=\"\\q\"}", "{a=\"b\"}x"}) {
    CAPTURE(std::string(bad));
    CHECK_FALSE(read_label_text(bad).has_value());
  }
}

TEST_CASE("labels say job, node and rank by the names that shippers use") {
  struct Row {
    Labels labels;
    const char* job;
    const char* node;
    int rank;
  };
  const Row rows[] = {{{{"job", "train"}, {"host", "n1"}, {"filename", "/logs/rank3.log"}}, "train", "n1", 3},
                      {{{"service.name", "s"}, {"host.name", "n2"}, {"rank", "12"}}, "s", "n2", 12},
                      {{{"kubernetes.pod_labels.training.kubeflow.org/job-name", "llama"}, {"kubernetes.pod_node_name", "n3"}, {"service_name", "x"}}, "llama", "n3", -1},
                      {{{"slurm_job_id", "991"}, {"job", "slurm-logs"}, {"rank", "x"}}, "991", "", -1}};
  for (const Row& row : rows) {
    const auto info = source_of_labels(row.labels);
    CHECK(info.job == row.job);
    CHECK(info.node == row.node);
    CHECK(info.rank.value_or(-1) == row.rank);
    CHECK(info.name.starts_with("push:{"));
  }
  CHECK(source_of_labels({{"unit", "kernel"}, {"job", "systemd-journal"}}).system);
  CHECK(source_of_labels({{"b", "2"}, {"a", "1"}}).name == source_of_labels({{"a", "1"}, {"b", "2"}}).name);
  const auto long_one = source_of_labels({{"a", std::string(2000, 'x')}}), long_two = source_of_labels({{"a", std::string(2000, 'x') + "y"}});
  CHECK(long_one.name.size() <= 512);
  CHECK(long_one.name != long_two.name);
}
