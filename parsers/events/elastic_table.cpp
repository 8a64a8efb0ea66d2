// torchrun's failure table (also printed under accelerate and DeepSpeed's elastic launcher).
// Source: pytorch/pytorch torch/distributed/elastic/multiprocessing/errors/__init__.py, ChildFailedError.format_msg: since 1.10
// "Failures:" before "Root Cause (first observed failure):"; 1.9 "Root Cause:" before "Other Failures:", keys without padding.
#include "parsers/base/text.hpp"
#include "parsers/events/block_readers.hpp"
#include "parsers/events/scan.hpp"
#include "parsers/events/stream.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

namespace triage::parsers {

namespace {

constexpr std::size_t kFailures = 16'384;       // rows of one table; one a rank at most
constexpr std::size_t kForeignLines = 64;       // lines that are not of the table, between two that are
constexpr std::size_t kFieldBytes = 256;        // of a row's line, kept as evidence
constexpr std::size_t kTracebackHead = 4 * 1024, kTracebackTail = 8 * 1024;  // of a failure's traceback, bytes kept

// "2026-12-01_13:19:02"; the launcher's local clock, taken as UTC.
std::optional<TimePoint> read_time(std::string_view text) {
  Scan scan(text);
  const auto year = scan.integer();
  std::array<std::int64_t, 5> rest{};
  constexpr std::array<std::string_view, 5> kBefore{"-", "-", "_", ":", ":"};
  if (!year || *year < 1970 || *year > 9999) return std::nullopt;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (!scan.word(kBefore[i]) || !is_digit(scan.peek())) return std::nullopt;
    const auto value = scan.integer();
    if (!value) return std::nullopt;
    rest[i] = *value;
  }
  namespace c = std::chrono;
  const auto day = c::year_month_day(c::year(static_cast<int>(*year)), c::month(static_cast<unsigned>(rest[0])),
                                     c::day(static_cast<unsigned>(rest[1])));
  if (rest[0] > 12 || rest[1] > 31 || !day.ok() || rest[2] > 23 || rest[3] > 59 || rest[4] > 60) return std::nullopt;
  return c::sys_days(day) + c::hours(rest[2]) + c::minutes(rest[3]) + c::seconds(rest[4]);
}

bool rule_of(std::string_view text, char c) {
  return text.size() >= 20 && std::all_of(text.begin(), text.end(), [c](char x) { return x == c; });
}

class ElasticTableReader final : public EventReader {
 public:
  std::string_view name() const override { return "elastic_table"; }
  std::span<const std::string_view> triggers() const override {
    // A log may begin inside the table, so each row opens it too.
    static constexpr std::array<std::string_view, 6> kTriggers{"Root Cause (first observed failure)", "Root Cause:", "Failures:",
                                                               "  time      : 20", "  rank      : ", "  exitcode  : "};
    return kTriggers;
  }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const auto line = trim(record.message);
    const auto part = part_of(record.message, line);
    if (!open_) {
      if (part == Part::none || part == Part::text) return Offer::not_mine;
      open_ = true;
      stream_.open(record);
      first_ = record.line.number;
    } else if (!stream_.holds(record) && !row_number(record)) {
      return other();
    }
    switch (part) {
      case Part::none:
        return other();
      case Part::text:
        append(record.message);
        break;
      case Part::rule:
        in_traceback_ = false;
        if (ends(line)) {
          last_ = record.line.number;
          return Offer::finished;
        }
        break;
      case Part::root: case Part::others:
        in_traceback_ = false;
        root_ = part == Part::root;
        seen_root_ = seen_root_ || root_;
        if (line == "Root Cause:" || line == "Other Failures:") old_form_ = true;
        break;
      case Part::row:
        in_traceback_ = false;
        break;
      case Part::field:
        if (!field(line, record)) return Offer::ended_before;
        break;
    }
    foreign_ = 0;
    last_ = record.line.number;
    return Offer::taken;
  }

  std::optional<Block> finish() override {
    std::optional<Block> block;
    if (open_ && !table_.failures.empty()) {
      for (auto& failure : table_.failures)
        if (failure.traceback.starts_with("To enable traceback see")) failure.traceback.clear();
      block = Block{std::move(table_), first_, last_, !complete_};
    }
    *this = ElasticTableReader();
    return block;
  }

 private:
  enum class Part { none, text, rule, root, others, row, field };

