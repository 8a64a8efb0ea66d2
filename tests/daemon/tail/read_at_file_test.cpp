#include "daemon/tail/read_at_file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>

#include "tests/support/real_files.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage;
using namespace triage::daemon;
using parsers::ErrorCode;
using tests::TempFolder;

namespace {

// Answers that come only at the `late`-th call.
class SlowFiles final : public tests::RealFiles {
 public:
  explicit SlowFiles(int late) : late_(late) {}
  parsers::Result<std::unique_ptr<OpenFile>> open(const std::string& path) override {
    if (late_-- > 0) return parsers::Error(ErrorCode::limit, "a file server does not answer");
    return RealFiles::open(path);
  }

 private:
  int late_;
};

std::string all_of(parsers::ReadAt& file) {
  const auto text = parsers::read_range(file, 0, 1 << 20);
  return text.ok() ? *text : "error: " + text.error().message();
}

}  // namespace

TEST_CASE("read at: bytes by position and in order, as many as there were when it was opened") {
  const TempFolder folder;
  folder.append("dump", "0123456789");
  const auto file = open_read_at(folder / "dump");
  REQUIRE(file.ok());
  folder.append("dump", "later");
  CHECK((*file)->size() == 10);
  CHECK(all_of(**file) == "0123456789");
  CHECK(*parsers::read_range(**file, 7, 10) == "789");
  CHECK(parsers::read_range(**file, 10, 10)->empty());
  ReadAtSource source(**file);
  char room[4];
  std::string out;
  for (;;) {
    const auto count = source.read(room);
    REQUIRE(count.ok());
    if (*count == 0) break;
    out.append(room, *count);
  }
  CHECK(out == "0123456789");
  CHECK(source.seek(8));
  CHECK(*source.read(room) == 2);
}

TEST_CASE("read at: a name that leads out of the watched folders since it was watched is not followed") {
  const TempFolder folder, outside;
  outside.append("secret", "root:x:0:0\n");
  folder.append("rank0.log", "a line\n");
  PosixFileSystem files;
  files.set_roots({folder.path()});
  CHECK(open_read_at(files, folder / "rank0.log", std::chrono::seconds(0)).ok());
  std::filesystem::remove(folder / "rank0.log");
  std::filesystem::create_symlink(outside / "secret", folder / "rank0.log");
  const auto file = open_read_at(files, folder / "rank0.log", std::chrono::seconds(0));
  REQUIRE_FALSE(file.ok());
  CHECK(file.error().code() == ErrorCode::unsupported);
  std::filesystem::remove(folder / "rank0.log");
  std::filesystem::create_directory_symlink(outside.path(), folder / "job");
  CHECK_FALSE(open_read_at(files, folder / "job/secret", std::chrono::seconds(0)).ok());
}

TEST_CASE("read at: a descriptor that was taken back is had again, unless the name leads to another file") {
  const TempFolder folder;
  folder.append("dump", "0123456789");
  PosixFileSystem files;
  const auto file = open_read_at(files, folder / "dump", std::chrono::seconds(0));
  REQUIRE(file.ok());
  files.close_idle(std::chrono::seconds(0));
  CHECK(files.open_descriptors() == 0);
  CHECK(all_of(**file) == "0123456789");
  files.close_idle(std::chrono::seconds(0));
  folder.append("other", "abcdefghij");
  std::filesystem::rename(folder / "other", folder / "dump");
  const auto text = parsers::read_range(**file, 0, 10);
  REQUIRE_FALSE(text.ok());
  CHECK(text.error().code() == ErrorCode::not_found);
}

TEST_CASE("read at: a late answer of a file server is waited for, but not for ever") {
  const TempFolder folder;
  folder.append("dump", "0123456789");
  SlowFiles slow(3);
  CHECK(open_read_at(slow, folder / "dump", std::chrono::seconds(10)).ok());
  SlowFiles stuck(1'000'000);
  const auto none = open_read_at(stuck, folder / "dump", std::chrono::milliseconds(50));
  REQUIRE_FALSE(none.ok());
  CHECK(comes_later(none.error()));
}
