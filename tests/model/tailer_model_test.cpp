// The tailer against an oracle: random writes, rotations, truncations, deletions, replacements, crashes and restarts. Every line is seen at least
// once, unless its bytes were destroyed before, which is then reported; none is seen twice but after a crash; none is torn.
// TRIAGE_MODEL_ACTIONS and TRIAGE_MODEL_SEED change the length and the beginning.
#include <doctest/doctest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/tail/tailer.hpp"
#include "tests/support/tail_world.hpp"

using namespace triage::daemon;
using namespace triage::tests;
using triage::parsers::TimePoint;

namespace {

constexpr const char* kLog = "train.log";
constexpr int kRotations = 24;           // names that a round may use up

struct Line {
  std::string text;                      // with its '\n' once it is whole
  bool whole = false;
  int seen = 0;                          // since the last crash or commit, whichever rolls back
  bool committed = false;                // seen, and a checkpoint after that was kept
  bool destroyed = false, known_lost = false;
};

// A file's content as lines; files that are copies of one another share them.
struct Content {
  std::vector<std::size_t> lines;
  std::uint64_t size = 0;
};

struct Round {
  bool destructive = false;              // bytes may vanish before they are read
  bool crashes = false;
};

class Model {
 public:
  Model(TailWorld& world, std::uint64_t seed, Round round) : world_(world), random_(seed), round_(round), fake_(dynamic_cast<FakeTailWorld*>(&world)) {
    place_ = "seed " + std::to_string(seed);
    options_.flush = std::chrono::milliseconds(700);
    world_.open_writer(kLog);
    contents_[kLog] = writer_ = std::make_shared<Content>();
    start(std::nullopt);
    step();
    commit();
  }

