#include "daemon/cli/scan_files.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/pipeline/dump.hpp"
#include "daemon/pipeline/elastic_error.hpp"
#include "daemon/pipeline/intake_stream.hpp"
#include "daemon/pipeline/snapshot_file.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "daemon/tail/headed_source.hpp"
#include "daemon/tail/input.hpp"
#include "daemon/tail/read_at_file.hpp"
#include "daemon/tail/text_source.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;

namespace {

// Bytes that are no text: neither UTF-8 nor white space. NUL bytes do not count (a log that was truncated under its writer has many).
bool looks_binary(std::string_view head) {
  std::size_t text = 0, strange = 0;
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) continue;
    const bool control = byte < 0x20 && !parsers::is_space(c) && byte != 0x1b && byte != '\b' && byte != 0x07;
    control ? ++strange : ++text;
  }
  if (!parsers::is_utf8(head.substr(0, head.size() - std::min<std::size_t>(head.size(), 4)))) strange += text / 16;
  return strange * 12 > text + strange;
}

// limit: one layer of packing is undone; a packed log inside an archive is told, not read.
Error packed_inside_error(const std::string& name) {
  return Error(ErrorCode::unsupported, "a packed file inside an archive was not scanned")
      .at(Place{name, {}, {}, {}, {}})
      .help("unpack the archive and give the folder: packed files in a folder are read");
}

Error binary_error(const std::string& name, std::string_view head) {
  if (looks_packed(head))
    return Error(ErrorCode::unsupported, "packed bytes from a pipe are not unpacked")
        .at(Place{name, {}, {}, {}, {}})
        .help("give the file by its name, or unpack before the pipe: zcat FILE | triage scan -");
  return Error(ErrorCode::unsupported, "the file holds no text and was not scanned")
      .at(Place{name, {}, {}, {}, {}})
      .help("give logs as text, or packed as .gz, .zst, .tar or .zip");
}

// One plain file on its way: blocks are read in order, scanned in any, taken in order.
struct Job {
  std::size_t slot = 0;
  std::unique_ptr<ByteSource> input;      // guarded by Feed's lock
  BlockCutter cutter;                     // the same
  std::uint64_t next_read = 0;            // the same
  std::mutex lock;                        // of what follows
  std::unique_ptr<Intake> intake;
  std::uint64_t next_taken = 0;
  std::map<std::uint64_t, ScannedBlock> waiting;
};

struct Work {
  enum class What : std::uint8_t { block, packed, dump, piped_dump };
  What what = What::block;
  std::size_t slot = 0;                   // of a packed file or a dump
  InputKind kind = InputKind::text;       // of a dump
  std::unique_ptr<ByteSource> input;      // of a dump that comes through a pipe
  std::shared_ptr<Job> job;               // of a block
  std::uint64_t sequence = 0;
  Block block;
};

class Scan {
 public:
  Scan(std::shared_ptr<const Knowledge> knowledge, const std::vector<std::string>& files, const ScanFilesOptions& options)
      : knowledge_(std::move(knowledge)), files_(files), options_(options), free_blocks_(options.threads * 4), results_(files.size()) {}

