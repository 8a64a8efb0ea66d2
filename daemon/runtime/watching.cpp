#include "daemon/runtime/watching.hpp"

#include <algorithm>
#include <functional>
#include <thread>

namespace triage::daemon {

using parsers::TimePoint;

namespace {

constexpr std::size_t kNetworkWorkers = 8;      // limit; further mounts share them
constexpr auto kStuck = std::chrono::seconds(20);   // a turn takes milliseconds, the first one of a large file some seconds

unsigned worker_count(unsigned wanted) { return wanted > 0 ? wanted : std::clamp(std::thread::hardware_concurrency(), 1U, 8U); }

// The file system that files below that folder lie on: "" for the local ones, else something that names the server's.
std::string mount_of(FileSystem& files, const std::string& folder) {
  if (!on_network_file_system(folder)) return "";
  const auto info = files.info(folder);
  return info.ok() ? "network " + std::to_string(info->device) : "network " + folder;
}

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
    : files_([&config] {
        PosixFileOptions options;
        options.descriptors = static_cast<std::size_t>(config.descriptors);
        return options;
      }()),
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
  start_finders(std::move(known));
}

Worker& Watching::worker_of(const FoundFile& file, const std::string& mount) {
  const std::lock_guard guard(lock_);
  if (file.kind != FoundFile::Kind::log) return *slow_;
  const std::size_t number = std::hash<std::string>()(file.path);
  if (mount.empty()) return *workers_[number % workers_.size()];
  const auto known = network_.find(mount);
  if (known != network_.end()) return *known->second;
  if (network_.size() >= kNetworkWorkers) return *std::next(network_.begin(), static_cast<std::ptrdiff_t>(number % network_.size()))->second;
  auto& fresh = network_[mount];
  fresh = make_worker();
  if (running_) fresh->start();
  return *fresh;
}

void Watching::start_finders(std::vector<std::string> known) {
  std::map<std::string, std::vector<SourcePattern>> groups;
  SourceConfig config;
  {
    const std::lock_guard guard(lock_);
    config = config_;
  }
  for (const SourcePattern& pattern : config.patterns) groups[mount_of(files_, pattern.form.root())].push_back(pattern);
  for (auto& [mount, patterns] : groups) {
    WatchTarget target;
    target.follow = [this, mount = mount](const FoundFile& file, std::uint64_t skip) { worker_of(file, mount).follow(file, skip); };
    target.wake = [this, mount = mount](const std::string& path) {
      FoundFile file;
      file.path = path;
      worker_of(file, mount).wake(path);
    };
    auto finder = std::make_unique<WatchThread>(files_, std::move(patterns), config, known, std::move(target), parts_.clock);
    finder->start();
    const std::lock_guard guard(lock_);
    finders_.push_back(std::move(finder));
  }
}

void Watching::apply(const SourceConfig& config) {
  std::vector<std::unique_ptr<WatchThread>> old;
  {
    const std::lock_guard guard(lock_);
    old.swap(finders_);
    config_ = config;
  }
  for (const auto& finder : old)
    if (!finder->stop()) stuck_ = true;
  patterns_->set(config.patterns);
  const auto keep = [now = patterns_->get()](const std::string& path) { return now->is_source(path); };
  {
    const std::lock_guard guard(lock_);
    for (const auto& worker : workers_) worker->keep_only(keep);
    for (const auto& [mount, worker] : network_) worker->keep_only(keep);
  }
  start_finders({});
}

void Watching::use(std::shared_ptr<const Knowledge> knowledge) {
  const std::lock_guard guard(lock_);
  knowledge_ = knowledge;
  for (const auto& worker : workers_) worker->use(knowledge);
  for (const auto& [mount, worker] : network_) worker->use(knowledge);
  slow_->use(knowledge);
}

std::uint64_t Watching::rested() const {
  const std::lock_guard guard(lock_);
  std::uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->counts().rested;
  for (const auto& [mount, worker] : network_) sum += worker->counts().rested;
  return sum;
}

void Watching::close_idle() { files_.close_idle(std::chrono::seconds(30)); }

WatchingState Watching::state(TimePoint now) const {
  WatchingState out;
  const std::lock_guard guard(lock_);
  const auto stuck = [now](std::int64_t turn, bool waiting) { return !waiting && now - TimePoint(std::chrono::microseconds(turn)) > kStuck; };
  const auto add = [&](const Worker& worker, const std::string& what) {
    const WorkerCounts& counts = worker.counts();
    out.bytes += counts.bytes;
    out.lines += counts.lines;
    out.lost_bytes += counts.lost_bytes;
    out.errors += counts.errors;
    out.findings += counts.findings;
    if (stuck(counts.turn, counts.waiting)) out.troubles.push_back("a file of " + what + " does not answer; the others of it wait");
    if (std::string trouble = worker.trouble(); !trouble.empty()) out.troubles.push_back(std::move(trouble));
  };
  for (const auto& worker : workers_) add(*worker, "the local file systems");
  for (const auto& [mount, worker] : network_) add(*worker, mount);
  out.bytes += slow_->counts().bytes;
  out.scanned = true;
  for (const auto& finder : finders_) {
    const WatchState state = finder->state();
    out.files += state.files;
    out.polled_files += state.counts.polled_files;
    out.scanned = out.scanned && state.scanned;
    out.scan_time = std::max(out.scan_time, state.scan_time);
    if (!state.counts.degraded.empty()) out.troubles.push_back(state.counts.degraded);
    if (stuck(finder->turn(), finder->waiting())) out.troubles.push_back("a file system does not answer; new files on it are not found meanwhile");
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
  for (const auto& [mount, worker] : network_) all.push_back(worker.get());
  all.push_back(slow_.get());
  for (Worker* const worker : all) worker->ask_to_stop();
  for (const auto& finder : finders_) stuck_ = !finder->stop(left()) || stuck_;
  for (Worker* const worker : all) stuck_ = !worker->stop(left()) || stuck_;
  return !stuck_;
}

}  // namespace triage::daemon
