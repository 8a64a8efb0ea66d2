#include "daemon/runtime/watch_thread.hpp"
#include "daemon/runtime/thread_name.hpp"
#include "daemon/tail/rotated_name.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace triage::daemon {

using parsers::TimePoint;
using Steady = std::chrono::steady_clock;

namespace {

constexpr std::size_t kFaults = 20;
constexpr std::chrono::seconds kRoots(5);          // where the patterns' folders lead is asked so often: a link may be set anew
constexpr int kSearches = 5;                       // searches for the sake of faults come ever more seldom, in the end each 16 times `again`
constexpr int kShare = 50;                         // searches for the sake of faults take at most this part of the time

DiscoveryOptions discovery_options(const SourceConfig& config, std::function<void(const std::string&)> watch) {
  DiscoveryOptions out;
  out.links_into = config.links_into;
  out.packed = config.packed;
  out.watch = std::move(watch);
  return out;
}

WatchOptions watch_options(const SourceConfig& config) {
  WatchOptions out;
  out.poll = config.poll;
  out.poll_only = config.poll_only;
  return out;
}

}  // namespace

WatchThread::Shared::~Shared() {
  if (wake_fd >= 0) ::close(wake_fd);
}

// The thread's own: discovery, watcher and gate.
class WatchThread::Loop {
 public:
  explicit Loop(Shared& shared)
      : shared_(shared),
        watcher_(shared.files, watch_options(shared.config), Steady::now()),
        discovery_(shared.files, shared.patterns, discovery_options(shared.config, [this](const std::string& folder) { watcher_.watch_folder(folder, Steady::now()); })),
        gate_(shared.files) {}

