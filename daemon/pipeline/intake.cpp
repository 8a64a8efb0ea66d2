#include "daemon/pipeline/intake.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/pipeline/newlines.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/lines/line_splitter.hpp"
#include "parsers/records/traceback_line.hpp"

namespace triage::daemon {

namespace limits = parsers::limits;
using parsers::Line;
using parsers::Record;
using parsers::TracebackAssembler;
using signatures::Candidate;
using signatures::Finding;
using signatures::Role;

namespace {

constexpr std::size_t kMemoryReports = 64;
constexpr std::size_t kTailBytes = 512;
constexpr int kHeadLines = 16;           // where the first clock is looked for
constexpr std::size_t kTailLines = 16;   // enough for the last exception and the last clock
constexpr std::size_t kTailSpool = 4096; // bytes of them
constexpr std::size_t kUnfinished = 32;  // tracebacks without an exception: only the last ones can have ended the program
constexpr std::size_t kProcesses = 4096;
constexpr std::size_t kNodes = 16;  // more than one is all that is asked
constexpr int kBadSteps = 3;             // with one or two a loss scale is still being found; Keras prints one line an epoch
constexpr int kLastExceptionLines = 12;  // from the end of a log: an exception without a traceback so near to it ended the program

int rank_of(const Finding& finding) {
  if (finding.rank) return *finding.rank;
  if (finding.local_rank) return *finding.local_rank;
  return finding.task.value_or(-1);
}

bool silences_nothing(Role role) { return role == Role::fact || role == Role::progress; }
bool tells(Role role) { return !silences_nothing(role) && role != Role::advice; }

}  // namespace

// Which readers the literals of a line call for.
struct Intake::Woken {
  bool memory_report = false;
  std::uint64_t events = 0, configs = 0;  // bit per reader
};

Intake::Intake(std::shared_ptr<const Knowledge> knowledge, signatures::SourceInfo source, int default_year, Spool* spool)
    : knowledge_(std::move(knowledge)),
      spool_(spool),
      peeler_(default_year),
      event_readers_(parsers::make_event_readers()),
      openers_(event_readers_.size()),
      config_readers_(parsers::make_config_readers()),
      progress_(*knowledge_->progress, default_year, spool) {
  out_.source = std::move(source);
}

void Intake::lose(std::string what, std::uint64_t bytes) {
  out_.lost.push_back({out_.source.name, std::move(what), out_.last_line, out_.source.bytes, bytes, 1});
}

void Intake::take(const ScannedBlock& scanned, signatures::Matcher& matcher) {
  const Block& block = scanned.block;
  matcher_ = &matcher;
  const std::string_view text = block.text();
  if (block.dropped_before > 0) lose("line longer than " + std::to_string(limits::kLineBytes) + " bytes cut", block.dropped_before);

  if (newlines_ == 0 && block.offset == 0) {  // the clock of the first lines
    std::size_t at = 0;
    for (int i = 0; i < kHeadLines && at < text.size() && !out_.first_time; ++i) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      out_.first_time = peeler_.peel(Line{at, 1, text.substr(at, std::min(end - at, limits::kLineBytes)), 0, false}).time;
      at = end + 1;
    }
    if (spool_) spool_head(text, block.offset);
  }
  progress_.begin_block(text, block.offset, newlines_ + 1);
  std::size_t at = 0;
  for (std::size_t i = 0; i < scanned.count; ++i) {
    const Candidate& candidate = scanned.candidates[i];
    if (walking()) at = walk(scanned, at, candidate.begin);
    const std::uint64_t number = newlines_ + scanned.newlines_before[i] + 1;
    const std::string_view whole = text.substr(candidate.begin, candidate.end + 1 - candidate.begin);
    line(whole, block.offset + candidate.begin, number, &candidate);
    at = candidate.end + 1;
  }
  if (walking()) walk(scanned, at, text.size());
  progress_.end_of_block();
  remember_tail(scanned);
  remember_last_exception(scanned);
  if (spool_) keep_tail(scanned);
  newlines_ += scanned.newlines;
  out_.source.bytes = std::max(out_.source.bytes, block.offset + block.size);
}