  static bool row_number(const Record& record) {
    const auto text = trim(record.line.text);
    return text.size() >= 4 && text.size() < 12 && text.ends_with("]:") && text.starts_with("[");
  }

  static std::string_view key_of(std::string_view line) {
    static constexpr std::array<std::string_view, 7> kKeys{"time", "host", "rank", "exitcode", "error_file", "traceback", "msg"};
    for (const auto key : kKeys) {
      if (!line.starts_with(key)) continue;
      if (trim_left(line.substr(key.size())).starts_with(":")) return key;
    }
    return {};
  }

  Part part_of(std::string_view message, std::string_view line) const {
    if (rule_of(line, '-') || rule_of(line, '=') || rule_of(line, '*')) return open_ ? Part::rule : Part::none;
    if (line.starts_with("Root Cause")) return Part::root;
    if (line == "Failures:" || line == "Other Failures:" || line == "<NO_OTHER_FAILURES>") return Part::others;
    if (line.size() < 12 && line.starts_with("[") && line.ends_with("]:")) return Part::row;
    const auto indent = message.size() - trim_left(message).size();
    // The text of a traceback is indented by two; keys stand at exactly two.
    if ((indent == 2 || !in_traceback_) && !key_of(line).empty()) return Part::field;
    if (in_traceback_ && (message.starts_with("  ") || line.empty())) return Part::text;
    if (line.empty()) return open_ ? Part::row : Part::none;
    return Part::none;
  }

  Offer other() {
    if (++foreign_ <= kForeignLines) return Offer::not_mine;
    return Offer::ended_before;
  }

  // The '=' line behind the root cause; in the old form the second '*' line.
  bool ends(std::string_view line) {
    complete_ = !table_.failures.empty() && (old_form_ ? line.front() == '*' : line.front() == '=' && seen_root_);
    return complete_;
  }

  bool field(std::string_view line, const Record& record) {
    const std::uint64_t number = record.line.number;
    const auto key = key_of(line);
    const auto value = trim(line.substr(line.find(':') + 1));
    auto& rows = table_.failures;
    if (key == "time" || rows.empty()) {
      if (rows.size() >= kFailures) return false;
      ElasticFailure failure;
      failure.root = root_;
      failure.line = number;
      rows.push_back(std::move(failure));
    }
    ElasticFailure& row = rows.back();
    Scan scan(value);
    if (key == "time") {
      row.time = read_time(value);
      row.time_line = number;
      row.text = row.time_text = repair_utf8(trim_right(record.line.text).substr(0, kFieldBytes));
    } else if (key == "host") {
      row.host = std::string(value);
    } else if (key == "rank") {
      row.rank = rank_number(scan.integer());
      if (scan.after("local_rank:")) row.local_rank = rank_number(scan.integer());
    } else if (key == "exitcode") {
      row.exit_code = narrow(scan.integer());
      if (scan.after("pid:")) row.pid = scan.integer();
      row.line = number;
      row.text = repair_utf8(trim_right(record.line.text).substr(0, kFieldBytes));
    } else if (key == "error_file") {
      if (value != "<N/A>") row.error_file = std::string(value);
    } else {
      in_traceback_ = true;
      row.traceback.clear();
      append(value);
    }
    return true;
  }

  // Keeps the head and the end of a long traceback: the exception stands last.
  void append(std::string_view text) {
    if (table_.failures.empty()) return;
    auto& kept = table_.failures.back().traceback;
    if (text.starts_with("  ")) text.remove_prefix(2);
    if (!kept.empty()) kept += '\n';
    kept += text.substr(0, kTracebackTail);
    if (kept.size() <= kTracebackHead + 2 * kTracebackTail) return;
    const auto cut = kept.find('\n', kept.size() - kTracebackTail);
    const auto head = kept.rfind('\n', kTracebackHead);
    const auto from = head == std::string::npos ? kTracebackHead : head;
    const auto to = cut == std::string::npos ? kept.size() - kTracebackTail : cut;
    kept.replace(from, to - from, "\n...");
  }

  ElasticTable table_;
  Stream stream_;
  std::uint64_t first_ = 0, last_ = 0;
  std::size_t foreign_ = 0;
  bool open_ = false, root_ = false, seen_root_ = false, in_traceback_ = false, old_form_ = false, complete_ = false;
};

}  // namespace

std::unique_ptr<EventReader> make_elastic_table_reader() { return std::make_unique<ElasticTableReader>(); }

}  // namespace triage::parsers
