#include "parsers/base/yaml_text.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <istream>
#include <optional>
#include <streambuf>
#include <unordered_map>

#include "parsers/base/limits.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kShownLine = 200;  // bytes of a source line kept with a place

// The text cut into lines, to give each place its line.
class Lines {
 public:
  Lines(std::string_view text, std::string file) : file_(std::move(file)) {
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      lines_.push_back(text.substr(0, end));
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }

  // 0-based line and column.
  Place place(std::size_t line, std::size_t column) const {
    Place out;
    out.file = file_;
    out.line = line + 1;
    out.column = column + 1;
    if (line < lines_.size()) out.source_line = std::string(lines_[line].substr(0, kShownLine));
    if (!out.source_line.empty() && out.source_line.back() == '\r') out.source_line.pop_back();
    return out;
  }
  Place place(const YAML::Mark& mark) const {
    const auto at = [](int n) { return n < 0 ? std::size_t{0} : static_cast<std::size_t>(n); };
    return place(at(mark.line), at(mark.column));
  }

  const std::vector<std::string_view>& all() const { return lines_; }

 private:
  std::string file_;
  std::vector<std::string_view> lines_;
};

// Carries our own error out of yaml-cpp's parser; caught in read_yaml.
struct Stop : std::exception {
  explicit Stop(Error e) : error(std::move(e)) {}
  Error error;
};

// The text as yaml-cpp reads it, some kilobytes at a time, with how much it has taken since the tree last grew: it keeps all of a text or
// of what stands between brackets before it tells of any, so that a file of '[' alone would take its size in memory two hundred times.
class Portions : public std::streambuf {
 public:
  Portions(std::string text, const Lines& lines) : text_(std::move(text)), lines_(lines) {}

  void grown() { grown_at_ = taken_; }