// Lines without literals, as long as a reader waits for more. Returns where it stopped.
std::size_t Intake::walk(const ScannedBlock& scanned, std::size_t from, std::size_t to) {
  const std::string_view text = scanned.block.text();
  if (from >= to) return from;
  // A line number again from the block's start, once a stretch: openings are rare, and counting is fast.
  std::uint64_t number = newlines_ + 1 + count_newlines(text.substr(0, from));
  while (from < to && walking()) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    line(text.substr(from, end + 1 - from), scanned.block.offset + from, number, nullptr);
    ++number;
    from = end + 1;
  }
  return from;
}

// Whose line it is, for the question whether one process or several wrote the log.
void Intake::note_process(const Record& record) {
  const auto process = record.rank ? record.rank : record.local_rank ? record.local_rank : record.task;
  if (process && processes_.size() < kProcesses) processes_.insert(*process);
  if (!record.node.empty() && nodes_.size() < kNodes) nodes_.emplace(record.node);
}

// text: one line with its end, if it has one.
void Intake::line(std::string_view text, std::uint64_t offset, std::uint64_t number, const Candidate* candidate) {
  line_at_ = offset;
  worth_ = walking();
  const std::size_t known = processes_.size() + nodes_.size();
  parsers::LineSplitter splitter(offset, number);
  const auto sink = [&](const Line& piece_of_line) {
    if (piece_of_line.cut_bytes > 0)
      out_.lost.push_back({out_.source.name, "line longer than " + std::to_string(limits::kLineBytes) + " bytes cut", number,
                           piece_of_line.offset, piece_of_line.cut_bytes, 1});
    piece(piece_of_line, candidate);
  };
  splitter.feed(text, sink);
  splitter.finish(sink);
  if (spool_ && (worth_ || walking() || processes_.size() + nodes_.size() > known)) spool_->add(offset, number, text);
}

void Intake::piece(const Line& raw, const Candidate* candidate) {
  const Record record = peeler_.peel(raw);
  note_process(record);
  Woken woken;
  if (candidate) {
    for (const std::uint32_t extra : candidate->extra) {
      const Wake& wake = knowledge_->wakes[extra];
      switch (wake.who) {
        case Wake::Who::traceback: break;
        case Wake::Who::event_reader: woken.events |= 1ULL << wake.reader; break;
        case Wake::Who::config_reader: woken.configs |= 1ULL << wake.reader; break;
        case Wake::Who::memory_report: woken.memory_report = true; break;
      }
    }
  }
  const TracebackAssembler::Part part = tracebacks_.offer(record);
  if (part == TracebackAssembler::Part::exception) note_exception(record);
  bool inside = part != TracebackAssembler::Part::none;
  worth_ = worth_ || inside;
  offer_to_readers(record, woken, inside);

  if (woken.memory_report) {
    if (auto report = parsers::read_memory_report(record)) {
      report->line = raw.number;
      worth_ = true;
      if (out_.memory.size() >= kMemoryReports) out_.memory.erase(out_.memory.begin() + 1);
      out_.memory.push_back(std::move(*report));
    }
  }
  if (candidate && !candidate->rules.empty()) {
    signatures::Context context = signatures::context_of(record);
    context.exception = context.exception || part == TracebackAssembler::Part::exception;
    context.block = inside;
    matched_.clear();
    matcher_->match(record, context, candidate->rules, matched_);
    for (Finding& finding : matched_) keep(std::move(finding));
  }
  take_tracebacks(tracebacks_.take_finished());
  count_open();
}

