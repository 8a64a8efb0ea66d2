#include "parsers/config/flat_setting.hpp"

#include "parsers/base/text.hpp"

namespace triage::parsers {

bool is_none(std::string_view value) {
  value = trim(value);
  return value.empty() || value == "None" || value == "null" || value == "~" || value == "Null" ||
         value == "NULL";
}

bool is_true(std::string_view value) {
  value = trim(value);
  return value == "True" || value == "true" || value == "1" || value == "yes" || value == "on" ||
         value == "TRUE";
}

bool is_false(std::string_view value) {
  value = trim(value);
  return value == "False" || value == "false" || value == "0" || value == "no" || value == "off" ||
         value == "FALSE";
}

std::string_view leaf_of(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string_view parent_of(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

}  // namespace triage::parsers