  ScannedFiles run() {
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < options_.threads; ++i) {
      try {
        threads.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        break;   // the system gives no more threads: those that run do the work
      }
    }
    work();
    for (std::thread& thread : threads) thread.join();
    ScannedFiles out;
    for (auto& sources : results_)
      for (auto& source : sources) out.sources.push_back(std::move(source));
    out.errors = std::move(errors_);
    return out;
  }

 private:
  void work() {
    BlockScanner scanner(*knowledge_);
    ScannedBlock scratch;
    while (std::optional<Work> next = take_work()) {
      if (next->what == Work::What::packed) {
        scan_packed(next->slot);
        continue;
      }
      if (next->what == Work::What::dump) {
        scan_dump(next->slot, next->kind);
        continue;
      }
      if (next->what == Work::What::piped_dump) {
        scan_stream(next->slot, next->kind, name_of(next->slot), *next->input);
        continue;
      }
      scratch.block = std::move(next->block);
      scanner.scan(scratch);
      deliver(*next->job, next->sequence, scratch, scanner.matcher());
    }
  }

  // The next block of the file being read, or of the next file. Waits while too many blocks are under way.
  std::optional<Work> take_work() {
    std::unique_lock guard(feed_lock_);
    block_freed_.wait(guard, [&] { return free_blocks_ > 0; });
    for (;;) {
      if (!job_) {
        if (next_file_ == files_.size()) return std::nullopt;
        const std::size_t slot = next_file_++;
        auto head = head_of(files_[slot], kKindBytes);
        if (!head.ok()) {
          add_error(std::move(head).error());
          continue;
        }
        if (looks_packed(*head)) return Work{Work::What::packed, slot, InputKind::text, nullptr, nullptr, 0, {}};
        if (const InputKind kind = kind_of_input(*head); kind != InputKind::text) return Work{Work::What::dump, slot, kind, nullptr, nullptr, 0, {}};
        auto input = open_source(slot, head->empty());
        if (!input) continue;
        if (input->kind != InputKind::text) return Work{Work::What::piped_dump, slot, input->kind, std::move(input->source), nullptr, 0, {}};
        open(slot, std::move(input->source));
      }
      Work work;
      work.job = job_;
      work.sequence = job_->next_read;
      work.block = read_block(*job_);
      if (job_->next_read++ == 0 && looks_binary(work.block.text().substr(0, 4096))) {
        add_error(binary_error(files_[job_->slot], work.block.text().substr(0, 16)));
        job_.reset();
        continue;
      }
      if (work.block.last) job_.reset();
      --free_blocks_;
      return work;
    }
  }

  struct Opened {
    std::unique_ptr<ByteSource> source;
    InputKind kind = InputKind::text;
  };
  // Opens a file. What comes through a pipe shows what it is only now.
  std::optional<Opened> open_source(std::size_t slot, bool look) {
    auto input = open_plain(files_[slot]);
    if (!input.ok()) {
      add_error(std::move(input).error());
      return std::nullopt;
    }
    Opened opened{std::move(input).value()};
    if (!look) return opened;
    auto head = read_head(*opened.source, kKindBytes);
    if (!head.ok()) {
      add_error(std::move(head).error());
      return std::nullopt;
    }
    opened.kind = kind_of_input(*head);
    opened.source = std::make_unique<HeadedSource>(std::move(head).value(), std::move(opened.source));
    return opened;
  }

  std::string name_of(std::size_t slot) const { return files_[slot] == "-" ? "stdin" : files_[slot]; }

  void open(std::size_t slot, std::unique_ptr<ByteSource> input) {
    job_ = std::make_shared<Job>();
    job_->slot = slot;
    job_->input = std::make_unique<TextSource>(std::move(input));
    job_->intake = std::make_unique<Intake>(knowledge_, source_info(name_of(slot)), options_.default_year);
  }

  Block read_block(Job& job) {
    for (;;) {
      if (auto block = job.cutter.take()) return std::move(*block);
      auto count = job.input->read(job.cutter.room());
      if (!count.ok()) {
        job.intake->lose("reading stopped: " + count.error().reason(), 0);
        add_error(std::move(count).error());
        return job.cutter.finish();
      }
      if (*count == 0) return job.cutter.finish();
      job.cutter.filled(*count);
      bytes_ += *count;
      if (options_.progress) options_.progress(bytes_);
    }
  }

  void deliver(Job& job, std::uint64_t sequence, ScannedBlock& scanned, signatures::Matcher& matcher) {
    std::size_t freed = 0;
    {
      const std::lock_guard guard(job.lock);
      if (sequence != job.next_taken) {
        job.waiting.emplace(sequence, std::exchange(scanned, {}));
        return;
      }
      take(job, scanned, matcher, freed);
      for (auto next = job.waiting.find(job.next_taken); next != job.waiting.end(); next = job.waiting.find(job.next_taken)) {
        ScannedBlock block = std::move(next->second);
        job.waiting.erase(next);
        take(job, block, matcher, freed);
      }
    }
    const std::lock_guard guard(feed_lock_);
    free_blocks_ += freed;
    if (job_.get() == &job) job.cutter.recycle(std::move(scanned.block));
    block_freed_.notify_all();
  }

  void take(Job& job, const ScannedBlock& scanned, signatures::Matcher& matcher, std::size_t& freed) {
    job.intake->take(scanned, matcher);
    ++job.next_taken;
    ++freed;
    if (scanned.block.last) results_[job.slot].push_back(job.intake->finish());
  }

  void scan_packed(std::size_t slot) {
    auto status = for_each_member(files_[slot], [&](const std::string& name, ByteSource& member) { scan_member(slot, name, member); });
    if (!status.ok()) add_error_locked(std::move(status).error());
  }

  void scan_dump(std::size_t slot, InputKind kind) {
    if (kind == InputKind::allocator_snapshot) {
      auto source = open_plain(files_[slot]);
      if (!source.ok()) return add_error_locked(std::move(source).error());
      return scan_stream(slot, kind, files_[slot], **source);
    }
    auto file = open_read_at(files_[slot]);
    if (!file.ok()) return add_error_locked(std::move(file).error());
    keep_dump(slot, kind, **file, files_[slot]);
  }

  void keep_dump(std::size_t slot, InputKind kind, parsers::ReadAt& file, const std::string& name) {
    auto found = kind == InputKind::elastic_error ? scan_elastic_error(knowledge_, file, source_info(name), options_.default_year)
                                                  : read_dump(kind, file, source_info(name));
    if (!found.ok()) return add_error_locked(std::move(found).error());
    results_[slot].push_back(std::move(found).value());
  }

  // A dump that can only be read from its start on.
  void scan_stream(std::size_t slot, InputKind kind, const std::string& name, ByteSource& source, std::string head = {}) {
    if (kind != InputKind::allocator_snapshot) return scan_unpacked(slot, kind, name, std::move(head), source);
    auto snapshot = read_snapshot(source, name, head);
    if (!snapshot.ok()) return add_error_locked(std::move(snapshot).error());
    if (snapshot->cut) add_error_locked(*snapshot->cut);
    results_[slot].push_back(snapshot_findings(analyze_snapshot(name, std::move(snapshot).value())));
  }

  // Cores and recorder dumps are read by position: one from an archive or a pipe is put into memory, up to a limit.
  void scan_unpacked(std::size_t slot, InputKind kind, const std::string& name, std::string bytes, ByteSource& member) {
    std::vector<char> room(1 << 20);
    bool cut = false;
    for (;;) {
      auto count = member.read(room);
      if (!count.ok()) {
        add_error_locked(std::move(count).error());
        break;
      }
      if (*count == 0) break;
      if (bytes.size() + *count > parsers::limits::kPackedDumpBytes) {
        cut = true;
        break;
      }
      bytes.append(room.data(), *count);
    }
    if (cut)
      add_error_locked(Error(ErrorCode::limit, "only the first " + std::to_string(bytes.size()) + " bytes of a dump from an archive or a pipe were read")
                           .at(Place{name, {}, {}, bytes.size(), {}})
                           .help("give it as a plain file: those of any size are read"));
    parsers::ReadAtMemory file(bytes);
    keep_dump(slot, kind, file, name);
  }

  void scan_member(std::size_t slot, const std::string& name, ByteSource& member) {
    std::string head, fault;
    std::vector<char> room(1 << 18);
    while (head.size() < kKindBytes) {
      auto count = member.read(room);
      if (!count.ok()) {
        fault = "reading stopped: " + count.error().reason();
        add_error_locked(std::move(count).error());
        break;
      }
      if (*count == 0) break;
      head.append(room.data(), *count);
    }
    const InputKind kind = kind_of_input(std::string_view(head).substr(0, kKindBytes));
    if (kind != InputKind::text) return scan_stream(slot, kind, name, member, std::move(head));
    if (looks_packed(head)) return add_error_locked(packed_inside_error(name));
    if (looks_binary(std::string_view(head).substr(0, 4096))) return;  // weights in an archive are no fault
    IntakeStream intake(knowledge_, source_info(name), options_.default_year);
    intake.feed(head);
    if (!fault.empty()) intake.lose(std::move(fault), 0);
    while (fault.empty()) {
      auto count = member.read(room);
      if (!count.ok()) {
        intake.lose("reading stopped: " + count.error().reason(), 0);
        add_error_locked(std::move(count).error());
        break;
      }
      if (*count == 0) break;
      intake.feed(std::string_view(room.data(), *count));
    }
    results_[slot].push_back(intake.finish());
  }

  void add_error(Error error) { errors_.push_back(std::move(error)); }
  void add_error_locked(Error error) {
    const std::lock_guard guard(feed_lock_);
    add_error(std::move(error));
  }

  const std::shared_ptr<const Knowledge> knowledge_;
  const std::vector<std::string>& files_;
  const ScanFilesOptions& options_;
  std::mutex feed_lock_;                  // of reading: everything below but results_, whose slots have one owner each
  std::condition_variable block_freed_;
  std::size_t free_blocks_;
  std::size_t next_file_ = 0;
  std::shared_ptr<Job> job_;
  std::uint64_t bytes_ = 0;
  std::vector<Error> errors_;
  std::vector<std::vector<signatures::SourceFindings>> results_;
};

}  // namespace

ScannedFiles scan_files(std::shared_ptr<const Knowledge> knowledge, const std::vector<std::string>& files, const ScanFilesOptions& options) {
  return Scan(std::move(knowledge), files, options).run();
}

}  // namespace triage::daemon
