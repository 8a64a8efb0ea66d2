// The API over a real connection: every route, and what it refuses.
#include "daemon/http/api.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <snappy.h>
#include <thread>

#include "daemon/http/compression.hpp"
#include "tests/support/gunzip.hpp"
#include "tests/support/http_fixture.hpp"

using namespace triage;
using namespace triage::tests;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

Json body_of(const HttpAnswer& answer) { return Json::parse(answer.body, nullptr, false); }

const std::string kJson = "Content-Type: application/json\r\n";
const std::string kSnapshots = std::string(TRIAGE_SOURCE_DIR) + "/tests/snapshots/";

// Files are removed on a thread of the service, after the answer.
bool gets_empty(const std::string& folder) {
  for (int i = 0; i < 500; ++i) {
    if (std::filesystem::is_empty(folder)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("incidents come by pages, each once, newest first") {
  HttpFixture fixture;
  fixture.service.fill(120);
  std::vector<std::string> seen;
  std::string cursor;
  for (int page = 0; page < 10; ++page) {
    const HttpAnswer answer = http_get(fixture.port, "/api/v1/incidents?limit=50" + (cursor.empty() ? "" : "&cursor=" + cursor));
    REQUIRE(answer.status == 200);
    const Json body = body_of(answer);
    for (const Json& row : body["incidents"]) seen.push_back(row["id"]);
    if (body["next"].is_null()) break;
    cursor = body["next"];
  }
  REQUIRE(seen.size() == 120);
  CHECK(seen.front() == "id0119");
  CHECK(seen.back() == "id0000");
  CHECK(std::is_sorted(seen.rbegin(), seen.rend()));
}

TEST_CASE("filters reach the service, and mistakes are named") {
  HttpFixture fixture;
  fixture.service.fill(10);
  REQUIRE(http_get(fixture.port, "/api/v1/incidents?kind=gpu.oom&job=j&node=n&open=true&since=24h&until=2026-12-01T00:00:00Z&limit=7&text=a%20b").status == 200);
  const api::IncidentQuery& query = fixture.service.last_query;
  CHECK(query.filter.kind == "gpu.oom");
  CHECK(query.filter.node == "n");
  CHECK(query.filter.text == "a b");
  CHECK(query.filter.open == true);
  CHECK(query.filter.since == fixed_now() - 24h);
  CHECK(query.limit == 7);
  struct Row {
    const char* target;
    const char* code;
  };
  const Row rows[] = {{"/api/v1/incidents?knd=x", "unknown_parameter"}, {"/api/v1/incidents?kind=a&kind=b", "doubled_parameter"}, {"/api/v1/incidents?limit=0", "bad_parameter"},
                      {"/api/v1/incidents?limit=501", "bad_parameter"}, {"/api/v1/incidents?open=1", "bad_parameter"}, {"/api/v1/incidents?since=yesterday", "bad_parameter"},
                      {"/api/v1/incidents?cursor=zzz", "bad_cursor"}, {"/api/v1/context", "missing_parameter"}, {"/api/v1/context?source=a&line=1&offset=2", "bad_parameter"},
                      {"/api/v1/context?source=a&line=1&before=2000&after=1", "bad_parameter"}, {"/api/v1/counts?since=1000d&step=1s", "bad_parameter"},
                      {"/api/v1/counts?by=colour", "bad_parameter"}, {"/api/v1/outbox/items?state=lost", "bad_parameter"}, {"/api/v1/incidents/id0001?x=1", "unknown_parameter"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.target));
    const HttpAnswer answer = http_get(fixture.port, row.target);
    CHECK(answer.status == 400);
    CHECK(body_of(answer).value("code", "") == row.code);
  }
}

TEST_CASE("one incident, its findings, feedback and context") {
  HttpFixture fixture;
  fixture.service.fill(3);
  const Json one = body_of(http_get(fixture.port, "/api/v1/incidents/id0001"));
  CHECK(one["incident"]["id"] == "id0001");
  CHECK(one["incident"]["node"].is_null());
  CHECK(one["answer"]["config"]["micro_batch_size"]["value"] == 4);
  CHECK(one["fix_counts"][0]["helped"] == 7);
  const Json missing = body_of(http_get(fixture.port, "/api/v1/incidents/none"));
  CHECK(missing["status"] == 404);
  CHECK(missing["code"] == "not_found");
  const Json findings = body_of(http_get(fixture.port, "/api/v1/incidents/id0001/findings?role=root"));
  CHECK(findings["total"] == 1);
  CHECK(findings["findings"][0]["rule"] == "a");
  CHECK(body_of(http_get(fixture.port, "/api/v1/incidents/id0001/findings?rank=1"))["findings"][0]["rule"] == "b");
  CHECK(body_of(http_get(fixture.port, "/api/v1/incidents/id0001/findings?offset=1"))["findings"].size() == 1);
  const Json context = body_of(http_get(fixture.port, "/api/v1/context?incident=id0001&line=7"));
  CHECK(context["lines"][0]["text"] == "<script>alert(1)</script>");
  CHECK(context["lines"][1]["number"].is_null());
  CHECK(http_get(fixture.port, "/api/v1/context?source=/etc/passwd&line=1").status == 404);
  CHECK(http_post(fixture.port, "/api/v1/incidents/id0001/feedback", R"({"fix":"recompute.full","helped":true,"note":"good"})").status == 201);
  REQUIRE(fixture.service.said.size() == 1);
  CHECK(fixture.service.said[0].second.note == "good");
  for (const char* bad : {"", "[]", "{", R"({"helped":1})", R"({"fix":"a"})", R"({"helped":true,"x":1})", "{\"helped\":true,\"note\":\"\xff\"}", R"({"helped":true,"note":5})"}) {
    CAPTURE(std::string(bad));
    CHECK(http_post(fixture.port, "/api/v1/incidents/id0001/feedback", bad).status == 400);
  }
}

TEST_CASE("a store that cannot be read is said with Retry-After; faults inside name no path to readers") {
  HttpFixture fixture;
  fixture.service.broken = true;
  const HttpAnswer answer = http_get(fixture.port, "/api/v1/incidents");
  CHECK(answer.status == 503);
  CHECK(answer.headers.count("retry-after") == 1);
}

TEST_CASE("silences are added, listed and ended") {
  HttpFixture fixture;
  const HttpAnswer added = http_post(fixture.port, "/api/v1/silences", R"({"match":{"node":"gpu-17","kind":"gpu.xid"},"reason":"being repaired","author":"ops","duration":"4h"})");
  REQUIRE(added.status == 201);
  CHECK(body_of(added)["ends_at"] == "2026-12-01T04:00:00Z");
  CHECK(body_of(http_get(fixture.port, "/api/v1/silences"))["silences"][0]["match"]["node"] == "gpu-17");
  HttpConnection connection(fixture.port);
  CHECK(connection.ask(http_text("DELETE", "/api/v1/silences/s1")).status == 204);
  CHECK(connection.ask(http_text("DELETE", "/api/v1/silences/s1")).status == 404);
  for (const char* bad : {R"({"match":{},"reason":"r","duration":"1h"})", R"({"match":{"node":"n"},"duration":"1h"})", R"({"match":{"node":"n"},"reason":"r"})",
                          R"({"match":{"node":"n"},"reason":"r","duration":"91d"})", R"({"match":{"node":"n"},"reason":"r","ends_at":"2020-01-01T00:00:00Z"})",
                          R"({"match":{"rank":"1"},"reason":"r","duration":"1h"})", R"({"match":{"node":"n"},"reason":"r","duration":"1h","ends_at":"2027-01-01T00:00:00Z"})"}) {
    CAPTURE(std::string(bad));
    CHECK(http_post(fixture.port, "/api/v1/silences", bad).status == 400);
  }
}

TEST_CASE("events come as they happen, after the last one known, and gaps are told") {
  HttpFixture fixture;
  fixture.service.hub.publish("incident.opened", R"({"n":1})");
  fixture.service.hub.publish("source", R"({"n":2})");
  const auto wait_for = [](HttpConnection& connection, const std::string& text) {
    for (int i = 0; i < 100 && connection.buffer().find(text) == std::string::npos; ++i) connection.more(50ms);
    return connection.buffer().find(text) != std::string::npos;
  };
  HttpConnection live(fixture.port), again(fixture.port), some(fixture.port), other(fixture.port);
  live.send(http_text("GET", "/api/v1/stream"));
  again.send(http_text("GET", "/api/v1/stream", "Last-Event-ID: test-0\r\n"));
  some.send(http_text("GET", "/api/v1/stream?type=incident.&last_event_id=test-0"));
  other.send(http_text("GET", "/api/v1/stream", "Last-Event-ID: earlier-7\r\n"));
  CHECK(wait_for(live, "id: test-2\n\n"));
  CHECK(live.buffer().find("Content-Type: text/event-stream") != std::string::npos);
  CHECK(wait_for(again, "id: test-1\nevent: incident.opened\ndata: {\"n\":1}\n\n"));
  CHECK(wait_for(again, "data: {\"n\":2}"));
  CHECK(wait_for(other, "event: reset\n"));
  fixture.service.hub.publish("incident.closed", "{\"n\":\n3}");
  CHECK(wait_for(live, "id: test-3\nevent: incident.closed\ndata: {\"n\": 3}\n\n"));
  CHECK(wait_for(some, "id: test-3"));
  CHECK(some.buffer().find("test-2\nevent") == std::string::npos);
  CHECK(live.buffer().find("{\"n\":1}") == std::string::npos);
  CHECK(fixture.registry.gauge(daemon::metrics::kHttpStreams).value() == 4);
  live.close();
  for (int i = 0; i < 100 && fixture.registry.gauge(daemon::metrics::kHttpStreams).value() > 3; ++i) std::this_thread::sleep_for(20ms);
  CHECK(fixture.registry.gauge(daemon::metrics::kHttpStreams).value() == 3);
}

TEST_CASE("readers of events that fall behind are told to load anew") {
  daemon::EventHub hub("e", 4);
  for (int i = 0; i < 10; ++i) hub.publish("t", std::to_string(i));
  CHECK(hub.after(0, 100).gap);
  CHECK(hub.after(0, 100).events.size() == 4);
  CHECK_FALSE(hub.after(6, 100).gap);
  CHECK(hub.after(6, 2).events.size() == 2);
  CHECK(hub.after(6, 2).last == 8);
  CHECK(hub.after(10, 100).events.empty());
  CHECK(hub.parse("e-8").sequence == 8);
  for (const char* bad : {"", "e", "e-", "e-11", "e--1", "x-1", "e-8x"}) CHECK(hub.parse(bad).gap);
}

TEST_CASE("rules, explain, sources, counts, nodes, outbox, health, metrics") {
  HttpFixture fixture;
  const Json rules = body_of(http_get(fixture.port, "/api/v1/rules?role=root&kind=gpu.oom"));
  REQUIRE(rules["rules"].size() > 3);
  const std::string id = rules["rules"][0]["id"];
  CHECK(body_of(http_get(fixture.port, "/api/v1/rules/" + id))["match"].is_array());
  CHECK(http_get(fixture.port, "/api/v1/rules/none").status == 404);
  const Json explained = body_of(http_post(fixture.port, "/api/v1/explain", R"({"line":"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"})"));
  CHECK(explained["text"].get<std::string>().find("torch.cuda.oom") != std::string::npos);
  const Json first = body_of(http_get(fixture.port, "/api/v1/sources"));
  CHECK(first["sources"][0]["lag_bytes"] == 10);
  CHECK(body_of(http_get(fixture.port, "/api/v1/sources?cursor=" + first["next"].get<std::string>()))["sources"][0]["why"] == "permission denied");
  const Json counts = body_of(http_get(fixture.port, "/api/v1/counts?by=kind&step=1h"));
  CHECK(counts["buckets"][0]["count"] == 3);
  CHECK(fixture.service.last_counts.by == api::CountBy::kind);
  CHECK(fixture.service.last_counts.filter.since == fixed_now() - 24h);
  CHECK(body_of(http_get(fixture.port, "/api/v1/nodes"))["nodes"][0]["kinds"][0]["kind"] == "gpu.xid.79");
  CHECK(body_of(http_get(fixture.port, "/api/v1/outbox"))["counts"][0]["count"] == 2);
  CHECK(body_of(http_get(fixture.port, "/api/v1/outbox/items?limit=1"))["next"] == "7");
  CHECK(http_post(fixture.port, "/api/v1/outbox/items/7/retry", "").status == 204);
  CHECK(http_post(fixture.port, "/api/v1/outbox/items/8/retry", "").status == 404);
  CHECK(http_post(fixture.port, "/api/v1/outbox/items/x/retry", "").status == 404);
  CHECK(http_get(fixture.port, "/healthz").body == "ok\n");
  CHECK(http_get(fixture.port, "/readyz").status == 200);
  fixture.service.ready = false;
  const HttpAnswer ill = http_get(fixture.port, "/readyz");
  CHECK(ill.status == 503);
  CHECK(ill.body.find("locked by another process") != std::string::npos);
  CHECK(body_of(http_get(fixture.port, "/api/v1/health"))["parts"][0]["ok"] == false);
  const std::string metrics = http_get(fixture.port, "/metrics").body;
  CHECK(metrics.find("triage_http_requests_total{method=\"GET\",route=\"/readyz\",status=\"503\"} 1\n") != std::string::npos);
}

TEST_CASE("a plan from settings, from a log, from an incident") {
  HttpFixture fixture;
  fixture.service.fill(1);
  const std::string arguments =
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 4 --global-batch-size 64 --swiglu --bf16 --vocab-size 128256 --use-distributed-optimizer";
  const HttpAnswer made = http_post(fixture.port, "/api/v1/plan", Json{{"megatron_arguments", arguments}, {"set", {{"world", 8}}}, {"capacity", "80GiB"}}.dump());
  CAPTURE(made.body);
  REQUIRE(made.status == 200);
  CHECK(body_of(made)["pipeline_stages"].size() == 1);
  CHECK(body_of(made)["config"]["tensor_parallel"]["value"] == 2);
  const HttpAnswer empty = http_post(fixture.port, "/api/v1/plan", "{}");
  CHECK(empty.status == 422);
  CHECK(http_post(fixture.port, "/api/v1/plan", R"({"incident":"none"})").status == 404);
  CHECK(http_post(fixture.port, "/api/v1/plan", R"({"set":{"no_such_setting":1}})").status == 422);
  CHECK(http_post(fixture.port, "/api/v1/plan", R"({"set":{"micro_batch_size":{"a":1}}})").status == 400);
  CHECK(http_post(fixture.port, "/api/v1/plan", R"({"model":"{ no json"})").status == 400);
  CHECK(http_post(fixture.port, "/api/v1/plan", R"({"rank":-1})").status == 400);
}

TEST_CASE("a snapshot is read, drawn and replayed; other files are refused") {
  HttpFixture fixture;
  const std::string file = read_file(kSnapshots + "fragmentation.pickle.gz");
  const HttpAnswer good = http_post(fixture.port, "/api/v1/snapshots?name=..%2F..%2Frank3.pickle.gz", file, "Content-Type: application/octet-stream\r\nAccept-Encoding: gzip\r\n");
  REQUIRE(good.status == 201);
  REQUIRE(good.headers.at("content-encoding") == "gzip");
  const Json answer = Json::parse(*api::unpack(api::Coding::gzip, good.body, 1 << 28));
  const std::string id = answer["id"];
  CHECK(answer["devices"].size() >= 1);
  const Json graph = body_of(http_get(fixture.port, "/api/v1/snapshots/" + id + "/graph"));
  CHECK(graph["file"] == "rank3.pickle.gz");
  const Json& device = graph["devices"][0];
  CHECK(device["timeline"].size() > 100);
  CHECK(device["timeline"].size() <= 1500);
  const std::string part = "/api/v1/snapshots/" + id + "/timeline?device=" + device["device"].dump();
  const Json fine = body_of(http_get(fixture.port, part + "&from=10&to=61&points=20"));
  CHECK(fine["from"] == 10);
  CHECK(fine["merged"] == 3);
  REQUIRE(fine["timeline"].size() == 17);
  const Json each = body_of(http_get(fixture.port, part + "&from=10&to=13"));      // three points that are one above
  REQUIRE(each["timeline"].size() == 3);
  std::int64_t low = INT64_MAX, high = 0;
  for (const Json& point : each["timeline"]) {
    low = std::min(low, point[1].get<std::int64_t>());
    high = std::max(high, point[2].get<std::int64_t>());
  }
  CHECK(fine["timeline"][0][1] == low);
  CHECK(fine["timeline"][0][2] == high);
  CHECK(body_of(http_get(fixture.port, part + "&from=2000000000"))["timeline"].empty());
  CHECK(http_get(fixture.port, "/api/v1/snapshots/" + id + "/timeline?device=77").status == 404);
  CHECK(http_get(fixture.port, part + "&points=1").status == 400);
  const Json replay = body_of(http_post(fixture.port, "/api/v1/snapshots/" + id + "/what-if", R"({"settings":["expandable_segments:True"]})"));
  CHECK(replay["devices"][0]["what_if"][0]["settings"].get<std::string>().find("expandable_segments") != std::string::npos);
  CHECK(http_post(fixture.port, "/api/v1/snapshots/" + id + "/what-if", R"({"settings":["nonsense"]})").status == 400);
  CHECK(http_get(fixture.port, "/api/v1/snapshots/0000").status == 404);
  const HttpAnswer other = http_post(fixture.port, "/api/v1/snapshots", "this is a log\n", "Content-Type: text/plain\r\n");
  CHECK(other.status == 422);
  CHECK(other.body.find(fixture.folder) == std::string::npos);
  CHECK(gets_empty(fixture.folder + "/uploads"));
}

TEST_CASE("uploads go to a file of ours and leave nothing behind") {
  HttpFixture fixture;
  std::string log;
  for (int i = 0; i < 200'000; ++i) log += "line " + std::to_string(i) + "\n";
  const HttpAnswer answer = http_post(fixture.port, "/api/v1/uploads?name=..%5C..%5Cetc%5Cpasswd&job=j&keep=false", log, "");
  REQUIRE(answer.status == 200);
  CHECK(fixture.service.uploaded == log);
  CHECK(fixture.service.last_upload.name == "passwd");
  CHECK(fixture.service.last_upload.path.starts_with(fixture.folder + "/uploads/upload-"));
  CHECK(fixture.service.last_upload.job == "j");
  CHECK_FALSE(fixture.service.last_upload.keep);
  CHECK(http_post(fixture.port, "/api/v1/uploads", "").status == 400);
  {
    HttpConnection cut(fixture.port);
    cut.send("POST /api/v1/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + std::string(300'000, 'x'));
  }
  CHECK(gets_empty(fixture.folder + "/uploads"));
}

TEST_CASE("uploads: the limit, the missing folder, a folder that cannot be written") {
  api::HttpConfig config = test_config();
  config.limits.upload_bytes = 1000;
  HttpFixture fixture(config);
  CHECK(http_post(fixture.port, "/api/v1/uploads", std::string(1001, 'x'), "").status == 413);
  HttpConnection chunked(fixture.port);
  CHECK(chunked.ask("POST /api/v1/uploads HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, 'x') + "\r\n0\r\n\r\n").status == 413);
  REQUIRE(gets_empty(fixture.folder + "/uploads"));   // the service removes what was cut, and must not meet us doing the same
  std::filesystem::remove_all(fixture.folder + "/uploads");
  CHECK(http_post(fixture.port, "/api/v1/uploads", "x", "").status == 500);
  CHECK(http_get(fixture.port, "/healthz").status == 200);
}

TEST_CASE("a large upload does not stop probes") {
  HttpFixture fixture;
  HttpConnection upload(fixture.port);
  constexpr std::size_t kSize = 100'000'000;
  std::thread sender([&] {
    upload.send("POST /api/v1/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(kSize) + "\r\n\r\n");
    const std::string piece(1'000'000, 'x');
    for (std::size_t sent = 0; sent < kSize; sent += piece.size()) upload.send(piece);
  });
  std::chrono::steady_clock::duration worst{};
  for (int i = 0; i < 20; ++i) {
    const auto began = std::chrono::steady_clock::now();
    CHECK(http_get(fixture.port, "/healthz").status == 200);
    worst = std::max(worst, std::chrono::steady_clock::now() - began);
    std::this_thread::sleep_for(5ms);
  }
  sender.join();
  CHECK(upload.answer().status == 201);
  CHECK(fixture.service.uploaded.size() == kSize);
  CHECK(worst < 500ms);
}

TEST_CASE("Loki push: forms, codings, answers") {
  HttpFixture fixture;
  const std::string json = R"({"streams":[{"stream":{"job":"train"},"values":[["1700000000000000000","one"],["1700000000000000001","two"]]}]})";
  CHECK(http_post(fixture.port, "/loki/api/v1/push", json).status == 204);
  REQUIRE(fixture.service.pushed.size() == 1);
  CHECK(fixture.service.pushed[0].lines[1].text == "two");
  const std::uint64_t hash = fixture.service.last_hash;
  CHECK(http_post(fixture.port, "/loki/api/v1/push", api::gzip(json, 6), "Content-Type: application/json; charset=utf-8\r\nContent-Encoding: gzip\r\n").status == 204);
  CHECK(fixture.service.last_hash == hash);   // of what was unpacked
  CHECK(http_post(fixture.port, "/loki/api/v1/push", json, "Content-Type: application/json\r\nContent-Encoding: br\r\n").status == 415);
  CHECK(http_post(fixture.port, "/loki/api/v1/push", json, "Content-Type: text/plain\r\n").status == 415);
  std::string snappy_body;
  const std::string entry = "\x12\x05\x12\x03one";   // EntryAdapter{line: "one"}
  const std::string labels = "{a=\"b\"}";
  const std::string stream = "\x0a" + std::string(1, static_cast<char>(labels.size())) + labels + entry;
  const std::string message = "\x0a" + std::string(1, static_cast<char>(stream.size())) + stream;
  snappy::Compress(message.data(), message.size(), &snappy_body);
  CHECK(http_post(fixture.port, "/loki/api/v1/push", snappy_body, "Content-Type: application/x-protobuf\r\n").status == 204);
  CHECK(fixture.service.pushed[0].labels[0].second == "b");
  CHECK(http_post(fixture.port, "/loki/api/v1/push", snappy_body, "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n").status == 204);
  CHECK(http_post(fixture.port, "/loki/api/v1/push", message, "Content-Type: application/x-protobuf\r\n").status == 400);
  const HttpAnswer bad = http_post(fixture.port, "/loki/api/v1/push", R"({"streams":[5]})");
  CHECK(bad.status == 400);
  CHECK(body_of(bad)["offset"] == 12);
  CHECK(fixture.registry.counter(daemon::metrics::kPushBatches, {"loki", "malformed"}).value() == 2);
  CHECK(fixture.registry.counter(daemon::metrics::kPushLines, {"loki"}).value() == 6);
}

TEST_CASE("OTLP push: answers in the request's encoding, partial success, errors as a status") {
  HttpFixture fixture;
  const std::string json = R"({"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"one"}},{"timeUnixNano":"1"}]}]}]})";
  const HttpAnswer partial = http_post(fixture.port, "/v1/logs", json);
  CHECK(partial.status == 200);
  CHECK(body_of(partial)["partialSuccess"]["rejectedLogRecords"] == "1");
  // LogRecord{body: {string: "x"}} in a scope in a resource.
  const std::string wire("\x0a\x09\x12\x07\x12\x05\x2a\x03\x0a\x01x", 11);
  const HttpAnswer whole = http_post(fixture.port, "/v1/logs", wire, "Content-Type: application/x-protobuf\r\n");
  CHECK(whole.status == 200);
  CHECK(whole.headers.at("content-type") == "application/x-protobuf");
  CHECK(whole.body.empty());
  CHECK(fixture.service.pushed[0].lines[0].text == "x");
  const HttpAnswer cut = http_post(fixture.port, "/v1/logs", wire.substr(0, 8), "Content-Type: application/x-protobuf\r\n");
  CHECK(cut.status == 400);
  CHECK(cut.headers.at("content-type") == "application/x-protobuf");
  CHECK(cut.body.find("byte") != std::string::npos);
  fixture.service.push_answer = {daemon::PushAnswer::What::busy, 7, "the desk is full"};
  const HttpAnswer busy = http_post(fixture.port, "/v1/logs", json);
  CHECK(busy.status == 429);
  CHECK(busy.headers.at("retry-after") == "7");
  CHECK(body_of(busy)["code"] == 8);
}

