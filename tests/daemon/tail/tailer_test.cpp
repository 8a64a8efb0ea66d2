#include "daemon/tail/tailer.hpp"

#include <doctest/doctest.h>

#include "tests/support/fake_file_system.hpp"
#include "tests/support/gzip.hpp"

using namespace triage::daemon;
using triage::parsers::TimePoint;
using triage::tests::FakeFileSystem;
using triage::tests::gzipped;
using What = TailStep::What;

namespace {

struct Seen {
  std::string text, shown, why;
  std::uint64_t lost = 0;
  std::vector<What> whats;
};

class Fixture {
 public:
  FakeFileSystem files;
  TailOptions options;
  std::optional<Tailer> tailer;
  explicit Fixture(std::size_t room = 4096) : room_(room) { tailer.emplace(files, "/l/a.log", std::nullopt, options); }
  void pass(std::int64_t ms) { files.now_ns += ms * 1'000'000; }
  TimePoint now() const { return TimePoint(std::chrono::microseconds(files.now_ns / 1000)); }
  void restart() { tailer.emplace(files, "/l/a.log", std::optional(Checkpoint(tailer->checkpoint())), options); }
  // Steps until nothing new comes.
  Seen read() {
    Seen out;
    for (int i = 0; i < 10'000; ++i) {
      auto step = tailer->step(room_, now());
      REQUIRE(step.ok());
      out.lost += step->lost_bytes;
      if (!step->why.empty()) out.why = step->why;
      if (step->what == What::idle) return out;
      out.whats.push_back(step->what);
      (step->partial ? out.shown : out.text).append(room_.data(), step->size);
    }
    FAIL("it never rests");
    return out;
  }

 private:
  std::vector<char> room_;
};

}  // namespace

TEST_CASE("whole lines are handed out, an unfinished one is shown after the flush time and comes whole when it is") {
  Fixture f;
  CHECK(f.read().text.empty());
  f.files.write("/l/a.log", "one\ntwo\nthr");
  CHECK(f.read().text == "one\ntwo\n");
  CHECK(f.tailer->behind() == 3);
  REQUIRE(f.tailer->wake());
  f.pass(2100);
  const Seen shown = f.read();
  CHECK(shown.shown == "thr");
  CHECK(f.tailer->checkpoint().offset == 8);
  CHECK(f.tailer->checkpoint().lines == 2);
  f.pass(5000);
  CHECK(f.read().shown.empty());
  f.files.write("/l/a.log", "ee\n");
  CHECK(f.read().text == "three\n");
  CHECK(!f.tailer->wake());
}

TEST_CASE("states of a progress bar are taken although no line ends") {
  Fixture f;
  f.files.write("/l/a.log", "\r 1%|#\r 2%|##\r 3%|###");
  const Seen seen = f.read();
  CHECK(seen.text == "\r 1%|#\r 2%|##\r");
  f.files.write("/l/a.log", "\r 4%\n");
  CHECK(f.read().text == " 3%|###\r 4%\n");
}

TEST_CASE("a line longer than the room: its head comes, its rest is counted as lost, the next line is whole") {
  Fixture f(100);
  f.files.write("/l/a.log", "before\n" + std::string(1000, 'x') + "\nafter\n");
  const Seen seen = f.read();
  CHECK(seen.text == "before\nafter\n");
  CHECK(seen.shown == std::string(100, 'x'));
  CHECK(seen.lost == 900);
  CHECK(f.tailer->checkpoint().lines == 3);
  CHECK(f.tailer->checkpoint().offset == 7 + 1001 + 6);
}

TEST_CASE("100 MB of one line cost no memory and hold no other file up") {
  Fixture f(1 << 20);
  f.files.write("/l/a.log", std::string(100'000'000, 'x'));
  std::vector<char> room(1 << 20);
  int steps = 0;
  while (f.tailer->step(room, f.now())->what == What::bytes) ++steps;
  CHECK(steps == 96);
  CHECK(f.tailer->checkpoint().offset == 0);   // a restart begins with the line again
  f.files.write("/l/a.log", "\nnext\n");
  CHECK(f.read().text == "next\n");
}

TEST_CASE("the hole that a writer leaves behind that does not append is skipped") {
  Fixture f(64);
  f.files.write("/l/a.log", "old line\n");
  CHECK(f.read().text == "old line\n");
  f.pass(10);
  f.files.overwrite("/l/a.log", std::string(500, '\0') + "new line\n");
  const Seen seen = f.read();
  CHECK(seen.text == "new line\n");
  CHECK(seen.whats.front() == What::truncated);
  CHECK(f.tailer->generation() == 1);
}