  void act() {
    world_.now_ns += static_cast<std::int64_t>(pick(3)) * 1'300'000;
    const std::size_t n = pick(1000);
    if (n < 330) write_line();
    else if (n < 390) write_part();
    else if (n < 640) step();
    else if (n < 740) commit();
    else if (n < 840) pass(static_cast<std::int64_t>(pick(900)) * 1'000'000);
    else if (n < 870) world_.take_descriptors_back();
    else if (n < 890) pass(5'000'000'000);
    else if (n < 905) rotate();
    else if (n < 915) copytruncate();
    else if (n < 925) move_away();
    else if (n < 940) reopen();
    else if (n < 945 && !round_.crashes) pack();   // limit: after a restart, a file that came, was rotated and packed between two looks may be missed
    else if (n < 955 && round_.crashes) crash();
    else if (n < 985 && round_.destructive) destroy();
    else step();
  }

  void finish() {
    if (away_) move_away();
    reopen();
    write_line();
    for (int i = 0; i < 40; ++i) {
      pass(3'000'000'000);
      step();
      step();
    }
    for (const Line& line : lines_) {
      if (!line.whole || line.seen > 0 || line.committed) continue;
      if (!line.destroyed) fail("a line was never seen: " + line.text);
      if (line.known_lost) known_lost_ += line.text.size();
    }
    if (lost_ < known_lost_) fail("lost bytes were not reported: " + std::to_string(known_lost_) + " against " + std::to_string(lost_));
    if (!round_.destructive && lost_ > 0) fail("bytes were reported as lost although nothing was destroyed: " + std::to_string(lost_) + " " + last_why_);
    if (destroyed_at_ > reported_at_) fail("something was destroyed, and nothing was reported after that");
  }

  bool ok() const { return faults_.empty(); }
  const std::string& fault() const { return faults_; }

 private:
  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  TimePoint now() const { return TimePoint(std::chrono::duration_cast<TimePoint::duration>(std::chrono::nanoseconds(world_.now_ns))); }
  void fail(const std::string& what) {
    if (faults_.empty()) faults_ = place_ + ", action " + std::to_string(actions_) + ": " + what + "\n" + history();
  }
  void say(std::string what) {
    ++actions_;
    if (!told_.empty() && told_.back().ends_with(" " + what)) return;
    told_.push_back(std::to_string(actions_) + " " + std::move(what));
    if (told_.size() > 500) told_.pop_front();
  }
  std::string history() const {
    std::string out;
    for (const std::string& line : told_) out += line + "\n";
    return out;
  }

  // ---- the writer
  void begin_line() {
    std::string text = "L" + std::to_string(lines_.size()) + " ";
    text.append(pick(10) == 0 ? 150 : pick(40), static_cast<char>('a' + pick(26)));
    text += "\n";
    lines_.push_back({std::move(text)});
    open_ = lines_.size() - 1;
    written_ = 0;
    writer_->lines.push_back(*open_);
  }
  void put(std::size_t count) {
    world_.write(lines_[*open_].text.substr(written_, count));
    writer_->size += count;
    written_ += count;
    if (written_ < lines_[*open_].text.size()) return;
    lines_[*open_].whole = true;
    lines_[*open_].destroyed = writer_ == deaf_ || out_of_reach_.count(writer_) > 0;   // may be seen all the same
    open_.reset();
  }
  void write_line() {
    if (!open_) begin_line();
    say("write " + lines_[*open_].text.substr(0, 8));
    put(lines_[*open_].text.size() - written_);
  }
  void write_part() {
    if (!open_) begin_line();
    const std::size_t left = lines_[*open_].text.size() - written_;
    if (left < 2) return write_line();
    say("write a part of " + lines_[*open_].text.substr(0, 8));
    put(1 + pick(left - 1));
  }
  // What the writer had begun goes with the file, or it goes on with a new line elsewhere.
  void abandon() { open_.reset(); }

  void reopen() {
    if (away_) return;
    if (contents_.count(kLog) && contents_[kLog] == writer_) return;
    say("reopen");
    abandon();
    if (!contents_.count(kLog)) contents_[kLog] = std::make_shared<Content>();
    world_.open_writer(kLog);
    writer_ = contents_[kLog];
  }

  // ---- rotation
  static std::string rotated(int n) { return std::string(kLog) + "." + std::to_string(n); }
  void shift() {
    world_.now_ns += 4'000'000;
    for (int n = rotations_; n >= 1; --n)
      for (const char* const end : {"", ".gz"}) {
        const std::string from = rotated(n) + end, to = rotated(n + 1) + end;
        if (!contents_.count(from)) continue;
        world_.rename(from, to);
        contents_[to] = contents_[from];
        contents_.erase(from);
      }
    ++rotations_;
  }
  void rotate() {
    if (rotations_ >= kRotations || !contents_.count(kLog)) return;
    const std::size_t how = pick(3);
    say("rotate, kind " + std::to_string(how));
    shift();
    world_.rename(kLog, rotated(1));
    contents_[rotated(1)] = contents_[kLog];
    contents_.erase(kLog);
    if (how == 0) return;                // the file comes when the writer opens it
    world_.create(kLog);
    contents_[kLog] = std::make_shared<Content>();
    if (how == 1) reopen();
  }
  void copytruncate() {
    if (rotations_ >= kRotations || !contents_.count(kLog) || contents_[kLog] != writer_) return;
    say("copytruncate");
    shift();
    world_.copy(kLog, rotated(1));
    contents_[rotated(1)] = std::make_shared<Content>(*writer_);
    *writer_ = Content{};
    world_.now_ns += 4'000'000;
    world_.truncate(kLog);
    abandon();
  }
  // As logrotate does with delaycompress: nobody writes to it any more.
  void pack() {
    const std::string name = rotated(2 + static_cast<int>(pick(3)));
    if (!contents_.count(name) || contents_[name] == writer_ || contents_[name]->size == 0) return;
    say("pack " + name);
    world_.pack(name);
    contents_[name + ".gz"] = contents_[name];
    contents_.erase(name);
  }
  // Away and back; the writer goes on meanwhile.
  void move_away() {
    if (away_) {
      if (contents_.count(kLog)) return;
      say("move back");
      world_.rename("elsewhere", kLog);
      contents_[kLog] = away_;
      away_.reset();
    } else if (contents_.count(kLog)) {
      if (contents_[kLog] != writer_) return;
      say("move away");
      world_.rename(kLog, "elsewhere");
      away_ = contents_[kLog];
      contents_.erase(kLog);
    }
  }

  // ---- destruction
  void gone(const std::shared_ptr<Content>& content, std::uint64_t told) {
    std::uint64_t at = 0;
    for (const std::size_t id : content->lines) {
      at += lines_[id].text.size();
      bool elsewhere = false;
      for (const auto& [name, other] : contents_)
        if (other != content && std::find(other->lines.begin(), other->lines.end(), id) != other->lines.end()) elsewhere = true;
      Line& line = lines_[id];
      if (elsewhere || line.committed) continue;
      line.destroyed = true;   // also what was seen: a crash may take that back
      if (line.seen > 0 || !line.whole) continue;
      line.known_lost = line.whole && at <= told;
      if (told > 0) destroyed_at_ = actions_;   // what came into an empty file and went before a look leaves no trace
    }
  }
  std::uint64_t told(const std::string& name) const {
    if (!fake_) return 0;
    const auto it = fake_->fake.names.find(fake_->path(name));
    return it == fake_->fake.names.end() ? 0 : it->second->told;
  }
  void destroy() {
    world_.now_ns += 4'000'000;
    const std::size_t how = pick(4);
    if (how == 3) {   // a rotated file
      const std::string name = rotated(1 + static_cast<int>(pick(4)));
      if (!contents_.count(name) || contents_[name] == writer_) return;
      say("remove " + name);
      const auto content = contents_[name];
      // A file that is only known by its name on the way from one to the next was never looked at.
      const std::uint64_t known = told(name);
      contents_.erase(name);
      gone(content, known > 0 && holds(content) ? known : 0);
      world_.remove(name);
      return;
    }
    if (!contents_.count(kLog) || contents_[kLog] != writer_) return;
    const auto content = contents_[kLog];
    const std::uint64_t known = told(kLog);
    if (how == 2 && content->size < 20) return;
    if (how != 0) abandon();
    if (how == 0) {
      say("remove");
      contents_.erase(kLog);
      gone(content, holds(content) ? known : 0);
      world_.remove(kLog);
      if (pick(2) == 0) reopen();   // often with the same inode
      else deaf_ = content;         // writes on into a file without a name
    } else if (how == 1) {
      say("truncate");
      gone(content, holds(content) ? known : 0);
      world_.truncate(kLog);
      *content = Content{};
    } else {
      const std::size_t size = static_cast<std::size_t>(content->size);
      say("replace by the same size");
      gone(content, holds(content) ? known : 0);
      *content = Content{};
      std::string bytes;
      while (bytes.size() < size) {   // one line that fills it
        std::string text = "L" + std::to_string(lines_.size()) + " ";
        const std::size_t left = size - bytes.size();
        const std::size_t length = left < 100 ? left : 60;
        if (text.size() + 1 > length) {
          bytes.append(length, '\n');   // rest: empty lines
          break;
        }
        text.append(length - text.size() - 1, '=');
        text += "\n";
        bytes += text;
        lines_.push_back({text, true});
        content->lines.push_back(lines_.size() - 1);
      }
      content->size = bytes.size();
      world_.overwrite(kLog, bytes);
    }
  }
  // Was the tailer at this file when it last said where it was?
  bool holds(const std::shared_ptr<Content>& content) const { return at_content_ == content; }

  // ---- the reader
  void start(std::optional<Checkpoint> known) { tailer_.emplace(world_.files(), world_.path(kLog), known, options_); }
  void commit() {
    say("commit " + std::to_string(tailer_->checkpoint().offset) + " of inode " + std::to_string(tailer_->checkpoint().inode));
    kept_ = tailer_->checkpoint();
    kept_content_ = at_content_;
    for (Line& line : lines_) {
      if (line.seen > 0) line.committed = true;
      line.seen = 0;
    }
  }
  void crash() {
    say("crash");
    start(kept_);
    at_content_ = kept_content_;
    for (Line& line : lines_) {
      line.seen = 0;
      line.known_lost = false;   // who knew of it is dead
    }
    if (fake_)
      for (auto& [name, body] : fake_->fake.names) body->told = body->inode == kept_->inode ? kept_->size : 0;
    crashed_ = true;
  }
  // After a restart the file that the checkpoint tells of may be gone, and with it what could tell later files from earlier ones.
  void find_out_of_reach() {
    bool there = away_ && away_ == kept_content_;
    for (const auto& [name, content] : contents_) there = there || content == kept_content_;
    if (there) return;
    for (const auto& [name, content] : contents_) {
      if (name == kLog) continue;
      out_of_reach_.insert(content);
      for (const std::size_t id : content->lines) lines_[id].destroyed = true;
    }
  }
  void step() {
    if (std::exchange(crashed_, false)) find_out_of_reach();
    std::vector<char> room(256 + pick(3000));
    for (int i = 0; i < 3; ++i) {
      auto step = tailer_->step(room, now());
      if (!step.ok()) return fail("an error: " + step.error().message());
      static const char* const names[] = {"bytes", "idle", "new generation", "truncated", "vanished"};
      say(std::string("step: ") + names[static_cast<int>(step->what)] + " " + std::to_string(step->size) + (step->partial ? " partial" : "") +
          (step->lost_bytes ? " lost " + std::to_string(step->lost_bytes) : "") + " " + step->why + " at " + std::to_string(tailer_->checkpoint().offset));
      lost_ += step->lost_bytes;
      if (!step->why.empty()) {
        reported_at_ = actions_;
        last_why_ = step->why;
      }
      if (step->what == TailStep::What::bytes) {
        take({room.data(), step->size}, step->partial);
      } else if (step->what == TailStep::What::idle) {
        note_content();
        return;
      }
      note_content();
    }
  }
  void note_content() {
    at_content_.reset();
    for (const auto& [name, content] : contents_) {
      const auto info = world_.files().info(world_.path(name));
      if (info.ok() && info->inode == tailer_->checkpoint().inode) at_content_ = content;
    }
  }
  void take(std::string_view bytes, bool partial) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const bool last = end == std::string_view::npos;
      if (last && !partial) return fail("a torn line was handed out as whole: " + std::string(bytes));
      const std::string text(bytes.substr(0, last ? bytes.size() : end + 1));
      bytes.remove_prefix(text.size());
      if (text == "\n") continue;   // filling of a replaced file
      if (text[0] != 'L') return fail("a line that nobody wrote: " + text);
      if (last) {
        bool found = false;
        for (const Line& line : lines_) found = found || line.text.starts_with(text);
        if (!found) fail("a part that nobody wrote: " + text);
        return;
      }
      const std::size_t id = static_cast<std::size_t>(std::atoll(text.c_str() + 1));
      if (id >= lines_.size() || lines_[id].text != text) return fail("a torn line was handed out as whole: " + text);
      Line& line = lines_[id];
      if (line.committed) return fail("a line was seen again after its checkpoint was kept: " + text);
      if (++line.seen > 1) return fail("a line was seen twice: " + text);
    }
  }
  void pass(std::int64_t ns) { world_.now_ns += ns; }

