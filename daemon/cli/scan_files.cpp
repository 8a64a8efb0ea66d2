#include "daemon/cli/scan_files.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/cli/input_look.hpp"
#include "daemon/pipeline/dump.hpp"
#include "daemon/pipeline/elastic_error.hpp"
#include "daemon/pipeline/intake.hpp"
#include "daemon/pipeline/snapshot_file.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "daemon/tail/input.hpp"
#include "daemon/tail/read_at_file.hpp"
#include "daemon/tail/text_source.hpp"
#include "daemon/tail/unpack.hpp"
#include "parsers/base/limits.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using signatures::SourceFindings;

namespace {

constexpr std::size_t kLookBytes = 4096;        // of the head that looks_binary sees
constexpr std::size_t kBlocksAThread = 4;       // of one text under way at the same time

// One text on its way: the worker that owns it reads blocks in order, any worker scans them, and they are taken in order.
struct Job {
  std::size_t slot = 0;
  SourceFindings* result = nullptr;       // where it goes in the end
  BlockCutter cutter;                     // the owner's, like the next one
  std::uint64_t next_read = 0;
  std::mutex lock;                        // of what follows; the intake belongs to the one that set `taking`
  std::condition_variable advanced;
  std::unique_ptr<Intake> intake;
  bool taking = false, failed = false;
  std::uint64_t next_taken = 0;
  std::map<std::uint64_t, ScannedBlock> waiting;
  std::vector<std::pair<std::uint64_t, std::string>> losses;   // told when the block of this number is taken
};

struct Work {
  std::optional<std::size_t> slot;        // of a file that is to be read
  std::shared_ptr<Job> job;               // of a block that is to be scanned
  std::uint64_t sequence = 0;
  Block block;
};

std::string loss_text(const Error& error) {
  std::string text = error.message();
  if (!error.reason().empty()) text += ": " + error.reason();
  if (error.place() && error.place()->offset) text += " (byte " + std::to_string(*error.place()->offset) + " of it)";
  return text;
}

class Scan {
 public:
  Scan(std::shared_ptr<const Knowledge> knowledge, const std::vector<std::string>& files, const ScanFilesOptions& options)
      : knowledge_(std::move(knowledge)), files_(files), options_(options), slots_(files.size()) {}

  ScannedFiles run() {
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < options_.threads; ++i) {
      try {
        threads.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        break;   // the system gives no more threads: those that run do the work
      }
    }
    workers_ = threads.size() + 1;
    work();
    for (std::thread& thread : threads) thread.join();
    ScannedFiles out;
    for (Slot& slot : slots_) {
      for (auto& source : slot.results)
        if (!source.source.name.empty()) out.sources.push_back(std::move(source));
      for (auto& error : slot.errors) out.errors.push_back(std::move(error));
    }
    out.unread = unread_ + (files_.size() - next_file_);
    return out;
  }

 private:
  // What came of one file. A list: helpers finish one member while the owner begins the next.
  struct Slot {
    std::list<SourceFindings> results;
    std::vector<Error> errors;            // guarded by lock_
  };

  // One thread: its scanner, and the block that it scans.
  struct Worker {
    explicit Worker(const Knowledge& knowledge) : scanner(knowledge) {}
    BlockScanner scanner;
    ScannedBlock scratch;
  };

  void work() {
    std::optional<Worker> worker;
    while (std::optional<Work> next = take_work()) {
      try {
        if (!worker) worker.emplace(*knowledge_);
        if (next->slot)
          scan_file(*worker, *next->slot);
        else
          scan_block(*worker, *next->job, next->sequence, std::move(next->block));
      } catch (const std::bad_alloc&) {
        if (next->job) fail(*next->job);
        add_error(next->slot ? *next->slot : next->job->slot, out_of_memory(files_[next->slot ? *next->slot : next->job->slot]));
      }
      if (next->slot) {
        const std::lock_guard guard(lock_);
        --owners_;
        changed_.notify_all();
      }
    }
  }

  static Error out_of_memory(const std::string& name) {
    return Error(ErrorCode::limit, "there is not enough memory to scan a file")
        .at(Place{name, {}, {}, {}, {}})
        .help("raise the limit (ulimit -v, the cgroup's memory), or give fewer --threads");
  }

  bool stopped() const { return options_.stop && options_.stop(); }

  // Memory of blocks goes from who took one to who cuts the next: made anew, each would be cleared and faulted in page by page.
  void keep_spare(Block&& block) {
    if (block.bytes.empty()) return;
    const std::lock_guard guard(lock_);
    if (spare_blocks_.size() < workers_ * kBlocksAThread) spare_blocks_.push_back(std::move(block));
  }
  void use_spare(BlockCutter& cutter) {
    const std::lock_guard guard(lock_);
    if (spare_blocks_.empty()) return;
    cutter.recycle(std::move(spare_blocks_.back()));
    spare_blocks_.pop_back();
  }

