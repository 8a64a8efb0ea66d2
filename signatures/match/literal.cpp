#include "signatures/match/literal.hpp"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <utility>

#include "signatures/match/background.hpp"

namespace triage::signatures {
namespace {

using Set = std::vector<Literal>;

constexpr std::size_t kSetStrings = 24;     // a larger set of alternatives is not followed
constexpr std::size_t kLiteralBytes = 96;   // of one literal; the rest adds nothing
constexpr std::size_t kOpenGroups = 200;    // RE2 itself allows 1000

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool letter(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Bytes that a logger may print in another way (JSON escapes, colours, line ends) end a literal.
bool cuts(unsigned char c) { return c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'; }

// What is known of a part of a pattern: all texts it can match (exact), or sets that each match holds one of.
struct Part {
  bool exact = false;
  bool repeated = false;          // one or more times: starts and ends with one of `texts`
  Set texts;
  std::vector<Set> required;
};

Part any_text() { return {}; }
Part nothing() { return {true, false, {{"", false}}, {}}; }
Part one_of(Set texts) { return {true, false, std::move(texts), {}}; }

bool all_filled(const Set& set) {
  return !set.empty() && std::none_of(set.begin(), set.end(), [](const Literal& l) { return l.text.empty(); });
}

// Higher is better: the shortest and most common literal decides.
double quality(const Set& set) {
  double worst = 1e9;
  for (const Literal& literal : set) {
    const double length = std::min<double>(static_cast<double>(literal.text.size()), 20.0);
    worst = std::min(worst, length - 4.0 * std::log2(1.0 + static_cast<double>(background_count(literal.text))));
  }
  return worst - 0.25 * static_cast<double>(set.size() - 1);
}

const Set* best_of(const std::vector<Set>& sets, std::size_t least) {
  const Set* best = nullptr;
  double best_quality = 0;
  for (const Set& set : sets) {
    const bool usable = std::all_of(set.begin(), set.end(), [&](const Literal& l) { return l.text.size() >= least; });
    if (!usable) continue;
    const double value = quality(set);
    if (!best || value > best_quality) {
      best = &set;
      best_quality = value;
    }
  }
  return best;
}

// A concatenation while it is read.
class Sequence {
 public:
  // The last part, so that a repetition sign can change it.
  std::optional<Part> last;

  void push(Part part) {
    commit();
    last = std::move(part);
  }

  Part finish() {
    commit();
    if (exact_) return one_of(std::move(run_));
    flush();
    return {false, false, {}, std::move(required_)};
  }

 private:
  void commit() {
    if (!last) return;
    Part part = std::move(*last);
    last.reset();
    if (part.repeated) {
      append(part.texts);
      flush();
      append(part.texts);
    } else if (part.exact) {
      append(part.texts);
    } else {
      flush();
      for (Set& set : part.required) required_.push_back(std::move(set));
    }
  }

  void append(const Set& texts) {
    if (run_.size() * texts.size() > kSetStrings) flush();
    Set grown;
    for (const Literal& head : run_)
      for (const Literal& tail : texts) {
        if (head.text.size() + tail.text.size() > kLiteralBytes) {
          flush();
          run_ = texts;
          return;
        }
        grown.push_back({head.text + tail.text, head.caseless || tail.caseless});
      }
    run_ = std::move(grown);
  }

  void flush() {
    exact_ = false;
    if (all_filled(run_)) required_.push_back(run_);
    run_.assign(1, Literal{});
  }

  bool exact_ = true;
  Set run_ = {Literal{}};
  std::vector<Set> required_;
};

// Alternatives: all texts when every branch is exact, else the best set of each branch together.
Part alternatives(std::vector<Part> branches) {
  if (branches.size() == 1) return std::move(branches.front());
  bool exact = true;
  Set texts;
  for (const Part& branch : branches) {
    exact = exact && branch.exact;
    texts.insert(texts.end(), branch.texts.begin(), branch.texts.end());
  }
  if (exact && texts.size() <= kSetStrings) return one_of(std::move(texts));
  Set joined;
  for (Part& branch : branches) {
    if (branch.exact) branch.required.assign(all_filled(branch.texts) ? 1 : 0, branch.texts);
    const Set* best = best_of(branch.required, 1);
    if (!best || joined.size() + best->size() > 4 * kSetStrings) return any_text();
    joined.insert(joined.end(), best->begin(), best->end());
  }
  return {false, false, {}, {std::move(joined)}};
}

// Reads a pattern that RE2 has accepted. Groups are kept on a stack of our own.
class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : in_(pattern) {}

  std::vector<Set> read() {
    groups_.emplace_back();
    while (at_ < in_.size()) {
      if (!step()) return {};
    }
    if (groups_.size() != 1) return {};
    Part whole = close();
    if (whole.exact) {
      if (!all_filled(whole.texts)) return {};
      return {std::move(whole.texts)};
    }
    return std::move(whole.required);
  }

 private:
  struct Group {
    std::vector<Part> branches;
    Sequence current;
    bool outer_caseless = false;
  };

  bool more() const { return at_ < in_.size(); }
  bool starts(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void push(Part part) { groups_.back().current.push(std::move(part)); }

  Part close() {
    Group group = std::move(groups_.back());
    groups_.pop_back();
    caseless_ = group.outer_caseless;
    group.branches.push_back(group.current.finish());
    return alternatives(std::move(group.branches));
  }

  Part byte(unsigned char c) const {
    if (cuts(c)) return any_text();
    return one_of({{std::string(1, static_cast<char>(c)), caseless_ && letter(c)}});
  }

  bool step() {
    const char c = in_[at_++];
    switch (c) {
      case '(': return open();
      case ')':
        if (groups_.size() < 2) return false;
        {
          Part part = close();
          push(std::move(part));
        }
        return true;
      case '|':
        groups_.back().branches.push_back(groups_.back().current.finish());
        groups_.back().current = Sequence();
        return true;
      case '*': repeat(0, false); return true;
      case '+': repeat(1, false); return true;
      case '?': repeat(0, true); return true;
      case '{': counted(); return true;
      case '.': push(any_text()); return true;
      case '^':
      case '$': push(nothing()); return true;
      case '[': return char_class();
      case '\\': return escape();
      default: push(byte(static_cast<unsigned char>(c))); return true;
    }
  }

  bool open() {
    if (groups_.size() > kOpenGroups) return false;
    const bool outer = caseless_;
    if (starts("?P<") || starts("?<")) {
      const std::size_t end = in_.find('>', at_);
      if (end == std::string_view::npos) return false;
      at_ = end + 1;
    } else if (starts("?")) {
      ++at_;
      bool value = true;
      for (; more() && in_[at_] != ':' && in_[at_] != ')'; ++at_) {
        if (in_[at_] == '-') value = false;
        if (in_[at_] == 'i') caseless_ = value;
      }
      if (!more()) return false;
      if (in_[at_++] == ')') return true;  // (?i): until the end of the group it stands in
    }
    groups_.emplace_back();
    groups_.back().outer_caseless = outer;
    return true;
  }

  // at least `least` times; once: at most once.
  void repeat(int least, bool once) {
    if (more() && (in_[at_] == '?')) ++at_;  // lazy
    std::optional<Part>& last = groups_.back().current.last;
    if (!last) return;
    if (least == 0) {
      if (once && last->exact && last->texts.size() < kSetStrings)
        last->texts.push_back({});
      else
        last = any_text();
    } else if (last->exact) {
      last->exact = false;
      last->repeated = true;
    }
  }

  void counted() {
    const std::size_t end = in_.find('}', at_);
    const std::string_view inside = end == std::string_view::npos ? std::string_view() : in_.substr(at_, end - at_);
    const bool counts = !inside.empty() && inside.find_first_not_of("0123456789,") == std::string_view::npos && inside[0] != ',';
    if (!counts) return push(byte('{'));
    at_ = end + 1;
    if (inside == "1") {
      if (more() && in_[at_] == '?') ++at_;
      return;
    }
    repeat(inside[0] == '0' ? 0 : 1, inside == "0,1");
  }

  bool escape() {
    if (!more()) return false;
    const char c = in_[at_++];
    if (c == 'Q') {
      std::size_t end = in_.find("\\E", at_);
      const std::size_t stop = end == std::string_view::npos ? in_.size() : end;
      for (; at_ < stop; ++at_) push(byte(static_cast<unsigned char>(in_[at_])));
      if (end != std::string_view::npos) at_ = end + 2;
      return true;
    }
    if (c == 'b' || c == 'B' || c == 'A' || c == 'z') {
      push(nothing());
      return true;
    }
    const std::optional<unsigned char> one = escaped_byte(c);
    push(one ? byte(*one) : any_text());
    return true;
  }

  // The byte that an escape stands for; nothing for classes. `c` follows the backslash and is already read.
  std::optional<unsigned char> escaped_byte(char c) {
    const auto u = static_cast<unsigned char>(c);
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'f': return '\f';
      case 'v': return '\v';
      case 'a': return '\a';
      case 'x': return hex();
      case 'p':
      case 'P':
        if (more() && in_[at_] == '{') at_ = std::min(in_.find('}', at_), in_.size() - 1);
        ++at_;
        return std::nullopt;
      default: break;
    }
    if (c >= '0' && c <= '7') {
      unsigned value = static_cast<unsigned>(c - '0');
      for (int i = 0; i < 2 && more() && in_[at_] >= '0' && in_[at_] <= '7'; ++i) value = value * 8 + static_cast<unsigned>(in_[at_++] - '0');
      return static_cast<unsigned char>(value);
    }
    if (letter(u)) return std::nullopt;
    return u;
  }

  std::optional<unsigned char> hex() {
    std::string_view digits = in_.substr(at_, 2);
    std::size_t next = at_ + 2;
    if (starts("{")) {
      const std::size_t end = in_.find('}', at_);
      if (end == std::string_view::npos) return std::nullopt;
      digits = in_.substr(at_ + 1, end - at_ - 1);
      next = end + 1;
    }
    unsigned value = 0;
    for (const char d : digits) {
      const char l = lower(d);
      if (!((l >= '0' && l <= '9') || (l >= 'a' && l <= 'f')) || value > 0xff) return std::nullopt;
      value = value * 16 + static_cast<unsigned>(l <= '9' ? l - '0' : l - 'a' + 10);
    }
    at_ = std::min(next, in_.size());
    if (value > 0xff) return std::nullopt;
    return static_cast<unsigned char>(value);
  }

  // A class of a few characters is followed; others match any text.
  bool char_class() {
    std::bitset<256> members;
    bool wide = false;  // holds a class by name: not followed
    if (starts("^")) {
      wide = true;
      ++at_;
    }
    bool first = true;
    int before = -1;
    bool range = false;
    while (true) {
      if (!more()) return false;
      char c = in_[at_++];
      if (c == ']' && !first) break;
      first = false;
      if (c == '[' && starts(":")) {
        const std::size_t end = in_.find(":]", at_);
        if (end == std::string_view::npos) return false;
        at_ = end + 2;
        wide = true;
        continue;
      }
      if (c == '-' && before >= 0 && more() && in_[at_] != ']') {
        range = true;
        continue;
      }
      std::optional<unsigned char> one = static_cast<unsigned char>(c);
      if (c == '\\') {
        if (!more()) return false;
        c = in_[at_++];
        one = escaped_byte(c);
      }
      if (!one) {
        wide = true;
        before = -1;
        continue;
      }
      if (range)
        for (int k = before; k <= *one; ++k) members.set(static_cast<std::size_t>(k));
      members.set(*one);
      before = range ? -1 : *one;
      range = false;
    }
    push(wide ? any_text() : class_part(members));
    return true;
  }

  Part class_part(const std::bitset<256>& members) const {
    Set texts;
    for (unsigned c = 0; c < 256; ++c) {
      if (!members.test(c)) continue;
      if (cuts(static_cast<unsigned char>(c)) || texts.size() > 4) return any_text();
      const char l = lower(static_cast<char>(c));
      const bool pair = letter(static_cast<unsigned char>(c)) && (caseless_ || (members.test(c ^ 0x20u)));
      const Literal literal{std::string(1, pair ? l : static_cast<char>(c)), pair};
      if (std::find(texts.begin(), texts.end(), literal) == texts.end()) texts.push_back(literal);
    }
    return texts.empty() ? any_text() : one_of(std::move(texts));
  }

  std::string_view in_;
  std::size_t at_ = 0;
  bool caseless_ = false;
  std::vector<Group> groups_;
};

// Drops a literal that holds another one of the set: the shorter one finds both. Texts of caseless literals become lower case.
void reduce(Set& set) {
  for (Literal& literal : set) {
    literal.caseless = literal.caseless && std::any_of(literal.text.begin(), literal.text.end(), [](char c) { return letter(static_cast<unsigned char>(c)); });
    if (literal.caseless) std::transform(literal.text.begin(), literal.text.end(), literal.text.begin(), lower);
  }
  std::sort(set.begin(), set.end(), [](const Literal& a, const Literal& b) {
    return a.text.size() != b.text.size() ? a.text.size() < b.text.size() : a < b;
  });
  Set kept;
  for (Literal& literal : set) {
    const bool covered = std::any_of(kept.begin(), kept.end(), [&](const Literal& shorter) {
      return (shorter.caseless || !literal.caseless) && stands_in(shorter, literal.text);
    });
    if (!covered) kept.push_back(std::move(literal));
  }
  set = std::move(kept);
}

}  // namespace

bool stands_in(const Literal& literal, std::string_view text) {
  if (!literal.caseless) return text.find(literal.text) != std::string_view::npos;
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  return std::search(text.begin(), text.end(), literal.text.begin(), literal.text.end(), same) != text.end();
}

std::vector<std::vector<Literal>> required_literals(std::string_view pattern) {
  std::vector<Set> sets = PatternReader(pattern).read();
  for (Set& set : sets) reduce(set);
  return sets;
}

std::optional<std::vector<Literal>> best_literals(std::string_view pattern, std::size_t least) {
  const std::vector<Set> sets = required_literals(pattern);
  const Set* best = best_of(sets, least);
  if (!best) return std::nullopt;
  return *best;
}

std::optional<std::vector<Literal>> rule_literals(const Signature& rule) {
  Set all;
  for (const std::string& text : rule.literals) all.push_back({text, false});
  if (all.empty()) {
    for (const std::string& pattern : rule.match) {
      const std::optional<Set> set = best_literals(pattern, rule.no_literal.empty() ? kUsableLiteral : 2);
      if (!set) return std::nullopt;
      all.insert(all.end(), set->begin(), set->end());
    }
  }
  if (all.empty()) return std::nullopt;
  reduce(all);
  return all;
}

}  // namespace triage::signatures
