#include "signatures/match/rule_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/nearest.hpp"
#include "parsers/base/yaml_text.hpp"

namespace triage::signatures {
namespace {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::YamlNode;
using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 22> kKeys = {"id", "kind", "role", "version", "match", "literals", "unless", "within", "captures", "parser", "fixes", "ends", "summary",
                                                    "help", "weight", "sources", "no_literal", "examples", "counter_examples", "disable", "line", "expect"};
constexpr std::size_t kRuleKeys = 19;  // of kKeys; then "disable" (user files) and the keys of an example

// A rule as read, and what a user file may say besides.
struct RuleEntry {
  Signature rule;
  bool disable = false;
  bool usable = true;   // a rule, or a whole order to disable one
};

class EntryReader {
 public:
  EntryReader(const YamlNode& node, bool user, std::vector<Error>& faults) : node_(node), user_(user), faults_(faults) {}

  RuleEntry read() {
    out_.rule.place = node_.place;
    if (node_.kind != Kind::map) {
      fault(ErrorCode::syntax, "a rule has to be a map of keys", node_.place, "write '- id: ...'");
      out_.usable = false;
      return std::move(out_);
    }
    for (const auto& [key, value] : node_.entries) read_key(key, value);
    if (!out_.rule.has_read("literals")) out_.rule.literals.clear();   // a part of them would hide lines that the rule is for
    const bool disables = user_ && node_.find("disable");
    missing("id", "the rule has no id", "add 'id: family.name'");
    if (!disables) {
      for (const std::string key : {"kind", "role", "match"}) missing(key, rule_name(out_.rule) + " has no " + key, "add '" + key + ":'");
    } else {
      key_ = "disable";
      if (node_.entries.size() > 2) fault(ErrorCode::syntax, "a disabled rule has only its id", node_.place, "keep 'id' and 'disable: true'");
      out_.usable = out_.disable && out_.rule.unread.empty();
    }
    return std::move(out_);
  }

 private:
  void fault(ErrorCode code, std::string what, const Place& place, std::string help = "") {
    set_unread(out_.rule, key_);
    faults_.push_back(Error(code, std::move(what)).at(place).help(std::move(help)));
  }

  // A key that is misspelt, and told as that, is not missing.
  void missing(const std::string& key, std::string what, std::string help) {
    if (node_.find(key) || !out_.rule.has_read(key)) return;
    key_ = key;
    fault(ErrorCode::syntax, std::move(what), node_.place, std::move(help));
  }

  void read_key(const std::string& key, const YamlNode& value) {
    Signature& rule = out_.rule;
    key_ = key;
    if (key == "id") rule.id = text(key, value);
    else if (key == "kind") rule.kind = text(key, value);
    else if (key == "role") rule.role = name(key, value, role_names(), Role::root);
    else if (key == "within") rule.within = name(key, value, within_names(), Within::any);
    else if (key == "version") version(value);
    else if (key == "weight") weight(value);
    else if (key == "match") rule.match = texts(key, value);
    else if (key == "literals") rule.literals = texts(key, value);
    else if (key == "unless") rule.unless = texts(key, value);
    else if (key == "fixes") rule.fixes = texts(key, value);
    else if (key == "ends") rule.ends = texts(key, value);
    else if (key == "sources") rule.sources = texts(key, value);
    else if (key == "captures") captures(value);
    else if (key == "parser") rule.parser = text(key, value);
    else if (key == "summary") rule.summary = text(key, value);
    else if (key == "help") rule.help = text(key, value);
    else if (key == "no_literal") rule.no_literal = text(key, value);
    else if (key == "examples") rule.examples = examples(key, value, true);
    else if (key == "counter_examples") rule.counter_examples = examples(key, value, false);
    else if (key == "disable" && user_) out_.disable = flag(value);
    else {
      const auto known = std::span(kKeys).first(user_ ? kRuleKeys + 1 : kRuleKeys);
      key_ = parsers::meant_name(key, known);
      fault(ErrorCode::syntax, "unknown key '" + key + "'", value.key_place, parsers::nearest_name(key, known));
    }
  }

  std::string text(const std::string& key, const YamlNode& value) {
    if (value.kind != Kind::scalar) {
      fault(ErrorCode::syntax, "'" + key + "' has to be text, it is " + std::string(kind_name(value.kind)), value.place);
      return {};
    }
    if (value.scalar.empty()) fault(ErrorCode::syntax, "'" + key + "' is empty", value.place);
    return value.scalar;
  }

