#include "signatures/plan/catalogue.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/base/yaml_text.hpp"

namespace triage::signatures {

using parsers::Error;
using parsers::ErrorCode;
using parsers::YamlNode;

namespace {

constexpr std::array<std::string_view, 27> kFamilies = {
    "recompute", "micro_batch", "sequence", "loss", "attention", "optimizer", "sharding",
    "parallelism", "pipeline", "precision", "offload", "moe", "vision", "allocator",
    "cudagraph", "comm", "leak", "limit", "device", "process", "host",
    "data", "checkpoint", "collective", "hardware", "scheduler", "config"};
constexpr std::array<std::string_view, 9> kTerms = {
    "weights", "gradients", "optimizer", "activations", "logits",
    "buffers", "fragmentation", "host", "outside"};
constexpr std::array<std::pair<std::string_view, Phase>, 13> kPhases = {{
    {"unknown", Phase::unknown}, {"init", Phase::init}, {"load", Phase::load},
    {"optimizer_init", Phase::optimizer_init}, {"forward", Phase::forward}, {"loss", Phase::loss},
    {"backward", Phase::backward}, {"optimizer_step", Phase::optimizer_step},
    {"comm", Phase::comm}, {"checkpoint", Phase::checkpoint}, {"eval", Phase::eval},
    {"capture", Phase::capture}, {"compile", Phase::compile}}};
constexpr std::array<std::string_view, 21> kFrameworks = {
    "any", "pytorch", "megatron-lm", "megatron-bridge", "nemo", "deepspeed", "fsdp",
    "torchtitan", "huggingface", "accelerate", "trl", "lightning", "verl", "nemo-rl",
    "jax", "maxtext", "tensorflow", "cupy", "vllm", "unsloth", "triton"};
constexpr std::array<std::string_view, 5> kEnvironments = {"slurm", "kubernetes", "docker", "ray",
                                                           "environment"};
constexpr std::array<std::string_view, 16> kKeys = {
    "id", "title", "apply", "reduces", "phases", "kinds", "requires", "excludes",
    "change", "cost", "disruption", "assumes", "sources", "why", "order", "boosts"};

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<Phase> phase_by_name(std::string_view name) {
  for (const auto& [text, phase] : kPhases)
    if (text == name) return phase;
  return std::nullopt;
}

bool is_dotted(std::string_view text) {
  if (text.empty() || text.front() == '.' || text.back() == '.') return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == std::string_view::npos;
}

// Reads one entry; faults are collected, the first one makes the entry unusable.
class EntryReader {
 public:
  EntryReader(const YamlNode& node, std::vector<Error>& faults) : node_(node), faults_(faults) {}

  std::optional<CatalogueFix> read() {
    if (node_.kind != YamlNode::Kind::map) {
      fault(node_, "an entry of the catalogue is not a map");
      return std::nullopt;
    }
    fix_.place = node_.place;
    for (const auto& [key, value] : node_.entries)
      if (!among(kKeys, key)) fault(value, "there is no key '" + key + "' in a fix");
    identity();
    for (const YamlNode* item : items("reduces"))
      if (named(*item, among(kTerms, item->scalar), "a term of the memory model"))
        fix_.reduces.push_back(item->scalar);
    for (const YamlNode* item : items("kinds"))
      if (named(*item, is_dotted(item->scalar), "a kind")) fix_.kinds.push_back(item->scalar);
    for (const YamlNode* item : items("phases")) {
      const auto phase = phase_by_name(item->scalar);
      if (named(*item, phase.has_value(), "a phase")) fix_.phases.push_back(*phase);
    }
    for (const YamlNode* item : items("assumes")) fix_.assumes.push_back(item->scalar);
    for (const YamlNode* item : items("sources")) fix_.sources.push_back(item->scalar);
    if (fix_.sources.empty()) fault(node_, "a fix needs a source");
    if (fix_.kinds.empty() && node_.find("kinds") == nullptr)
      fault(node_, "a fix needs the kinds for which it counts, or [] if only rules name it");
    applies();
    conditions();
    changes();
    weights();
    costs();
    if (const YamlNode* why = node_.find("why"))
      fix_.why = forms(*why);
    else
      fault(node_, "a fix needs a 'why'");
    if (faulty_) return std::nullopt;
    return std::move(fix_);
  }

