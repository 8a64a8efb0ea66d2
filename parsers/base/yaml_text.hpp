// YAML files of ours (rules, fixes, configuration) as a tree in which every key and value knows its place.
// Refused with a place: doubled keys, tabs in the indentation, control characters, anchors, aliases, tags, keys that are not text,
// more than one document, nesting deeper than limits::kYamlDepth, more than limits::kYamlNodes, a piece of more than limits::kYamlPieceBytes. The only user of yaml-cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/base/place.hpp"
#include "parsers/base/result.hpp"

namespace triage::parsers {

struct YamlEntry;

struct YamlNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string scalar;                                      // kind scalar: its text
  bool quoted = false;                                     // kind scalar: written in quotes or as a block: never a number or a flag
  std::vector<YamlNode> items;                             // kind list
  std::vector<YamlEntry> entries;                          // kind map, in the order of the file
  Place place;                                             // of the value
  Place key_place;                                         // of its key, where it is a map's value

  // The value of a key, or null. Pointer into this node.
  const YamlNode* find(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  YamlNode value;
};

std::string_view kind_name(YamlNode::Kind kind);  // "nothing", "text", "list", "map"

// The one document of the text; a node of kind null when there is none. Errors: syntax, limit; each with its place.
// `file` is the name that places carry.
Result<YamlNode> read_yaml(std::string_view text, std::string file);

}  // namespace triage::parsers
