#include "daemon/runtime/worker.hpp"

#include <algorithm>
#include <string_view>

#include "daemon/pipeline/newlines.hpp"
#include "daemon/tail/rotated_name.hpp"
#include "daemon/tail/file_identity.hpp"
#include "parsers/base/limits.hpp"
#include "daemon/runtime/dump_file.hpp"
#include "daemon/runtime/thread_name.hpp"

namespace triage::daemon {

using parsers::TimePoint;

namespace {

constexpr std::size_t kTurnBytes = 256 * 1024;
constexpr auto kSweep = std::chrono::seconds(60);
constexpr auto kPacking = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kAgain{500}, kAgainMost{15'000};   // a file that cannot be read is tried again, ever more seldom
constexpr std::size_t kPassTurns = 256, kPortion = 64;   // then those that wait are looked at; then the desk gets what there is
static_assert(kTurnBytes >= parsers::limits::kLineBytes);

void put(db::WatchedRow& row, const Checkpoint& at) {
  row.device = at.device;
  row.inode = at.inode;
  row.offset = at.offset;
  row.lines = at.lines;
  row.size = at.size;
  row.check_bytes = at.check_bytes;
  row.check_hash = at.check_hash;
}

Checkpoint checkpoint_of(const db::WatchedRow& row) {
  Checkpoint at;
  at.device = row.device;
  at.inode = row.inode;
  at.offset = row.offset;
  at.lines = row.lines;
  at.size = row.size;
  at.check_bytes = row.check_bytes;
  at.check_hash = row.check_hash;
  return at;
}

// The last line begin in the first `size` bytes of the file: where one begins who does not want them. Nothing when it cannot be read.
std::optional<Checkpoint> checkpoint_near(FileSystem& files, const std::string& path, std::uint64_t size) {
  auto file = files.open(path);
  if (!file.ok()) return std::nullopt;
  const auto info = (*file)->info();
  if (!info.ok()) return std::nullopt;
  Checkpoint at;
  at.device = info->device;
  at.inode = info->inode;
  at.size = info->size;
  std::vector<char> room(1 << 20);
  const std::uint64_t end = std::min(size, info->size);
  while (at.offset < end) {
    const auto count = (*file)->read(at.offset, std::span(room).first(static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), end - at.offset))));
    if (!count.ok() || *count == 0) break;
    std::string_view text(room.data(), *count);
    const std::size_t line = text.rfind('\n');
    if (line == std::string_view::npos) break;                   // one line longer than the room: it is taken
    if (!advance(**file, at, text.substr(0, line + 1)).ok()) break;
  }
  return at.offset > 0 ? std::optional(at) : std::nullopt;
}

}  // namespace

// One file that is followed, through all its generations.
struct Worker::Followed {
  Followed(FileSystem& files, const FoundFile& found, std::optional<Checkpoint> known, const TailOptions& options, std::uint64_t generation)
      : info(found.source), tailer(files, found.path, known, options, generation) {}

  signatures::SourceInfo info;
  Tailer tailer;
  Spool spool;
  std::unique_ptr<Intake> intake;
  std::uint64_t telling = 0;                    // of this generation, those of Intakes that were let go included
  std::uint64_t telling_before = 0;             // what the Intake found again while its spool was replayed
  std::uint64_t telling_sent = 0;
  std::uint64_t shown_at = ~0ULL;               // offset of the line without an end that was shown last
  std::optional<std::int64_t> step_sent;
  std::vector<signatures::Lost> lost;
  std::uint64_t lost_bytes = 0;                 // of this generation
  std::optional<TimePoint> gone_at;             // it vanished
  std::optional<TimePoint> quiet_at;            // when it is let go of, if it does not grow before
  std::optional<TimePoint> again_at;            // it could not be read; when it is tried again
  std::chrono::milliseconds again{0};
  Checkpoint sent;
  TimePoint sent_at{}, grown_at{};
  std::shared_ptr<std::atomic<int>> unstored = std::make_shared<std::atomic<int>>(0);   // news that no commit has taken
  bool packed = false, unplaced = false;        // unplaced: packed, and what was read of it while it was plain is not known yet
  bool queued = false, waits = false, news = false;
};

