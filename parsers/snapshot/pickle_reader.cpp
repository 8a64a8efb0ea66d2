#include "parsers/snapshot/pickle_reader.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "parsers/snapshot/pickle_machine.hpp"

namespace triage::parsers {

// Nodes by number. A child always has been made before it is put into a container, and a container that has been put somewhere or fetched
// from the memo takes no more items: so there are no cycles.
struct PickleValue::Tree {
  struct Node {
    Kind kind = Kind::null;
    bool closed = false;        // stands in a container, or was fetched: takes no more items
    std::uint16_t depth = 0;    // of containers below and including this one
    union {
      bool boolean;
      std::int64_t integer = 0;
      double real;
      std::uint64_t index;      // into texts or children
    };
  };
  std::vector<Node> nodes{Node{}};                        // node 0 is null
  std::vector<std::string> texts;
  std::vector<std::vector<std::uint32_t>> children;       // a dict: key, value, key, value
};

namespace {

using Kind = PickleValue::Kind;
using Tree = PickleValue::Tree;

class TreeBuilder {
 public:
  using Value = std::uint32_t;   // node

  explicit TreeBuilder(std::size_t budget) : budget_(budget), tree_(std::make_shared<Tree>()) {}

  std::string failure;
  bool over_limit = false;

  Value none() { return 0; }
  Value boolean(bool value) {
    const Value node = make(Kind::boolean);
    if (node) tree_->nodes[node].boolean = value;
    return node;
  }
  Value integer(std::int64_t value) {
    const Value node = make(Kind::integer);
    if (node) tree_->nodes[node].integer = value;
    return node;
  }
  Value real(double value) {
    const Value node = make(Kind::real);
    if (node) tree_->nodes[node].real = value;
    return node;
  }
  Value text(std::string_view value) {
    if (!spend(value.size() + sizeof(std::string))) return 0;
    const Value node = make(Kind::text);
    if (!node) return 0;
    tree_->nodes[node].index = tree_->texts.size();
    tree_->texts.emplace_back(value);
    return node;
  }
  Value list() { return container(Kind::list); }
  Value dict() { return container(Kind::dict); }
  Value tuple(const Value* first, std::size_t n) {
    Value node = container(Kind::list);
    if (node && n) (void)append(node, first, n);
    return node;
  }
  bool is_list(Value node) const { return tree_->nodes[node].kind == Kind::list; }
  bool is_dict(Value node) const { return tree_->nodes[node].kind == Kind::dict; }

  bool append(Value& target, const Value* first, std::size_t n) {
    if (!is_list(target)) return refuse("items for a value that is no list");
    return fill(target, first, n);
  }
  bool set_items(Value& target, const Value* first, std::size_t n, const Value* /*parent*/) {
    if (!is_dict(target)) return refuse("entries for a value that is no dict");
    for (std::size_t i = 0; i < n; i += 2)
      if (is_list(first[i]) || is_dict(first[i])) tree_->nodes[first[i]].closed = true;
    return fill(target, first, n);
  }
  static bool same_run(Value, Value) { return false; }
  bool put(std::uint64_t index, Value& node) {
    if (index == memo_.size()) {
      if (!spend(sizeof(Value))) return false;
      memo_.push_back(node);
    } else if (index < memo_.size()) {
      memo_[index] = node;
    } else {
      if (!spend(64)) return false;
      far_memo_[index] = node;
    }
    return !over_limit;
  }
  bool get(std::uint64_t index, Value& node) {
    if (index < memo_.size()) {
      node = memo_[index];
    } else {
      const auto found = far_memo_.find(index);
      if (found == far_memo_.end()) return refuse("memo entry " + std::to_string(index) + " was never put");
      node = found->second;
    }
    tree_->nodes[node].closed = true;
    return !over_limit;
  }

  std::shared_ptr<Tree> take() { return std::move(tree_); }