TEST_CASE("newline JSON push: labels of the query, rejected records, back-pressure, bombs") {
  api::HttpConfig config = test_config();
  config.limits.push_bytes = 200'000;
  config.limits.push_unpacked_bytes = 1'000'000;
  HttpFixture fixture(config);
  const std::string type = "Content-Type: application/x-ndjson\r\n";
  const HttpAnswer good = http_post(fixture.port, "/api/v1/push/ndjson?job=j1", "{\"message\":\"a\"}\n{\"x\":1}\n", type);
  CHECK(good.status == 200);
  CHECK(body_of(good) == Json::parse(R"({"accepted":1,"rejected":1,"why":"a record has none of message, log, msg, MESSAGE and body as a text"})"));
  CHECK(fixture.service.pushed[0].labels[0].second == "j1");
  CHECK(http_post(fixture.port, "/api/v1/push/ndjson", "{\"x\":1}\n", type).status == 400);
  CHECK(http_post(fixture.port, "/api/v1/push/ndjson", "", type).status == 200);
  const HttpAnswer bomb = http_post(fixture.port, "/api/v1/push/ndjson", api::gzip(std::string(50'000'000, ' '), 9), type + "Content-Encoding: gzip\r\n");
  CHECK(bomb.status == 413);
  CHECK(http_post(fixture.port, "/api/v1/push/ndjson", std::string(200'001, ' '), type).status == 413);
  fixture.service.push_answer = {daemon::PushAnswer::What::busy, 3, "full"};
  const HttpAnswer busy = http_post(fixture.port, "/api/v1/push/ndjson", "{\"message\":\"a\"}\n", type);
  CHECK(busy.status == 429);
  CHECK(busy.headers.at("retry-after") == "3");
  fixture.service.push_answer = {daemon::PushAnswer::What::refused, 0, "too old"};
  CHECK(http_post(fixture.port, "/api/v1/push/ndjson", "{\"message\":\"a\"}\n", type).status == 422);
}

TEST_CASE("the page: types, tags, packing, policy, paths of its own") {
  const std::string script(5000, 'x');
  const parsers::EmbeddedFile files[] = {{"index.html", "<!doctype html><title>t</title>"}, {"assets/app-1234.js", script}};
  HttpFixture fixture(test_config(), files);
  const HttpAnswer start = http_get(fixture.port, "/");
  CHECK(start.status == 200);
  CHECK(start.headers.at("content-type") == "text/html; charset=utf-8");
  CHECK(start.headers.at("content-security-policy").find("script-src 'self'") != std::string::npos);
  CHECK(start.headers.at("content-security-policy").find("unsafe") == std::string::npos);
  CHECK(start.headers.at("cache-control") == "no-cache");
  CHECK(http_get(fixture.port, "/", "If-None-Match: " + start.headers.at("etag") + "\r\n").status == 304);
  const HttpAnswer packed = http_get(fixture.port, "/assets/app-1234.js", "Accept-Encoding: gzip, br\r\n");
  CHECK(packed.headers.at("content-encoding") == "gzip");
  CHECK(packed.headers.at("cache-control").find("immutable") != std::string::npos);
  CHECK(*api::unpack(api::Coding::gzip, packed.body, 10'000) == script);
  CHECK(http_get(fixture.port, "/assets/app-1234.js").body == script);
  CHECK(http_get(fixture.port, "/incidents/abc").body == start.body);   // a path of the page
  CHECK(http_get(fixture.port, "/nothing.js").status == 404);
  CHECK(http_get(fixture.port, "/api/v1/nothing").status == 404);
  CHECK(http_get(fixture.port, "/..%2findex.html").status == 400);
  HttpFixture without;
  CHECK(body_of(http_get(without.port, "/"))["code"] == "no_page");
  const HttpAnswer told = http_get(without.port, "/", "Accept: text/html,*/*\r\n");   // a browser
  CHECK(told.status == 404);
  CHECK(told.body.find("built without its page") != std::string::npos);
  CHECK(told.headers.at("content-security-policy").find("default-src 'none'") != std::string::npos);
}