Worker::Worker(std::shared_ptr<const Knowledge> knowledge, FileSystem& files, NewsQueue& desk, LoadRow load_row, LoadSpool load_spool, Clock clock, WorkerOptions options)
    : knowledge_(std::move(knowledge)),
      files_(files),
      desk_(desk),
      load_row_(std::move(load_row)),
      load_spool_(std::move(load_spool)),
      clock_(std::move(clock)),
      options_(std::move(options)),
      scanner_(std::make_unique<BlockScanner>(*knowledge_)) {
  scanned_.block.bytes.resize(kTurnBytes);
}

Worker::~Worker() { stop(std::chrono::hours(1)); }

// ---- orders from other threads

void Worker::follow(const FoundFile& file, std::uint64_t skip) {
  const std::lock_guard guard(lock_);
  Order order;
  order.what = Order::What::follow;
  order.file = file;
  order.skip = skip;
  orders_.push_back(std::move(order));
  called_.notify_one();
}

void Worker::read_again(const signatures::SourceInfo& dump) {
  const std::lock_guard guard(lock_);
  Order order;
  order.what = Order::What::follow;
  order.file.path = dump.name;
  order.file.source = dump;
  order.file.kind = FoundFile::Kind::dump;
  order.again = true;
  orders_.push_back(std::move(order));
  called_.notify_one();
}

void Worker::keep_only(std::function<bool(const std::string&)> keep) {
  const std::lock_guard guard(lock_);
  Order order;
  order.what = Order::What::keep_only;
  order.keep = std::move(keep);
  orders_.push_back(std::move(order));
  called_.notify_one();
}

void Worker::wake(const std::string& path) {
  const std::lock_guard guard(lock_);
  Order order;
  order.file.path = path;
  orders_.push_back(std::move(order));
  called_.notify_one();
}

void Worker::use(std::shared_ptr<const Knowledge> knowledge) {
  const std::lock_guard guard(lock_);
  Order order;
  order.what = Order::What::use;
  order.knowledge = std::move(knowledge);
  orders_.push_back(std::move(order));
  called_.notify_one();
}

void Worker::start() {
  thread_ = std::thread([this] {
    name_thread("worker");
    loop();
    const std::lock_guard guard(lock_);
    ended_ = true;
    called_.notify_all();
  });
}

void Worker::ask_to_stop() {
  const std::lock_guard guard(lock_);
  stopping_ = true;
  called_.notify_all();
}

bool Worker::stop(std::chrono::milliseconds time) {
  ask_to_stop();
  if (!thread_.joinable()) return true;
  {
    std::unique_lock guard(lock_);
    if (!called_.wait_for(guard, time, [this] { return ended_; })) {
      thread_.detach();
      return false;
    }
  }
  thread_.join();
  return true;
}

void Worker::loop() {
  for (;;) {
    const std::optional<TimePoint> next = pass();
    std::unique_lock guard(lock_);
    if (stopping_) return;
    if (!orders_.empty() || !ready_.empty() || !dumps_.empty()) continue;
    const auto wait = next ? std::clamp<TimePoint::duration>(*next - clock_(), std::chrono::milliseconds(1), std::chrono::seconds(1)) : std::chrono::seconds(1);
    counts_.waiting = true;
    called_.wait_for(guard, wait, [&] { return stopping_ || !orders_.empty(); });
  }
}