  TailWorld& world_;
  std::mt19937_64 random_;
  Round round_;
  FakeTailWorld* fake_;
  TailOptions options_;
  std::string place_, faults_, last_why_;
  std::deque<std::string> told_;
  std::vector<Line> lines_;
  std::map<std::string, std::shared_ptr<Content>> contents_;
  std::shared_ptr<Content> writer_, away_, deaf_, at_content_, kept_content_;
  std::set<std::shared_ptr<Content>> out_of_reach_;   // nothing leads to them
  std::optional<std::size_t> open_;
  std::size_t written_ = 0;
  bool crashed_ = false;
  int rotations_ = 0;
  std::optional<Tailer> tailer_;
  std::optional<Checkpoint> kept_;
  std::uint64_t lost_ = 0, known_lost_ = 0;
  std::uint64_t actions_ = 0, destroyed_at_ = 0, reported_at_ = 0;
};

std::size_t number_from(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<std::size_t>(std::atoll(text)) : otherwise;
}

template <class World>
void run(std::size_t actions, std::size_t per_round, std::uint64_t seed) {
  for (std::size_t done = 0; done < actions; done += per_round, ++seed) {
    World world;
    Model model(world, seed, Round{(seed & 1) != 0, (seed & 2) != 0});
    for (std::size_t i = 0; i < per_round && model.ok(); ++i) model.act();
    if (model.ok()) model.finish();
    REQUIRE_MESSAGE(model.ok(), model.fault());
  }
}

}  // namespace

TEST_CASE("a log in memory: no line is lost unreported, doubled or torn, whatever happens to the file") {
  run<FakeTailWorld>(number_from("TRIAGE_MODEL_ACTIONS", 240'000), 300, number_from("TRIAGE_MODEL_SEED", 1));
}

TEST_CASE("the same in a real folder") {
  run<RealTailWorld>(number_from("TRIAGE_MODEL_ACTIONS", 240'000) / 24, 300, number_from("TRIAGE_MODEL_SEED", 1));
}
