#include "daemon/runtime/watching.hpp"

#include <algorithm>
#include <functional>
#include <thread>

#include "daemon/tail/rotated_name.hpp"

namespace triage::daemon {

using parsers::TimePoint;

namespace {

constexpr auto kStuck = std::chrono::seconds(20);   // a turn takes milliseconds, the first one of a large file some seconds

unsigned worker_count(unsigned wanted) { return wanted > 0 ? wanted : std::clamp(std::thread::hardware_concurrency(), 1U, 8U); }

}  // namespace

// The patterns in force, for the tailers' threads.
struct Watching::Patterns {
  explicit Patterns(FileSystem& file_system) : files(file_system) {}
  void set(const std::vector<SourcePattern>& patterns) {
    auto fresh = std::make_shared<const Discovery>(files, patterns);
    const std::lock_guard guard(lock);
    now = std::move(fresh);
  }
  std::shared_ptr<const Discovery> get() const {
    const std::lock_guard guard(lock);
    return now;
  }
  FileSystem& files;
  mutable std::mutex lock;
  std::shared_ptr<const Discovery> now;
};

Watching::Watching(std::shared_ptr<const Knowledge> knowledge, const SourceConfig& config, unsigned workers, Parts parts)
    : disk_([&config] {
        PosixFileOptions options;
        options.descriptors = descriptors_within_limit(static_cast<std::size_t>(config.descriptors));
        return std::make_shared<PosixFileSystem>(std::move(options));
      }()),
      files_(disk_),
      parts_(std::move(parts)),
      patterns_(std::make_shared<Patterns>(files_)),
      config_(config),
      knowledge_(std::move(knowledge)) {
  patterns_->set(config.patterns);
  for (unsigned i = 0; i < worker_count(workers); ++i) workers_.push_back(make_worker());
  slow_ = make_worker();
}

Watching::~Watching() { stop(std::chrono::seconds(2)); }

std::unique_ptr<Worker> Watching::make_worker() {
  WorkerOptions options;
  options.tail.flush = config_.flush;
  options.tail.is_source = [patterns = patterns_](const std::string& path) { return patterns->get()->is_source(path); };
  options.find = [patterns = patterns_](const std::string& path) { return patterns->get()->find(path); };
  if (config_.ignore_older.count() > 0) options.quiet = std::chrono::ceil<std::chrono::seconds>(config_.ignore_older);
  options.default_year = parts_.default_year;
  return std::make_unique<Worker>(knowledge_, files_, *parts_.desk, parts_.load_row, parts_.load_spool, parts_.clock, std::move(options));
}

void Watching::start(std::vector<std::string> known) {
  {
    const std::lock_guard guard(lock_);
    running_ = true;
    for (const auto& worker : workers_) worker->start();
    slow_->start();
  }
  start_finder(std::move(known));
}

Worker& Watching::worker_of(const std::string& path, FoundFile::Kind kind) {
  if (kind != FoundFile::Kind::log) return *slow_;
  return *workers_[std::hash<std::string>()(path) % workers_.size()];
}

void Watching::start_finder(std::vector<std::string> known) {
  SourceConfig config;
  {
    const std::lock_guard guard(lock_);
    config = config_;
  }
  WatchTarget target;
  target.follow = [this](const FoundFile& file, std::uint64_t skip) { worker_of(file.path, file.kind).follow(file, skip); };
  target.wake = [this](const std::string& path) {
    worker_of(path, has_packed_ending(path) ? FoundFile::Kind::packed : FoundFile::Kind::log).wake(path);
  };
  target.roots = [disk = disk_](std::vector<std::string> folders) { disk->set_roots(std::move(folders)); };
  target.searched = parts_.searched;
  auto finder = std::make_unique<WatchThread>(files_, config.patterns, config, std::move(known), std::move(target), parts_.clock);
  finder->start();
  const std::lock_guard guard(lock_);
  finder_ = std::move(finder);
}

void Watching::apply(const SourceConfig& config) {
  std::unique_ptr<WatchThread> old;
  {
    const std::lock_guard guard(lock_);
    old = std::move(finder_);
    config_ = config;
  }
  if (old && !old->stop()) stuck_ = true;
  patterns_->set(config.patterns);
  const auto keep = [now = patterns_->get()](const std::string& path) { return now->is_source(path); };
  for (const auto& worker : workers_) worker->keep_only(keep);
  slow_->keep_only(keep);
  start_finder({});
}

void Watching::use(std::shared_ptr<const Knowledge> knowledge) {
  const std::lock_guard guard(lock_);
  knowledge_ = knowledge;
  for (const auto& worker : workers_) worker->use(knowledge);
  slow_->use(knowledge);
}

std::uint64_t Watching::rested() const {
  const std::lock_guard guard(lock_);
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->counts().rested;
  return sum;
}

void Watching::close_idle() { disk_->close_idle(std::chrono::seconds(30)); }

WatchingState Watching::state(TimePoint now) const {
  WatchingState out;
  const std::lock_guard guard(lock_);
  const auto stuck = [now](std::int64_t turn, bool waiting) { return !waiting && now - TimePoint(std::chrono::microseconds(turn)) > kStuck; };
  for (const auto& worker : workers_) {
    const WorkerCounts& counts = worker->counts();
    out.bytes += counts.bytes;
    out.lines += counts.lines;
    out.lost_bytes += counts.lost_bytes;
    out.errors += counts.errors;
    out.findings += counts.findings;
    if (stuck(counts.turn, counts.waiting)) out.troubles.push_back("a local file does not answer; others wait");
    if (std::string trouble = worker->trouble(); !trouble.empty()) out.troubles.push_back(std::move(trouble));
  }
  for (const StuckMount& mount : files_.stuck()) out.troubles.push_back("the file server of " + mount.mount + " does not answer " + std::to_string(mount.calls) + (mount.calls == 1 ? " call" : " calls"));
  out.bytes += slow_->counts().bytes;
  if (std::string trouble = slow_->trouble(); !trouble.empty()) out.troubles.push_back(std::move(trouble));
  if (finder_) {
    const WatchState state = finder_->state();
    out.files = state.files;
    out.polled_files = state.counts.polled_files;
    out.scanned = state.scanned;
    out.scan_time = state.scan_time;
    if (!state.counts.degraded.empty()) out.troubles.push_back(state.counts.degraded);
    if (stuck(finder_->turn(), finder_->waiting())) out.troubles.push_back("a file system does not answer; new files on it are not found meanwhile");
    out.troubles.insert(out.troubles.end(), state.faults.begin(), state.faults.end());
  }
  return out;
}

bool Watching::stop(std::chrono::milliseconds time) {
  if (!running_) return !stuck_;
  running_ = false;
  const auto until = std::chrono::steady_clock::now() + time;
  const auto left = [until] { return std::max(std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()), std::chrono::milliseconds(0)); };
  std::vector<Worker*> all;
  for (const auto& worker : workers_) all.push_back(worker.get());
  all.push_back(slow_.get());
  for (Worker* const worker : all) worker->ask_to_stop();
  if (finder_) stuck_ = !finder_->stop(left()) || stuck_;
  for (Worker* const worker : all) stuck_ = !worker->stop(left()) || stuck_;
  return !stuck_;
}

}  // namespace triage::daemon