void Worker::take_orders() {
  std::vector<Order> orders;
  {
    const std::lock_guard guard(lock_);
    orders.swap(orders_);
  }
  if (now_ >= later_at_)
    for (Order& order : std::exchange(later_, {})) orders.push_back(std::move(order));
  const auto ready = [this](Followed& source) {
    if (std::exchange(source.queued, true)) return;
    ready_.push_back(&source);
  };
  for (Order& order : orders) {
    if (order.what == Order::What::use) {
      // Intakes hold the rules that they began with: they are made again out of their spools.
      knowledge_ = std::move(order.knowledge);
      scanner_ = std::make_unique<BlockScanner>(*knowledge_);
      for (auto& [path, source] : sources_)
        rest(*source);
      continue;
    }
    if (order.what == Order::What::keep_only) {
      std::vector<std::string> dropped;
      for (const auto& [path, source] : sources_)
        if (!order.keep(path)) dropped.push_back(path);
      for (const std::string& path : dropped) drop(path);
      continue;
    }
    if (order.file.kind == FoundFile::Kind::dump) {
      dumps_.push_back(std::move(order));
      continue;
    }
    auto found = sources_.find(order.file.path);
    if (found == sources_.end() && order.what == Order::What::wake && options_.find)
      if (auto file = options_.find(order.file.path); file && file->kind == FoundFile::Kind::log) {
        order.what = Order::What::follow;
        order.file = std::move(*file);
      }
    if (found == sources_.end() && order.what == Order::What::follow) {
      if (!begin(order.file, order.skip)) {     // the store does not answer: ask again
        ++counts_.errors;
        postpone(std::move(order));
        continue;
      }
      found = sources_.find(order.file.path);
    }
    if (found != sources_.end()) ready(*found->second);
  }
  counts_.sources = sources_.size();
}

// Lets go of what vanished or is quiet for long.
void Worker::sweep(TimePoint now) {
  if (now < sweep_at_) return;
  sweep_at_ = now + kSweep;
  std::vector<std::string> over;
  for (const auto& [path, source] : sources_) {
    const bool done = source->gone_at ? now >= *source->gone_at + options_.gone : source->quiet_at && now >= *source->quiet_at;
    if (done && source->unstored->load() == 0 && !source->news && !source->queued) over.push_back(path);
  }
  for (const std::string& path : over) drop(path);
}

void Worker::drop(const std::string& path) {
  const auto found = sources_.find(path);
  if (found == sources_.end()) return;
  std::erase(ready_, found->second.get());
  std::erase(waiting_, found->second.get());
  rest(*found->second);
  recover(*found->second);
  sources_.erase(found);
}

// The clock was set back: what waits goes on waiting as long as before.
void Worker::set_back(TimePoint::duration by) {
  for (auto& [path, source] : sources_) {
    source->sent_at -= by;
    source->grown_at -= by;
    for (auto* const at : {&source->gone_at, &source->quiet_at, &source->again_at})
      if (*at) **at -= by;
  }
  sweep_at_ -= by;
  later_at_ -= by;
}

// ---- files that cannot be read: no descriptor is free, no permission, the disk fails

void Worker::fail(Followed& source, const parsers::Error& error, TimePoint now) {
  if (source.packed && error.code() == parsers::ErrorCode::syntax) {   // it is being packed just now
    source.again_at = now + kPacking;
    return;
  }
  ++counts_.errors;
  if (source.again.count() == 0) ++failing_;
  source.again = std::clamp(source.again * 2, kAgain, kAgainMost);
  source.again_at = now + source.again;
  const std::lock_guard guard(lock_);
  trouble_ = (failing_ == 1 ? "a file cannot be read" : std::to_string(failing_) + " files cannot be read, one of them") + ": " + source.info.name + ": " + error.message() +
             (error.reason().empty() ? "" : ": " + error.reason());
}

void Worker::recover(Followed& source) {
  source.again_at.reset();
  if (source.again.count() == 0) return;
  source.again = std::chrono::milliseconds(0);
  if (--failing_ > 0) return;
  const std::lock_guard guard(lock_);
  trouble_.clear();
}

std::string Worker::trouble() const {
  const std::lock_guard guard(lock_);
  return trouble_;
}

