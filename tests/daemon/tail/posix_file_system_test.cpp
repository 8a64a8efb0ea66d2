#include "daemon/tail/posix_file_system.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "daemon/tail/tailer.hpp"
#include "tests/support/temp_folder.hpp"

using namespace triage::daemon;
using triage::parsers::ErrorCode;
using triage::parsers::TimePoint;
using triage::tests::TempFolder;

namespace {

TimePoint now() { return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()); }

std::string read_all(Tailer& tailer, std::vector<char>& room) {
  std::string out;
  for (int i = 0; i < 100; ++i) {
    const auto step = tailer.step(room, now());
    if (!step.ok() || step->what == TailStep::What::idle) break;
    out.append(room.data(), step->size);
  }
  return out;
}

}  // namespace

TEST_CASE("more files than descriptors: each gives its own back in time, and none loses a line") {
  const TempFolder folder;
  PosixFileOptions options;
  options.descriptors = 5;
  PosixFileSystem files(options);
  std::vector<char> room(4096);
  std::vector<std::unique_ptr<Tailer>> tailers;
  for (int i = 0; i < 40; ++i) {
    folder.append("f" + std::to_string(i), "one\n");
    tailers.push_back(std::make_unique<Tailer>(files, folder / ("f" + std::to_string(i)), std::nullopt));
  }
  for (const char* const text : {"one\n", "two\n", "three\n"}) {
    for (int i = 0; i < 40; ++i) {
      if (std::string(text) != "one\n") folder.append("f" + std::to_string(i), text);
      CHECK(read_all(*tailers[static_cast<std::size_t>(i)], room) == text);
      CHECK(files.open_descriptors() <= 6);
    }
  }
}

TEST_CASE("files take no more descriptors than leave others theirs") {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  struct Row {
    rlim_t limit;
    std::size_t wanted, given;
  };
  for (const Row& row : {Row{48, 2048, 24}, Row{48, 10, 10}, Row{1024, 2048, 896}, Row{1024, 512, 512}, Row{1024, 0, 1}, Row{256, 256, 128}}) {
    CAPTURE(row.limit);
    CAPTURE(row.wanted);
    if (row.limit > before.rlim_max) continue;
    rlimit now = before;
    now.rlim_cur = row.limit;
    ::setrlimit(RLIMIT_NOFILE, &now);
    const std::size_t given = descriptors_within_limit(row.wanted);
    ::setrlimit(RLIMIT_NOFILE, &before);
    CHECK(given == row.given);
  }
}

TEST_CASE("a process without descriptors: the files give theirs, then it is told, and afterwards all goes on") {
  const TempFolder folder;
  PosixFileSystem files;
  std::vector<char> room(4096);
  std::vector<std::unique_ptr<Tailer>> tailers;
  for (int i = 0; i < 8; ++i) {
    folder.append("f" + std::to_string(i), "one\n");
    tailers.push_back(std::make_unique<Tailer>(files, folder / ("f" + std::to_string(i)), std::nullopt));
    CHECK(read_all(*tailers.back(), room) == "one\n");
  }
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 64;
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::vector<int> taken;
  const auto take_all = [&taken] {
    for (int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC); fd >= 0; fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) taken.push_back(fd);
  };
  take_all();
  CHECK(files.open(folder / "f0").ok());     // out of those of the tailers
  take_all();
  files.close_idle(std::chrono::seconds(0));
  take_all();
  const auto none = files.open(folder / "f0");
  CHECK_FALSE(none.ok());
  if (!none.ok()) {
    CHECK(none.error().code() == ErrorCode::unavailable);
    CHECK(none.error().help_text().find("LimitNOFILE") != std::string::npos);
  }
  CHECK_FALSE(tailers[0]->step(room, now()).ok());
  CHECK(tailers[0]->wake());
  for (const int fd : taken) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &before);
  for (std::size_t i = 0; i < tailers.size(); ++i) {
    folder.append("f" + std::to_string(i), "two\n");
    CHECK(read_all(*tailers[i], room) == "two\n");
  }
}

TEST_CASE("pipes, devices and folders are refused without a touch, and what is missing is told as missing") {
  const TempFolder folder;
  PosixFileSystem files;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "pipe", folder.path(), std::string("/dev/null")}) {
    CAPTURE(path);
    const auto file = files.open(path);   // a pipe without writer would wait
    CHECK_FALSE(file.ok());
    CHECK(file.error().code() == ErrorCode::unsupported);
  }
  CHECK(files.open(folder / "none").error().code() == ErrorCode::not_found);
  CHECK(files.open(folder / "none/x").error().code() == ErrorCode::not_found);
  CHECK(files.info(folder / "none").error().code() == ErrorCode::not_found);
  CHECK(files.list(folder / "none").error().code() == ErrorCode::not_found);
  CHECK(files.list(folder.path())->size() == 1);
  CHECK_FALSE(files.remote(folder.path()));
}

TEST_CASE("only files below the roots may be opened, wherever links lead") {
  const TempFolder folder;
  PosixFileSystem files;
  std::filesystem::create_directory(folder / "logs");
  folder.append("logs/a.log", "one\n");
  folder.append("secret", "s\n");
  std::filesystem::create_symlink(folder / "secret", folder / "logs/b.log");
  std::filesystem::create_symlink(folder / "logs/a.log", folder / "logs/c.log");
  CHECK(files.open(folder / "logs/b.log").ok());
  files.set_roots({folder / "logs"});
  CHECK(files.open(folder / "logs/a.log").ok());
  CHECK(files.open(folder / "logs/c.log").ok());
  for (const char* const name : {"logs/b.log", "secret", "logs/../secret"}) CHECK(files.open(folder / name).error().code() == ErrorCode::unsupported);
  files.set_roots({});
  CHECK(files.open(folder / "secret").ok());
}
