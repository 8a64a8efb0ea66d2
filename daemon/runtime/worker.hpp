// Worker: a thread that reads its share of the watched files. A file always belongs to the same worker, so that its lines stay in order;
// each turn takes at most kTurnBytes of it, so that a flood in one file does not keep the others waiting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "daemon/pipeline/block_scanner.hpp"
#include "daemon/pipeline/intake.hpp"
#include "daemon/pipeline/knowledge.hpp"
#include "daemon/runtime/bounded_queue.hpp"
#include "daemon/runtime/news.hpp"
#include "daemon/tail/compressed.hpp"
#include "daemon/tail/discovery.hpp"
#include "daemon/tail/tailer.hpp"

namespace triage::daemon {

using NewsQueue = BoundedQueue<std::vector<SourceNews>>;

struct WorkerOptions {
  TailOptions tail;
  std::chrono::milliseconds checkpoint{1000};   // how often a source that tells nothing says how far it is
  std::chrono::seconds idle{30};                // then its Intake is let go; its spool brings it back
  std::chrono::seconds gone{300};               // a file that vanished is let go of after this
  std::chrono::seconds quiet{24 * 3600};        // and one that did not grow: it is taken up again when it does
  std::size_t warm = 1000;                      // Intakes at once; beyond it they are let go as soon as what they found is stored
  // What the patterns say of a path: for a file that was let go of. May be empty.
  std::function<std::optional<FoundFile>(const std::string& path)> find;
  int default_year = 1970;
};

// What the workers count, for metrics and health. All of it grows only.
struct WorkerCounts {
  std::atomic<std::uint64_t> bytes = 0, lines = 0, lost_bytes = 0, errors = 0, findings = 0;
  std::atomic<std::uint64_t> rested = 0;        // Intakes that were let go of
  std::atomic<std::uint64_t> sources = 0;       // that are followed now
  std::atomic<std::int64_t> turn = 0;           // when the last turn began: microseconds since 1970
  std::atomic<bool> waiting = true;             // it is between two turns
};

class Worker {
 public:
  // The lines that are stored of a source, to take up its Intake again.
  using LoadSpool = std::function<std::vector<SpoolLine>(const std::string& name, std::uint64_t generation)>;
  // The row of its last generation, from an earlier run; errors: of the store, then it is asked again.
  using LoadRow = std::function<parsers::Result<std::optional<db::WatchedRow>>(const std::string& name)>;
  using Clock = std::function<parsers::TimePoint()>;

  Worker(std::shared_ptr<const Knowledge> knowledge, FileSystem& files, NewsQueue& desk, LoadRow load_row, LoadSpool load_spool, Clock clock, WorkerOptions options);
  ~Worker();

  // From any thread. A file that is followed already is woken. skip: bytes of a file without a row that are not taken: they were old when it
  // was found.
  void follow(const FoundFile& file, std::uint64_t skip = 0);
  void wake(const std::string& path);
  // Reads a dump that was read before; what it says is sent with `again` set.
  void read_again(const signatures::SourceInfo& dump);
  // Lets go of the files that `keep` does not name.
  void keep_only(std::function<bool(const std::string& path)> keep);
  void use(std::shared_ptr<const Knowledge> knowledge);
  // A thread of its own until it is asked to stop; it does so after the turn that runs. stop() waits for that: false: not within the time, the
  // thread waits for a file system and is left to it; then this object has to live as long as the process.
  void start();
  void ask_to_stop();
  bool stop(std::chrono::milliseconds time);

  // One pass over what is ready, on the caller's thread (tests; the thread does nothing else). Returns when it has to be called again.
  std::optional<parsers::TimePoint> pass();

  const WorkerCounts& counts() const { return counts_; }
  // Files that cannot be read now, and why; empty: there are none. They are tried again. From any thread.
  std::string trouble() const;

 private:
  struct Followed;
  struct Order {
    enum class What { follow, wake, use, keep_only } what = What::wake;
    FoundFile file;
    std::uint64_t skip = 0;
    bool again = false;
    std::shared_ptr<const Knowledge> knowledge;
    std::function<bool(const std::string&)> keep;
  };
  void loop();
  void take_orders();
  bool begin(const FoundFile& file, std::uint64_t skip);
  void drop(const std::string& path);
  void sweep(parsers::TimePoint now);
  void set_back(parsers::TimePoint::duration by);
  void fail(Followed& source, const parsers::Error& error, parsers::TimePoint now);
  void recover(Followed& source);
  parsers::Status place(Followed& source, const std::string& path);
  bool turn(Followed& source, parsers::TimePoint now);
  void take(Followed& source, const Checkpoint& from, std::size_t size, bool partial);
  void show(Followed& source, std::string_view line, std::uint64_t offset, std::uint64_t number);
  void end_generation(Followed& source, const Checkpoint& at, std::uint64_t generation);
  void read_dump(Order order, parsers::TimePoint now);
  Intake& intake_of(Followed& source);
  static std::uint64_t told(const Followed& source);
  void rest(Followed& source);
  void report(Followed& source, parsers::TimePoint now, bool ended);
  void send();

  std::shared_ptr<const Knowledge> knowledge_;
  FileSystem& files_;
  UnpackingFileSystem unpacking_{files_, [this] { return clock_(); }};   // packed files as what they hold
  NewsQueue& desk_;
  const LoadRow load_row_;
  const LoadSpool load_spool_;
  const Clock clock_;
  const WorkerOptions options_;
  std::unique_ptr<BlockScanner> scanner_;
  ScannedBlock scanned_;                        // its block is the room for reading
  std::unordered_map<std::string, std::unique_ptr<Followed>> sources_;   // by path
  std::deque<Followed*> ready_;
  std::vector<Followed*> waiting_;              // with a wake time, or with news to send later
  std::deque<Order> dumps_;                     // to be read, one a pass
  std::vector<SourceNews> news_;
  std::size_t warm_ = 0;                        // Intakes
  parsers::TimePoint sweep_at_{}, now_{};
  void postpone(Order order);
  std::vector<Order> later_;                    // the store or a file server did not answer
  parsers::TimePoint later_at_{};
  std::size_t failing_ = 0;                     // files whose last turn failed
  WorkerCounts counts_;

  mutable std::mutex lock_;                             // of what follows
  std::condition_variable called_;
  std::vector<Order> orders_;
  std::string trouble_;
  bool stopping_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace triage::daemon