TEST_CASE("NUL bytes at the end wait: a file server may fill them in yet") {
  Fixture f;
  f.files.write("/l/a.log", "a\n" + std::string(10, '\0'));
  CHECK(f.read().text == "a\n");
  f.pass(10'000);
  CHECK(f.read().shown.empty());
  f.files.overwrite("/l/a.log", "a\n0123456789\n");
  CHECK(f.read().text == "0123456789\n");
  CHECK(f.tailer->generation() == 0);
}

TEST_CASE("replaced by the same size, in place and by another file") {
  Fixture f;
  f.files.write("/l/a.log", "first\n");
  CHECK(f.read().text == "first\n");
  f.pass(60'000);
  CHECK(f.read().text.empty());
  f.files.overwrite("/l/a.log", "other\n");
  Seen seen = f.read();
  CHECK(seen.text == "other\n");
  CHECK(seen.whats.front() == What::truncated);
  f.pass(60'000);
  f.files.write("/l/new", "third\n");
  f.files.rename("/l/new", "/l/a.log");
  CHECK(f.read().text.empty());   // the old one might be written on
  f.pass(1100);
  seen = f.read();
  CHECK(seen.text == "third\n");
  CHECK(seen.whats.front() == What::new_generation);
  CHECK(f.tailer->generation() == 2);
}

TEST_CASE("an inode that is used again is another file") {
  Fixture f;
  f.files.write("/l/a.log", "first line\n");
  CHECK(f.read().text == "first line\n");
  f.tailer->rest();
  f.pass(1000);
  const std::uint64_t inode = f.files.names.at("/l/a.log")->inode;
  f.files.remove("/l/a.log");
  f.files.write("/l/a.log", "a longer first line\n");
  REQUIRE(f.files.names.at("/l/a.log")->inode == inode);
  CHECK(f.read().text == "a longer first line\n");
}

TEST_CASE("an idle file costs one question and no descriptor") {
  Fixture f;
  f.files.write("/l/a.log", "line\n");
  (void)f.read();
  f.pass(10'000);
  (void)f.read();
  f.tailer->rest();
  const auto opens = f.files.opens, reads = f.files.reads, infos = f.files.infos;
  (void)f.read();
  CHECK(f.files.opens == opens);
  CHECK(f.files.reads == reads);
  CHECK(f.files.infos == infos + 1);
  CHECK(sizeof(Tailer) < 600);
}

TEST_CASE("without descriptors nothing is lost: the next look finds all") {
  Fixture f;
  f.files.write("/l/a.log", "line\n");
  f.files.fail_opens = true;
  std::vector<char> room(100);
  const auto step = f.tailer->step(room, f.now());
  REQUIRE(!step.ok());
  CHECK(step.error().code() == triage::parsers::ErrorCode::unavailable);
  f.files.fail_opens = false;
  CHECK(f.read().text == "line\n");
}

TEST_CASE("a pipe under the path is refused") {
  Fixture f;
  f.files.pipes.insert("/l/a.log");
  std::vector<char> room(100);
  const auto step = f.tailer->step(room, f.now());
  REQUIRE(!step.ok());
  CHECK(step.error().code() == triage::parsers::ErrorCode::unsupported);
}

TEST_CASE("a clock that is set back or forth neither stops the flush nor loses bytes") {
  Fixture f;
  f.files.write("/l/a.log", "one\npart");
  CHECK(f.read().text == "one\n");
  f.pass(-86'400'000);
  CHECK(f.read().text.empty());
  f.pass(2100);
  CHECK(f.read().shown == "part");
  f.pass(10LL * 86'400'000);
  f.files.write("/l/a.log", "ial\n");
  CHECK(f.read().text == "partial\n");
}

TEST_CASE("a file that is another source is not taken for a rotated one") {
  Fixture f;
  f.options.is_source = [](const std::string& path) { return path == "/l/a.log.1"; };
  f.files.write("/l/a.log", "one\n");
  CHECK(f.read().text == "one\n");
  f.pass(1000);
  f.files.write("/l/a.log.1", "rank 1\n");
  f.files.remove("/l/a.log");
  f.files.write("/l/a.log", "two two\n");
  CHECK(f.read().text.empty());   // its writer may still have the old one
  f.pass(2000);
  CHECK(f.read().text == "two two\n");
  CHECK(f.tailer->generation() == 1);
}

TEST_CASE("what was written before the file was rotated and packed is read out of the packed file, from where it was taken") {
  Fixture f;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i) + "\n";
  f.files.write("/l/a.log", text.substr(0, 10'000));
  const Seen before = f.read();
  f.restart();
  f.pass(3000);
  f.files.remove("/l/a.log");
  f.files.write("/l/a.log.1.gz", gzipped(text));
  f.files.write("/l/a.log", "the next file\n");
  const Seen rest = f.read();
  CHECK(before.text + rest.text.substr(0, text.size() - before.text.size()) == text);
  f.pass(2000);
  const std::string beyond = rest.text.substr(text.size() - before.text.size()) + f.read().text;
  CHECK(beyond == "the next file\n");
  CHECK(rest.lost == 0);
  f.restart();
  f.pass(3000);
  CHECK(f.read().text.empty());
}

TEST_CASE("files that were rotated and packed during an outage are read whole, oldest first; one that was read is not read again") {
  Fixture f;
  f.files.write("/l/a.log", "one\n");
  CHECK(f.read().text == "one\n");
  bool restarted = false;
  SUBCASE("running") {}
  SUBCASE("restarted") { restarted = true; }
  f.pass(10'000);
  // Three rotations with delaycompress.
  f.files.rename("/l/a.log", "/l/a.log.1");
  f.files.write("/l/a.log.1", "one more\n");
  f.pass(1000);
  f.files.remove("/l/a.log.1");
  f.files.write("/l/a.log.3.gz", gzipped("one\none more\n"));
  f.pass(1000);
  f.files.write("/l/a.log.2.gz", gzipped("two\n"));
  f.pass(1000);
  f.files.write("/l/a.log.1", "three\n");
  f.pass(1000);
  f.files.write("/l/a.log", "four\n");
  if (restarted) f.restart();
  std::string all;
  for (int i = 0; i < 10; ++i) {
    const Seen seen = f.read();
    CHECK(seen.lost == 0);
    all += seen.text;
    f.pass(2000);
  }
  CHECK(all == "one more\ntwo\nthree\nfour\n");
  // What was read plain is packed now.
  f.files.remove("/l/a.log.1");
  f.files.write("/l/a.log.2.gz", gzipped("three\n"));
  f.files.rename("/l/a.log", "/l/a.log.1");
  f.files.write("/l/a.log", "five\n");
  all.clear();
  for (int i = 0; i < 10; ++i) {
    all += f.read().text;
    f.pass(2000);
  }
  CHECK(all == "five\n");
}

TEST_CASE("a file server that does not answer: nothing counts as missing, and it is asked again") {
  Fixture f;
  f.files.write("/l/a.log", "one\n");
  CHECK(f.read().text == "one\n");
  f.pass(5000);
  f.files.rename("/l/a.log", "/l/a.log.1");
  f.files.write("/l/a.log.1", "two\n");
  f.files.write("/l/a.log", "three\n");
  f.restart();
  std::vector<char> room(4096);
  for (const int good : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {   // the call after so many is stuck
    f.files.answers = good;
    const auto step = f.tailer->step(room, f.now());
    if (step.ok()) continue;
    CHECK(step.error().code() == triage::parsers::ErrorCode::limit);
    REQUIRE(f.tailer->wake());
    CHECK(*f.tailer->wake() > f.now());
    f.restart();
  }
  f.files.answers = -1;
  f.restart();
  std::string all;
  std::uint64_t lost = 0;
  for (int i = 0; i < 5; ++i) {
    const Seen seen = f.read();
    all += seen.text;
    lost += seen.lost;
    f.pass(2000);
  }
  CHECK(lost == 0);
  CHECK((all == "two\nthree\n" || all == "three\n"));   // steps before may have taken the first
}

TEST_CASE("late bytes of a file that was left are reported") {
  Fixture f;
  const auto writer = f.files.create("/l/a.log");
  f.files.append(*writer, "one\n");
  (void)f.read();
  f.files.rename("/l/a.log", "/l/a.log.1");
  f.files.write("/l/a.log", "new\n");
  f.pass(1500);
  CHECK(f.read().text.empty());
  f.pass(1500);
  CHECK(f.read().text == "new\n");
  f.files.append(*writer, "late\n");
  CHECK(f.read().lost == 5);
  CHECK(f.read().lost == 0);
}