void Intake::offer_to_readers(const Record& record, const Woken& woken, bool& inside) {
  using parsers::Offer;
  const auto offer = [&](auto& reader, bool woke, auto open, auto close) {
    if (!woke && !reader.open()) return;
    bool first = !reader.open();
    Offer answer = reader.offer(record);
    if (answer == Offer::ended_before) {
      close();
      first = true;
      answer = woke ? reader.offer(record) : Offer::not_mine;
    }
    if (first && answer == Offer::taken) open();
    if (answer == Offer::finished) close();
    inside = inside || answer == Offer::taken || answer == Offer::finished;
    worth_ = worth_ || inside;
  };
  for (std::size_t i = 0; i < event_readers_.size(); ++i)
    offer(*event_readers_[i], (woken.events >> i) & 1, [&] { openers_[i] = signatures::finding_of(record); }, [&] { close_event(i); });
  bool in_configuration = false;
  std::swap(inside, in_configuration);   // a configuration block is no failure block
  for (std::size_t i = 0; i < config_readers_.size(); ++i)
    offer(*config_readers_[i], (woken.configs >> i) & 1, [] {}, [&] { config_readers_[i]->finish(out_.source.name, out_.config); });
  inside = in_configuration;
}

void Intake::close_event(std::size_t index) {
  parsers::EventReader& reader = *event_readers_[index];
  if (auto block = reader.finish()) {
    if (blocks_.size() < limits::kFindingsPerSource)
      blocks_.push_back({std::string(reader.name()), std::move(*block), openers_[index]});
    else
      ++out_.dropped_findings;
  }
}

void Intake::note_exception(const Record& record) {
  if (exceptions_.size() >= limits::kOpenTracebacks) exceptions_.erase(exceptions_.begin());
  Finding finding = signatures::finding_of(record);
  finding.rule = "python.exception";
  finding.kind = "user.exception";
  exceptions_.insert_or_assign(finding.line, std::move(finding));
}

// A traceback belongs to the findings on its exception line; one that no rule explains is a finding of its own.
void Intake::take_tracebacks(std::vector<parsers::Traceback> tracebacks) {
  for (parsers::Traceback& traceback : tracebacks) {
    bool explained = false;
    for (auto finding = out_.findings.rbegin(); finding != out_.findings.rend(); ++finding) {
      if (finding->line < traceback.first_line) break;
      if (finding->line == traceback.exception_line) finding->traceback = traceback;
      if (finding->line >= traceback.exception_line && finding->line <= traceback.last_line && !silences_nothing(finding->role))
        explained = true;
    }
    const auto noted = exceptions_.find(traceback.exception_line);
    if (noted == exceptions_.end()) {
      if (!traceback.exception.empty() || traceback.frames.empty() || traceback.language != parsers::Traceback::Language::python) continue;
      if (out_.unfinished.size() >= kUnfinished) out_.unfinished.erase(out_.unfinished.begin());
      out_.unfinished.push_back(std::move(traceback));
      continue;
    }
    Finding finding = std::move(noted->second);
    exceptions_.erase(noted);
    if (explained || traceback.language != parsers::Traceback::Language::python) continue;
    finding.event = traceback;
    finding.traceback = std::move(traceback);
    keep(std::move(finding));
  }
}

void Intake::keep(Finding finding) {
  if (out_.findings.size() >= limits::kFindingsPerSource) {
    ++out_.dropped_findings;
    return;
  }
  if (tells(finding.role)) ++telling_;
  Folded& folded = folded_[{finding.rule, finding.kind, rank_of(finding)}];
  if (++folded.count > limits::kFindingsPerRuleAndRank) {
    Finding& last = out_.findings[folded.index];
    ++last.count;
    last.last_line = finding.line;
    if (last.repeat_lines.size() < 32) last.repeat_lines.push_back(finding.line);
    return;
  }
  worth_ = true;
  if (tells(finding.role)) progress_.settle(line_at_);
  folded.index = out_.findings.size();
  finding.last_line = std::max(finding.last_line, finding.line);
  out_.findings.push_back(std::move(finding));
}

void Intake::count_open() {
  open_ = tracebacks_.open() ? 1 : 0;
  for (const auto& reader : event_readers_) open_ += reader->open() ? 1 : 0;
  for (const auto& reader : config_readers_) open_ += reader->open() ? 1 : 0;
}

