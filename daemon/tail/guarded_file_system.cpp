#include "daemon/tail/guarded_file_system.hpp"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/tail/mount_table.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t kPlaced = 100'000;             // folders; then all are asked for again
constexpr std::chrono::seconds kIdle(30);            // a thread without work ends
constexpr std::chrono::seconds kKept(60);            // a late answer; then it is asked anew

std::string folder_of(const std::string& path) {
  const std::size_t at = path.rfind('/');
  return at == std::string::npos ? "." : at == 0 ? "/" : path.substr(0, at);
}

Error no_answer(const std::string& path, const std::string& mount) {
  return Error(ErrorCode::limit, "a file server does not answer").at(Place{path, {}, {}, {}, {}}).because("a call to " + mount + " takes too long").help("it is asked again; nothing else waits for it");
}

}  // namespace

// The threads of one mount. Owned by calls, too: they may outlive the file system.
class GuardedFileSystem::Lane : public std::enable_shared_from_this<Lane> {
 public:
  Lane(std::string mount, const GuardOptions& options) : mount_(std::move(mount)), options_(options) {}
  const std::string& mount() const { return mount_; }

  // key: tells the call and its arguments, and by its form the type of the answer.
  template <class T>
  Result<T> run(const std::string& key, const std::string& path, std::function<Result<T>()> work) {
    auto answer = std::make_shared<Answer<T>>();
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = late_.find(key); it != late_.end()) {
        const auto late = std::static_pointer_cast<Answer<T>>(it->second);
        if (!late->done) return no_answer(path, mount_);
        late_.erase(it);
        if (Clock::now() - late->finished < kKept) return *std::move(late->value);
      }
      if (stuck_ >= options_.stuck_calls || !post(answer, [answer, work = std::move(work)] { answer->value.emplace(work()); })) return no_answer(path, mount_);
    }
    std::unique_lock lock(mutex_);
    if (done_.wait_for(lock, options_.patience, [&] { return answer->done; })) return *std::move(answer->value);
    answer->late = true;
    ++stuck_;
    if (late_.size() > 4 * options_.stuck_calls)   // answers that nobody came for
      for (auto it = late_.begin(); it != late_.end();) it = it->second->done ? late_.erase(it) : std::next(it);
    late_[key] = answer;
    return no_answer(path, mount_);
  }

  // Nobody waits for it: giving a file back.
  void post_alone(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    (void)post(std::make_shared<AnyAnswer>(), std::move(work));
  }

  std::optional<StuckMount> stuck() const {
    const std::lock_guard lock(mutex_);
    if (stuck_ == 0) return std::nullopt;
    StuckMount out{mount_, stuck_, Clock::now()};
    for (const auto& [key, answer] : late_)
      if (!answer->done) out.since = std::min(out.since, answer->asked);
    return out;
  }

 private:
  struct AnyAnswer {
    bool done = false, late = false;
    Clock::time_point asked = Clock::now(), finished;
  };
  template <class T>
  struct Answer : AnyAnswer {
    std::optional<Result<T>> value;
  };
  struct Call {
    std::shared_ptr<AnyAnswer> answer;
    std::function<void()> work;
  };

  // Under mutex_. false: no thread.
  bool post(std::shared_ptr<AnyAnswer> answer, std::function<void()> work) {
    calls_.push_back({std::move(answer), std::move(work)});
    if (idle_ >= calls_.size()) {
      called_.notify_one();
      return true;
    }
    try {
      std::thread([self = shared_from_this()] { self->serve(); }).detach();
      return true;
    } catch (const std::system_error&) {
      calls_.pop_back();
      return false;
    }
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      const bool called = called_.wait_for(lock, kIdle, [this] { return !calls_.empty(); });
      --idle_;
      if (!called) return;
      Call call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      call.work();
      call.work = nullptr;   // what it holds may take time to give back
      lock.lock();
      call.answer->done = true;
      call.answer->finished = Clock::now();
      if (call.answer->late) --stuck_;
      done_.notify_all();
    }
  }

  const std::string mount_;
  const GuardOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable called_, done_;
  std::deque<Call> calls_;
  std::size_t idle_ = 0, stuck_ = 0;
  std::unordered_map<std::string, std::shared_ptr<AnyAnswer>> late_;
};

