// JSON as a tree with the same questions as PickleValue, so that one reader serves both forms of a flight recorder dump.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "parsers/base/result.hpp"

namespace triage::parsers {

// A light handle into a JsonTree: valid while the tree lives. What is missing or of another type is empty.
class JsonNode {
 public:
  JsonNode() = default;
  explicit JsonNode(const void* json) : json_(json) {}
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;
  std::optional<std::string_view> text() const;
  std::size_t size() const;                     // of a list or an object
  JsonNode operator[](std::size_t i) const;     // list item
  void each(const std::function<void(std::string_view key, JsonNode value)>& visit) const;   // entries of an object
  JsonNode find(std::string_view key) const;
  bool contains(std::string_view key) const;

 private:
  const void* json_ = nullptr;
};

class JsonTree {
 public:
  struct Impl;
  explicit JsonTree(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  JsonNode root() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

// Errors: syntax with the offset, limit (nesting).
Result<JsonTree> parse_json_tree(std::string_view text, const std::string& file);

}  // namespace triage::parsers
