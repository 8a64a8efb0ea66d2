#include "signatures/match/matcher.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/events/event_reader.hpp"
#include "signatures/match/capture.hpp"
#include "signatures/match/compiled_rules.hpp"

namespace triage::signatures {
namespace {

// FNV-1a, 64 bits; each text is closed by a zero byte so that borders count.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    byte(0);
  }
  std::string hex() const {
    std::string out;
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(state_ >> shift) & 15];
    return out;
  }

 private:
  void byte(unsigned char c) { state_ = (state_ ^ c) * 0x100000001b3u; }
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

constexpr std::size_t kKindPart = 32;   // bytes of one capture in a kind

std::string cut_text(std::string_view text) { return parsers::repair_utf8(text.substr(0, parsers::limits::kEvidenceBytes)); }

constexpr std::size_t kBefore = 1024;                                      // bytes before a match that are kept of a longer line
constexpr std::size_t kFromStart = parsers::limits::kEvidenceBytes - 2048; // a match that begins later would be cut off

// A line longer than what is kept of it, with its match beyond that: keeps the part around the match.
void keep_match(Finding& finding, const parsers::Record& record, std::size_t begin) {
  if (begin <= kFromStart) return;
  std::string_view part = record.message.substr(begin - kBefore);
  while (!part.empty() && (static_cast<unsigned char>(part.front()) & 0xc0) == 0x80) part.remove_prefix(1);   // whole characters
  finding.text = finding.message = cut_text(part);
}

bool within_holds(Within within, Context context) {
  switch (within) {
    case Within::any:
    case Within::line: return true;
    case Within::exception: return context.exception;
    case Within::block: return context.block;
    case Within::kernel: return context.kernel;
  }
  return true;
}

// "gpu.xid.{code}" without a code is "gpu.xid". A kind is a name, in files, databases and routes, whatever text a line holds.
std::string kind_of(const Signature& rule, const Finding& finding) {
  if (rule.kind.find('{') == std::string::npos) return rule.kind;
  std::vector<std::pair<std::string, CaptureValue>> parts;
  for (const auto& [name, value] : finding.captures) {
    std::string part = capture_text(value).substr(0, kKindPart);
    for (char& c : part) c = parsers::is_alnum(c) ? parsers::to_lower(c) : '_';
    parts.emplace_back(name, std::move(part));
  }
  std::string out = fill_template(rule.kind, parts, "");
  while (!out.empty() && out.back() == '.') out.pop_back();
  return out;
}

}  // namespace

Finding finding_of(const parsers::Record& record) {
  Finding out;
  out.line = record.line.number;
  out.offset = record.line.offset;
  out.length = record.line.text.size();
  out.text = cut_text(record.line.text);
  out.message = cut_text(record.message);
  out.rank = record.rank;
  out.local_rank = record.local_rank;
  out.task = record.task;
  out.pid = record.pid;
  out.node = record.node;
  out.actor = record.actor;
  out.time = record.time;
  out.level = record.level;
  out.system = record.system;
  out.count = record.repeats;
  out.last_line = record.line.number;
  return out;
}

SignatureSet::SignatureSet() = default;
SignatureSet::~SignatureSet() = default;

std::shared_ptr<const SignatureSet> SignatureSet::compile(std::vector<Signature> signatures, std::span<const std::string_view> extra_literals,
                                                          std::vector<parsers::Error>& faults) {
  const std::size_t before = faults.size();
  std::shared_ptr<const SignatureSet> set = compile_rest(std::move(signatures), extra_literals, faults);
  const bool whole = std::all_of(set->signatures_.begin(), set->signatures_.end(), [](const Signature& rule) { return rule.unread.empty(); });
  return whole && faults.size() == before ? set : nullptr;
}

std::shared_ptr<const SignatureSet> SignatureSet::compile_rest(std::vector<Signature> signatures, std::span<const std::string_view> extra_literals,
                                                               std::vector<parsers::Error>& faults) {
  std::shared_ptr<SignatureSet> set(new SignatureSet);
  set->signatures_ = std::move(signatures);
  set->compiled_ = std::make_unique<CompiledRules>(set->signatures_, extra_literals, faults);
  return set;
}