  std::vector<std::string> texts(const std::string& key, const YamlNode& value) {
    std::vector<std::string> out;
    const auto add = [&](const YamlNode& one) {
      if (std::string written = text(key, one); !written.empty()) out.push_back(std::move(written));
    };
    if (value.kind == Kind::scalar) {
      add(value);
      return out;
    }
    if (value.kind != Kind::list || value.items.empty()) {
      fault(ErrorCode::syntax, "'" + key + "' has to be text or a list of texts", value.place);
      return out;
    }
    for (const YamlNode& item : value.items) add(item);
    return out;
  }

  template <class T>
  T name(const std::string& key, const YamlNode& value, Names<T> names, T otherwise) {
    const std::string written = text(key, value);
    std::vector<std::string_view> known;
    for (const auto& [known_name, meaning] : names) {
      if (known_name == written) return meaning;
      known.push_back(known_name);
    }
    if (!written.empty()) fault(ErrorCode::syntax, "'" + key + "' cannot be '" + written + "'", value.place, parsers::nearest_name(written, known));
    return otherwise;
  }

  void version(const YamlNode& value) {
    const std::string& written = value.scalar;
    const auto [end, code] = std::from_chars(written.data(), written.data() + written.size(), out_.rule.version);
    if (value.kind != Kind::scalar || value.quoted || code != std::errc() || end != written.data() + written.size() || out_.rule.version == 0)
      fault(ErrorCode::syntax, "'version' has to be a whole number from 1", value.place);
  }

  void weight(const YamlNode& value) {
    const std::string& written = value.scalar;
    double& weight = out_.rule.weight;
    const auto [end, code] = std::from_chars(written.data(), written.data() + written.size(), weight);
    if (value.kind != Kind::scalar || value.quoted || code != std::errc() || end != written.data() + written.size() || !(weight >= -1 && weight <= 1))
      fault(ErrorCode::syntax, "'weight' has to be a number from -1 to 1", value.place);
  }

  bool flag(const YamlNode& value) {
    if (value.kind != Kind::scalar || value.quoted || (value.scalar != "true" && value.scalar != "false"))
      fault(ErrorCode::syntax, "'disable' has to be true or false", value.place);
    return value.scalar == "true";
  }

  void captures(const YamlNode& value) {
    if (value.kind != Kind::map) return fault(ErrorCode::syntax, "'captures' has to be a map from a group's name to its type", value.place);
    for (const auto& [group, type] : value.entries) out_.rule.captures.push_back({group, name("captures." + group, type, capture_type_names(), CaptureType::text)});
  }

  // Those without a fault.
  std::vector<Example> examples(const std::string& key, const YamlNode& value, bool with_expect) {
    std::vector<Example> out;
    const auto add = [&](const YamlNode& one) {
      const std::size_t before = faults_.size();
      Example made = example(key, one, with_expect);
      if (faults_.size() == before) out.push_back(std::move(made));
    };
    if (value.kind == Kind::list)
      for (const YamlNode& item : value.items) add(item);
    else if (value.kind == Kind::scalar)
      add(value);
    else
      fault(ErrorCode::syntax, "'" + key + "' has to be a list", value.place);
    return out;
  }

  Example example(const std::string& key, const YamlNode& value, bool with_expect) {
    Example out;
    out.place = value.place;
    if (value.kind != Kind::map) {
      out.text = text(key, value);
      return out;
    }
    for (const auto& [name_of, part] : value.entries) {
      if (name_of == "line") {
        out.text = text("line", part);
        out.place = part.place;
      } else if (name_of == "expect" && with_expect && part.kind == Kind::map) {
        for (const auto& [capture, wanted] : part.entries) out.expect.emplace_back(capture, wanted.kind == Kind::scalar ? wanted.scalar : text(capture, wanted));
      } else if (name_of == "expect") {
        fault(ErrorCode::syntax, with_expect ? "'expect' has to be a map from a capture to its value" : "a counter-example expects nothing", part.place);
      } else {
        fault(ErrorCode::syntax, "unknown key '" + name_of + "' of an example", part.key_place, parsers::nearest_name(name_of, std::array<std::string_view, 2>{"line", "expect"}));
      }
    }
    if (!value.find("line")) fault(ErrorCode::syntax, "the example has no line", value.place, "a text with ': ' in it has to stand in quotes");
    return out;
  }

