#include "parsers/config/merge.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::parsers {
namespace {

constexpr std::size_t kConflicts = 256;

// Order of who drives whom, first drives.
constexpr std::array<std::string_view, 11> kFrameworks = {
    "verl",        "nemo-rl",   "megatron-bridge", "nemo", "torchtitan", "lightning",
    "huggingface", "deepspeed", "megatron-lm",     "fsdp", "jax"};

std::size_t framework_rank(std::string_view name) {
  return static_cast<std::size_t>(std::find(kFrameworks.begin(), kFrameworks.end(), name) -
                                  kFrameworks.begin());
}

bool same(const Value& a, const Value& b) {
  if (a == b) return true;
  return value_text(a) == value_text(b);
}

using Number = std::optional<std::int64_t>;

bool positive(Number n) { return n && *n > 0; }

// a * b, or nothing on overflow.
Number times(Number a, Number b) {
  std::int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

// a / b if it goes without rest.
Number over(Number a, Number b) {
  if (!positive(a) || !positive(b) || *a % *b != 0) return std::nullopt;
  return *a / *b;
}

void fill(RunConfig& config, Key key, Number value, std::string_view how) {
  if (config.has(key) || !positive(value)) return;
  config.set(key, *value, "derived: " + std::string(how));
}

bool seen(const RunConfig& config, std::string_view name) {
  const auto& all = config.frameworks();
  return std::find(all.begin(), all.end(), name) != all.end();
}

void derive_layout(RunConfig& config) {
  const bool megatron =
      seen(config, "megatron-lm") || seen(config, "megatron-bridge") || seen(config, "nemo");
  const auto get = [&](Key key) { return config.integer(key); };
  const Number t = get(Key::tensor_parallel), p = get(Key::pipeline_parallel);
  if (megatron && t && p) {
    const Number c = get(Key::context_parallel).value_or(1);
    const Number model = times(times(t, p), c);
    fill(config, Key::data_parallel, over(get(Key::world), model),
         "world / (tensor x pipeline x context)");
    fill(config, Key::world, times(get(Key::data_parallel), model),
         "data x tensor x pipeline x context");
  }
  const Number shard = get(Key::data_parallel_shard), replicate = get(Key::data_parallel_replicate);
  if (positive(shard) && positive(replicate)) {
    fill(config, Key::data_parallel, times(shard, replicate),
         "data_parallel_shard x data_parallel_replicate");
    if (positive(t) && positive(p) && positive(get(Key::context_parallel)))
      fill(config, Key::world,
           times(times(times(shard, replicate), times(t, p)), get(Key::context_parallel)),
           "shard x replicate x tensor x pipeline x context");
  }
  // Hugging Face, DeepSpeed and FSDP without model parallel: every rank is a replica or a shard of
  // one.
  const bool plain = !megatron && (seen(config, "huggingface") || seen(config, "deepspeed") ||
                                   seen(config, "fsdp") || seen(config, "lightning"));
  const auto one = [&](Key key) { return get(key).value_or(1) == 1; };
  if (plain && one(Key::tensor_parallel) && one(Key::pipeline_parallel) &&
      one(Key::context_parallel) && one(Key::ulysses)) {
    fill(config, Key::data_parallel, get(Key::world), "world, no model parallel");
    fill(config, Key::world, get(Key::data_parallel), "data_parallel, no model parallel");
  }
}

void derive_batch(RunConfig& config) {
  const auto get = [&](Key key) { return config.integer(key); };
  fill(config, Key::gradient_accumulation,
       over(get(Key::global_batch), times(get(Key::micro_batch), get(Key::data_parallel))),
       "global_batch / (micro_batch x data_parallel)");
  fill(
      config, Key::global_batch,
      times(times(get(Key::micro_batch), get(Key::gradient_accumulation)), get(Key::data_parallel)),
      "micro_batch x gradient_accumulation x data_parallel");
  fill(
      config, Key::micro_batch,
      over(get(Key::global_batch), times(get(Key::gradient_accumulation), get(Key::data_parallel))),
      "global_batch / (gradient_accumulation x data_parallel)");
  fill(config, Key::data_parallel,
       over(get(Key::global_batch), times(get(Key::micro_batch), get(Key::gradient_accumulation))),
       "global_batch / (micro_batch x gradient_accumulation)");
}

void derive_shape(RunConfig& config) {
  const auto get = [&](Key key) { return config.integer(key); };
  if (config.boolean(Key::mla) != true)
    fill(config, Key::head_dim, over(get(Key::hidden), get(Key::heads)), "hidden / heads");
  if (seen(config, "megatron-lm") && !config.has(Key::ffn) && positive(get(Key::hidden)) &&
      *get(Key::hidden) < (std::int64_t{1} << 40)) {
    // NVIDIA/Megatron-LM: megatron/training/arguments.py, validate_args: the MLP's width when none
    // is given.
    if (config.boolean(Key::gated_mlp) == true)
      fill(config, Key::ffn, (*get(Key::hidden) * 4 * 2 / 3) / 64 * 64,
           "8/3 x hidden, a multiple of 64 (Megatron-LM's default)");
    else if (config.boolean(Key::gated_mlp) == false)
      fill(config, Key::ffn, *get(Key::hidden) * 4, "4 x hidden (Megatron-LM's default)");
  }
  const Number vocab = get(Key::vocab),
               divisor = times(get(Key::vocab_divisor), get(Key::tensor_parallel));
  if (positive(vocab) && positive(divisor) && *divisor < (1 << 30) &&
      *vocab < (std::int64_t{1} << 40)) {
    // megatron/training/tokenizer: padded to a multiple of divisor x tensor ranks. A NullTokenizer
    // of older versions adds one token of its own.
    const auto padded = [&](std::int64_t size) {
      return (size + *divisor - 1) / *divisor * *divisor;
    };
    const auto tokenizer = config.raw().find("tokenizer_type");
    if (tokenizer == config.raw().end() || tokenizer->second.value != "NullTokenizer" ||
        padded(*vocab) == padded(*vocab + 1))
      fill(config, Key::padded_vocab, padded(*vocab),
           "vocab padded to vocab_divisor x tensor_parallel");
  }
}

}  // namespace

int strength_of(std::string_view origin) {
  if (origin.substr(0, 7) == "default") return 0;
  if (origin.substr(0, 7) == "derived") return 1;
  if (origin.substr(0, 12) == "model config" || origin == "config.json") return 2;
  if (starts_with_any(origin, {"command line", "environment", "configuration file"})) return 3;
  if (starts_with_any(origin, {"reported", "trainer lines"})) return 5;
  if (starts_with_any(origin, {"flag", "--", "user"})) return 6;
  return 4;
}

bool merge_setting(RunConfig& config, Key key, Setting setting) {
  const Setting* old = config.find(key);
  if (!old) {
    config.set(key, std::move(setting.value), std::move(setting.origin), std::move(setting.place));
    return true;
  }
  const int before = strength_of(old->origin), now = strength_of(setting.origin);
  if (now < before) return false;
  if (now == before) {
    if (same(old->value, setting.value)) return false;
    const bool later_run = old->origin == setting.origin && old->place.file == setting.place.file;
    Conflict conflict{key, later_run ? setting : *old, later_run ? *old : setting};
    auto& conflicts = config.conflicts();
    const bool known = std::any_of(conflicts.begin(), conflicts.end(), [&](const Conflict& c) {
      return c.key == key && same(c.other.value, conflict.other.value) &&
             same(c.kept.value, conflict.kept.value);
    });
    if (!known && conflicts.size() < kConflicts) conflicts.push_back(std::move(conflict));
    if (!later_run) return false;
  }
  config.set(key, std::move(setting.value), std::move(setting.origin), std::move(setting.place));
  return true;
}

void merge(RunConfig& into, const RunConfig& from) {
  for (const std::string& framework : from.frameworks()) add_framework(into, framework);
  for (const auto& [key, setting] : from.settings())
    if (key != Key::framework) merge_setting(into, key, setting);
  for (const auto& [name, raw] : from.raw())
    if (into.raw().size() < limits::kSettings || into.raw().contains(name))
      into.raw().insert_or_assign(name, raw);
  for (const Conflict& conflict : from.conflicts())
    if (into.conflicts().size() < kConflicts) into.conflicts().push_back(conflict);
}

void add_framework(RunConfig& config, std::string_view name) {
  auto& all = config.frameworks();
  if (!seen(config, name)) {
    const auto before = std::find_if(all.begin(), all.end(), [&](const std::string& other) {
      return framework_rank(other) > framework_rank(name);
    });
    all.emplace(before, name);
  }
  config.set(Key::framework, all.front(), "printed by it");
}

void derive(RunConfig& config) {
  for (int round = 0; round < 2;
       ++round) {  // a derived layout gives a derived batch and the other way round
    derive_layout(config);
    derive_batch(config);
  }
  derive_shape(config);
}

}  // namespace triage::parsers
