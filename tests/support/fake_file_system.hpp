// A file system in memory for the tests of the tailer: inodes that are used again, files held open after they were deleted, coarse times,
// descriptors that are taken back, and faults on demand.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/tail/file_system.hpp"

namespace triage::tests {

class FakeFileSystem final : public daemon::FileSystem {
 public:
  using Error = parsers::Error;
  using ErrorCode = parsers::ErrorCode;
  template <class T>
  using Result = parsers::Result<T>;

  struct Body {
    std::uint64_t inode = 0, links = 0, told = 0;   // told: the largest size that anybody was told of
    std::int64_t changed_ns = 0;
    std::string bytes;
    std::shared_ptr<std::set<std::uint64_t>> free_inodes;
    ~Body() { free_inodes->insert(inode); }
  };
  using BodyPtr = std::shared_ptr<Body>;

  std::int64_t now_ns = 1'700'000'000'000'000'000;
  std::uint64_t device = 7;
  bool fail_opens = false;               // as without descriptors
  int answers = -1;                      // calls that are answered before a file server falls silent; -1: all
  std::map<std::string, BodyPtr> names;
  std::map<std::string, std::string> links;   // symbolic ones
  std::set<std::string> pipes;
  std::uint64_t opens = 0, reads = 0, infos = 0, lists = 0;

  // What processes do.
  BodyPtr create(const std::string& path) {
    if (const auto it = names.find(path); it != names.end()) return it->second;
    auto body = std::make_shared<Body>();
    if (free_->empty())
      body->inode = next_inode_++;
    else
      body->inode = free_->extract(free_->begin()).value();
    body->free_inodes = free_;
    body->links = 1;
    body->changed_ns = tick();
    names[path] = body;
    return body;
  }
  void append(Body& body, std::string_view bytes) {
    body.bytes += bytes;
    body.changed_ns = tick();
  }
  void write(const std::string& path, std::string_view bytes) { append(*create(path), bytes); }
  void truncate(const std::string& path, std::size_t size = 0) {
    names.at(path)->bytes.resize(size);
    names.at(path)->told = 0;
    names.at(path)->changed_ns = tick();
  }
  void overwrite(const std::string& path, std::string bytes) {
    names.at(path)->bytes = std::move(bytes);
    names.at(path)->told = 0;
    names.at(path)->changed_ns = tick();
  }
  void copy(const std::string& from, const std::string& to) {
    const std::string bytes = names.at(from)->bytes;
    remove(to);
    write(to, bytes);
  }
  void remove(const std::string& path) {
    const auto it = names.find(path);
    if (it == names.end()) return;
    --it->second->links;
    names.erase(it);
  }
  void rename(const std::string& from, const std::string& to) {
    const BodyPtr body = names.at(from);
    remove(to);
    names.erase(from);
    names[to] = body;
  }
  bool exists(const std::string& path) const { return names.count(path) > 0; }
  void take_descriptors_back() { ++epoch_; }