// False: the store could not be asked.
bool Worker::begin(const FoundFile& file, std::uint64_t skip) {
  auto row = load_row_(file.source.name);
  if (!row.ok()) return false;
  const std::optional<db::WatchedRow>& known = *row;
  std::optional<Checkpoint> at;
  if (known)
    at = checkpoint_of(*known);
  else if (skip > 0)
    at = checkpoint_near(files_, file.path, skip);
  FileSystem& files = file.kind == FoundFile::Kind::packed ? unpacking_ : files_;
  auto source = std::make_unique<Followed>(files, file, at, options_.tail, known ? known->generation : 0);
  source->packed = file.kind == FoundFile::Kind::packed;
  source->unplaced = source->packed && !at;
  if (at) source->sent = *at;
  if (known) source->lost_bytes = known->lost_bytes;
  source->quiet_at = clock_() + options_.quiet;
  sources_.emplace(file.path, std::move(source));
  return true;
}

// Of a packed file: where it was left while it was plain, or packed under the name before the last rotation. Else it would be told twice.
parsers::Status Worker::place(Followed& source, const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const std::string_view name = std::string_view(path).substr(folder.size());
  std::vector<Checkpoint> known;
  for (const std::string& other : earlier_names(name)) {
    TRIAGE_TRY(const auto row, load_row_(folder + other));
    if (row) known.push_back(checkpoint_of(*row));
  }
  TRIAGE_TRY(const std::optional<Checkpoint> at, packed_checkpoint(unpacking_, path, known));
  if (at) {
    source.tailer = Tailer(unpacking_, path, at, options_.tail, 0);
    source.sent = *at;
  }
  source.unplaced = false;
  return parsers::done();
}

// ---- reading

std::optional<TimePoint> Worker::pass() {
  const TimePoint now = clock_();
  if (now < now_) set_back(now_ - now);
  now_ = now;
  counts_.turn = now.time_since_epoch().count();
  counts_.waiting = false;
  take_orders();
  if (!dumps_.empty()) {
    Order dump = std::move(dumps_.front());
    dumps_.pop_front();
    read_dump(std::move(dump), now);
  }
  for (std::size_t left = std::min(ready_.size(), kPassTurns); left > 0; --left) {
    Followed& source = *ready_.front();
    ready_.pop_front();
    source.queued = false;
    const bool more = turn(source, now);
    if (more && !std::exchange(source.queued, true)) ready_.push_back(&source);
    if (!source.waits && (source.tailer.wake() || source.news || source.intake || source.again_at)) {
      source.waits = true;
      waiting_.push_back(&source);
    }
    if (news_.size() >= kPortion) send();
  }
  std::optional<TimePoint> next;
  const auto later = [&next](TimePoint at) { next = next ? std::min(*next, at) : at; };
  std::erase_if(waiting_, [&](Followed* const source) {
    const bool stored = source->unstored->load() == 0 && !source->news;
    if (source->news && now >= source->sent_at + options_.checkpoint) report(*source, now, false);
    if (source->intake && stored && (warm_ > options_.warm || now >= source->grown_at + options_.idle)) {
      rest(*source);
      source->tailer.rest();
    }
    const std::optional<TimePoint> wake = source->again_at ? source->again_at : source->tailer.wake();
    if (wake && *wake <= now && !std::exchange(source->queued, true)) ready_.push_back(source);
    if (wake) later(*wake);
    if (source->news) later(source->sent_at + options_.checkpoint);
    if (source->intake) later(warm_ > options_.warm ? now + std::chrono::milliseconds(20) : std::max(source->grown_at + options_.idle, now + std::chrono::seconds(1)));
    source->waits = wake || source->news || source->intake;
    return !source->waits;
  });
  if (!later_.empty()) later(later_at_);
  sweep(now);
  send();
  return ready_.empty() && dumps_.empty() ? next : now;
}

