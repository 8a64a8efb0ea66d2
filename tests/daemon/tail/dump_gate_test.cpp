#include "daemon/tail/dump_gate.hpp"

#include <doctest/doctest.h>

#include "tests/support/fake_file_system.hpp"

using namespace triage::daemon;
using triage::parsers::TimePoint;
using triage::tests::FakeFileSystem;
using std::chrono::milliseconds;

namespace {

struct Fixture {
  FakeFileSystem files;
  DumpGate gate{files};
  TimePoint now() const { return TimePoint(std::chrono::microseconds(files.now_ns / 1000)); }
  void pass(std::int64_t ms) { files.now_ns += ms * 1'000'000; }
  std::vector<DumpGate::Ready> take() { return gate.take(now()); }
};

void put(std::string& bytes, std::size_t at, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

// A core with one segment of `bytes` bytes after the headers.
std::string core(std::uint64_t bytes) {
  std::string out(64 + 56, '\0');
  out.replace(0, 7, std::string("\x7f" "ELF\x02\x01\x01", 7));
  put(out, 16, 4, 2);                        // ET_CORE
  put(out, 18, 62, 2);                       // x86-64
  put(out, 20, 1, 4);
  put(out, 32, 64, 8);                       // program headers
  put(out, 52, 64, 2);
  put(out, 54, 56, 2);
  put(out, 56, 1, 2);
  put(out, 64, 1, 4);                        // PT_LOAD
  put(out, 64 + 8, 120, 8);
  put(out, 64 + 32, bytes, 8);
  return out + std::string(static_cast<std::size_t>(bytes), 'm');
}

}  // namespace

TEST_CASE("a dump is handed out once it is quiet and its end is there; each once, and again when it was written anew") {
  struct Row {
    std::string name, begin, end;
  };
  const std::vector<Row> rows = {
      {"snapshot.pickle", std::string("\x80\x04}") + std::string(1000, 'q'), "u."},
      {"nccl_trace.json", "{\"version\": \"2.9\", \"entries\": [", "]}\n"},
      {"py-spy.txt", "Thread 1", " (idle)\n"},
      {"core.123", core(5000).substr(0, 3000), core(5000).substr(3000)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Fixture f;
    const std::string path = "/dumps/" + row.name;
    f.files.write(path, row.begin);
    f.gate.offer(path, f.now());
    CHECK(f.take().empty());
    f.pass(1500);
    f.files.write(path, row.end);
    f.gate.offer(path, f.now());
    f.pass(1900);
    CHECK(f.take().empty());
    REQUIRE(f.gate.wake());
    f.pass(200);
    const auto ready = f.take();
    REQUIRE(ready.size() == 1);
    CHECK(ready[0].path == path);
    CHECK(ready[0].whole);
    CHECK(ready[0].size == row.begin.size() + row.end.size());
    CHECK(f.gate.waiting() == 0);
    CHECK(!f.gate.wake());
    f.gate.offer(path, f.now());
    f.pass(10'000);
    CHECK(f.take().empty());
    f.files.overwrite(path, row.begin + row.end);
    f.gate.offer(path, f.now());
    f.pass(2100);
    CHECK(f.take().size() == 1);
  }
}

TEST_CASE("a dump without its end waits, and is given up on as cut off") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"a.pickle", std::string("\x80\x04}") + std::string(1000, 'q')}, {"b.json", "{\"entries\": ["}, {"core.1", core(9000).substr(0, 4000)}};
  for (const auto& [name, bytes] : rows) {
    const std::string& named = name;
    CAPTURE(named);
    Fixture f;
    f.files.write("/d/" + name, bytes);
    f.gate.offer("/d/" + name, f.now());
    for (int i = 0; i < 11; ++i) {
      f.pass(10'000);
      CHECK(f.take().empty());
    }
    f.pass(11'000);
    const auto ready = f.take();
    REQUIRE(ready.size() == 1);
    CHECK(!ready[0].whole);
  }
}

TEST_CASE("a writer that closed the file says so: the quiet time is not waited for, the end is") {
  Fixture f;
  f.files.write("/d/a.json", "{\"entries\": []}");
  f.gate.offer("/d/a.json", f.now());
  f.gate.closed("/d/a.json", f.now());
  CHECK(f.take().size() == 1);
  f.files.write("/d/b.json", "{\"entries\": [");
  f.gate.closed("/d/b.json", f.now());
  CHECK(f.take().empty());
}

TEST_CASE("an old dump is ready at once, an empty one and one that went are not, and what cannot be opened waits") {
  Fixture f;
  f.files.write("/d/old.json", "{}");
  f.pass(3'600'000);
  f.gate.offer("/d/old.json", f.now());
  CHECK(f.take().size() == 1);
  f.files.create("/d/empty.json");
  f.files.write("/d/gone.json", "{}");
  f.gate.offer("/d/empty.json", f.now());
  f.gate.offer("/d/gone.json", f.now());
  f.files.remove("/d/gone.json");
  f.pass(5000);
  CHECK(f.take().empty());
  CHECK(f.gate.waiting() == 1);
  f.files.write("/d/empty.json", "[]");
  f.gate.offer("/d/empty.json", f.now());
  f.pass(5000);
  f.files.fail_opens = true;
  CHECK(f.take().empty());
  f.pass(200'000);
  CHECK(f.take().empty());
  f.files.fail_opens = false;
  f.pass(5000);
  CHECK(f.take().size() == 1);
}

TEST_CASE("a dump that stays empty is let through once, as one that is cut, and again when it is written after all") {
  Fixture f;
  f.files.create("/d/_dump_3");
  f.gate.offer("/d/_dump_3", f.now());
  f.pass(60'000);
  CHECK(f.take().empty());
  f.pass(61'000);
  const auto given_up = f.take();
  REQUIRE(given_up.size() == 1);
  CHECK(given_up[0].size == 0);
  CHECK_FALSE(given_up[0].whole);
  f.gate.offer("/d/_dump_3", f.now());
  f.pass(300'000);
  CHECK(f.take().empty());
  f.files.write("/d/_dump_3", "[]");
  f.gate.offer("/d/_dump_3", f.now());
  f.pass(2100);
  const auto whole = f.take();
  REQUIRE(whole.size() == 1);
  CHECK(whole[0].whole);
}

TEST_CASE("a clock that is set back does not hold a dump up") {
  Fixture f;
  f.files.write("/d/a.json", "{}");
  f.gate.offer("/d/a.json", f.now());
  f.pass(-86'400'000);
  CHECK(f.take().empty());
  f.pass(2100);
  CHECK(f.take().size() == 1);
}
