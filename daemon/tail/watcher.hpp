// Watcher: tells which files and folders changed. inotify where it works; on network file systems, where it does not see the changes of
// other hosts, and where its limits are used up, folders and files are polled. One descriptor to wait on, and a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/tail/file_system.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon {

struct WatchEvent {
  enum class What : std::uint8_t {
    changed,       // the file `name` in `folder`: it grew, was cut, renamed away, deleted
    appeared,      // `name` in `folder`, a file or a folder: created, or renamed to this name
    folder,        // something in `folder`: list it again
    everything,    // events were lost, or a folder went: scan all, look at every file
  };
  What what = What::changed;
  std::string folder, name;
  bool closed = false;   // with changed and appeared: somebody who wrote to the file has closed it

  std::string path() const { return folder == "/" ? "/" + name : folder + "/" + name; }
  friend bool operator==(const WatchEvent&, const WatchEvent&) = default;
};

struct WatchOptions {
  std::chrono::milliseconds poll{1000};        // of folders, and of files that changed within the last minute
  std::chrono::milliseconds poll_idle{10'000}; // of files that did not for an hour; in between it grows with the quiet time
  std::chrono::milliseconds sweep{300'000};    // everything is looked at so often, whatever was told
  std::chrono::milliseconds retry{30'000};     // what is polled for want of inotify watches is tried again
  std::size_t watches = 1'000'000;             // of inotify, at most: fs.inotify.max_user_watches is shared with others; the rest is polled
  bool poll_only = false;
};

struct WatchCounts {
  std::size_t watches = 0;                     // of inotify
  std::size_t polled_folders = 0, polled_files = 0;
  std::uint64_t overflows = 0;                 // events lost by the kernel, each answered by a look at everything
  std::string degraded;                        // why something is polled that need not be; empty: nothing is
};

// One thread at a time. Steady time is an argument. Memory: some hundred bytes a folder and a polled file; nothing for a file that inotify tells of.
class Watcher {
 public:
  using Time = std::chrono::steady_clock::time_point;
  Watcher(FileSystem& files, WatchOptions options, Time now);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Readable when read() has something; -1: there is only polling. May be another one after read().
  int fd() const { return fd_; }
  // Both may be called again. A folder before it is listed, then the files in it. link: the file is named by a symbolic link.
  void watch_folder(const std::string& folder, Time now);
  // A polled file that is gone for long is forgotten: watch it again when its name comes.
  void watch_file(const std::string& path, bool link, Time now);
  void forget_file(const std::string& path);
  // Never waits for events. Each file at most once.
  std::vector<WatchEvent> read(Time now);
  // When to call read() although the descriptor is quiet.
  Time next() const;
  const WatchCounts& counts() const { return counts_; }

 private:
  struct Polled {
    std::string path;
    std::uint64_t size = 0, inode = 0;
    std::int64_t changed_ns = 0;
    Time changed_at{};
    Time retry_at{};                     // for_want only
    bool folder = false, link = false;
    bool again = false;                  // a folder's time may hide a second change within one tick of its clock: tell it once more
    bool for_want = false;               // inotify would do, and there is no watch left
  };
  struct Due {
    Time at;
    std::size_t index;
    bool operator<(const Due& other) const { return other.at < at; }   // the earliest on top
  };
  enum class Added : std::uint8_t { watched, missing, want, never };
  void start_inotify();
  // What inotify says to a path that is to be told of under `name`.
  Added add_watch(const std::string& path, const std::string& name, std::uint32_t mask);
  Added add_watch_of(const std::string& path, bool folder, bool link);
  void drop_watch(int watch);
  void poll(const std::string& path, bool folder, bool link, bool for_want, Time now);
  void stop_polling(const std::string& path);
  void tell(std::vector<WatchEvent>& out, const std::string& folder, const std::string& name, bool appeared, bool closed);
  void read_inotify(std::vector<WatchEvent>& out, Time now);
  void own_event(int watch, std::uint32_t mask, std::vector<WatchEvent>& out, bool& everything, Time now);
  void read_polled(std::vector<WatchEvent>& out, Time now);
  bool look(Polled& polled, Time now);
  bool watched_instead(const Polled& polled, Time now);
  bool is_polled(const std::string& path) const { return polled_.count(path) > 0; }

  FileSystem* files_;
  WatchOptions options_;
  int fd_ = -1;
  Time start_again_{};                                   // without an inotify instance
  struct Watched {
    std::vector<std::string> names;      // two may lead to one folder
    bool file = false;                   // a link's
  };
  std::unordered_map<int, Watched> names_;               // by watch
  std::unordered_map<std::string, int> watches_;
  std::unordered_map<std::string, std::size_t> polled_;  // index into entries_
  std::vector<Polled> entries_;
  std::vector<std::size_t> free_;
  std::vector<Due> due_;                                 // a heap
  std::size_t wanted_ = 0;                               // entries for_want
  std::unordered_map<std::string, std::size_t> told_;    // within one read(): which event tells of the path
  Time sweep_at_;
  WatchCounts counts_;
};

}  // namespace triage::daemon