std::string SignatureSet::hash() const {
  Hash hash;
  for (const Signature& rule : signatures_) {
    hash.add(rule.id);
    hash.add(rule.kind);
    hash.add(role_name(rule.role));
    hash.add(std::to_string(rule.version));
    hash.add(within_name(rule.within));
    hash.add(rule.parser);
    for (const auto* list : {&rule.match, &rule.unless, &rule.literals, &rule.fixes, &rule.ends}) {
      for (const std::string& text : *list) hash.add(text);
      hash.add("");
    }
    for (const Capture& capture : rule.captures) {
      hash.add(capture.name);
      hash.add(std::to_string(static_cast<int>(capture.type)));
    }
    hash.add("");
  }
  return hash.hex();
}

std::string_view SignatureSet::engine() const { return compiled_->loud().scanner->engine(); }

std::vector<std::string> SignatureSet::literals() const {
  std::set<std::string> out;
  for (const LiteralIndex* index : {&compiled_->loud(), &compiled_->quiet()})
    for (const Literal& literal : index->scanner->literals()) out.insert(literal.text.substr(literal.text.front() == '\n' ? 1 : 0));
  return {out.begin(), out.end()};
}

struct Matcher::Scratch {
  LiteralScanner::Scratch loud, quiet;
  std::vector<LiteralHit> hits, quiet_hits;
  std::vector<std::uint64_t> rule_seen, extra_seen;   // number of the candidate that last had it
  std::uint64_t candidate = 0;
  std::vector<re2::StringPiece> groups;
  struct Matched {
    std::uint32_t rule = 0;
    std::size_t begin = 0;                                            // of the match in the message, where that is long
    std::vector<std::pair<std::size_t, std::string_view>> captures;   // index in Signature::captures
  };
  std::vector<Matched> matched;
};

Matcher::Matcher(std::shared_ptr<const SignatureSet> set) : set_(std::move(set)), scratch_(std::make_unique<Scratch>()) {
  scratch_->rule_seen.assign(set_->signatures().size(), 0);
  scratch_->extra_seen.assign(set_->compiled().extra_count(), 0);
}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;

std::size_t Matcher::scan(std::string_view block, std::vector<Candidate>& out) {
  const CompiledRules& compiled = set_->compiled();
  Scratch& scratch = *scratch_;
  const LiteralIndex& loud = compiled.loud();
  loud.scanner->scan(block, scratch.loud, scratch.hits);
  std::size_t count = 0;
  std::size_t line_end = 0;   // of the last candidate
  const auto add_to = [&](std::vector<std::uint32_t>& list, std::vector<std::uint64_t>& seen, std::span<const std::uint32_t> numbers) {
    for (const std::uint32_t number : numbers)
      if (std::exchange(seen[number], scratch.candidate) != scratch.candidate) list.push_back(number);
  };
  // Advice silences other rules of its line, so it is looked for where there are some.
  const auto add_advice = [&](Candidate& line) {
    if (line.rules.empty()) return;
    add_to(line.rules, scratch.rule_seen, compiled.always_advice());
    const LiteralIndex& quiet = compiled.quiet();
    quiet.scanner->scan(block.substr(line.begin, line.end - line.begin), scratch.quiet, scratch.quiet_hits);
    for (const LiteralHit& hit : scratch.quiet_hits) add_to(line.rules, scratch.rule_seen, quiet.rules_of[hit.literal]);
  };
  for (const LiteralHit& hit : scratch.hits) {
    if (count == 0 || hit.at >= line_end) {
      if (count > 0) add_advice(out[count - 1]);
      if (out.size() == count) out.emplace_back();
      Candidate& fresh = out[count++];
      const std::size_t from = count == 1 ? 0 : line_end;
      const void* before = memrchr(block.data() + from, '\n', hit.at - from);
      const void* after = std::memchr(block.data() + hit.at, '\n', block.size() - hit.at);
      fresh.begin = before ? static_cast<std::size_t>(static_cast<const char*>(before) - block.data()) + 1 : from;
      fresh.end = after ? static_cast<std::size_t>(static_cast<const char*>(after) - block.data()) : block.size();
      fresh.rules.clear();
      fresh.extra.clear();
      line_end = fresh.end;
      ++scratch.candidate;
      add_to(fresh.rules, scratch.rule_seen, compiled.always());
    }
    Candidate& line = out[count - 1];
    add_to(line.rules, scratch.rule_seen, loud.rules_of[hit.literal]);
    add_to(line.extra, scratch.extra_seen, loud.extra_of[hit.literal]);
  }
  if (count > 0) add_advice(out[count - 1]);
  return count;
}