class GuardedFileSystem::File final : public OpenFile {
 public:
  File(std::shared_ptr<FileSystem> inner, std::shared_ptr<OpenFile> file, std::shared_ptr<Lane> lane, std::string path)
      : inner_(std::move(inner)), file_(std::move(file)), lane_(std::move(lane)), path_(std::move(path)) {
    static std::atomic<std::uint64_t> next{0};
    key_ = "f" + std::to_string(next++) + " ";
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() override {
    // The file before the file system that it belongs to.
    lane_->post_alone([inner = std::move(inner_), file = std::move(file_)]() mutable { file.reset(); });
  }

  Result<FileInfo> info() override {
    return lane_->run<FileInfo>(key_ + "info", path_, [inner = inner_, file = file_] { return file->info(); });
  }
  Result<std::size_t> read(std::uint64_t offset, std::span<char> room) override {
    // Into a room of its own: the caller's may be gone when the answer comes.
    const std::size_t size = room.size();
    auto bytes = lane_->run<std::string>(key_ + "read " + std::to_string(offset) + " " + std::to_string(size), path_, [inner = inner_, file = file_, offset, size]() -> Result<std::string> {
      std::string out(size, '\0');
      TRIAGE_TRY(const std::size_t count, file->read(offset, out));
      out.resize(count);
      return out;
    });
    if (!bytes.ok()) return std::move(bytes).error();
    std::memcpy(room.data(), bytes->data(), bytes->size());
    return bytes->size();
  }
  std::uint64_t data_from(std::uint64_t offset) override {
    const auto found = lane_->run<std::uint64_t>(key_ + "data " + std::to_string(offset), path_, [inner = inner_, file = file_, offset] { return Result<std::uint64_t>(file->data_from(offset)); });
    return found.ok() ? *found : offset;
  }
  void hold(bool held) override { file_->hold(held); }

 private:
  std::shared_ptr<FileSystem> inner_;
  std::shared_ptr<OpenFile> file_;
  std::shared_ptr<Lane> lane_;
  std::string path_, key_;
};

GuardedFileSystem::GuardedFileSystem(std::shared_ptr<FileSystem> inner, GuardOptions options, MountOf mount_of)
    : inner_(std::move(inner)), options_(options), mount_of_(std::move(mount_of)) {}

GuardedFileSystem::GuardedFileSystem(std::shared_ptr<FileSystem> inner, GuardOptions options) : GuardedFileSystem(std::move(inner), options, [mounts = std::make_shared<NetworkMounts>()](const std::string& folder) { return mounts->find(folder); }) {}

GuardedFileSystem::~GuardedFileSystem() = default;

std::shared_ptr<GuardedFileSystem::Lane> GuardedFileSystem::lane(const std::string& mount) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Lane>& out = lanes_[mount];
  if (!out) out = std::make_shared<Lane>(mount, options_);
  return out;
}

// A path may lead through links: where it ends is asked for on a lane of its own, for that may take long, too.
Result<std::shared_ptr<GuardedFileSystem::Lane>> GuardedFileSystem::lane_of(const std::string& folder) {
  const auto now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    const auto it = placed_.find(folder);
    if (it != placed_.end() && now - it->second.at < options_.placed) return it->second.lane;
  }
  if (const std::string mount = mount_of_(folder); !mount.empty()) {   // no link needed to know that
    auto out = lane(mount);
    const std::lock_guard lock(mutex_);
    if (placed_.size() >= kPlaced) placed_.clear();
    placed_[folder] = {out, now};
    return out;
  }
  const auto real = lane("links")->run<std::string>("real " + folder, folder, [inner = inner_, folder] { return inner->real_path(folder); });
  if (!real.ok() && real.error().code() == ErrorCode::limit) return real.error();
  const std::string mount = mount_of_(real.ok() ? *real : folder);
  std::shared_ptr<Lane> out = mount.empty() ? nullptr : lane(mount);
  const std::lock_guard lock(mutex_);
  if (placed_.size() >= kPlaced) placed_.clear();
  if (real.ok()) placed_[folder] = {out, now};
  return out;
}

// In a local folder a name may still be a mount, or a link to one.
Result<std::shared_ptr<GuardedFileSystem::Lane>> GuardedFileSystem::lane_of_name(const std::string& path, bool follow) {
  TRIAGE_TRY(auto out, lane_of(folder_of(path)));
  if (out) return out;
  std::string mount = mount_of_(path);
  if (mount.empty() && follow) {
    const auto info = inner_->info(path, false);
    if (info.ok() && info->kind == FileKind::link) {
      const auto real = lane("links")->run<std::string>("real " + path, path, [inner = inner_, path] { return inner->real_path(path); });
      if (!real.ok() && real.error().code() == ErrorCode::limit) return real.error();
      if (real.ok()) mount = mount_of_(*real);
    }
  }
  return mount.empty() ? std::shared_ptr<Lane>() : lane(mount);
}

Result<FileInfo> GuardedFileSystem::info(const std::string& path, bool follow) {
  TRIAGE_TRY(const auto lane, lane_of_name(path, follow));
  if (!lane) return inner_->info(path, follow);
  return lane->run<FileInfo>((follow ? "info " : "linfo ") + path, path, [inner = inner_, path, follow] { return inner->info(path, follow); });
}

Result<std::unique_ptr<OpenFile>> GuardedFileSystem::open(const std::string& path) {
  TRIAGE_TRY(const auto lane, lane_of_name(path, true));
  if (!lane) return inner_->open(path);
  auto file = lane->run<std::shared_ptr<OpenFile>>("open " + path, path, [inner = inner_, path]() -> Result<std::shared_ptr<OpenFile>> {
    TRIAGE_TRY(auto opened, inner->open(path));
    return std::shared_ptr<OpenFile>(std::move(opened));
  });
  if (!file.ok()) return std::move(file).error();
  return std::unique_ptr<OpenFile>(std::make_unique<File>(inner_, *std::move(file), lane, path));
}

Result<std::vector<FolderEntry>> GuardedFileSystem::list(const std::string& folder) {
  TRIAGE_TRY(const auto lane, lane_of(folder));
  if (!lane) return inner_->list(folder);
  return lane->run<std::vector<FolderEntry>>("list " + folder, folder, [inner = inner_, folder] { return inner->list(folder); });
}

Result<std::string> GuardedFileSystem::real_path(const std::string& path) {
  TRIAGE_TRY(const auto lane, lane_of_name(path, true));
  if (!lane) return inner_->real_path(path);
  return lane->run<std::string>("path " + path, path, [inner = inner_, path] { return inner->real_path(path); });
}

bool GuardedFileSystem::remote(const std::string& folder) {
  const auto lane = lane_of(folder);
  return !lane.ok() || *lane != nullptr;   // one that does not answer is not asked for a watch either
}

std::vector<StuckMount> GuardedFileSystem::stuck() const {
  std::vector<StuckMount> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [mount, lane] : lanes_)
    if (auto one = lane->stuck()) out.push_back(*std::move(one));
  return out;
}

}  // namespace triage::daemon
