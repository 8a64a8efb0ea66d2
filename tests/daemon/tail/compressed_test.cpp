#include "daemon/tail/compressed.hpp"

#include <doctest/doctest.h>

#include "daemon/tail/file_identity.hpp"
#include "daemon/tail/tailer.hpp"
#include "tests/support/fake_file_system.hpp"
#include "tests/support/gzip.hpp"

using namespace triage::daemon;
using triage::parsers::TimePoint;
using triage::tests::FakeFileSystem;
using triage::tests::gzipped;

namespace {

std::string lines(int from, int to) {
  std::string out;
  for (int i = from; i < to; ++i) out += "step " + std::to_string(i) + " loss 2.5\n";
  return out;
}

TimePoint now(const FakeFileSystem& files) { return TimePoint(std::chrono::microseconds(files.now_ns / 1000)); }

std::string read_all(Tailer& tailer, FakeFileSystem& files) {
  std::vector<char> room(16 * 1024);
  std::string out;
  for (int i = 0; i < 1000; ++i) {
    files.now_ns += 1'000'000'000;
    const auto step = tailer.step(room, now(files));
    REQUIRE(step.ok());
    out.append(room.data(), step->size);
    if (step->what == TailStep::What::idle) break;
  }
  return out;
}

}  // namespace

TEST_CASE("a packed file reads as what it holds, forth and back; an empty, a cut and a damaged one") {
  FakeFileSystem files;
  const std::string text = lines(0, 20'000);
  files.write("/l/a.gz", gzipped(text));
  auto file = open_unpacked(files, "/l/a.gz");
  REQUIRE(file.ok());
  CHECK((*file)->info()->size == text.size());
  CHECK((*file)->info()->inode == files.info("/l/a.gz")->inode);
  std::string room(1000, '\0');
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{300'000}, std::uint64_t{5}, text.size() - 10}) {
    const auto count = (*file)->read(at, room);
    REQUIRE(count.ok());
    CHECK(room.substr(0, *count) == text.substr(at, 1000));
  }
  CHECK(*(*file)->read(text.size(), room) == 0);
  files.write("/l/empty.gz", gzipped(""));
  CHECK((*open_unpacked(files, "/l/empty.gz"))->info()->size == 0);
  files.write("/l/cut.gz", gzipped(text).substr(0, 5000));
  CHECK(open_unpacked(files, "/l/cut.gz").error().code() == triage::parsers::ErrorCode::syntax);
  files.write("/l/plain.gz", "not packed at all\n");
  CHECK((*open_unpacked(files, "/l/plain.gz"))->info()->size == 18);
  CHECK(open_unpacked(files, "/l/none.gz").error().code() == triage::parsers::ErrorCode::not_found);
  files.answers = 1;
  CHECK(open_unpacked(files, "/l/a.gz").error().code() == triage::parsers::ErrorCode::limit);
}

TEST_CASE("a packed file whose plain form was read goes on where that was left; another one is read whole") {
  FakeFileSystem files;
  UnpackingFileSystem unpacking(files, [&files] { return now(files); });
  const std::string text = lines(0, 3000);
  const std::size_t half = text.find('\n', text.size() / 2) + 1;
  files.write("/l/train.log", text.substr(0, half));
  Tailer plain(files, "/l/train.log", std::nullopt);
  CHECK(read_all(plain, files) == text.substr(0, half));
  Checkpoint other = plain.checkpoint();
  other.check_hash ^= 1;
  const std::vector<Checkpoint> known = {other, plain.checkpoint()};
  files.remove("/l/train.log");
  files.write("/l/train.log.1.gz", gzipped(text));
  files.write("/l/train.log.2.gz", gzipped(lines(5000, 6000)));

  const auto at = packed_checkpoint(unpacking, "/l/train.log.1.gz", known);
  REQUIRE(at.ok());
  REQUIRE(at->has_value());
  CHECK((*at)->lines == plain.checkpoint().lines);
  Tailer rest(unpacking, "/l/train.log.1.gz", *at);
  CHECK(read_all(rest, files) == text.substr(half));
  CHECK(rest.checkpoint().lines == 3000);

  const auto none = packed_checkpoint(unpacking, "/l/train.log.2.gz", known);
  REQUIRE(none.ok());
  CHECK_FALSE(none->has_value());
  Tailer whole(unpacking, "/l/train.log.2.gz", *none);
  CHECK(read_all(whole, files) == lines(5000, 6000));
  whole.rest();
  const std::uint64_t reads = files.reads;
  CHECK(read_all(whole, files).empty());     // idle: its size is remembered
  CHECK(files.reads == reads);
}

TEST_CASE("a packed file that ends too early is being written; when it stands still it is read as far as it goes, and that is told") {
  FakeFileSystem files;
  UnpackingFileSystem unpacking(files, [&files] { return now(files); });
  const std::string text = lines(0, 20'000), packed = gzipped(text);
  files.write("/l/a.log.1.gz", packed.substr(0, packed.size() / 2));
  CHECK(unpacking.open("/l/a.log.1.gz").error().code() == triage::parsers::ErrorCode::syntax);
  CHECK(unpacking.info("/l/a.log.1.gz").error().code() == triage::parsers::ErrorCode::syntax);
  CHECK_FALSE(unpacking.take_damage("/l/a.log.1.gz").has_value());
  files.now_ns += 121'000'000'000;
  Tailer tailer(unpacking, "/l/a.log.1.gz", std::nullopt);
  const std::string read = read_all(tailer, files);
  CHECK(read.size() > text.size() / 4);
  CHECK(text.starts_with(read.substr(0, read.rfind('\n'))));
  const auto damage = unpacking.take_damage("/l/a.log.1.gz");
  REQUIRE(damage.has_value());
  CHECK(damage->message() == "the packed file breaks off");
  CHECK_FALSE(unpacking.take_damage("/l/a.log.1.gz").has_value());
}
