#include "signatures/match/rule_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
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

template <class T>
using Names = std::vector<std::pair<std::string_view, T>>;

const Names<Role>& roles() {
  static const Names<Role> names = {{"root", Role::root}, {"cascade", Role::cascade}, {"confirmation", Role::confirmation}, {"handled", Role::handled},
                                    {"advice", Role::advice}, {"progress", Role::progress}, {"fact", Role::fact}};
  return names;
}
const Names<Within>& withins() {
  static const Names<Within> names = {{"any", Within::any}, {"line", Within::line}, {"exception", Within::exception}, {"block", Within::block}, {"kernel", Within::kernel}};
  return names;
}
const Names<CaptureType>& capture_types() {
  static const Names<CaptureType> names = {{"text", CaptureType::text}, {"integer", CaptureType::integer}, {"number", CaptureType::number}, {"bytes", CaptureType::bytes},
                                           {"rank", CaptureType::rank}, {"local_rank", CaptureType::local_rank}, {"node", CaptureType::node},
                                           {"device", CaptureType::device}, {"pid", CaptureType::pid}, {"time", CaptureType::time}};
  return names;
}

constexpr std::array<std::string_view, 22> kKeys = {"id", "kind", "role", "version", "match", "literals", "unless", "within", "captures", "parser", "fixes", "ends", "summary",
                                                    "help", "weight", "sources", "no_literal", "examples", "counter_examples", "disable", "line", "expect"};
constexpr std::size_t kRuleKeys = 19;  // of kKeys; then "disable" (user files) and the keys of an example

// A rule as read, and what a user file may say besides.
struct RuleEntry {
  Signature rule;
  bool disable = false;
  bool good = true;
};

class EntryReader {
 public:
  EntryReader(const YamlNode& node, bool user, std::vector<Error>& faults) : node_(node), user_(user), faults_(faults) {}

  RuleEntry read() {
    out_.rule.place = node_.place;
    if (node_.kind != Kind::map) {
      fault(ErrorCode::syntax, "a rule has to be a map of keys", node_.place, "write '- id: ...'");
      return std::move(out_);
    }
    for (const auto& [key, value] : node_.entries) read_key(key, value);
    if (out_.rule.id.empty() && !node_.find("id")) fault(ErrorCode::syntax, "the rule has no id", node_.place, "add 'id: family.name'");
    if (!out_.disable) {
      for (const std::string_view key : {"kind", "role", "match"})
        if (!node_.find(key)) fault(ErrorCode::syntax, "the rule '" + out_.rule.id + "' has no " + std::string(key), node_.place, "add '" + std::string(key) + ":'");
    } else if (node_.entries.size() > 2) {
      fault(ErrorCode::syntax, "a disabled rule has only its id", node_.place, "keep 'id' and 'disable: true'");
    }
    return std::move(out_);
  }

 private:
  void fault(ErrorCode code, std::string what, const Place& place, std::string help = "") {
    out_.good = false;
    faults_.push_back(Error(code, std::move(what)).at(place).help(std::move(help)));
  }

  void read_key(const std::string& key, const YamlNode& value) {
    Signature& rule = out_.rule;
    if (key == "id") rule.id = text(key, value);
    else if (key == "kind") rule.kind = text(key, value);
    else if (key == "role") rule.role = name(key, value, roles(), Role::root);
    else if (key == "within") rule.within = name(key, value, withins(), Within::any);
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
    else
      fault(ErrorCode::syntax, "unknown key '" + key + "'", value.key_place, parsers::nearest_name(key, std::span(kKeys).first(user_ ? kRuleKeys + 1 : kRuleKeys)));
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
    if (value.kind == Kind::scalar) return {text(key, value)};
    if (value.kind != Kind::list || value.items.empty()) {
      fault(ErrorCode::syntax, "'" + key + "' has to be text or a list of texts", value.place);
      return {};
    }
    std::vector<std::string> out;
    for (const YamlNode& item : value.items) out.push_back(text(key, item));
    return out;
  }

  template <class T>
  T name(const std::string& key, const YamlNode& value, const Names<T>& names, T otherwise) {
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
    for (const auto& [group, type] : value.entries) out_.rule.captures.push_back({group, name("captures." + group, type, capture_types(), CaptureType::text)});
  }

  std::vector<Example> examples(const std::string& key, const YamlNode& value, bool with_expect) {
    std::vector<Example> out;
    if (value.kind == Kind::scalar) {
      out.push_back({text(key, value), {}, value.place});
    } else if (value.kind == Kind::list) {
      for (const YamlNode& item : value.items) out.push_back(example(key, item, with_expect));
    } else {
      fault(ErrorCode::syntax, "'" + key + "' has to be a list", value.place);
    }
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
  RuleEntry out_;
};

// All entries of all files; ids are unique over them.
std::vector<RuleEntry> read_entries(std::span<const RuleFile> files, bool user, std::vector<Error>& faults) {
  std::vector<RuleEntry> out;
  std::map<std::string, Place, std::less<>> seen;
  for (const RuleFile& file : files) {
    parsers::Result<YamlNode> tree = parsers::read_yaml(file.text, file.name);
    if (!tree) {
      faults.push_back(std::move(tree).error());
      continue;
    }
    if (tree->kind == Kind::null) continue;
    if (tree->kind != Kind::list) {
      faults.push_back(Error(ErrorCode::syntax, "a rule file has to be a list of rules").at(tree->place).help("start each rule with '- id: ...'"));
      continue;
    }
    for (const YamlNode& node : tree->items) {
      if (out.size() >= parsers::limits::kRules) {
        faults.push_back(Error(ErrorCode::limit, "more than " + std::to_string(parsers::limits::kRules) + " rules").at(node.place));
        return out;
      }
      RuleEntry entry = EntryReader(node, user, faults).read();
      if (!entry.rule.id.empty()) {
        const auto [before, fresh] = seen.emplace(entry.rule.id, entry.rule.place);
        if (!fresh) {
          faults.push_back(Error(ErrorCode::conflict, "the id '" + entry.rule.id + "' stands twice")
                               .at(entry.rule.place)
                               .help("the first one is at " + before->second.file + ":" + std::to_string(before->second.line.value_or(0))));
          continue;
        }
      }
      if (entry.good) out.push_back(std::move(entry));
    }
  }
  return out;
}

}  // namespace

ReadRules read_rules(std::span<const RuleFile> files) {
  ReadRules out;
  for (RuleEntry& entry : read_entries(files, false, out.faults)) out.rules.push_back(std::move(entry.rule));
  return out;
}

std::vector<RuleFile> embedded_rule_files() {
  std::vector<RuleFile> out;
  for (const parsers::EmbeddedFile& file : embedded_rules()) out.push_back({std::string(file.path), file.text});
  return out;
}

ReadRules override_rules(std::vector<Signature> shipped, std::span<const RuleFile> user) {
  ReadRules out;
  out.rules = std::move(shipped);
  for (RuleEntry& entry : read_entries(user, true, out.faults)) {
    const auto at = std::find_if(out.rules.begin(), out.rules.end(), [&](const Signature& rule) { return rule.id == entry.rule.id; });
    if (entry.disable && at == out.rules.end())
      out.faults.push_back(Error(ErrorCode::not_found, "there is no rule '" + entry.rule.id + "' to disable").at(entry.rule.place));
    else if (entry.disable)
      out.rules.erase(at);
    else if (at != out.rules.end())
      *at = std::move(entry.rule);
    else
      out.rules.push_back(std::move(entry.rule));
  }
  return out;
}

}  // namespace triage::signatures
