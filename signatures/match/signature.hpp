// Signature: one rule of the database, as read from YAML. A value; compiled by SignatureSet (matcher.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/base/place.hpp"

namespace triage::signatures {

// root: can be the cause. cascade: an echo of somebody else's fault. confirmation: repeats a cause. handled: caught or retried.
// advice: text that must never fire (it silences other rules on its line). progress: a completed step. fact: configuration, reports.
enum class Role : std::uint8_t { root, cascade, confirmation, handled, advice, progress, fact };

// Where the text has to stand. exception: the last line of a traceback, "Type: message", what():, or the text after an
// "Exception:"-like logger head. line: anywhere in a line. block: inside or right after a block the parser assembles (traceback,
// table, report). kernel: a kernel, journal or scheduler line. any: no condition.
enum class Within : std::uint8_t { any, line, exception, block, kernel };

enum class CaptureType : std::uint8_t { text, integer, number, bytes, rank, local_rank, node, device, pid, time };

struct Capture {
  std::string name;       // of the group (?P<name>...)
  CaptureType type = CaptureType::text;
};

struct Example {
  std::string text;       // one line, or several joined by '\n'
  std::vector<std::pair<std::string, std::string>> expect;  // capture -> value as text (bytes: decimal)
  parsers::Place place;
};

struct Signature {
  std::string id;         // torch.cuda.oom: dotted, [a-z0-9_.]
  std::string kind;       // gpu.oom: dotted, of design section 6; may hold {capture} once: gpu.xid.{code}
  Role role = Role::root;
  std::uint32_t version = 1;
  std::vector<std::string> match;    // RE2 patterns, any of them
  std::vector<std::string> literals; // written by hand: every match contains one of them; empty: taken from the patterns
  std::vector<std::string> unless;   // RE2 patterns on the same line: any of them silences the rule
  Within within = Within::any;
  std::vector<Capture> captures;
  std::string parser;     // of parsers/events: torch_oom, collective_timeout, xid, ... or empty
  std::vector<std::string> fixes;    // fix ids or families
  std::vector<std::string> ends;     // ids of rules whose earlier findings this line ends: "Connection restored" (role progress)
  std::string summary;    // one sentence for the answer; may hold {capture}
  std::string help;       // what to check or do first, in words
  double weight = 0;      // 0: from the role; else -1..1, shifts confidence
  std::vector<std::string> sources;
  std::string no_literal; // why the rule has no usable literal (lint)
  std::vector<Example> examples, counter_examples;
  std::vector<std::string> unread;   // keys whose value has a fault, or that a misspelt key was meant for: nothing is judged by them
  parsers::Place place;

  bool has_read(std::string_view key) const { return std::find(unread.begin(), unread.end(), key) == unread.end(); }
};

void set_unread(Signature& rule, std::string_view key);   // an empty key changes nothing
std::string rule_name(const Signature& rule);             // "rule 'torch.cuda.oom'", or "the rule" of one without an id

// Values and how they are written in a rule; one table for each, read in both directions.
template <class T>
using Names = std::span<const std::pair<std::string_view, T>>;
Names<Role> role_names();
Names<Within> within_names();
Names<CaptureType> capture_type_names();

std::string_view role_name(Role role);
std::string_view within_name(Within within);
std::string_view capture_type_name(CaptureType type);   // "integer", "bytes", ...

}  // namespace triage::signatures