// The first lines, whose clock is the source's first time.
void Intake::spool_head(std::string_view text, std::uint64_t offset) {
  std::uint64_t number = 1;
  for (std::size_t at = 0; at < text.size() && number <= kHeadLines; ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    spool_->add(offset + at, number, text.substr(at, end - at));
    at = end;
  }
}

void Intake::keep_tail(const ScannedBlock& scanned) {
  std::string_view text = scanned.block.text();
  std::uint64_t number = newlines_ + scanned.newlines + 1;
  std::size_t bytes = 0;
  std::deque<SpoolLine> last;
  while (!text.empty() && last.size() < kTailLines && bytes < kTailSpool) {
    if (text.ends_with('\n')) --number;
    const std::size_t begin = text.substr(0, text.size() - 1).rfind('\n') + 1;   // npos + 1 is 0
    const std::string_view line = text.substr(begin);
    last.push_front({scanned.block.offset + begin, number, std::string(line.substr(0, kTailSpool))});
    bytes += line.size();
    text = text.substr(0, begin);
  }
  for (auto line = tail_.rbegin(); line != tail_.rend() && last.size() < kTailLines && bytes < kTailSpool; ++line) {
    bytes += line->text.size();
    last.push_front(std::move(*line));
  }
  tail_ = std::move(last);
}

std::vector<SpoolLine> Intake::tail() const {
  std::vector<SpoolLine> out = progress_.pending_lines();
  if (!clock_line_.text.empty()) out.push_back(clock_line_);
  out.insert(out.end(), tail_.begin(), tail_.end());
  return out;
}

// The last line with text, and the last clock: what a silent death leaves.
void Intake::remember_tail(const ScannedBlock& scanned) {
  std::string_view text = scanned.block.text();
  std::uint64_t number = newlines_ + scanned.newlines + 1;
  out_.last_line = std::max(out_.last_line, text.empty() || text.ends_with('\n') ? number - 1 : number);
  bool first = true;
  for (int tries = 0; tries < 16 && !text.empty(); ++tries) {
    if (text.ends_with('\n')) {
      text.remove_suffix(1);
      --number;
    }
    const std::size_t begin = text.find_last_of("\n\r") + 1;  // npos + 1 is 0
    const std::string_view last = parsers::trim(text.substr(begin));
    if (!last.empty()) {
      if (std::exchange(first, false)) out_.last_text = parsers::repair_utf8(last.substr(0, kTailBytes));
      const Line line{scanned.block.offset + begin, number, last.substr(0, limits::kLineBytes), 0, false};
      if (const auto time = peeler_.peel(line).time) {
        out_.last_time = time;
        if (spool_) clock_line_ = {line.offset, number, std::string(text.substr(begin)) + "\n"};
        return;
      }
    }
    text = text.substr(0, begin);
    if (text.ends_with('\r')) text.remove_suffix(1);
  }
}

// A ticket often holds the last line of a traceback only. Kept until the next block shows that the log went on.
void Intake::remember_last_exception(const ScannedBlock& scanned) {
  std::string_view text = scanned.block.text();
  if (parsers::trim(text).empty()) return;
  last_exception_.reset();
  std::uint64_t number = newlines_ + scanned.newlines + 1;
  for (int lines = 0; lines < kLastExceptionLines && !text.empty();) {
    if (text.ends_with('\n')) {
      text.remove_suffix(1);
      --number;
    }
    const std::size_t begin = text.rfind('\n') + 1;  // npos + 1 is 0
    const std::string_view last = text.substr(begin);
    text = text.substr(0, begin);
    if (parsers::trim(last).empty()) continue;
    ++lines;
    const Record record = peeler_.peel(Line{scanned.block.offset + begin, number, last.substr(0, limits::kLineBytes), 0, false});
    note_process(record);
    const bool mild = record.level == parsers::Level::warning || record.level == parsers::Level::info || record.level == parsers::Level::debug;
    const auto exception = parsers::read_exception(record.message, false);
    if (mild || !exception || exception->message.empty()) continue;
    last_exception_ = signatures::finding_of(record);
    last_exception_->rule = "python.exception";
    last_exception_->kind = "user.exception";
    return;
  }
}