 private:
  void fault(const YamlNode& node, std::string message) {
    faulty_ = true;
    faults_.push_back(Error(ErrorCode::syntax, std::move(message)).at(node.place));
  }
  void fault(Error error) {
    faulty_ = true;
    faults_.push_back(std::move(error));
  }
  bool named(const YamlNode& node, bool right, std::string_view what) {
    if (!right) fault(node, "'" + node.scalar + "' is not " + std::string(what));
    return right;
  }
  // The scalars of a list, or the one scalar.
  std::vector<const YamlNode*> items(std::string_view key) {
    const YamlNode* node = node_.find(key);
    return node ? scalars(*node, key) : std::vector<const YamlNode*>{};
  }
  std::vector<const YamlNode*> scalars(const YamlNode& node, std::string_view key) {
    std::vector<const YamlNode*> out;
    if (node.kind == YamlNode::Kind::scalar) out.push_back(&node);
    for (const YamlNode& item : node.items) {
      if (item.kind == YamlNode::Kind::scalar)
        out.push_back(&item);
      else
        fault(item, "'" + std::string(key) + "' holds something that is not text");
    }
    if (node.kind == YamlNode::Kind::map)
      fault(node, "'" + std::string(key) + "' is a map and has to be a list");
    return out;
  }
  std::optional<int> whole(const YamlNode& node, int low, int high) {
    const auto number = parsers::read_integer(node.scalar);
    if (node.kind != YamlNode::Kind::scalar || !number || *number < low || *number > high) {
      fault(node, "'" + node.scalar + "' is not a whole number from " + std::to_string(low) +
                      " to " + std::to_string(high));
      return std::nullopt;
    }
    return static_cast<int>(*number);
  }
  TextForms forms(const YamlNode& node) {
    std::vector<TextTemplate> made;
    for (const YamlNode* item : scalars(node, "text")) {
      auto one = TextTemplate::parse(item->scalar, item->place);
      if (one.ok())
        made.push_back(std::move(*one));
      else
        fault(std::move(one).error());
    }
    if (faulty_ && made.empty()) return {};
    auto all = TextForms::make(std::move(made), node.place);
    if (all.ok()) return std::move(*all);
    fault(std::move(all).error());
    return {};
  }

