#include "signatures/plan/rule_fixes.hpp"

#include <set>
#include <string>
#include <string_view>

#include "parsers/base/nearest.hpp"

namespace triage::signatures {

std::vector<parsers::Error> unknown_fixes(std::span<const Signature> rules, std::span<const CatalogueFix> catalogue) {
  std::set<std::string_view> ids, families;
  for (const CatalogueFix& fix : catalogue) {
    ids.insert(fix.id);
    families.insert(fix.family);
  }
  const std::vector<std::string_view> known(ids.begin(), ids.end());
  std::vector<parsers::Error> out;
  for (const Signature& rule : rules)
    for (const std::string& name : rule.fixes) {
      if (ids.contains(name) || families.contains(name)) continue;
      const std::string_view meant = parsers::meant_name(name, known);
      out.push_back(parsers::Error(parsers::ErrorCode::not_found, rule_name(rule) + ": there is no fix '" + name + "'")
                        .at(rule.place)
                        .help(meant.empty() ? parsers::nearest_name(name, families) : "did you mean '" + std::string(meant) + "'?"));
    }
  return out;
}

}  // namespace triage::signatures