  // What the tailer asks.
  Result<daemon::FileInfo> info(const std::string& path, bool follow = true) override {
    if (silent()) return no_answer();
    ++infos;
    if (!follow && links.count(path)) return daemon::FileInfo{device, 0, 0, 1, 0, daemon::FileKind::link};
    const BodyPtr body = find(path);
    const auto link = links.find(path);
    if (const std::string real = link == links.end() ? path : link->second; !body && is_folder(real))
      return daemon::FileInfo{device, std::hash<std::string>()(real), 0, 1, 0, daemon::FileKind::folder};
    if (pipes.count(path)) return daemon::FileInfo{device, 1, 0, 1, 0, daemon::FileKind::other};
    if (!body) return missing(path);
    return info_of(*body);
  }
  Result<std::unique_ptr<daemon::OpenFile>> open(const std::string& path) override {
    if (silent()) return no_answer();
    ++opens;
    if (fail_opens) return Error(ErrorCode::unavailable, "no descriptors left");
    if (pipes.count(path)) return Error(ErrorCode::unsupported, "only regular files are watched");
    const BodyPtr body = find(path);
    if (!body) return missing(path);
    return std::unique_ptr<daemon::OpenFile>(std::make_unique<Open>(*this, body));
  }
  Result<std::vector<daemon::FolderEntry>> list(const std::string& named) override {
    if (silent()) return no_answer();
    ++lists;
    std::map<std::string, daemon::FolderEntry> out;
    const auto link = links.find(named);
    const std::string folder = link == links.end() ? named : link->second;
    const std::string front = folder == "/" ? "/" : folder + "/";
    const auto add = [&](const std::string& path, std::uint64_t inode, daemon::FileKind kind) {
      if (!path.starts_with(front)) return;
      const std::size_t slash = path.find('/', front.size());
      const std::string name = path.substr(front.size(), slash == std::string::npos ? slash : slash - front.size());
      out[name] = {name, inode, slash == std::string::npos ? kind : daemon::FileKind::folder, true};
    };
    for (const auto& [path, body] : names) add(path, body->inode, daemon::FileKind::file);
    for (const auto& [path, to] : links) add(path, 0, daemon::FileKind::link);
    for (const auto& path : pipes) add(path, 1, daemon::FileKind::other);
    if (out.empty()) return missing(folder);
    std::vector<daemon::FolderEntry> entries;
    for (auto& [name, entry] : out) entries.push_back(std::move(entry));
    return entries;
  }
  Result<std::string> real_path(const std::string& path) override {
    const auto it = links.find(path);
    return it == links.end() ? path : it->second;
  }

 private:
  class Open final : public daemon::OpenFile {
   public:
    Open(FakeFileSystem& files, BodyPtr body) : files_(files), body_(std::move(body)), epoch_(files.epoch_) {}
    Result<daemon::FileInfo> info() override {
      if (files_.silent()) return no_answer();
      if (epoch_ != files_.epoch_) return gone();
      ++files_.infos;
      return info_of(*body_);
    }
    Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
      if (files_.silent()) return no_answer();
      if (epoch_ != files_.epoch_) return gone();
      ++files_.reads;
      if (offset >= body_->bytes.size()) return std::size_t{0};
      return body_->bytes.copy(room.data(), room.size(), static_cast<std::size_t>(offset));
    }

   private:
    Error gone() {
      body_.reset();   // so that the inode can be used again
      body_ = std::make_shared<Body>();
      body_->free_inodes = std::make_shared<std::set<std::uint64_t>>();
      return Error(ErrorCode::unavailable, "the descriptor was needed for another file");
    }
    FakeFileSystem& files_;
    BodyPtr body_;
    std::uint64_t epoch_;
  };

  static daemon::FileInfo info_of(Body& body) {
    body.told = std::max<std::uint64_t>(body.told, body.bytes.size());
    return {7, body.inode, body.bytes.size(), body.links, body.changed_ns, daemon::FileKind::file};
  }
  BodyPtr find(const std::string& path) const {
    const auto link = links.find(path);
    const auto it = names.find(link == links.end() ? path : link->second);
    return it == names.end() ? nullptr : it->second;
  }
  bool silent() { return answers == 0 || (answers > 0 && answers-- == 0); }
  static Error no_answer() { return Error(ErrorCode::limit, "a file server does not answer"); }
  static Error missing(const std::string& path) { return Error(ErrorCode::not_found, "no such file: " + path); }
  bool is_folder(const std::string& path) const {
    if (path == "/") return true;
    const std::string front = path + "/";
    const auto below = names.lower_bound(front);
    const auto linked = links.lower_bound(front);
    return (below != names.end() && below->first.starts_with(front)) || (linked != links.end() && linked->first.starts_with(front));
  }
  std::int64_t tick() const { return now_ns - now_ns % 4'000'000; }   // the kernel's coarse clock

  std::shared_ptr<std::set<std::uint64_t>> free_ = std::make_shared<std::set<std::uint64_t>>();
  std::uint64_t next_inode_ = 100, epoch_ = 0;
};

}  // namespace triage::tests
