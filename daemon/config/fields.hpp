// Fields: one map of the configuration file, read key by key. What was not asked for is an unknown key, told with the nearest known one;
// what cannot be read is told with its place and keeps its default. The only reader of configuration maps.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "parsers/base/result.hpp"
#include "parsers/base/yaml_text.hpp"

namespace triage::daemon {

class Fields {
 public:
  // what: the name of the map in messages. A node of kind null is an empty map; one that is neither is a fault. All outlive this object.
  Fields(const parsers::YamlNode& node, std::string what, std::vector<parsers::Error>& faults);
  ~Fields();   // tells the unknown keys
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  const std::string& what() const { return what_; }
  const parsers::YamlNode& node() const { return node_; }
  bool is_map() const { return node_.kind == parsers::YamlNode::Kind::map; }
  // The keys that are still unknown may be known to what cannot be read: they are not told.
  void leave_rest() { rest_left_ = true; }

  const parsers::YamlNode* find(std::string_view key);
  bool has(std::string_view key) { return find(key) != nullptr; }

  // Each returns true when the key is there and its value was taken. Text is one line.
  bool text(std::string_view key, std::string& out);                      // may be empty
  bool name(std::string_view key, std::string& out);                      // may not
  bool one_of(std::string_view key, std::string& out, const std::vector<std::string_view>& names);
  bool texts(std::string_view key, std::vector<std::string>& out);        // a list, or one text; none of them empty
  bool flag(std::string_view key, bool& out);
  template <class T>
  bool count(std::string_view key, T& out, std::int64_t least, std::int64_t most) {
    const auto read = whole_number(key, least, most);
    if (read) out = static_cast<T>(*read);
    return read.has_value();
  }
  bool bytes(std::string_view key, std::uint64_t& out, std::int64_t least);   // "16MiB"
  bool seconds(std::string_view key, double& out);                        // a number, for keys that end in _seconds; 0.05 to 86400
  // "250ms", "30s", "5m", "4h", "90d"; nothing that `Time` would cut.
  template <class Time>
  bool duration(std::string_view key, Time& out, std::type_identity_t<Time> least, std::type_identity_t<Time> most) {
    const auto read = time(key, least, most, std::chrono::duration_cast<std::chrono::milliseconds>(Time(1)));
    if (read) out = std::chrono::duration_cast<Time>(*read);
    return read.has_value();
  }
  // The values of a list, or the one value.
  std::vector<const parsers::YamlNode*> items(std::string_view key);
  // An item of a list as text that is not empty; key: for the message.
  std::optional<std::string> item_text(const parsers::YamlNode& item, std::string_view key);

  void fault(const parsers::Place& place, std::string message, std::string help = {}, parsers::ErrorCode code = parsers::ErrorCode::syntax);
  void fault(const parsers::YamlNode& node, std::string message, std::string help = {}, parsers::ErrorCode code = parsers::ErrorCode::syntax) {
    fault(node.place, std::move(message), std::move(help), code);
  }

 protected:
  std::vector<parsers::Error>& faults() { return faults_; }

 private:
  std::optional<std::int64_t> whole_number(std::string_view key, std::int64_t least, std::int64_t most);
  std::optional<std::chrono::milliseconds> time(std::string_view key, std::chrono::milliseconds least, std::chrono::milliseconds most, std::chrono::milliseconds unit);

  const parsers::YamlNode& node_;
  const std::string what_;
  std::vector<parsers::Error>& faults_;
  std::vector<std::string> known_;
  bool rest_left_ = false;
};

// "250ms", "30s", "5m", "4h", "90d". Empty: not a duration, or over ten years.
std::optional<std::chrono::milliseconds> read_duration(std::string_view text);

}  // namespace triage::daemon