// True: there is more to read now.
bool Worker::turn(Followed& source, TimePoint now) {
  if (source.unplaced)
    if (const parsers::Status placed = place(source, source.info.name); !placed.ok()) {
      if (placed.error().code() == parsers::ErrorCode::not_found) {
        recover(source);
        source.gone_at = now;
      } else {
        fail(source, placed.error(), now);
      }
      return false;
    }
  const Checkpoint from = source.tailer.checkpoint();
  const std::uint64_t generation = source.tailer.generation();
  std::vector<char>& room = scanned_.block.bytes;
  auto step = source.tailer.step(room, now);
  if (!step.ok()) {
    fail(source, step.error(), now);
    return false;
  }
  recover(source);
  if (source.packed)
    if (const auto damage = unpacking_.take_damage(source.info.name)) {
      source.lost.push_back({source.info.name, damage->message() + ": " + damage->reason(), 0, 0, 0, 1});
      source.news = true;
    }
  if (source.tailer.generation() != generation) end_generation(source, from, generation);
  if (step->lost_bytes > 0 || (!step->why.empty() && step->what != TailStep::What::vanished)) {
    counts_.lost_bytes += step->lost_bytes;
    source.lost_bytes += step->lost_bytes;
    if (step->lost_bytes > 0) source.lost.push_back({source.info.name, step->why, from.lines + 1, from.offset, step->lost_bytes, 1});
    source.news = true;
  }
  switch (step->what) {
    case TailStep::What::idle: return false;
    case TailStep::What::vanished:
      source.gone_at = now;
      report(source, now, true);
      return false;
    case TailStep::What::new_generation:
    case TailStep::What::truncated: return true;
    case TailStep::What::bytes: break;
  }
  source.grown_at = now;
  source.gone_at.reset();
  source.quiet_at = now + options_.quiet;
  if (step->size > 0) take(source, source.tailer.generation() == generation ? from : Checkpoint{}, step->size, step->partial);
  const bool tells = told(source) > source.telling_sent;
  if (tells || !source.spool.empty()) source.news = true;
  source.news = source.news || source.tailer.checkpoint() != source.sent;
  if (tells || now >= source.sent_at + options_.checkpoint || warm_ > options_.warm) report(source, now, false);
  return true;
}

// Lines of this generation that told of a failure since it is followed.
std::uint64_t Worker::told(const Followed& source) { return source.telling + (source.intake ? source.intake->telling() - source.telling_before : 0); }

void Worker::rest(Followed& source) {
  if (!source.intake) return;
  source.telling = told(source);
  source.intake.reset();
  --warm_;
  ++counts_.rested;
}

Intake& Worker::intake_of(Followed& source) {
  if (source.intake) return *source.intake;
  ++warm_;
  source.intake = std::make_unique<Intake>(knowledge_, source.info, options_.default_year, &source.spool);
  source.telling_before = 0;
  if (source.tailer.checkpoint().offset == 0 && source.telling == 0) return *source.intake;
  ScannedBlock reading = std::exchange(scanned_, {});          // replay needs a block of its own
  replay(in_order(load_spool_(source.info.name, source.tailer.generation())), *scanner_, *source.intake);
  scanned_ = std::move(reading);
  (void)source.spool.take();                                   // they are stored already
  source.telling_before = source.intake->telling();
  return *source.intake;
}

void Worker::take(Followed& source, const Checkpoint& from, std::size_t size, bool partial) {
  Block& block = scanned_.block;
  Intake& intake = intake_of(source);
  std::size_t whole = size;
  if (partial) {   // the last line is only shown: it comes again when it has grown
    const std::string_view text(block.bytes.data(), size);
    whole = source.tailer.checkpoint().offset - from.offset;
    if (whole > size) whole = size;                            // the head of a line that was too long counts as taken
    if (whole < size) show(source, text.substr(whole), from.offset + whole, from.lines + count_newlines(text.substr(0, whole)) + 1);
  }
  if (whole == 0) return;
  block.size = whole;
  block.offset = from.offset;
  scanner_->scan(scanned_);
  intake.skip_to(from.lines);
  intake.take(scanned_, scanner_->matcher());
  counts_.bytes += whole;
  counts_.lines += scanned_.newlines;
}