  // A block that waits for a scanner, else a file that nobody reads yet. Nothing when no more of either can come.
  std::optional<Work> take_work() {
    std::unique_lock guard(lock_);
    for (;;) {
      if (!ready_.empty()) return pop_ready();
      if (next_file_ < files_.size() && !stopped()) {
        ++owners_;
        return Work{next_file_++, nullptr, 0, {}};
      }
      if (owners_ == 0) return std::nullopt;
      ++idle_;
      changed_.wait(guard);
      --idle_;
    }
  }

  Work pop_ready() {
    Work work = std::move(ready_.front());
    ready_.pop_front();
    return work;
  }

  void scan_file(Worker& worker, std::size_t slot) {
    const std::string& path = files_[slot];
    Job* reading = nullptr;               // whose bytes are being read
    const Tell tell = [&](Error error, Weight weight) {
      if (stopped()) return;              // what ends because we stop is no fault of the input
      if (reading) add_loss(*reading, loss_text(error));
      if (weight == Weight::loss) add_error(slot, std::move(error));
    };
    ReadOptions reader;
    reader.tell = tell;
    reader.count = [this](std::size_t bytes) { progress(bytes); };
    reader.stop = options_.stop;
    auto input = open_input(path, std::move(reader));
    if (!input.ok()) return add_error(slot, std::move(input).error());
    const std::string name = path == "-" ? "stdin" : path;
    for_each_stream(std::move(input).value(), name, tell, [&](const std::string& stream_name, PeekedSource& stream) {
      scan_stream(worker, slot, stream_name, stream, reading);
      reading = nullptr;
    });
    if (stopped()) ++unread_;
  }

  void scan_stream(Worker& worker, std::size_t slot, const std::string& name, PeekedSource& stream, Job*& reading) {
    const bool plain = stream.seekable_size() > 0;   // the file itself, which can be read from any place
    const InputKind kind = kind_of_input(stream.peek(kKindBytes));
    if (kind == InputKind::allocator_snapshot) return scan_snapshot(slot, name, stream);
    if (kind != InputKind::text && !plain) return scan_packed_dump(slot, kind, name, stream);
    if (kind != InputKind::text) {
      auto file = open_read_at(files_[slot]);
      if (!file.ok()) return add_error(slot, std::move(file).error());
      return keep_dump(slot, kind, **file, name);
    }
    const auto job = std::make_shared<Job>();
    job->slot = slot;
    reading = job.get();
    TextSource text(std::make_unique<BorrowedSource>(stream));
    Block first = read_block(*job, text, slot);
    if (looks_binary(first.text().substr(0, kLookBytes))) {
      if (name.find('!') == std::string::npos) add_error(slot, binary_error(name));   // weights in an archive are no fault
      return;
    }
    job->result = &slots_[slot].results.emplace_back();
    job->intake = std::make_unique<Intake>(knowledge_, source_info(name), options_.default_year);
    for (Block block = std::move(first);;) {
      const bool last = block.last;
      const std::uint64_t sequence = job->next_read++;
      if (last || !hand_over(job, sequence, block)) scan_block(worker, *job, sequence, std::move(block));
      if (!job->cutter.has_spare()) use_spare(job->cutter);
      if (last || !keep_bounded(worker, *job)) return;
      block = read_block(*job, text, slot);
    }
  }

  // The next block; an error is told, and ends the text.
  Block read_block(Job& job, ByteSource& text, std::size_t slot) {
    for (;;) {
      if (auto block = job.cutter.take()) return std::move(*block);
      auto count = text.read(job.cutter.room());
      if (!count.ok()) {
        add_loss(job, loss_text(count.error()));
        add_error(slot, std::move(count).error());
        return job.cutter.finish();
      }
      if (*count == 0) {
        if (stopped()) add_loss(job, "reading was interrupted");
        return job.cutter.finish();
      }
      job.cutter.filled(*count);
    }
  }

  // To a worker that has nothing else to do; one block more than there are such workers, so that none of them waits.
  bool hand_over(const std::shared_ptr<Job>& job, std::uint64_t sequence, Block& block) {
    const std::lock_guard guard(lock_);
    if (workers_ < 2 || ready_.size() > idle_) return false;
    ready_.push_back({std::nullopt, job, sequence, std::move(block)});
    changed_.notify_one();
    return true;
  }

  // Waits while too many blocks of the text are under way; scans for others meanwhile. False: the text cannot go on.
  bool keep_bounded(Worker& worker, Job& job) {
    for (;;) {
      {
        const std::lock_guard guard(job.lock);
        if (job.failed) return false;
        if (job.next_read - job.next_taken <= kBlocksAThread * workers_) return true;
      }
      std::optional<Work> other;
      {
        const std::lock_guard guard(lock_);
        if (!ready_.empty()) other = pop_ready();
      }
      if (other) {
        try {
          scan_block(worker, *other->job, other->sequence, std::move(other->block));
        } catch (const std::bad_alloc&) {
          fail(*other->job);
          throw;
        }
        continue;
      }
      std::unique_lock guard(job.lock);
      const std::uint64_t taken = job.next_taken;
      job.advanced.wait(guard, [&] { return job.failed || job.next_taken != taken || job.next_read - job.next_taken <= kBlocksAThread * workers_; });
    }
  }