  void run() {
    search();
    for (const std::string& path : std::exchange(shared_.known, {}))
      if (!followed_.contains(path))
        if (auto file = discovery_.find(path); file && file->kind == FoundFile::Kind::log) take(*file);
    publish(true);
    while (!shared_.stopping) {
      pollfd fds[2] = {{shared_.wake_fd, POLLIN, 0}, {watcher_.fd(), POLLIN, 0}};
      auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::min(watcher_.next(), search_at_) - Steady::now());
      if (const auto wake = gate_.wake()) wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(*wake - shared_.clock()));
      wait = std::clamp(wait, std::chrono::milliseconds(1), std::chrono::milliseconds(1000));
      shared_.waiting = true;
      ::poll(fds, watcher_.fd() >= 0 ? 2 : 1, static_cast<int>(wait.count()));
      shared_.turn = shared_.clock().time_since_epoch().count();
      shared_.waiting = false;
      if (shared_.stopping) return;
      if (Steady::now() >= roots_at_) find_roots();
      if (Steady::now() >= search_at_) search();
      for (const WatchEvent& event : watcher_.read(Steady::now())) handle(event);
      for (const DumpGate::Ready& ready : gate_.take(shared_.clock()))
        if (auto file = discovery_.find(ready.path)) shared_.target.follow(*file, 0);
      publish(false);
    }
  }

 private:
  void find_roots() {
    discovery_.find_roots();
    roots_at_ = Steady::now() + kRoots;
    if (shared_.target.roots) shared_.target.roots(discovery_.roots());
  }

  void search() {
    const auto begin = Steady::now();
    faults_.clear();                            // those that are still there come again
    over_ = 0;
    const std::vector<FoundFile> found = discovery_.scan();
    find_roots();
    std::unordered_set<std::string_view> there;
    for (const FoundFile& file : found) there.insert(file.path);
    const auto gone = [&](const std::string& path) {
      if (there.contains(path)) return false;
      if (const auto info = shared_.files.info(path); !info.ok() && info.error().code() != parsers::ErrorCode::not_found) return false;   // it does not answer
      watcher_.forget_file(path);
      return true;
    };
    std::erase_if(followed_, gone);             // the worker sees it to its end
    std::erase_if(dumps_, gone);
    std::erase_if(old_, [&gone](const auto& one) { return gone(one.first); });
    for (const FoundFile& file : found) take(file);
    scan_time_ = std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - begin);
    if (shared_.target.searched) shared_.target.searched(scan_time_);
    take_faults();
    if (faults_.empty()) {
      search_at_ = Steady::time_point::max();
      searches_ = 0;
      return;
    }
    searches_ = std::min(searches_ + 1, kSearches);
    search_at_ = Steady::now() + std::max<Steady::duration>(shared_.again * (1 << (searches_ - 1)), scan_time_ * kShare);
  }

  void handle(const WatchEvent& event) {
    switch (event.what) {
      case WatchEvent::What::changed: changed(event.path(), event.closed); return;
      case WatchEvent::What::appeared:
        for (const FoundFile& file : discovery_.look(event.folder, event.name)) take(file);
        changed(event.path(), event.closed);
        return;
      case WatchEvent::What::folder:
        for (const FoundFile& file : discovery_.look(event.folder)) take(file);
        return;
      case WatchEvent::What::everything:
        search();
        for (const std::string& path : followed_) shared_.target.wake(path);
        return;
    }
  }

  void changed(const std::string& path, bool closed) {
    if (followed_.contains(path)) {
      shared_.target.wake(path);
      return;
    }
    if (shared_.config.packed && is_rotated(path)) packed(path);
    const auto old = old_.find(path);
    if (old == old_.end() && !dumps_.contains(path)) return;
    const auto file = discovery_.find(path);
    if (!file) return;
    if (file->kind == FoundFile::Kind::dump) {
      closed ? gate_.closed(path, shared_.clock()) : gate_.offer(path, shared_.clock());
      return;
    }
    const std::uint64_t skip = old->second;
    old_.erase(old);
    follow(*file, skip);
  }

  static bool is_rotated(const std::string& path) { return !rotated_bases(std::string_view(path).substr(path.rfind('/') + 1)).empty(); }

  // A rotated file may be gone because it is packed now; the packed one was passed over while both were there.
  void packed(const std::string& path) {
    if (shared_.files.info(path).ok()) return;
    const std::size_t slash = path.rfind('/');
    for (const std::string_view ending : packed_endings())
      for (const FoundFile& file : discovery_.look(path.substr(0, slash), path.substr(slash + 1) + std::string(ending))) take(file);
  }

  void take(const FoundFile& file) {
    if (file.kind == FoundFile::Kind::dump) {
      if (dumps_.size() < static_cast<std::size_t>(shared_.config.files)) dumps_.insert(file.path);
      watcher_.watch_file(file.path, file.link, Steady::now());
      gate_.offer(file.path, shared_.clock());
      return;
    }
    if (followed_.contains(file.path)) {        // it came back, or was let go of
      shared_.target.follow(file, 0);
      return;
    }
    if (followed_.size() + old_.size() >= static_cast<std::size_t>(shared_.config.files)) {
      if (over_++ == 0) fault("more than " + std::to_string(shared_.config.files) + " files fit the patterns; '" + file.path + "' and later ones are not watched (sources: max_files)");
      return;
    }
    watcher_.watch_file(file.path, file.link, Steady::now());
    if (const auto info = shared_.files.info(file.path); info.ok() && is_old(*info)) {
      old_.emplace(file.path, info->size);
      return;
    }
    follow(file, 0);
  }

  bool is_old(const FileInfo& info) const {
    const auto age = std::chrono::nanoseconds(shared_.config.ignore_older);
    return age.count() > 0 && std::chrono::nanoseconds(info.changed_ns) < std::chrono::duration_cast<std::chrono::nanoseconds>(shared_.clock().time_since_epoch()) - age;
  }

  // skip: of an old file, what stood in it when it was found.
  void follow(const FoundFile& file, std::uint64_t skip) {
    followed_.insert(file.path);
    shared_.target.follow(file, skip);
  }

  void fault(std::string text) {
    if (faults_.size() == kFaults) faults_.erase(faults_.begin());
    faults_.push_back(std::move(text));
  }

  void take_faults() {
    for (const parsers::Error& error : discovery_.take_faults())
      fault(error.message() + (error.place() ? " (" + error.place()->file + ")" : "") + (error.reason().empty() ? "" : ": " + error.reason()));
  }

  void publish(bool scanned) {
    take_faults();
    if (!faults_.empty() && search_at_ == Steady::time_point::max()) search_at_ = Steady::now() + shared_.again;
    const std::lock_guard guard(shared_.lock);
    shared_.state.files = followed_.size() + old_.size();
    shared_.state.counts = watcher_.counts();
    shared_.state.faults = faults_;
    shared_.state.scan_time = scan_time_;
    shared_.state.scanned = shared_.state.scanned || scanned;
  }

  Shared& shared_;
  Watcher watcher_;
  Discovery discovery_;
  DumpGate gate_;
  std::unordered_set<std::string> followed_, dumps_;
  std::unordered_map<std::string, std::uint64_t> old_;   // files that had not changed for long when they were found: their size then
  std::vector<std::string> faults_;
  std::uint64_t over_ = 0;
  int searches_ = 0;                            // for the sake of faults, one after the other
  Steady::time_point roots_at_{}, search_at_ = Steady::time_point::max();
  std::chrono::microseconds scan_time_{};
};

WatchThread::WatchThread(FileSystem& files, std::vector<SourcePattern> patterns, const SourceConfig& config, std::vector<std::string> known, WatchTarget target, Worker::Clock clock,
                         std::chrono::milliseconds again)
    : shared_(std::make_shared<Shared>(files, config)) {
  shared_->patterns = std::move(patterns);
  shared_->known = std::move(known);
  shared_->target = std::move(target);
  shared_->clock = std::move(clock);
  shared_->again = again;
  shared_->wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void WatchThread::start() {
  shared_->turn = shared_->clock().time_since_epoch().count();
  thread_ = std::thread([shared = shared_] {
    name_thread("finder");
    Loop(*shared).run();
    shared->ended = true;
  });
}

bool WatchThread::stop(std::chrono::milliseconds time) {
  if (!thread_.joinable()) return true;
  shared_->stopping = true;
  const std::uint64_t one = 1;
  (void)!::write(shared_->wake_fd, &one, sizeof one);
  const auto until = Steady::now() + time;
  while (!shared_->ended && Steady::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (!shared_->ended) {
    thread_.detach();
    return false;
  }
  thread_.join();
  return true;
}

WatchState WatchThread::state() const {
  const std::lock_guard guard(shared_->lock);
  return shared_->state;
}

}  // namespace triage::daemon