 protected:
  int_type underflow() override {
    if (taken_ - grown_at_ > limits::kYamlPieceBytes) {
      const auto line = static_cast<std::size_t>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(grown_at_), '\n'));
      throw Stop(Error(ErrorCode::limit, "a text, list or map is too large, or its brackets or quotes are not closed")
                     .at(lines_.place(line, 0))
                     .help("at most " + std::to_string(limits::kYamlPieceBytes) + " bytes in one piece"));
    }
    if (taken_ == text_.size()) return traits_type::eof();
    portion_ = text_.substr(taken_, kPortion);
    taken_ += portion_.size();
    setg(portion_.data(), portion_.data(), portion_.data() + portion_.size());
    return traits_type::to_int_type(portion_.front());
  }

 private:
  static constexpr std::size_t kPortion = 4096;

  std::string text_, portion_;
  const Lines& lines_;
  std::size_t taken_ = 0, grown_at_ = 0;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Lines& lines, Portions& portions) : lines_(lines), portions_(portions) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) stop(ErrorCode::unsupported, "a second document in one file", mark, "split the file at '---'");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(node(YamlNode::Kind::null, mark), mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    stop(ErrorCode::unsupported, "aliases are not allowed", mark, "write the value out");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    stop(ErrorCode::unsupported, "anchors are not allowed", mark, "write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    if (tag != "?" && tag != "!" && !tag.empty()) stop(ErrorCode::unsupported, "tags are not allowed", mark, "remove " + tag);
    YamlNode made = node(YamlNode::Kind::scalar, mark);
    made.scalar = value;
    made.quoted = tag == "!";
    add(std::move(made), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::list, mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is still open, and the key whose value comes next.
  struct Open {
    YamlNode node;
    std::optional<std::string> key;
    Place key_place;
    std::unordered_map<std::string, std::size_t> keys;   // of a map, with their lines
  };

  [[noreturn]] void stop(ErrorCode code, std::string what, const YAML::Mark& mark, std::string help) const {
    throw Stop(Error(code, std::move(what)).at(lines_.place(mark)).help(std::move(help)));
  }

  YamlNode node(YamlNode::Kind kind, const YAML::Mark& mark) {
    portions_.grown();
    if (++nodes_ > limits::kYamlNodes) stop(ErrorCode::limit, "too many entries in one file", mark, "at most " + std::to_string(limits::kYamlNodes) + ", keys and values counted");
    YamlNode made;
    made.kind = kind;
    made.place = lines_.place(mark);
    return made;
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark) {
    if (stack_.size() >= limits::kYamlDepth) stop(ErrorCode::limit, "nested too deeply", mark, "at most " + std::to_string(limits::kYamlDepth) + " levels");
    if (wants_key()) stop(ErrorCode::syntax, "a key has to be text", mark, "");
    stack_.push_back({node(kind, mark), std::nullopt, {}, {}});
  }

  void close() {
    YamlNode done = std::move(stack_.back().node);
    stack_.pop_back();
    put(std::move(done));
  }

  bool wants_key() const { return !stack_.empty() && stack_.back().node.kind == YamlNode::Kind::map && !stack_.back().key; }

  void add(YamlNode made, const YAML::Mark& mark) {
    if (!wants_key()) return put(std::move(made));
    Open& top = stack_.back();
    if (made.kind != YamlNode::Kind::scalar) stop(ErrorCode::syntax, "a key has to be text", mark, "");
    if (const auto [before, fresh] = top.keys.emplace(made.scalar, made.place.line.value_or(0)); !fresh)
      stop(ErrorCode::conflict, "the key '" + made.scalar + "' stands twice", mark, "the first one is at line " + std::to_string(before->second));
    top.key = std::move(made.scalar);
    top.key_place = std::move(made.place);
  }

  void put(YamlNode made) {
    if (stack_.empty()) {
      root_ = std::move(made);
      return;
    }
    Open& top = stack_.back();
    if (top.node.kind == YamlNode::Kind::list) {
      top.node.items.push_back(std::move(made));
      return;
    }
    made.key_place = std::move(top.key_place);
    top.node.entries.push_back({std::move(*top.key), std::move(made)});
    top.key.reset();
  }

  const Lines& lines_;
  Portions& portions_;
  std::size_t nodes_ = 0;
  std::vector<Open> stack_;
  YamlNode root_;
  int documents_ = 0;
};

// Bytes that YAML does not allow or that yaml-cpp takes for something else (0x04 ends its input).
std::optional<Error> bad_bytes(const Lines& lines) {
  for (std::size_t i = 0; i < lines.all().size(); ++i) {
    const std::string_view line = lines.all()[i];
    const std::size_t start = line.find_first_not_of(' ');
    if (start != std::string_view::npos && line[start] == '\t' && line.find_first_not_of(" \t\r") != std::string_view::npos)
      return Error(ErrorCode::syntax, "a tab in the indentation").at(lines.place(i, start)).help("indent with spaces; in a text write \"\\t\" in double quotes");
    for (std::size_t k = 0; k < line.size(); ++k) {
      const auto c = static_cast<unsigned char>(line[k]);
      const bool allowed = c >= 0x20 ? c != 0x7f : c == '\t' || (c == '\r' && k + 1 == line.size());
      if (!allowed)
        return Error(ErrorCode::syntax, "a control character").at(lines.place(i, k)).help("write it as an escape in double quotes, e.g. \"\\x1b\"");
    }
  }
  return std::nullopt;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.key == key; });
  return at == entries.end() ? nullptr : &at->value;
}

std::string_view kind_name(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::null: return "nothing";
    case YamlNode::Kind::scalar: return "text";
    case YamlNode::Kind::list: return "list";
    case YamlNode::Kind::map: return "map";
  }
  return "nothing";
}

Result<YamlNode> read_yaml(std::string_view text, std::string file) {
  if (text.size() > limits::kRuleFileBytes) {
    Place place;
    place.file = std::move(file);
    return Error(ErrorCode::limit, "the file has " + std::to_string(text.size()) + " bytes, more than " + std::to_string(limits::kRuleFileBytes)).at(std::move(place));
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const Lines lines(text, std::move(file));
  if (std::optional<Error> fault = bad_bytes(lines)) return std::move(*fault);
  // An open quote at the end of the file is taken by yaml-cpp when a line break comes last, hence the comment.
  Portions portions(std::string(text) + (text.ends_with('\n') ? "#" : "\n#"), lines);
  TreeBuilder builder(lines, portions);
  try {
    std::istream in(&portions);
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (Stop& stop) {
    return std::move(stop.error);
  } catch (const YAML::Exception& fault) {
    return Error(ErrorCode::syntax, "not valid YAML").at(lines.place(fault.mark)).because(fault.msg);
  } catch (const std::exception& fault) {
    return Error(ErrorCode::syntax, "not valid YAML").at(lines.place(0, 0)).because(fault.what());
  }
  return builder.take();
}

}  // namespace triage::parsers