// A loss that is no number in every one of the last steps: the program goes on, the training is over.
void Intake::note_bad_loss() {
  const auto breaks = [](const Finding& f) { return f.role == Role::root || f.role == Role::cascade || f.role == Role::confirmation; };
  if (std::any_of(out_.findings.begin(), out_.findings.end(), breaks)) return;
  const parsers::Progress* first = nullptr;
  std::uint64_t last_line = 0;
  int steps = 0;
  for (auto p = out_.progress.rbegin(); p != out_.progress.rend(); ++p) {
    if (!p->loss) continue;
    if (std::isfinite(*p->loss)) break;
    if (p->line != last_line) steps += p->printer == "keras" ? kBadSteps : 1;
    last_line = p->line;
    first = &*p;
  }
  const ProgressMemory::BadLine* evidence = first == nullptr || steps < kBadSteps ? nullptr : progress_.bad_line(first->line);
  if (evidence == nullptr) return;
  Finding finding;
  finding.rule = "progress.bad_loss";
  finding.kind = "num.nan";
  finding.role = Role::root;
  finding.line = finding.last_line = first->line;
  finding.offset = evidence->offset;
  finding.length = evidence->text.size();
  finding.text = finding.message = evidence->text;
  finding.rank = first->rank;
  finding.time = first->time;
  finding.summary = "The loss is not a number in the last steps that were printed; the run went on without learning.";
  finding.help = "Resume from a checkpoint before it, with a lower learning rate, bf16 in place of fp16, or another data order; check the batch of the first bad step.";
  finding.fixes = {"precision", "data"};
  keep(std::move(finding));
}

signatures::SourceFindings Intake::finish() {
  take_tracebacks(tracebacks_.finish());
  for (std::size_t i = 0; i < event_readers_.size(); ++i)
    if (event_readers_[i]->open()) close_event(i);
  for (const auto& reader : config_readers_)
    if (reader->open()) reader->finish(out_.source.name, out_.config);
  parsers::derive(out_.config);

  for (EventBlock& event : blocks_) {
    bool carried = false;
    for (Finding& finding : out_.findings) {
      if (finding.line < event.block.first_line || finding.line > event.block.last_line) continue;
      if (finding.role == Role::advice && finding.line == event.block.first_line) carried = true;   // a quotation of one
      const auto& rules = knowledge_->rules->signatures();
      const auto rule = std::find_if(rules.begin(), rules.end(), [&](const auto& r) { return r.id == finding.rule; });
      if (rule == rules.end() || rule->parser != event.reader) continue;
      finding.event = event.block.event;
      carried = true;
      break;
    }
    if (carried) continue;
    Finding finding = event.opener.line == event.block.first_line ? std::move(event.opener) : Finding{};
    finding.rule = "block." + event.reader;
    finding.role = Role::confirmation;
    finding.line = event.block.first_line;
    finding.last_line = event.block.last_line;
    finding.event = std::move(event.block.event);
    keep(std::move(finding));
  }
  out_.progress = progress_.finish();
  note_bad_loss();
  const bool silent = std::none_of(out_.findings.begin(), out_.findings.end(), [](const Finding& f) { return !silences_nothing(f.role); });
  if (last_exception_ && silent) keep(std::move(*last_exception_));
  std::stable_sort(out_.findings.begin(), out_.findings.end(), [](const Finding& a, const Finding& b) { return a.line < b.line; });
  out_.source.lines = out_.last_line;
  out_.processes.assign(processes_.begin(), processes_.end());
  out_.nodes.assign(nodes_.begin(), nodes_.end());
  return std::move(out_);
}

}  // namespace triage::daemon