  void scan_block(Worker& worker, Job& job, std::uint64_t sequence, Block block) {
    worker.scratch.block = std::move(block);
    worker.scanner.scan(worker.scratch);
    deliver(worker, job, sequence);
  }

  // Takes the block if it is its turn, and those that wait behind it. One worker takes at a time; the others leave their blocks to it.
  void deliver(Worker& worker, Job& job, std::uint64_t sequence) {
    ScannedBlock& scanned = worker.scratch;
    {
      const std::lock_guard guard(job.lock);
      if (sequence != job.next_taken || job.taking) {
        job.waiting.emplace(sequence, std::exchange(scanned, {}));
        return;
      }
      job.taking = true;
    }
    for (;;) {
      job.intake->take(scanned, worker.scanner.matcher());
      const bool last = scanned.block.last;
      keep_spare(std::exchange(scanned.block, {}));
      const std::lock_guard guard(job.lock);
      for (auto& [at, what] : job.losses)
        if (at <= job.next_taken) job.intake->lose(std::exchange(what, {}), 0);
      std::erase_if(job.losses, [&](const auto& loss) { return loss.first <= job.next_taken; });
      if (last) *job.result = job.intake->finish();
      ++job.next_taken;
      job.advanced.notify_all();
      const auto next = job.waiting.find(job.next_taken);
      if (next == job.waiting.end()) {
        job.taking = false;
        return;
      }
      scanned = std::move(next->second);
      job.waiting.erase(next);
    }
  }

  void fail(Job& job) {
    const std::lock_guard guard(job.lock);
    job.failed = true;
    job.advanced.notify_all();
  }

  void add_loss(Job& job, std::string what) {
    const std::lock_guard guard(job.lock);
    job.losses.emplace_back(job.next_read, std::move(what));
  }

  void keep_dump(std::size_t slot, InputKind kind, parsers::ReadAt& file, const std::string& name) {
    auto found = kind == InputKind::elastic_error ? scan_elastic_error(knowledge_, file, source_info(name), options_.default_year)
                                                  : read_dump(kind, file, source_info(name));
    if (!found.ok()) return add_error(slot, std::move(found).error());
    slots_[slot].results.push_back(std::move(found).value());
  }

  void scan_snapshot(std::size_t slot, const std::string& name, ByteSource& source) {
    auto snapshot = read_snapshot(source, name);
    if (!snapshot.ok()) return add_error(slot, std::move(snapshot).error());
    if (snapshot->cut) add_error(slot, *snapshot->cut);
    slots_[slot].results.push_back(snapshot_findings(analyze_snapshot(name, std::move(snapshot).value())));
  }

  // Cores and recorder dumps are read by position: one from an archive or a pipe is put into memory, up to a limit.
  void scan_packed_dump(std::size_t slot, InputKind kind, const std::string& name, ByteSource& member) {
    std::string bytes;
    std::vector<char> room(1 << 20);
    for (;;) {
      auto count = member.read(room);
      if (!count.ok()) {
        add_error(slot, std::move(count).error());
        break;
      }
      if (*count == 0) break;
      if (bytes.size() + *count > parsers::limits::kPackedDumpBytes) {
        add_error(slot, Error(ErrorCode::limit, "only the first " + std::to_string(bytes.size()) + " bytes of a dump from an archive or a pipe were read")
                            .at(Place{name, {}, {}, bytes.size(), {}})
                            .help("give it as a plain file: those of any size are read"));
        break;
      }
      bytes.append(room.data(), *count);
    }
    parsers::ReadAtMemory file(bytes);
    keep_dump(slot, kind, file, name);
  }

  void add_error(std::size_t slot, Error error) {
    const std::lock_guard guard(lock_);
    slots_[slot].errors.push_back(std::move(error));
  }

  void progress(std::size_t bytes) {
    const std::uint64_t total = bytes_ += bytes;
    if (!options_.progress) return;
    if (const std::unique_lock guard(progress_lock_, std::try_to_lock); guard) options_.progress(total);
  }

  const std::shared_ptr<const Knowledge> knowledge_;
  const std::vector<std::string>& files_;
  const ScanFilesOptions& options_;
  std::atomic<std::size_t> workers_{1};
  std::atomic<std::size_t> unread_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::mutex progress_lock_;
  std::vector<Slot> slots_;               // a slot belongs to the worker that reads its file, but for its errors
  std::mutex lock_;                       // of what follows
  std::condition_variable changed_;
  std::size_t next_file_ = 0, owners_ = 0, idle_ = 0;
  std::deque<Work> ready_;
  std::vector<Block> spare_blocks_;
};

}  // namespace

ScannedFiles scan_files(std::shared_ptr<const Knowledge> knowledge, const std::vector<std::string>& files, const ScanFilesOptions& options) {
  return Scan(std::move(knowledge), files, options).run();
}

}  // namespace triage::daemon
