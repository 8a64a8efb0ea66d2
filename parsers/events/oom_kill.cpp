// The kernel's out-of-memory killer: the line about the victim, and the whole report folded into one event.
// Source: torvalds/linux mm/oom_kill.c, mm/memcontrol.c (2.6.32 to 6.x). The kernel's kB are 1024 bytes.
#include "parsers/base/text.hpp"
#include "parsers/events/block_readers.hpp"
#include "parsers/events/message_parsers.hpp"
#include "parsers/events/scan.hpp"
#include "parsers/events/stream.hpp"

#include <array>
#include <string>

namespace triage::parsers {

namespace {

constexpr std::uint64_t kReportLines = 20'000;  // a line a process stands in the report; then it is broken off
constexpr std::size_t kForeignLines = 2'000;    // of other streams inside a report

void take(std::optional<Bytes>& to, Scan& scan) {
  if (const auto size = scan.quantity(); size && !size->meaningless) to = size->bytes;
}
void take_after(std::optional<Bytes>& to, std::string_view message, std::string_view mark) {
  Scan scan(message);
  if (scan.after(mark)) take(to, scan);
}
std::string value_after(std::string_view message, std::string_view mark, std::string_view end) {
  Scan scan(message);
  return scan.after(mark) ? std::string(scan.until(end)) : std::string();
}

// "Killed process 123 (python) total-vm:..kB, anon-rss:..kB, ..."; older "Kill process 123 (python) score 900 or sacrifice child".
bool read_victim(std::string_view message, OomKill& out) {
  Scan scan(message);
  if (!scan.after("Killed process ") && !scan.after("Kill process ")) return false;
  const auto pid = scan.integer();
  if (!pid) return false;
  out.pid = pid;
  scan.word(",");               // "Killed process 123, UID 0, (python) total-vm:..."
  if (scan.after("(")) {
    // A name may hold blanks and parentheses; the fields follow the last one.
    const auto rest = scan.rest();
    auto end = rest.find(") total-vm");
    if (end == std::string_view::npos) end = rest.find(") score ");
    if (end == std::string_view::npos) end = rest.find(')');
    out.process = std::string(rest.substr(0, std::min<std::size_t>(end, 64)));
  }
  take_after(out.total_vm, message, "total-vm:");
  take_after(out.anon_rss, message, "anon-rss:");
  take_after(out.file_rss, message, "file-rss:");
  take_after(out.shmem_rss, message, "shmem-rss:");
  if (contains(message, "emory cgroup out of memory")) out.constraint = "CONSTRAINT_MEMCG";
  return true;
}

// "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),...,oom_memcg=/a,task_memcg=/a/b,task=python,pid=1,uid=0"
void read_constraint(std::string_view message, OomKill& out) {
  out.constraint = value_after(message, "constraint=", ",");
  out.cgroup = value_after(message, "oom_memcg=", ",");
  if (out.cgroup.empty() && out.constraint == "CONSTRAINT_MEMCG") out.cgroup = value_after(message, "task_memcg=", ",");
  if (out.process.empty()) out.process = value_after(message, ",task=", ",");
  Scan pid(message);
  if (!out.pid && pid.after(",pid=")) out.pid = pid.integer();
}

class OomKillReport final : public EventReader {
 public:
  std::string_view name() const override { return "oom_kill_report"; }
  std::span<const std::string_view> triggers() const override {
    // A log that was cut may show the victim's line only.
    static constexpr std::array<std::string_view, 3> kTriggers{"invoked oom-killer", "oom-kill:constraint=", "ut of memory: Kill"};
    return kTriggers;
  }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const auto message = record.message;
    const bool start = contains(message, "invoked oom-killer");
    if (!open_) {
      if (!start && !contains(message, "oom-kill:constraint=") && !contains(message, "ut of memory: Kill")) return Offer::not_mine;
      open_ = true;
      stream_.open(record);
      first_ = record.line.number;
    } else if (start || last_ - first_ > kReportLines) {
      return Offer::ended_before;
    } else if (!stream_.holds(record) && !contains(message, "Killed process ") && !contains(message, "oom-kill:constraint=")) {
      return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine;
    }
    last_ = record.line.number;
    return read(message) ? Offer::finished : Offer::taken;
  }

  std::optional<Block> finish() override {
    std::optional<Block> block;
    if (open_ && (useful_ || complete_)) block = Block{event_, first_, last_, !complete_};
    *this = OomKillReport();
    return block;
  }

 private:
  // True: the report's last line.
  bool read(std::string_view message) {
    if (contains(message, "oom-kill:constraint=")) {
      read_constraint(message, event_);
      useful_ = true;
    } else if (Scan limit(message); limit.after("memory: usage ") && !event_.usage && !contains(message, "kmem: usage")) {
      take(event_.usage, limit);
      if (limit.word(", limit ")) take(event_.limit, limit);
      useful_ = true;
    } else if (Scan task(message); task.after("killed as a result of limit of ")) {  // before 4.19
      event_.cgroup = std::string(task.until(" "));
      event_.constraint = "CONSTRAINT_MEMCG";
      useful_ = true;
    } else if (Scan victim(message); contains(message, "Killed process ") && read_victim(message, event_)) {
      if (event_.constraint.empty()) event_.constraint = contains(message, "cgroup") ? "CONSTRAINT_MEMCG" : "CONSTRAINT_NONE";
      complete_ = true;
    } else if (contains(message, "Kill process ")) {
      OomKill chosen = event_;
      if (read_victim(message, chosen)) event_ = chosen, useful_ = true;
    }
    return complete_;
  }

  OomKill event_;
  Stream stream_;
  std::uint64_t first_ = 0, last_ = 0;
  std::size_t foreign_ = 0;
  bool open_ = false, useful_ = false, complete_ = false;
};

}  // namespace

Event read_oom_kill(std::string_view message) {
  OomKill out;
  if (contains(message, "oom-kill:constraint=")) {
    read_constraint(message, out);
    return out;
  }
  if (!contains(message, "ut of memory") && !contains(message, "total-vm:")) return {};
  if (!read_victim(message, out)) return {};
  return out;
}

std::unique_ptr<EventReader> make_oom_kill_report_reader() { return std::make_unique<OomKillReport>(); }

}  // namespace triage::parsers
