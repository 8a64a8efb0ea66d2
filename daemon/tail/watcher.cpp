#include "daemon/tail/watcher.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace triage::daemon {

namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kFolderMask = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK;
constexpr std::uint32_t kFileMask = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF;
constexpr std::size_t kReadBytes = 256 * 1024;      // of events at once; the kernel's queue holds 16384 events
constexpr std::size_t kReads = 16;                  // portions of one call
constexpr std::size_t kPolls = 2000;                // files looked at by one call

std::string folder_of(const std::string& path) {
  const std::size_t at = path.rfind('/');
  return at == std::string::npos ? "." : at == 0 ? "/" : path.substr(0, at);
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Watcher::Watcher(FileSystem& files, WatchOptions options, Time now) : files_(&files), options_(options), start_again_(now + options.retry), sweep_at_(now + options.sweep) {
  if (!options_.poll_only) start_inotify();
}

Watcher::~Watcher() {
  if (fd_ >= 0) ::close(fd_);
}

void Watcher::start_inotify() {
  fd_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  counts_.degraded.clear();
  if (fd_ < 0) counts_.degraded = std::string("no inotify instance (") + std::strerror(errno) + "): everything is polled; raise fs.inotify.max_user_instances or LimitNOFILE";
}

Watcher::Added Watcher::add_watch(const std::string& path, const std::string& name, std::uint32_t mask) {
  if (files_->remote(mask == kFileMask ? folder_of(path) : path)) return Added::never;
  if (watches_.size() < options_.watches) {
    const int watch = ::inotify_add_watch(fd_, path.c_str(), mask);
    if (watch >= 0) {
      Watched& watched = names_[watch];
      watched.names.push_back(name);
      watched.file = mask == kFileMask;
      watches_[name] = watch;
      counts_.watches = watches_.size();
      return Added::watched;
    }
    if (errno == ENOENT || errno == ENOTDIR) return Added::missing;
    if (errno != ENOSPC && errno != ENOMEM) return Added::never;   // EACCES: the folder may be searched and not read
  }
  counts_.degraded = "no inotify watches are left: folders are polled; raise fs.inotify.max_user_watches";
  return Added::want;
}

Watcher::Added Watcher::add_watch_of(const std::string& path, bool folder, bool link) {
  if (options_.poll_only) return Added::never;
  if (fd_ < 0) return Added::want;
  if (folder) return add_watch(path, path, kFolderMask);
  if (!link) return watches_.count(folder_of(path)) ? Added::watched : Added::never;
  const auto real = files_->real_path(path);
  return real.ok() ? add_watch(*real, path, kFileMask) : Added::never;
}

void Watcher::drop_watch(int watch) {
  const auto it = names_.find(watch);
  if (it == names_.end()) return;
  for (const std::string& name : it->second.names) watches_.erase(name);
  names_.erase(it);
  counts_.watches = watches_.size();
}

void Watcher::watch_folder(const std::string& folder, Time now) {
  if (watches_.count(folder) || is_polled(folder)) return;
  const Added added = add_watch_of(folder, true, false);
  if (added == Added::never || added == Added::want) poll(folder, true, false, added == Added::want, now);
}

// Changes of a file are told with its folder. A link's file lies in another one: it has a watch of its own.
void Watcher::watch_file(const std::string& path, bool link, Time now) {
  if (is_polled(path) || watches_.count(path)) return;
  const Added added = add_watch_of(path, false, link);
  if (added != Added::watched) poll(path, false, link, added == Added::want, now);
}

void Watcher::forget_file(const std::string& path) {
  stop_polling(path);
  const auto it = watches_.find(path);
  if (it == watches_.end()) return;
  const int watch = it->second;
  watches_.erase(it);
  std::vector<std::string>& names = names_[watch].names;
  std::erase(names, path);
  if (names.empty()) {
    ::inotify_rm_watch(fd_, watch);
    names_.erase(watch);
  }
  counts_.watches = watches_.size();
}

void Watcher::poll(const std::string& path, bool folder, bool link, bool for_want, Time now) {
  std::size_t index = entries_.size();
  if (free_.empty()) {
    entries_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Polled& entry = entries_[index];
  entry = Polled{};
  entry.path = path;
  entry.folder = folder;
  entry.link = link;
  (void)look(entry, now);
  entry.changed_at = now;
  entry.again = folder;
  entry.for_want = for_want;
  entry.retry_at = now + options_.retry;
  wanted_ += for_want;
  polled_[path] = index;
  ++(folder ? counts_.polled_folders : counts_.polled_files);
  // Spread over the interval, so that ten thousand files are not asked in one burst.
  const auto spread = std::chrono::duration_cast<Time::duration>(options_.poll) * static_cast<int>(index % 64) / 64;
  due_.push_back({now + options_.poll - spread / 2, index});
  std::push_heap(due_.begin(), due_.end());
}

void Watcher::stop_polling(const std::string& path) {
  const auto it = polled_.find(path);
  if (it == polled_.end()) return;
  Polled& entry = entries_[it->second];
  --(entry.folder ? counts_.polled_folders : counts_.polled_files);
  wanted_ -= entry.for_want;
  if (wanted_ == 0 && fd_ >= 0) counts_.degraded.clear();
  entry = Polled{};   // its place in the heap runs out
  polled_.erase(it);
}

bool Watcher::look(Polled& polled, Time now) {
  const auto info = files_->info(polled.path);
  if (!info.ok() && info.error().code() != parsers::ErrorCode::not_found) return false;   // a file server that does not answer says nothing
  const FileInfo seen = info.ok() ? *info : FileInfo{};
  if (seen.inode == polled.inode && seen.size == polled.size && seen.changed_ns == polled.changed_ns) return false;
  polled.inode = seen.inode;
  polled.size = seen.size;
  polled.changed_ns = seen.changed_ns;
  polled.changed_at = now;
  return true;
}

// Is inotify to be had by now?
bool Watcher::watched_instead(const Polled& polled, Time now) {
  if (!polled.folder && !polled.link) return watches_.count(folder_of(polled.path)) > 0;
  return polled.for_want && now >= polled.retry_at && fd_ >= 0 && add_watch_of(polled.path, polled.folder, polled.link) == Added::watched;
}

Watcher::Time Watcher::next() const {
  Time out = sweep_at_;
  if (!due_.empty()) out = std::min(out, due_.front().at);
  if (fd_ < 0 && !options_.poll_only) out = std::min(out, start_again_);
  return out;
}

std::vector<WatchEvent> Watcher::read(Time now) {
  std::vector<WatchEvent> out;
  told_.clear();
  if (fd_ < 0 && !options_.poll_only && now >= start_again_) {
    start_again_ = now + options_.retry;
    start_inotify();
    for (Polled& entry : entries_) entry.retry_at = now;
  }
  if (fd_ >= 0) read_inotify(out, now);
  read_polled(out, now);
  if (now >= sweep_at_) {
    sweep_at_ = now + options_.sweep;
    out.push_back({WatchEvent::What::everything, {}, {}, false});
  }
  return out;
}

void Watcher::read_polled(std::vector<WatchEvent>& out, Time now) {
  for (std::size_t count = 0; count < kPolls && !due_.empty() && due_.front().at <= now; ++count) {
    std::pop_heap(due_.begin(), due_.end());
    const std::size_t index = due_.back().index;
    Polled& entry = entries_[index];
    if (entry.path.empty()) {   // forgotten
      due_.pop_back();
      free_.push_back(index);
      continue;
    }
    const bool instead = watched_instead(entry, now);
    if (entry.for_want && now >= entry.retry_at) entry.retry_at = now + options_.retry;
    const bool changed = look(entry, now);
    const bool gone = entry.folder && changed && entry.inode == 0;
    if (changed || entry.again || instead) {
      entry.again = entry.folder && changed;
      if (gone)   // whoever finds it again watches it again
        out.push_back({WatchEvent::What::everything, {}, {}, false});
      else if (entry.folder)
        out.push_back({WatchEvent::What::folder, entry.path, {}, false});
      else
        out.push_back({WatchEvent::What::changed, folder_of(entry.path), name_of(entry.path), false});
    }
    const auto quiet = std::chrono::duration_cast<milliseconds>(now - entry.changed_at);
    const bool given_up = !entry.folder && entry.inode == 0 && quiet > 2 * options_.sweep;   // its folder tells when the name comes again
    if (instead || gone || given_up) {
      stop_polling(std::string(entry.path));
      due_.pop_back();
      free_.push_back(index);
      continue;
    }
    const milliseconds wait = entry.folder || quiet < std::chrono::minutes(1) ? options_.poll : std::clamp(quiet / 360, options_.poll, std::max(options_.poll, options_.poll_idle));
    due_.back().at = now + wait;
    std::push_heap(due_.begin(), due_.end());
  }
}

void Watcher::tell(std::vector<WatchEvent>& out, const std::string& folder, const std::string& name, bool appeared, bool closed) {
  WatchEvent event{appeared ? WatchEvent::What::appeared : WatchEvent::What::changed, folder, name, closed};
  const auto [it, fresh] = told_.emplace(event.path(), out.size());
  if (fresh) {
    out.push_back(std::move(event));
    return;
  }
  WatchEvent& told = out[it->second];
  if (appeared) told.what = event.what;
  told.closed = closed || told.closed;
}

// Of a folder itself, or of a link's file.
void Watcher::own_event(int watch, std::uint32_t mask, std::vector<WatchEvent>& out, bool& everything, Time now) {
  const auto [names, file] = names_.at(watch);
  if (!(mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))) {
    for (const std::string& name : names) tell(out, folder_of(name), name_of(name), false, mask & IN_CLOSE_WRITE);
    return;
  }
  if (!(mask & IN_IGNORED)) ::inotify_rm_watch(fd_, watch);
  drop_watch(watch);
  for (const std::string& name : names) {
    if (file) {   // another one may come to where the link leads
      out.push_back({WatchEvent::What::changed, folder_of(name), name_of(name), false});
      poll(name, false, true, true, now);
      continue;
    }
    // A folder that is deleted is empty, and when it comes again the one above tells.
    if (!(mask & IN_MOVE_SELF) && watches_.count(folder_of(name))) {
      out.push_back({WatchEvent::What::changed, folder_of(name), name_of(name), false});
      continue;
    }
    everything = true;
    if (!(mask & IN_MOVE_SELF)) continue;
    std::vector<int> below;   // their names are wrong by now
    for (const auto& [path, other] : watches_)
      if (path.starts_with(name + "/")) below.push_back(other);
    for (const int other : below) {
      ::inotify_rm_watch(fd_, other);
      drop_watch(other);
    }
  }
}

void Watcher::read_inotify(std::vector<WatchEvent>& out, Time now) {
  alignas(inotify_event) static thread_local std::array<char, kReadBytes> room;
  bool everything = false;
  for (std::size_t portion = 0; portion < kReads; ++portion) {
    const ssize_t count = ::read(fd_, room.data(), room.size());
    if (count <= 0) break;
    for (ssize_t at = 0; at + static_cast<ssize_t>(sizeof(inotify_event)) <= count;) {
      inotify_event event;
      std::memcpy(&event, room.data() + at, sizeof event);
      const char* const name_at = room.data() + at + sizeof event;
      at += static_cast<ssize_t>(sizeof event + event.len);
      if (event.mask & IN_Q_OVERFLOW) {
        ++counts_.overflows;
        everything = true;
        continue;
      }
      const auto it = names_.find(event.wd);
      if (it == names_.end()) continue;
      if (event.len == 0) {
        own_event(event.wd, event.mask, out, everything, now);
        continue;
      }
      const std::string name(name_at, ::strnlen(name_at, event.len));
      const bool appeared = event.mask & (IN_CREATE | IN_MOVED_TO);
      if (!appeared && (event.mask & IN_ISDIR)) continue;
      for (const std::string& folder : it->second.names) tell(out, folder, name, appeared, event.mask & (IN_CLOSE_WRITE | IN_MOVED_TO));
    }
    if (count < static_cast<ssize_t>(room.size() / 2)) break;
  }
  if (everything) out.push_back({WatchEvent::What::everything, {}, {}, false});
}

}  // namespace triage::daemon
