// A memory plan for a configuration, whatever it came from: what `triage plan` and the API's plan answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/pipeline/knowledge.hpp"
#include "parsers/base/result.hpp"
#include "parsers/base/units.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/match/match.hpp"
#include "signatures/plan/forecast.hpp"
#include "signatures/plan/sweep.hpp"

namespace triage::daemon {

struct NamedText {
  std::string name, text;                           // name: for places
};

// Where the configuration comes from; later ones win. At least one has to give something.
struct PlanInput {
  std::vector<signatures::SourceFindings> logs;     // runs whose configuration is planned, with what they measured
  std::string megatron_arguments;                   // text of Megatron-LM's command line
  std::optional<NamedText> model;                   // config.json of a Hugging Face model
  std::vector<NamedText> configs;                   // configuration files of DeepSpeed, torchtitan, Megatron Bridge, ...
  std::vector<std::pair<std::string, std::string>> settings;   // key of keys.def -> value, in the order given
  std::string gpu, capacity;                        // name of a card, or bytes ("80GiB"); empty: not known
  std::optional<long> rank;                         // show the stage of this rank only
  bool sweep = false;                               // list the layouts that fit
};

// What `triage plan` answers.
struct MemoryPlan {
  parsers::RunConfig config;
  std::vector<std::string> ignored;                 // settings that the configuration files state and no key stands for
  std::optional<parsers::Bytes> capacity;
  std::shared_ptr<const signatures::Forecast> forecast;   // never empty
  signatures::Plan plan;
  std::optional<signatures::Sweep> sweep;
  std::optional<long> pipeline_rank;                // show this stage only
};

// Errors: not_found (no configuration, an unknown setting or card), syntax (a text, with its place), conflict (rank, layout).
parsers::Result<MemoryPlan> make_memory_plan(const Knowledge& knowledge, PlanInput input, parsers::TimePoint now);

}  // namespace triage::daemon