 private:
  bool refuse(std::string why) {
    failure = std::move(why);
    return false;
  }
  bool spend(std::size_t bytes) {
    if (bytes <= budget_) {
      budget_ -= bytes;
      return true;
    }
    over_limit = true;
    failure = "the values need more memory than allowed";
    return false;
  }
  Value make(Kind kind) {
    if (!spend(2 * sizeof(Tree::Node)) || tree_->nodes.size() >= UINT32_MAX) return 0;
    Tree::Node node;
    node.kind = kind;
    tree_->nodes.push_back(node);
    return static_cast<Value>(tree_->nodes.size() - 1);
  }
  Value container(Kind kind) {
    if (!spend(2 * sizeof(std::vector<std::uint32_t>))) return 0;
    const Value node = make(kind);
    if (!node) return 0;
    tree_->nodes[node].index = tree_->children.size();
    tree_->nodes[node].depth = 1;
    tree_->children.emplace_back();
    return node;
  }
  bool fill(Value target, const Value* first, std::size_t n) {
    if (over_limit) return false;
    if (tree_->nodes[target].closed) return refuse("a container that holds itself");
    if (!spend(n * 2 * sizeof(Value))) return false;
    std::vector<Value>& children = tree_->children[tree_->nodes[target].index];
    for (std::size_t i = 0; i < n; ++i) {
      if (first[i] == target) return refuse("a container that holds itself");
      Tree::Node& child = tree_->nodes[first[i]];
      child.closed = true;
      const auto depth = static_cast<std::uint16_t>(child.depth + 1);
      if (depth > limits::kPickleDepth) {
        over_limit = true;
        return refuse("containers stand too deep in one another");
      }
      Tree::Node& parent = tree_->nodes[target];
      parent.depth = std::max(parent.depth, depth);
      children.push_back(first[i]);
    }
    return true;
  }

  std::size_t budget_;
  std::shared_ptr<Tree> tree_;
  std::vector<Value> memo_;
  std::unordered_map<std::uint64_t, Value> far_memo_;
};

Place place_of(const std::string& file, std::uint64_t offset) {
  Place place;
  place.file = file;
  place.offset = offset;
  return place;
}

bool same_key(const Tree& tree, std::uint32_t a, std::uint32_t b) {
  const Tree::Node& x = tree.nodes[a];
  const Tree::Node& y = tree.nodes[b];
  if (x.kind != y.kind) return false;
  if (x.kind == Kind::text) return tree.texts[x.index] == tree.texts[y.index];
  if (x.kind == Kind::integer) return x.integer == y.integer;
  return false;
}

}  // namespace

PickleValue::Kind PickleValue::kind() const { return tree_ ? tree_->nodes[node_].kind : Kind::null; }

std::optional<bool> PickleValue::boolean() const {
  if (kind() != Kind::boolean) return std::nullopt;
  return tree_->nodes[node_].boolean;
}
std::optional<std::int64_t> PickleValue::integer() const {
  if (kind() != Kind::integer) return std::nullopt;
  return tree_->nodes[node_].integer;
}
std::optional<double> PickleValue::number() const {
  if (kind() == Kind::integer) return static_cast<double>(tree_->nodes[node_].integer);
  if (kind() == Kind::real) return tree_->nodes[node_].real;
  return std::nullopt;
}
std::optional<std::string_view> PickleValue::text() const {
  if (kind() != Kind::text) return std::nullopt;
  return tree_->texts[tree_->nodes[node_].index];
}
std::size_t PickleValue::size() const {
  if (kind() == Kind::list) return tree_->children[tree_->nodes[node_].index].size();
  if (kind() == Kind::dict) return tree_->children[tree_->nodes[node_].index].size() / 2;
  return 0;
}
PickleValue PickleValue::operator[](std::size_t i) const {
  if (i >= size()) return {};
  const std::vector<std::uint32_t>& children = tree_->children[tree_->nodes[node_].index];
  return {tree_, children[kind() == Kind::dict ? 2 * i + 1 : i]};
}
PickleValue PickleValue::key(std::size_t i) const {
  if (kind() != Kind::dict || i >= size()) return {};
  return {tree_, tree_->children[tree_->nodes[node_].index][2 * i]};
}
PickleValue PickleValue::find(std::string_view key) const {
  if (kind() != Kind::dict) return {};
  const std::vector<std::uint32_t>& children = tree_->children[tree_->nodes[node_].index];
  for (std::size_t i = children.size(); i >= 2; i -= 2) {   // from the end: the last one counts
    const Tree::Node& node = tree_->nodes[children[i - 2]];
    if (node.kind == Kind::text && tree_->texts[node.index] == key) return {tree_, children[i - 1]};
  }
  return {};
}
PickleValue PickleValue::find(std::int64_t key) const {
  if (kind() != Kind::dict) return {};
  const std::vector<std::uint32_t>& children = tree_->children[tree_->nodes[node_].index];
  for (std::size_t i = children.size(); i >= 2; i -= 2) {
    const Tree::Node& node = tree_->nodes[children[i - 2]];
    if (node.kind == Kind::integer && node.integer == key) return {tree_, children[i - 1]};
  }
  return {};
}
bool PickleValue::contains(std::string_view key) const {
  if (kind() != Kind::dict) return false;
  const std::vector<std::uint32_t>& children = tree_->children[tree_->nodes[node_].index];
  for (std::size_t i = 0; i + 1 < children.size(); i += 2) {
    const Tree::Node& node = tree_->nodes[children[i]];
    if (node.kind == Kind::text && tree_->texts[node.index] == key) return true;
  }
  return false;
}

namespace {

// Keys that come twice within small dicts: the last value counts, at the first place. Larger dicts keep both; find() takes the last.
void merge_keys(Tree& tree) {
  for (const Tree::Node& node : tree.nodes) {
    if (node.kind != Kind::dict) continue;
    std::vector<std::uint32_t>& children = tree.children[node.index];
    if (children.size() > 64) continue;
    for (std::size_t i = 2; i < children.size();) {
      std::size_t j = 0;
      while (j < i && !same_key(tree, children[j], children[i])) j += 2;
      if (j == i) {
        i += 2;
        continue;
      }
      children[j + 1] = children[i + 1];
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i), children.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    }
  }
}

}  // namespace