void Matcher::match(const parsers::Record& record, Context context, std::span<const std::uint32_t> rules, std::vector<Finding>& out) {
  const CompiledRules& compiled = set_->compiled();
  const re2::StringPiece message(record.message.data(), record.message.size());
  const bool is_long = record.message.size() > parsers::limits::kEvidenceBytes;
  Scratch& scratch = *scratch_;
  scratch.matched.clear();
  bool advice = false, handled = false;
  for (const std::uint32_t index : rules) {
    const Signature& rule = set_->signatures()[index];
    if (!within_holds(rule.within, context)) continue;
    const CompiledRule& patterns = compiled.rule(index);
    for (const CompiledPattern& pattern : patterns.match) {
      const int wanted = is_long ? std::max(1, pattern.wanted) : pattern.wanted;
      scratch.groups.resize(static_cast<std::size_t>(wanted));
      if (!pattern.regex->Match(message, 0, message.size(), RE2::UNANCHORED, scratch.groups.data(), wanted)) continue;
      const bool silenced = std::any_of(patterns.unless.begin(), patterns.unless.end(), [&](const auto& regex) { return RE2::PartialMatch(message, *regex); });
      if (silenced) break;
      Scratch::Matched& made = scratch.matched.emplace_back();
      made.rule = index;
      if (is_long) made.begin = static_cast<std::size_t>(scratch.groups.front().data() - message.data());
      for (const auto& [capture, group] : pattern.groups) {
        const re2::StringPiece& text = scratch.groups[static_cast<std::size_t>(group)];
        if (text.data()) made.captures.emplace_back(capture, std::string_view(text.data(), text.size()));
      }
      advice = advice || rule.role == Role::advice;
      handled = handled || rule.role == Role::handled;
      break;
    }
  }
  if (scratch.matched.empty()) return;
  std::sort(scratch.matched.begin(), scratch.matched.end(), [](const auto& a, const auto& b) { return a.rule < b.rule; });
  for (const Scratch::Matched& made : scratch.matched) {
    const Signature& rule = set_->signatures()[made.rule];
    if ((advice && rule.role != Role::advice) || (handled && rule.role == Role::root)) continue;
    Finding finding = finding_of(record);
    keep_match(finding, record, made.begin);
    finding.rule = rule.id;
    finding.version = rule.version;
    finding.role = rule.role;
    finding.weight = rule.weight;
    finding.fixes = rule.fixes;
    finding.ends = rule.ends;
    for (const auto& [index, text] : made.captures) {
      const Capture& capture = rule.captures[index];
      std::optional<CaptureValue> value = read_capture(capture.type, text);
      if (!value) continue;
      apply_capture(capture.type, *value, finding);
      finding.captures.emplace_back(capture.name, std::move(*value));
    }
    finding.kind = kind_of(rule, finding);
    finding.summary = fill_sentence(rule.summary, finding.captures);
    finding.help = fill_sentence(rule.help, finding.captures);
    if (!rule.parser.empty()) finding.event = parsers::read_event(rule.parser, record.message);
    out.push_back(std::move(finding));
  }
}

}  // namespace triage::signatures
