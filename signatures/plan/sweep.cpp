#include "signatures/plan/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "signatures/plan/change.hpp"

namespace triage::signatures {

using parsers::Key;
using parsers::RunConfig;

namespace {

constexpr std::size_t kTrials = 3000;     // estimates of one sweep
constexpr std::size_t kKept = 20;

struct Choice {
  Key key;
  std::vector<parsers::Value> values;
};

std::vector<parsers::Value> powers(std::int64_t most) {
  std::vector<parsers::Value> out;
  for (std::int64_t n = 1; n <= most && n <= 1024; n *= 2) out.emplace_back(n);
  return out;
}

bool megatron_like(const RunConfig& config) {
  return std::any_of(config.frameworks().begin(), config.frameworks().end(),
                     [](const std::string& name) { return name == "megatron-lm" || name == "megatron-bridge" || name == "nemo"; });
}

std::vector<Choice> choices_of(const RunConfig& config) {
  const std::int64_t world = config.integer(Key::world).value_or(1);
  const std::int64_t node = std::min<std::int64_t>(world, config.integer(Key::gpus_per_node).value_or(8));
  const std::int64_t batch = config.integer(Key::global_batch).value_or(8);
  std::vector<Choice> out;
  out.push_back({Key::recompute, {std::string("none"), std::string("full")}});
  out.push_back({Key::micro_batch, powers(std::clamp<std::int64_t>(batch, 1, 8))});
  if (megatron_like(config)) {
    out.push_back({Key::tensor_parallel, powers(node)});
    out.push_back({Key::pipeline_parallel, powers(std::min<std::int64_t>(world, 16))});
    out.push_back({Key::context_parallel, powers(std::min<std::int64_t>(world, config.integer(Key::seq_length).value_or(0) >= 32768 ? 8 : 1))});
    if (const auto experts = config.integer(Key::experts); experts && *experts > 0)
      out.push_back({Key::expert_parallel, powers(std::min({*experts, world, std::int64_t{64}}))});
  }
  return out;
}

double log2_of(const RunConfig& config, Key key) { return std::log2(static_cast<double>(std::max<std::int64_t>(1, config.integer(key).value_or(1)))); }

// In units of "one doubling of tensor parallel within a node".
double cost_of(const RunConfig& config) {
  double cost = log2_of(config, Key::tensor_parallel) + 0.9 * log2_of(config, Key::pipeline_parallel) + 1.2 * log2_of(config, Key::context_parallel) +
                0.4 * log2_of(config, Key::expert_parallel) - 0.3 * log2_of(config, Key::micro_batch);
  if (config.text(Key::recompute) == "full") cost += 2.5;
  if (config.text(Key::recompute) == "selective") cost += 0.4;
  return cost;
}

std::string difference(const RunConfig& from, const RunConfig& to, const std::vector<Choice>& choices) {
  std::string out;
  for (const Choice& choice : choices) {
    const parsers::Setting* now = to.find(choice.key);
    const parsers::Setting* before = from.find(choice.key);
    if (!now || (before && before->value == now->value)) continue;
    out += (out.empty() ? "" : ", ") + std::string(parsers::key_info(choice.key).name) + " " + parsers::value_text(now->value);
  }
  return out.empty() ? "as given" : out;
}

// A run with more model parallel ranks than ranks, or a batch that does not divide, is not worth an estimate.
bool plausible(const RunConfig& config) {
  const auto get = [&](Key key) { return std::max<std::int64_t>(1, config.integer(key).value_or(1)); };
  const std::int64_t world = get(Key::world), model = get(Key::tensor_parallel) * get(Key::pipeline_parallel) * get(Key::context_parallel);
  if (model > world || world % model != 0) return false;
  const std::int64_t data = world / model;
  if (const auto batch = config.integer(Key::global_batch); batch && *batch % (data * get(Key::micro_batch)) != 0) return false;
  if (get(Key::expert_parallel) * get(Key::pipeline_parallel) > world) return false;
  return true;
}

}  // namespace

Sweep sweep_layouts(const Forecast& forecast, const RunConfig& config) {
  const std::vector<Choice> choices = choices_of(config);
  Sweep out;
  std::vector<std::size_t> at(choices.size(), 0);
  for (bool more = !choices.empty(); more && out.tried < kTrials;) {
    LayoutChoice made;
    made.config = config;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Key key = choices[i].key;
      const parsers::Value& value = choices[i].values[at[i]];
      // "none" leaves a selective setting of the run as it is.
      if (key == Key::recompute && value == parsers::Value(std::string("none")) && config.text(key) == "selective") continue;
      change_setting(made.config, key, value, "sweep");
      if (key == Key::recompute && value == parsers::Value(std::string("full"))) {
        change_setting(made.config, Key::recompute_method, std::string("uniform"), "sweep");
        change_setting(made.config, Key::recompute_layers, std::int64_t{1}, "sweep");
      }
      if (key == Key::tensor_parallel) change_setting(made.config, Key::sequence_parallel, value != parsers::Value(std::int64_t{1}), "sweep");
    }
    if (plausible(made.config)) {
      ++out.tried;
      if (parsers::Result<Need> need = forecast.need(made.config); need.ok()) {
        made.need = *need;
        made.cost = cost_of(made.config);
        made.text = difference(config, made.config, choices);
        if (made.need.fits)
          out.choices.push_back(std::move(made));
        else if (!out.nearest || made.need.short_by < out.nearest->need.short_by)
          out.nearest = std::move(made);
      }
    }
    more = false;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (++at[i] < choices[i].values.size()) {
        more = true;
        break;
      }
      at[i] = 0;
    }
  }
  std::stable_sort(out.choices.begin(), out.choices.end(), [](const LayoutChoice& a, const LayoutChoice& b) { return a.cost < b.cost; });
  if (out.choices.size() > kKept) out.choices.resize(kKept);
  if (!out.choices.empty()) out.nearest.reset();
  return out;
}

}  // namespace triage::signatures
