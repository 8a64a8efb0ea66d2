#include "signatures/plan/change.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "parsers/config/merge.hpp"

namespace triage::signatures {

using parsers::Key;
using parsers::KeyType;
using parsers::RunConfig;
using parsers::Value;

namespace {

std::optional<Value> value_of(const Datum& datum, KeyType type) {
  switch (type) {
    case KeyType::integer:
      if (const auto* number = std::get_if<double>(&datum); number && std::isfinite(*number) && std::fabs(*number) < 9e15)
        return static_cast<std::int64_t>(*number);
      break;
    case KeyType::number:
      if (const auto* number = std::get_if<double>(&datum)) return *number;
      break;
    case KeyType::boolean:
      if (const auto* flag = std::get_if<bool>(&datum)) return *flag;
      break;
    case KeyType::text:
      if (const auto* text = std::get_if<std::string>(&datum)) return *text;
      break;
    case KeyType::list:
      if (const auto* list = std::get_if<std::vector<std::string>>(&datum)) return *list;
      break;
  }
  return std::nullopt;
}

bool among(Key key, std::initializer_list<Key> keys) { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

}  // namespace

void change_setting(RunConfig& config, Key key, Value value, const std::string& origin) {
  const auto world = config.integer(Key::world), batch = config.integer(Key::global_batch);
  const auto micro = config.integer(Key::micro_batch), accumulation = config.integer(Key::gradient_accumulation);
  config.set(key, std::move(value), origin);
  // The number of ranks is what the job has; how many replicas they make follows.
  if (among(key, {Key::tensor_parallel, Key::pipeline_parallel, Key::context_parallel, Key::world}) && world) {
    config.unset(Key::data_parallel);
    config.unset(Key::padded_vocab);
  }
  if (among(key, {Key::micro_batch, Key::tensor_parallel, Key::pipeline_parallel, Key::context_parallel, Key::world}) && batch)
    config.unset(Key::gradient_accumulation);
  // Without a stated global batch, it is kept by accumulating over more micro batches.
  if (key == Key::micro_batch && !batch && micro && accumulation)
    if (const auto now = config.integer(Key::micro_batch); now && *now > 0 && *micro < (1 << 30) && *accumulation < (1 << 30))
      config.set(Key::gradient_accumulation, std::max<std::int64_t>(1, *micro * *accumulation / *now), origin);
  // Images come with the samples.
  if (key == Key::micro_batch && micro && *micro > 0)
    if (const auto images = config.integer(Key::images), now = config.integer(Key::micro_batch); images && now && *now > 0 && *images > 1 && *images < (1 << 20) && *now < (1 << 20))
      config.set(Key::images, std::max<std::int64_t>(1, *images * *now / *micro), origin);
  // A virtual pipeline of one chunk is none.
  if (key == Key::virtual_pipeline && config.integer(Key::virtual_pipeline) == 1) config.unset(Key::virtual_pipeline);
  parsers::derive(config);
}

std::optional<RunConfig> changed_config(const CatalogueFix& entry, const Scope& scope) {
  if (entry.change.empty()) return std::nullopt;
  RunConfig changed = scope.config;
  bool different = false;
  for (const auto& [key, expression] : entry.change) {
    std::optional<Value> value = value_of(expression.value(scope), parsers::key_info(key).type);
    if (!value) return std::nullopt;
    const parsers::Setting* old = scope.config.find(key);
    different = different || !old || old->value != *value;
    change_setting(changed, key, std::move(*value), "fix " + entry.id);
  }
  if (!different) return std::nullopt;
  return changed;
}

}  // namespace triage::signatures