Result<PickleRead> read_pickle_part(std::string_view bytes, const std::string& file, PickleLimits limits) {
  if (bytes.empty()) return Error(ErrorCode::syntax, "an empty file is no pickle").at(place_of(file, 0));
  TreeBuilder builder(limits.memory_bytes);
  PickleMachine<TreeBuilder> machine(builder, limits::kPickleStackValues);
  std::size_t used = 0;
  const PickleState state = machine.run(bytes, used);
  PickleRead read;
  read.bytes = machine.offset();
  if (state == PickleState::failed) {
    Error error = Error(machine.fault_code(), "cannot read the pickle: " + machine.fault()).at(place_of(file, machine.fault_offset()));
    if (machine.fault_code() != ErrorCode::syntax || !machine.started()) return error;
    read.cut = std::move(error);
  } else if (state == PickleState::more) {
    read.cut = Error(ErrorCode::syntax, "the pickle ends before its end mark").at(place_of(file, bytes.size())).because("the file is cut");
  }
  if (read.cut) {
    if (machine.fault_code() != ErrorCode::limit) builder.failure.clear();
    machine.close_open();
  }
  if (!machine.has_result()) return std::move(*read.cut);
  const std::uint32_t root = machine.result();
  std::shared_ptr<Tree> tree = builder.take();
  merge_keys(*tree);
  read.value = PickleValue(std::move(tree), root);
  return read;
}

Result<PickleValue> read_pickle(std::string_view bytes, const std::string& file, PickleLimits limits) {
  TRIAGE_TRY(PickleRead read, read_pickle_part(bytes, file, limits));
  if (read.cut) return std::move(*read.cut);
  return std::move(read.value);
}

bool looks_like_pickle(std::string_view head) {
  if (head.size() < 3 || head[0] != '\x80' || head[1] < 2 || head[1] > 5) return false;
  const auto next = static_cast<std::uint8_t>(head[2]);
  switch (static_cast<PickleOp>(next)) {
    case PickleOp::frame: case PickleOp::empty_dict: case PickleOp::empty_list: case PickleOp::mark: case PickleOp::empty_tuple: return true;
    default: return refused_op(next).name == "GLOBAL";   // a pickle of objects: recognised, to be refused with a reason
  }
}

RefusedOp refused_op(std::uint8_t byte) {
  constexpr std::string_view kObject = "it makes an object or runs code; only plain data is read";
  constexpr std::string_view kText = "it belongs to the text protocols 0 and 1";
  constexpr std::string_view kBuffer = "buffers outside the file are not read";
  constexpr std::string_view kStack = "no writer of snapshots uses it";
  switch (byte) {
    case 'c': return {"GLOBAL", kObject};
    case 0x93: return {"STACK_GLOBAL", kObject};
    case 'R': return {"REDUCE", kObject};
    case 'b': return {"BUILD", kObject};
    case 'i': return {"INST", kObject};
    case 'o': return {"OBJ", kObject};
    case 0x81: return {"NEWOBJ", kObject};
    case 0x92: return {"NEWOBJ_EX", kObject};
    case 'P': return {"PERSID", kObject};
    case 'Q': return {"BINPERSID", kObject};
    case 0x82: return {"EXT1", kObject};
    case 0x83: return {"EXT2", kObject};
    case 0x84: return {"EXT4", kObject};
    case 0x97: return {"NEXT_BUFFER", kBuffer};
    case 0x98: return {"READONLY_BUFFER", kBuffer};
    case 'I': return {"INT", kText};
    case 'L': return {"LONG", kText};
    case 'F': return {"FLOAT", kText};
    case 'S': return {"STRING", kText};
    case 'V': return {"UNICODE", kText};
    case 'p': return {"PUT", kText};
    case 'g': return {"GET", kText};
    case '0': return {"POP", kStack};
    case '1': return {"POP_MARK", kStack};
    case '2': return {"DUP", kStack};
    default: return {};
  }
}

}  // namespace triage::parsers