// A last line without an end may be the failure itself: a process that dies does not always finish its line.
void Worker::show(Followed& source, std::string_view line, std::uint64_t offset, std::uint64_t number) {
  if (source.shown_at == offset) return;
  Spool probe_spool;
  Intake probe(knowledge_, source.info, options_.default_year, &probe_spool);
  ScannedBlock scanned;
  scanned.block.bytes.assign(line.begin(), line.end());
  scanned.block.size = line.size();
  scanned.block.offset = offset;
  scanner_->scan(scanned);
  probe.skip_to(number - 1);
  probe.take(scanned, scanner_->matcher());
  if (probe.telling() == 0) return;
  source.shown_at = offset;
  source.spool.add(offset, number, line);
  ++source.telling;
}

void Worker::end_generation(Followed& source, const Checkpoint& at, std::uint64_t generation) {
  SourceNews news;
  news.row.name = source.info.name;
  news.row.generation = generation;
  news.row.lost_bytes = std::exchange(source.lost_bytes, 0);
  put(news.row, at);
  news.row.ended = true;
  news.row.seen_at = source.grown_at;
  news.info = source.info;
  news.spool = source.spool.take();
  if (source.intake) news.tail = source.intake->tail();
  news.telling = told(source) - source.telling_sent;
  news_.push_back(std::move(news));
  rest(source);
  source.spool = Spool();
  source.telling = source.telling_before = source.telling_sent = 0;
  source.shown_at = ~0ULL;
  source.sent = {};
}

void Worker::report(Followed& source, TimePoint now, bool ended) {
  SourceNews news;
  news.row.name = source.info.name;
  news.row.generation = source.tailer.generation();
  put(news.row, source.tailer.checkpoint());
  news.row.lost_bytes = source.lost_bytes;
  news.row.ended = ended;
  news.row.seen_at = source.grown_at;
  news.info = source.info;
  news.spool = source.spool.take();
  news.telling = told(source) - source.telling_sent;
  if (source.intake) {
    news.tail = source.intake->tail();
    if (const auto progress = source.intake->last_progress(); progress && progress->iteration != source.step_sent) {
      news.step = progress->iteration;
      source.step_sent = progress->iteration;
    }
  }
  counts_.findings += news.telling;
  source.telling_sent += news.telling;
  news.lost = std::exchange(source.lost, {});
  ++*source.unstored;
  news.committed = [unstored = source.unstored](bool) { --*unstored; };
  source.sent = source.tailer.checkpoint();
  source.sent_at = now;
  source.news = false;
  news_.push_back(std::move(news));
}

void Worker::send() {
  if (!news_.empty()) desk_.push(std::exchange(news_, {}));
}

// To be asked for again in a moment.
void Worker::postpone(Order order) {
  if (later_.empty()) later_at_ = now_ + kAgain;
  later_.push_back(std::move(order));
}

void Worker::read_dump(Order order, TimePoint now) {
  const FoundFile& file = order.file;
  std::optional<FileInfo> info;
  if (!order.again) {
    auto there = files_.info(file.path);
    if (!there.ok() && comes_later(there.error())) return postpone(std::move(order));
    if (!there.ok()) return;                      // gone again
    info = *there;
    const auto row = load_row_(file.source.name);
    if (row.ok() && *row && (*row)->inode == info->inode && (*row)->size == info->size) return;   // the same as before: it was read
  }
  auto read = read_dump_file(knowledge_, files_, file.source, options_.default_year);
  if (!read.ok()) return postpone(std::move(order));
  SourceNews news = *std::move(read);
  news.again = order.again;
  if (info) {
    news.row.device = info->device;
    news.row.inode = info->inode;
    news.row.size = news.row.offset = info->size;
    news.row.seen_at = now;
    counts_.bytes += news.row.size;
  }
  news_.push_back(std::move(news));
}

}  // namespace triage::daemon
