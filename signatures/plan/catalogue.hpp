// The fix catalogue: what can be changed, when it helps, what it needs and what it costs. Read from signatures/fixes/*.yaml
// (one file a family), which are embedded in the executable. Form of an entry: signatures/fixes/README.md.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parsers/base/embedded_file.hpp"
#include "parsers/base/place.hpp"
#include "parsers/base/result.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/plan/apply_text.hpp"
#include "signatures/plan/condition.hpp"
#include "signatures/plan/fix.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// A precondition. Unknown in a run: `say` (or the condition itself) becomes an assumption of the proposed fix.
struct Requirement {
  Expression condition;
  std::string say;
};

// Added to the weight of a fix where the condition is true.
struct Boost {
  Expression when;
  int add = 0;
};

struct CatalogueFix {
  std::string id, family, title;       // recompute.full_uniform, recompute, one line
  std::vector<std::pair<std::string, TextForms>> apply;  // framework or environment -> exact text
  std::vector<std::string> reduces;    // terms of the memory model
  std::vector<std::string> kinds;      // prefixes of kinds
  std::vector<Phase> phases;           // empty: any
  std::vector<Requirement> needs;      // all must not be false
  std::vector<Expression> excludes;    // none may be true
  std::vector<std::pair<parsers::Key, Expression>> change;  // the configuration after the fix
  FixCost cost;
  int disruption = 0;                  // 0 none, 1 restart with other layout, 2 numerics or batch, 3 new format or hardware
  std::vector<std::string> assumes, sources;
  TextForms why;
  std::vector<std::pair<std::string, int>> order;  // phase, kind prefix or any -> weight 0..100
  std::vector<Boost> boosts;
  parsers::Place place;
};

struct ReadCatalogue {
  std::vector<CatalogueFix> fixes;
  std::vector<parsers::Error> faults;  // all of them, in order of place
};

// Reads every file; an entry with a fault is left out and told. A later entry of the same id is a fault.
ReadCatalogue read_catalogue(std::span<const parsers::EmbeddedFile> files);

// The shipped files.
std::span<const parsers::EmbeddedFile> embedded_fixes();

// Frameworks and environments that `apply` may name.
bool is_framework_name(std::string_view name);
bool is_environment_name(std::string_view name);   // slurm, kubernetes, docker, ray: not a framework, still part of a change

}  // namespace triage::signatures
