#include "daemon/runtime/push_intake.hpp"

#include <algorithm>
#include <array>
#include <future>

#include "daemon/http/json_view.hpp"
#include "daemon/http/push/source_of_labels.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/records/prefix.hpp"

namespace triage::daemon {

using parsers::Result;

namespace {

constexpr std::size_t kWarm = 512;              // streams with an Intake; others come back out of their spool
constexpr std::size_t kBatches = 16;            // hashes of a stream's last batches: what a shipper sends again after a lost answer
constexpr std::size_t kLetGo = 64;              // streams that are looked at to let one go
constexpr auto kCommit = std::chrono::seconds(10);
constexpr auto kRoom = std::chrono::milliseconds(200);
constexpr std::size_t kPortion = 256 * 1024;

std::string hex(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) out[i] = kDigits[value & 15];
  return out;
}

}  // namespace

struct PushIntake::Stream {
  Stream(signatures::SourceInfo info, int default_year) : lines(std::move(info), "push", default_year), peeler(default_year) {}

  void restore(const db::WatchedRow& row) {
    lines.restore(row);
    std::string_view text = row.batches;
    while (text.size() >= 16) {
      std::uint64_t hash = 0;
      for (const char c : text.substr(0, 16)) hash = hash << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      batches.push_back(hash);
      text.remove_prefix(16);
    }
  }
  bool is_stored() const { return !stored.valid() || stored.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

  std::mutex lock;                              // of all of it
  LineStream lines;
  parsers::Peeler peeler;
  std::vector<std::uint64_t> batches;           // the newest last
  std::shared_future<bool> stored;              // of the newest batch
};

PushIntake::PushIntake(RulesInForce rules, NewsQueue& desk, Worker::LoadRow load_row, Worker::LoadSpool load_spool, Worker::Clock clock, int default_year, std::size_t streams)
    : desk_(desk), load_row_(std::move(load_row)), load_spool_(std::move(load_spool)), clock_(std::move(clock)), default_year_(default_year), most_(streams), rules_(std::move(rules)) {}

PushIntake::~PushIntake() = default;

void PushIntake::use(RulesInForce rules) {
  const std::lock_guard guard(lock_);
  rules_ = std::move(rules);
  scanners_.clear();
}

// A scanner for the calling thread, of the rules in force.
PushIntake::Scanner PushIntake::take_scanner() {
  const std::lock_guard guard(lock_);
  Scanner out{rules_, nullptr};
  if (!scanners_.empty()) {
    out.scanner = std::move(scanners_.back());
    scanners_.pop_back();
  }
  if (!out.scanner) out.scanner = std::make_unique<BlockScanner>(*rules_.knowledge);
  return out;
}

void PushIntake::give_back(Scanner scanner) {
  const std::lock_guard guard(lock_);
  if (scanner.rules.version == rules_.version) scanners_.push_back(std::move(scanner.scanner));
}

void PushIntake::restore(const std::vector<db::WatchedRow>& rows) {
  const std::lock_guard guard(lock_);
  for (const db::WatchedRow& row : rows)
    if (row.kind == "push" && streams_.size() < most_) add(source_of_row(row))->restore(row);
}

// Under lock_.
std::shared_ptr<PushIntake::Stream> PushIntake::add(signatures::SourceInfo info) {
  by_use_.push_front(info.name);
  Known& known = streams_[info.name];
  known.use = by_use_.begin();
  known.stream = std::make_shared<Stream>(std::move(info), default_year_);
  auto out = known.stream;
  let_go();
  return out;
}

// Under lock_. The stream used longest ago that nobody uses now and whose row in the store is the newest: it comes back out of that.
void PushIntake::let_go() {
  std::size_t looked = 0;
  for (auto at = by_use_.end(); streams_.size() > most_ && at != by_use_.begin() && looked < kLetGo; ++looked) {
    --at;
    const auto known = streams_.find(*at);
    Stream& stream = *known->second.stream;
    if (known->second.stream.use_count() > 1) continue;   // who uses it has taken it under lock_
    {
      const std::unique_lock inner(stream.lock, std::try_to_lock);   // free; what its last user wrote is seen. Never waited for: a user takes lock_ last
      if (!inner || !stream.is_stored()) continue;
    }
    streams_.erase(known);
    at = by_use_.erase(at);
    ++let_go_;
  }
}

// Errors: of the store, which is asked for a stream that is not known.
Result<std::shared_ptr<PushIntake::Stream>> PushIntake::stream_of(const signatures::SourceInfo& info) {
  const auto find = [&]() -> std::shared_ptr<Stream> {
    const auto known = streams_.find(info.name);
    if (known == streams_.end()) return nullptr;
    by_use_.splice(by_use_.begin(), by_use_, known->second.use);
    return known->second.stream;
  };
  for (int tries = 0; tries < 3; ++tries) {
    std::uint64_t let_go = 0;
    {
      const std::lock_guard guard(lock_);
      if (auto known = find()) return known;
      let_go = let_go_;
    }
    TRIAGE_TRY(const auto row, load_row_(info.name));
    const std::lock_guard guard(lock_);
    if (auto known = find()) return known;      // another thread was faster
    if (let_go != let_go_) continue;            // it may have been taken up, written to and let go of since the row was read
    auto out = add(info);
    if (row) out->restore(*row);
    return out;
  }
  return parsers::Error(parsers::ErrorCode::unavailable, "too many streams come at a time");
}

// Lets go the Intakes of streams that were not used for long and are stored; their spools bring them back.
void PushIntake::cool() {
  const std::lock_guard guard(lock_);
  std::size_t place = 0;
  for (const std::string& name : by_use_) {
    if (place++ < kWarm) continue;
    if (place > 4 * kWarm) break;
    Stream& stream = *streams_[name].stream;
    const std::unique_lock inner(stream.lock, std::try_to_lock);
    if (!inner || stream.lines.resting() || !stream.is_stored()) continue;
    stream.lines.rest();
  }
}

std::optional<SourceNews> PushIntake::take(Stream& stream, const PushedStream& pushed, std::uint64_t batch_hash, const Scanner& scanner) {
  if (std::find(stream.batches.begin(), stream.batches.end(), batch_hash) != stream.batches.end()) return std::nullopt;
  std::string text;
  const auto flush = [&] {
    stream.lines.feed(text, scanner.rules, *scanner.scanner, load_spool_);
    text.clear();
  };
  for (const PushedLine& line : pushed.lines) {
    if (line.text.empty()) continue;
    // A line that carries no clock of its own gets the shipper's, as a container runtime would write it.
    if (line.time && !stream.peeler.peel(parsers::Line{0, 1, std::string_view(line.text).substr(0, parsers::limits::kLineBytes), 0, false}).time)
      text += time_text(*line.time) + " ";
    text += line.text;
    if (!text.ends_with('\n')) text += '\n';
    if (text.size() >= kPortion) flush();
  }
  flush();
  stream.batches.push_back(batch_hash);
  if (stream.batches.size() > kBatches) stream.batches.erase(stream.batches.begin());
  SourceNews news = stream.lines.news(clock_());
  for (const std::uint64_t hash : stream.batches) news.row.batches += hex(hash);
  return news;
}

PushAnswer PushIntake::offer(std::vector<PushedStream>&& streams, std::uint64_t batch_hash) {
  PushAnswer answer;
  // Streams with the same name in one body are one.
  std::map<std::string, std::pair<signatures::SourceInfo, PushedStream>> merged;
  for (PushedStream& pushed : streams) {
    signatures::SourceInfo info = api::source_of_labels(pushed.labels);
    auto [at, fresh] = merged.try_emplace(info.name);
    if (fresh)
      at->second = {std::move(info), std::move(pushed)};
    else
      at->second.second.lines.insert(at->second.second.lines.end(), std::make_move_iterator(pushed.lines.begin()), std::make_move_iterator(pushed.lines.end()));
  }
  const auto busy = [&answer](std::string why) {
    answer.what = PushAnswer::What::busy;
    answer.retry_after_s = 2;
    answer.why = std::move(why);
    return answer;
  };
  if (!desk_.has_room(kRoom)) return busy("the service is behind with storing what came before");
  std::vector<SourceNews> all;
  std::vector<std::shared_future<bool>> waits;
  std::vector<std::shared_ptr<Stream>> held;
  for (const auto& [name, pushed] : merged) {
    auto stream = stream_of(pushed.first);
    if (!stream.ok()) return busy("the store does not answer at present");
    held.push_back(*std::move(stream));
  }
  Scanner scanner = take_scanner();
  // Held until the desk's queue has the batch: two batches of a stream at a time must not pass one another. Taken in the order of the names.
  std::vector<std::unique_lock<std::mutex>> locks;
  for (auto& [name, pushed] : merged) {
    Stream* const stream = held[locks.size()].get();
    locks.emplace_back(stream->lock);
    std::optional<SourceNews> news = take(*stream, pushed.second, batch_hash, scanner);
    if (!news) {   // sent again: the first time may not be stored yet
      answer.repeated = true;
      if (stream->stored.valid()) waits.push_back(stream->stored);
      continue;
    }
    auto promise = std::make_shared<std::promise<bool>>();
    stream->stored = promise->get_future().share();
    waits.push_back(stream->stored);
    news->committed = [promise](bool stored) { promise->set_value(stored); };
    all.push_back(std::move(*news));
  }
  give_back(std::move(scanner));
  const bool taken = all.empty() || desk_.push(std::move(all));
  locks.clear();
  cool();
  if (!taken) return busy("the service is stopping");
  const auto until = std::chrono::steady_clock::now() + kCommit;
  for (const auto& wait : waits) {
    if (wait.wait_until(until) != std::future_status::ready) return busy("the store does not take anything in at present");
    try {
      if (!wait.get()) return busy("the store does not take anything in at present");
    } catch (const std::future_error&) {   // the service ends and lets go what is not stored
      return busy("the service is stopping");
    }
  }
  return answer;
}

}  // namespace triage::daemon