  void identity() {
    const YamlNode* id = node_.find("id");
    if (!id || !is_dotted(id->scalar) || id->scalar.find('.') == std::string::npos) {
      fault(id ? *id : node_, "a fix needs an id of the form family.name");
    } else {
      fix_.id = id->scalar;
      fix_.family = fix_.id.substr(0, fix_.id.find('.'));
      if (!among(kFamilies, fix_.family))
        fault(*id, "there is no family '" + fix_.family + "'");
    }
    const YamlNode* title = node_.find("title");
    if (!title || title->scalar.empty())
      fault(node_, "a fix needs a title");
    else
      fix_.title = title->scalar;
  }
  void applies() {
    const YamlNode* apply = node_.find("apply");
    if (!apply || apply->kind != YamlNode::Kind::map || apply->entries.empty()) {
      fault(apply ? *apply : node_, "a fix needs 'apply', a map from framework to text");
      return;
    }
    for (const auto& [name, value] : apply->entries) {
      if (!is_framework_name(name) && !is_environment_name(name))
        fault(value, "there is no framework or environment '" + name + "'");
      fix_.apply.emplace_back(name, forms(value));
    }
  }
  std::optional<Expression> condition(const YamlNode& node) {
    auto made = Expression::condition(node.scalar, node.place);
    if (made.ok()) return std::move(*made);
    fault(std::move(made).error());
    return std::nullopt;
  }
  void conditions() {
    if (const YamlNode* list = node_.find("requires")) {
      const auto one = [this](const YamlNode& item) {
        const YamlNode* check = item.kind == YamlNode::Kind::map ? item.find("check") : &item;
        const YamlNode* say = item.find("say");
        if (!check || check->kind != YamlNode::Kind::scalar ||
            (item.kind == YamlNode::Kind::map && item.entries.size() != (say ? 2u : 1u))) {
          fault(item, "a precondition is a condition, or a map of 'check' and 'say'");
          return;
        }
        if (auto made = condition(*check))
          fix_.needs.push_back({std::move(*made), say ? say->scalar : std::string()});
      };
      if (list->kind == YamlNode::Kind::list)
        for (const YamlNode& item : list->items) one(item);
      else
        one(*list);
    }
    for (const YamlNode* item : items("excludes"))
      if (auto made = condition(*item)) fix_.excludes.push_back(std::move(*made));
  }
  void changes() {
    const YamlNode* change = node_.find("change");
    if (!change) return;
    if (change->kind != YamlNode::Kind::map) return fault(*change, "'change' has to be a map");
    for (const auto& [name, value] : change->entries) {
      const auto key = parsers::key_by_name(name);
      if (!key) {
        fault(value, "there is no setting '" + name + "'");
        continue;
      }
      auto made = Expression::parse(value.scalar, value.place);
      if (!made.ok()) {
        fault(std::move(made).error());
        continue;
      }
      fix_.change.emplace_back(*key, std::move(*made));
    }
  }
  void weights() {
    if (const YamlNode* order = node_.find("order")) {
      if (order->kind != YamlNode::Kind::map) return fault(*order, "'order' has to be a map");
      for (const auto& [name, value] : order->entries) {
        if (name != "any" && !phase_by_name(name) && !is_dotted(name))
          fault(value, "'" + name + "' is not a phase, a kind or any");
        if (const auto weight = whole(value, 0, 100)) fix_.order.emplace_back(name, *weight);
      }
    }
    if (const YamlNode* boosts = node_.find("boosts")) {
      for (const YamlNode& item : boosts->items) {
        const YamlNode* when = item.find("when");
        const YamlNode* add = item.find("add");
        if (!when || !add || item.entries.size() != 2) {
          fault(item, "a boost is a map of 'when' and 'add'");
          continue;
        }
        auto made = condition(*when);
        const auto number = whole(*add, -100, 100);
        if (made && number) fix_.boosts.push_back({std::move(*made), *number});
      }
      if (boosts->kind != YamlNode::Kind::list) fault(*boosts, "'boosts' has to be a list");
    }
  }
  void costs() {
    if (const YamlNode* disruption = node_.find("disruption"))
      fix_.disruption = whole(*disruption, 0, 3).value_or(0);
    const YamlNode* cost = node_.find("cost");
    if (!cost) return;
    if (cost->kind != YamlNode::Kind::map) return fault(*cost, "'cost' has to be a map");
    for (const auto& [name, value] : cost->entries) {
      if (name == "note") {
        fix_.cost.note = value.scalar;
      } else if (name == "step_time_percent") {
        const auto low = value.items.size() == 2 ? parsers::read_double(value.items[0].scalar)
                                                 : std::nullopt;
        const auto high = value.items.size() == 2 ? parsers::read_double(value.items[1].scalar)
                                                  : std::nullopt;
        if (!low || !high || *low > *high)
          fault(value, "step_time_percent is a list of two numbers, the lower one first");
        fix_.cost.step_time_low_percent = low;
        fix_.cost.step_time_high_percent = high;
      } else {
        fault(value, "there is no key '" + name + "' in a cost");
      }
    }
  }

  const YamlNode& node_;
  std::vector<Error>& faults_;
  CatalogueFix fix_;
  bool faulty_ = false;
};

}  // namespace

bool is_framework_name(std::string_view name) { return among(kFrameworks, name); }
bool is_environment_name(std::string_view name) { return among(kEnvironments, name); }

ReadCatalogue read_catalogue(std::span<const parsers::EmbeddedFile> files) {
  ReadCatalogue out;
  std::set<std::string, std::less<>> ids;
  for (const parsers::EmbeddedFile& file : files) {
    const std::string name(file.path);
    if (file.text.size() > parsers::limits::kRuleFileBytes) {
      out.faults.push_back(Error(ErrorCode::limit, name + " is larger than a catalogue file may be"));
      continue;
    }
    auto tree = parsers::read_yaml(file.text, name);
    if (!tree.ok()) {
      out.faults.push_back(std::move(tree).error());
      continue;
    }
    if (tree->kind == YamlNode::Kind::null) continue;
    if (tree->kind != YamlNode::Kind::list) {
      out.faults.push_back(Error(ErrorCode::syntax, name + " is not a list of fixes").at(tree->place));
      continue;
    }
    for (const YamlNode& node : tree->items) {
      auto fix = EntryReader(node, out.faults).read();
      if (!fix) continue;
      if (!ids.insert(fix->id).second) {
        out.faults.push_back(
            Error(ErrorCode::conflict, "the id " + fix->id + " stands twice").at(node.place));
        continue;
      }
      out.fixes.push_back(std::move(*fix));
    }
  }
  return out;
}

}  // namespace triage::signatures