  const YamlNode& node_;
  bool user_;
  std::vector<Error>& faults_;
  std::string key_;   // that is being read
  RuleEntry out_;
};

// All entries of all files. `complete`: none of them was left out for a fault of its file.
struct Entries {
  std::vector<RuleEntry> list;
  bool complete = true;
};

Entries read_entries(std::span<const RuleFile> files, bool user, std::vector<Error>& faults) {
  Entries out;
  std::map<std::string, Place, std::less<>> seen;
  for (const RuleFile& file : files) {
    parsers::Result<YamlNode> tree = parsers::read_yaml(file.text, file.name);
    if (!tree) {
      faults.push_back(std::move(tree).error());
      out.complete = false;
      continue;
    }
    if (tree->kind == Kind::null) continue;
    if (tree->kind != Kind::list) {
      faults.push_back(Error(ErrorCode::syntax, "a rule file has to be a list of rules").at(tree->place).help("start each rule with '- id: ...'"));
      out.complete = false;
      continue;
    }
    for (const YamlNode& node : tree->items) {
      if (out.list.size() >= parsers::limits::kRules) {
        faults.push_back(Error(ErrorCode::limit, "more than " + std::to_string(parsers::limits::kRules) + " rules").at(node.place));
        out.complete = false;
        return out;
      }
      RuleEntry entry = EntryReader(node, user, faults).read();
      if (!entry.usable) {
        out.complete = false;
        continue;
      }
      if (entry.rule.has_read("id")) {
        const auto [before, fresh] = seen.emplace(entry.rule.id, entry.rule.place);
        if (!fresh) {
          set_unread(entry.rule, "id");
          faults.push_back(Error(ErrorCode::conflict, "the id '" + entry.rule.id + "' stands twice")
                               .at(entry.rule.place)
                               .help("the first one is at " + before->second.file + ":" + std::to_string(before->second.line.value_or(0))));
        }
      }
      out.list.push_back(std::move(entry));
    }
  }
  return out;
}

}  // namespace

ReadRules read_rules(std::span<const RuleFile> files) {
  ReadRules out;
  Entries entries = read_entries(files, false, out.faults);
  for (RuleEntry& entry : entries.list) out.rules.push_back(std::move(entry.rule));
  out.complete = entries.complete;
  return out;
}

std::vector<RuleFile> embedded_rule_files() {
  std::vector<RuleFile> out;
  for (const parsers::EmbeddedFile& file : embedded_rules()) out.push_back({std::string(file.path), file.text});
  return out;
}

bool is_shipped(const Signature& rule) {
  static const std::set<std::string_view> files = [] {
    std::set<std::string_view> out;
    for (const parsers::EmbeddedFile& file : embedded_rules()) out.insert(file.path);
    return out;
  }();
  return files.contains(rule.place.file);
}

ReadRules override_rules(std::vector<Signature> shipped, std::span<const RuleFile> user) {
  ReadRules out;
  Entries entries = read_entries(user, true, out.faults);
  out.complete = entries.complete;
  out.rules = std::move(shipped);
  std::map<std::string, std::size_t, std::less<>> places;
  for (std::size_t i = 0; i < out.rules.size(); ++i) places.emplace(out.rules[i].id, i);
  std::vector<std::size_t> disabled;
  for (RuleEntry& entry : entries.list) {
    const auto at = entry.rule.has_read("id") ? places.find(entry.rule.id) : places.end();
    if (entry.disable && at != places.end())
      disabled.push_back(at->second);
    else if (entry.disable && entry.rule.unread.empty() && entries.complete)
      out.faults.push_back(Error(ErrorCode::not_found, "there is no rule '" + entry.rule.id + "' to disable").at(entry.rule.place));
    else if (at != places.end())
      out.rules[at->second] = std::move(entry.rule);
    else if (!entry.disable)
      out.rules.push_back(std::move(entry.rule));
  }
  std::sort(disabled.begin(), disabled.end(), std::greater<>());
  for (const std::size_t at : disabled) out.rules.erase(out.rules.begin() + static_cast<std::ptrdiff_t>(at));
  return out;
}

}  // namespace triage::signatures
