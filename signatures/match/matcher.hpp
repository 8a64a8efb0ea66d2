// Blocks of bytes -> candidate lines -> findings. SignatureSet is what a rule set compiles to: const, shared by all threads.
// Matcher is one thread's working memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/records/record.hpp"
#include "signatures/match/match.hpp"
#include "signatures/match/rule_reader.hpp"
#include "signatures/match/signature.hpp"

namespace triage::signatures {

class CompiledRules;   // compiled_rules.hpp

class SignatureSet {
 public:
  // Null when there are faults, or were while the rules were read; all of them are appended: bad pattern, pattern over
  // limits::kRegexMemoryBytes, unknown parser, capture without a group, group without a capture, unknown {capture} in a text, doubled id,
  // a literal that no pass can look for.
  // `extra_literals` (2 bytes and more) make candidates too: what other readers wait for. Their index comes back in Candidate::extra.
  static std::shared_ptr<const SignatureSet> compile(std::vector<Signature> signatures, std::span<const std::string_view> extra_literals,
                                                     std::vector<parsers::Error>& faults);
  // The same, but never null: what has a fault is taken out of its rule and named in Signature::unread. For checks only: such a rule may
  // fire where it was not meant to.
  static std::shared_ptr<const SignatureSet> compile_rest(std::vector<Signature> signatures, std::span<const std::string_view> extra_literals,
                                                          std::vector<parsers::Error>& faults);
  ~SignatureSet();
  SignatureSet(const SignatureSet&) = delete;
  SignatureSet& operator=(const SignatureSet&) = delete;

  const std::vector<Signature>& signatures() const { return signatures_; }
  // Of what decides about matches (ids, versions, patterns, conditions): 16 hex digits, the same on every machine.
  std::string hash() const;
  // How literals are searched, e.g. "grams+vectorscan".
  std::string_view engine() const;
  // All literals that are looked for, each once.
  std::vector<std::string> literals() const;

  const CompiledRules& compiled() const { return *compiled_; }

 private:
  SignatureSet();
  std::vector<Signature> signatures_;
  std::unique_ptr<CompiledRules> compiled_;
};

// A line that holds a literal of a rule (advice rules apart) or an extra literal. Advice rules whose literal stands there come with the
// others: alone they make no candidate, since all they do is to silence others. A rule without any literal is in every candidate.
struct Candidate {
  std::size_t begin = 0, end = 0;      // bytes of the block, without '\n'
  std::vector<std::uint32_t> rules;    // indexes of signatures() whose literal stands in the line, each once
  std::vector<std::uint32_t> extra;    // indexes of the extra literals, each once
};

// What is known of a line beyond its text; the conditions of `within`.
struct Context {
  bool exception = false;  // the message is an exception's last line
  bool block = false;      // stands in or right after a block that a parser assembles
  bool kernel = false;     // kernel, journal or scheduler line
};

// What one record alone says; `block` is true: whether one is open is for the caller to know.
Context context_of(const parsers::Record& record);

// What a record says, whatever the rule: place, text (at most limits::kEvidenceBytes), rank, node, time, level.
Finding finding_of(const parsers::Record& record);

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const SignatureSet> set);
  ~Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  const SignatureSet& set() const { return *set_; }

  // All candidates of the block (whole lines; a cut line at its end counts as a line), in order, in out[0, returned count).
  // `out` is never shrunk: its elements are used again.
  std::size_t scan(std::string_view block, std::vector<Candidate>& out);

  // Runs the rules (indexes of signatures()) on the record and appends what matched, in the order of the rules. An advice rule silences all
  // others of the line; a handled one silences roots.
  void match(const parsers::Record& record, Context context, std::span<const std::uint32_t> rules, std::vector<Finding>& out);

 private:
  struct Scratch;
  std::shared_ptr<const SignatureSet> set_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace triage::signatures
