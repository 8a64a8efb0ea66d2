// The world of the tailer's model test: a folder with one log in it and the processes that write, rotate and destroy it; in memory or real.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/tail/posix_file_system.hpp"
#include "tests/support/fake_file_system.hpp"
#include "tests/support/gzip.hpp"

namespace triage::tests {

// All names are within the folder. The writer appends to the file that it has open, whatever its name became.
class TailWorld {
 public:
  virtual ~TailWorld() = default;
  virtual daemon::FileSystem& files() = 0;
  virtual std::string path(const std::string& name) const = 0;
  virtual void open_writer(const std::string& name) = 0;     // creates it if it is missing
  virtual void write(const std::string& bytes) = 0;
  virtual bool exists(const std::string& name) = 0;
  virtual void create(const std::string& name) = 0;
  virtual void copy(const std::string& from, const std::string& to) = 0;
  virtual void truncate(const std::string& name) = 0;
  virtual void overwrite(const std::string& name, const std::string& bytes) = 0;   // in place
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& name) = 0;
  virtual void pack(const std::string& name) = 0;            // NAME.gz instead of NAME, with its time, as gzip does
  virtual void take_descriptors_back() = 0;
  std::int64_t now_ns = 1'700'000'000'000'000'000;
};

class FakeTailWorld final : public TailWorld {
 public:
  FakeFileSystem fake;
  daemon::FileSystem& files() override { return at(); }
  std::string path(const std::string& name) const override { return "/logs/" + name; }
  void open_writer(const std::string& name) override { writer_ = at().create(path(name)); }
  void write(const std::string& bytes) override { at().append(*writer_, bytes); }
  bool exists(const std::string& name) override { return fake.exists(path(name)); }
  void create(const std::string& name) override { at().create(path(name)); }
  void copy(const std::string& from, const std::string& to) override { at().copy(path(from), path(to)); }
  void truncate(const std::string& name) override { at().truncate(path(name)); }
  void overwrite(const std::string& name, const std::string& bytes) override { at().overwrite(path(name), bytes); }
  void rename(const std::string& from, const std::string& to) override { at().rename(path(from), path(to)); }
  void remove(const std::string& name) override { at().remove(path(name)); }
  void pack(const std::string& name) override {
    const auto plain = at().names.at(path(name));
    const std::int64_t changed_ns = plain->changed_ns;
    at().write(path(name) + ".gz", gzipped(plain->bytes));
    at().names.at(path(name) + ".gz")->changed_ns = changed_ns / 1'000'000'000 * 1'000'000'000;
    at().remove(path(name));
  }
  void take_descriptors_back() override { fake.take_descriptors_back(); }
  FakeFileSystem::BodyPtr writer() const { return writer_; }

 private:
  FakeFileSystem& at() {
    fake.now_ns = now_ns;
    return fake;
  }
  FakeFileSystem::BodyPtr writer_;
};

class RealTailWorld final : public TailWorld {
 public:
  RealTailWorld() {
    std::string name = std::filesystem::temp_directory_path() / "triage-tail-XXXXXX";
    if (!::mkdtemp(name.data())) std::abort();
    folder_ = name;
  }
  ~RealTailWorld() override {
    if (writer_ >= 0) ::close(writer_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  daemon::FileSystem& files() override { return posix_; }
  std::string path(const std::string& name) const override { return folder_ + "/" + name; }
  void open_writer(const std::string& name) override {
    if (writer_ >= 0) ::close(writer_);
    const bool fresh = !exists(name);
    writer_ = ::open(path(name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fresh) stamp(writer_);
  }
  void write(const std::string& bytes) override {
    if (::write(writer_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
    stamp(writer_);
  }
  bool exists(const std::string& name) override { return std::filesystem::exists(path(name)); }
  void create(const std::string& name) override { put(name, "", O_EXCL); }
  void copy(const std::string& from, const std::string& to) override {
    std::ifstream in(path(from), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    remove(to);
    put(to, bytes, 0);
  }
  void truncate(const std::string& name) override { put(name, "", O_TRUNC); }
  void overwrite(const std::string& name, const std::string& bytes) override { put(name, bytes, O_TRUNC); }
  void rename(const std::string& from, const std::string& to) override { std::filesystem::rename(path(from), path(to)); }
  void remove(const std::string& name) override { std::filesystem::remove(path(name)); }
  void pack(const std::string& name) override {
    struct stat plain {};
    if (::stat(path(name).c_str(), &plain) != 0) std::abort();
    std::ifstream in(path(name), std::ios::binary);
    put(name + ".gz", gzipped({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}), 0);
    const timespec times[2] = {{plain.st_mtim.tv_sec, 0}, {plain.st_mtim.tv_sec, 0}};
    ::utimensat(AT_FDCWD, path(name + ".gz").c_str(), times, 0);
    remove(name);
  }
  void take_descriptors_back() override { posix_.close_idle(std::chrono::seconds(0)); }

 private:
  void put(const std::string& name, const std::string& bytes, int flags) {
    const int fd = ::open(path(name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
    stamp(fd);
    ::close(fd);
  }
  // The world's clock is not the machine's.
  void stamp(int fd) {
    const timespec time{now_ns / 1'000'000'000, now_ns % 1'000'000'000};
    const timespec times[2] = {time, time};
    ::futimens(fd, times);
  }
  daemon::PosixFileSystem posix_;
  std::string folder_;
  int writer_ = -1;
};

}  // namespace triage::tests
