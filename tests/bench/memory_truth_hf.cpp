// Predicted against measured memory of Hugging Face models on one device: tests/corpus/memory/huggingface-h200.jsonl (one run a line, bytes
// of torch.cuda.memory_allocated). Prints a table, and with --floor fails above the stated errors.
// usage: memory_truth_hf FILE [--floor] [--terms] [--write]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "parsers/config/config_file.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/memory/frameworks.hpp"
#include "tests/support/approved.hpp"
#include "tests/support/prediction_text.hpp"

using nlohmann::json;
using triage::parsers::Key;
using triage::parsers::RunConfig;
namespace memory = triage::signatures::memory;

namespace {

// The settings of a row under the tool's own keys; what the script that made the rows did not set is transformers' default.
RunConfig config_of(const json& row) {
  RunConfig config;
  const auto number = [&](Key key, std::int64_t value) { config.set(key, value, "row"); };
  const auto word = [&](Key key, const std::string& value) { config.set(key, value, "row"); };
  const auto flag = [&](Key key, bool value) { config.set(key, value, "row"); };
  const std::string family = row.at("family");
  word(Key::framework, "huggingface");
  number(Key::layers, row.at("layers"));
  word(Key::dtype, row.at("dtype"));
  word(Key::attention, row.at("attn"));
  word(Key::gpu, "NVIDIA H200");
  flag(Key::gated_mlp, true);
  flag(Key::tied_embeddings, false);
  if (row.at("ckpt").get<bool>()) word(Key::recompute, "full");
  const std::string optimizer = row.at("opt");
  word(Key::optimizer, optimizer.substr(0, optimizer.find('_')));
  flag(Key::optimizer_fused, optimizer == "adamw_fused");
  if (optimizer == "adamw_loop") flag(Key::optimizer_foreach, false);
  if (family == "vl") {
    const json& text = row.at("text");
    const json& vision = row.at("vision");
    const std::int64_t images = row.at("images"), tokens = row.at("tokens");
    word(Key::model_type, "qwen3_vl");
    number(Key::hidden, text.at("hidden"));
    number(Key::ffn, text.at("ffn"));
    number(Key::heads, text.at("heads"));
    number(Key::kv_heads, text.at("kv"));
    number(Key::vocab, text.at("vocab"));
    flag(Key::qk_norm, true);
    number(Key::micro_batch, images);
    number(Key::seq_length, tokens / images);
    number(Key::vision_layers, vision.at("depth"));
    number(Key::vision_hidden, vision.at("hidden"));
    number(Key::vision_ffn, vision.at("ffn"));
    number(Key::vision_heads, vision.at("heads"));
    number(Key::vision_patch, vision.at("patch"));
    number(Key::vision_temporal_patch, 2);
    number(Key::vision_merge, vision.at("merge"));
    number(Key::vision_mergers, 1 + static_cast<std::int64_t>(vision.at("deepstack").size()));
    number(Key::vision_positions, 2304);
    number(Key::images, images);
    number(Key::image_grid_height, row.at("grid"));
    number(Key::image_grid_width, row.at("grid"));
    flag(Key::freeze_vision, row.at("freeze_vision"));
    return config;
  }
  word(Key::model_type, family == "moe" ? "qwen3_moe" : "llama");
  number(Key::hidden, row.at("hidden"));
  number(Key::ffn, row.at("ffn"));
  number(Key::heads, row.at("heads"));
  number(Key::kv_heads, row.at("kv"));
  number(Key::vocab, row.at("vocab"));
  number(Key::micro_batch, row.at("mbs"));
  number(Key::seq_length, row.at("seq"));
  if (family == "moe") {
    number(Key::head_dim, 128);
    flag(Key::qk_norm, true);
    number(Key::experts, row.at("experts"));
    number(Key::experts_per_token, row.at("topk"));
    number(Key::expert_ffn, row.at("moe_ffn"));
  }
  return config;
}

// A row with the model's whole config.json, as a user hands it over.
RunConfig config_of_model(const json& row) {
  auto read = triage::parsers::read_model_config(row.at("config").dump(), row.at("name").get<std::string>());
  if (!read.ok()) return {};
  RunConfig config = std::move(*read);
  const auto number = [&](Key key, std::int64_t value) { config.set(key, value, "flag"); };
  const auto word = [&](Key key, const std::string& value) { config.set(key, value, "flag"); };
  word(Key::framework, "huggingface");
  word(Key::attention, row.value("attn", "sdpa"));
  word(Key::gpu, "NVIDIA H200");
  number(Key::micro_batch, row.at("mbs"));
  number(Key::seq_length, row.at("seq"));
  word(Key::dtype, row.value("dtype", "bfloat16") == "float32" ? "fp32" : "bf16");
  if (row.contains("autocast")) word(Key::autocast, "bf16");
  if (row.value("ckpt", false)) word(Key::recompute, "full");
  const std::string optimizer = row.at("opt");
  const std::string stem = optimizer.substr(0, optimizer.find('_'));
  word(Key::optimizer, optimizer == "adafactor_hf" ? "adafactor_transformers" : optimizer == "adamw_8bit" ? optimizer : stem);
  config.set(Key::optimizer_fused, optimizer == "adamw_fused", "flag");
  if (optimizer == "sgd_momentum") config.set(Key::momentum, 0.9, "flag");
  if (row.contains("images")) number(Key::images, row.at("images").get<std::int64_t>() * row.at("mbs").get<std::int64_t>());
  if (row.contains("grid")) {
    number(Key::image_grid_height, row.at("grid"));
    number(Key::image_grid_width, row.at("grid"));
  }
  if (row.value("freeze_vision", false)) config.set(Key::freeze_vision, true, "flag");
  if (row.contains("accumulation")) number(Key::gradient_accumulation, row.at("accumulation"));
  if (row.value("padding", 0) > 0) config.set(Key::attention_mask, true, "flag");
  if (row.contains("lora")) {
    number(Key::lora_rank, row.at("lora"));
    config.set(Key::lora_targets, row.at("targets").get<std::vector<std::string>>(), "flag");
    if (row.contains("lora_dropout")) config.raw()["lora_dropout"] = {row.at("lora_dropout").dump(), "flag", {}};
  }
  if (row.value("kind", "").substr(0, 4) == "fsdp") {
    word(Key::framework, "fsdp");
    word(Key::fsdp, row.at("kind"));
    number(Key::world, row.at("world"));
    if (row.contains("mixed")) word(Key::autocast, "bf16");
    if (row.contains("strategy")) word(Key::fsdp_strategy, row.at("strategy"));
    if (row.contains("reshard")) config.set(Key::reshard_after_forward, row.at("reshard").get<bool>(), "flag");
    config.raw()["reduce_dtype"] = {row.value("reduce", row.contains("mixed") ? "float32" : "bfloat16"), "flag", {}};
  }
  return config;
}

struct Prediction {
  double forward = 0, backward = 0, steady = 0, peak = 0;  // of the first step, of the first step, between steps, of all steps
};

Prediction predict(const memory::StageEstimate& stage) {
  Prediction out;
  double states = 0;
  for (const memory::PhaseEstimate& phase : stage.phases) {
    const double bytes = static_cast<double>(phase.allocated.mid.count());
    out.peak = std::max(out.peak, bytes);
    double optimizer = 0;
    for (const memory::Term& term : phase.terms)
      if (term.name == memory::term::kOptimizer) optimizer = static_cast<double>(term.mid.count());
    states = std::max(states, optimizer);
    if (phase.phase == memory::Phase::forward || phase.phase == memory::Phase::loss)
      out.forward = std::max(out.forward, bytes - optimizer);
    if (phase.phase != memory::Phase::optimizer_step) out.backward = std::max(out.backward, bytes - optimizer);
  }
  for (const memory::PhaseEstimate& phase : stage.phases)
    if (phase.phase == memory::Phase::first_step)
      for (const memory::Term& term : phase.terms)
        if (term.name == memory::term::kOptimizer) out.forward += states, out.backward += states;  // made with the optimizer
  out.steady = static_cast<double>(stage.static_bytes.count());
  return out;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto has = [&](const char* name) { return std::find(arguments.begin(), arguments.end(), name) != arguments.end(); };
  if (arguments.empty()) return std::fprintf(stderr, "usage: memory_truth_hf FILE [--floor] [--terms] [--write]\n"), 2;
  std::ifstream file(arguments[0]);
  std::string line;
  std::map<std::string, std::vector<double>> errors;
  std::vector<json> rows;
  std::vector<double> predicted;
  std::string predictions;
  bool refused = false;
  while (std::getline(file, line)) {
    json row = json::parse(line, nullptr, false);
    if (row.is_discarded() || row.contains("error") || (row.contains("peak") && row["peak"].is_null())) continue;
    const bool by_model = row.contains("config");
    const auto estimate = memory::estimate_torch(by_model ? config_of_model(row) : config_of(row));
    if (!estimate.ok()) {
      std::printf("%s: %s\n", row.dump().substr(0, 80).c_str(), estimate.error().message().c_str());
      refused = true;
      continue;
    }
    const memory::StageEstimate& stage = estimate->stages.front();
    Prediction p = predict(stage);
    std::string name = by_model ? row["name"].get<std::string>() : row["family"].get<std::string>() + " L" + row["layers"].dump() + " b" + row["mbs"].dump() + " s" + row["seq"].dump() +
                       " " + row["attn"].get<std::string>() + " " + row["dtype"].get<std::string>() + " " + row["opt"].get<std::string>();
    if (!by_model && row["ckpt"].get<bool>()) name += " ckpt";
    std::printf("%-52s", name.c_str());
    predictions += triage::tests::prediction_text(name, *estimate);
    if (!row.contains("peak")) {  // not measured yet
      std::printf("  peak_forward %.0f  peak_backward %.0f  steady %.0f  peak %.0f\n", p.forward, p.backward, p.steady, p.peak);
      continue;
    }
    const auto compare = [&](const char* what, double value) {
      const double truth = row[what].get<double>();
      const double error = (value - truth) / truth * 100;
      errors[what].push_back(std::abs(error));
      std::printf("  %s %8.3f %8.3f %+6.2f%%", what, truth / 1073741824.0, value / 1073741824.0, error);
    };
    // The first step of a fresh process passes the loss before the backward thread has its cuBLAS workspace.
    if (row.value("fresh", false)) p.forward -= 32.0 * 1048576, p.backward -= 32.0 * 1048576;
    // Accumulating runs: measured is the first micro batch, computed the highest one.
    if (!row.contains("accumulation")) {
      compare("peak_forward", p.forward);
      compare("peak_backward", p.backward);
    }
    compare("steady", p.steady);
    compare("peak", p.peak);
    const auto parameters = static_cast<double>(stage.dense_parameters + stage.expert_parameters);
    std::printf("  parameters %+lld\n", static_cast<long long>(parameters) - row["params"].get<long long>());
    if (has("--terms"))
      for (const memory::PhaseEstimate& phase : stage.phases) {
        std::printf("    %s %.3f:", std::string(memory::phase_name(phase.phase)).c_str(), phase.allocated.mid.gib());
        for (const memory::Term& term : phase.terms) std::printf(" %s %.3f", term.name.c_str(), term.mid.gib());
        std::printf("\n");
      }
    rows.push_back(std::move(row));
    predicted.push_back(p.peak);
  }
  if (rows.empty()) return std::fprintf(stderr, "no rows in %s\n", arguments[0].c_str()), 1;
  bool good = triage::tests::approved(std::filesystem::path(arguments[0]).replace_extension(".predicted.txt"), predictions, has("--write")) && !refused;
  for (auto& [what, list] : errors) {
    const double worst = *std::max_element(list.begin(), list.end());
    std::printf("%-14s %zu rows: median error %.3f %%, worst %.3f %%\n", what.c_str(), list.size(), median(list), worst);
    good = good && median(list) <= 0.5 && worst <= 2.0;
  }
  // Savings: pairs of rows that differ in one setting.
  std::size_t pairs = 0, outside = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      std::string knob;
      int different = 0;
      for (const char* key : {"family", "hidden", "ffn", "layers", "heads", "kv", "vocab", "mbs", "seq", "ckpt", "opt", "attn", "dtype", "experts",
                              "topk", "moe_ffn", "grid", "images", "freeze_vision", "config", "autocast", "lora", "targets", "lora_dropout",
                              "accumulation", "padding", "kind", "world", "mixed", "strategy", "reshard", "reduce", "reentrant"})
        if (rows[i].value(key, json()) != rows[j].value(key, json())) ++different, knob = key;
      if (different != 1 || knob == "config") continue;   // another model is no change of a run
      const double truth = rows[i]["peak"].get<double>() - rows[j]["peak"].get<double>(), value = predicted[i] - predicted[j];
      const double miss = std::abs(value - truth);
      const bool within = miss <= 0.05 * std::abs(truth) || miss <= 0.25 * 1073741824.0;
      ++pairs;
      if (!within) ++outside;
      std::printf("saving by %-13s %s -> %s: measured %+8.3f GiB, predicted %+8.3f%s\n", knob.c_str(), rows[i][knob].dump().c_str(),
                  rows[j][knob].dump().c_str(), truth / 1073741824.0, value / 1073741824.0, within ? "" : "   OUTSIDE");
    }
  std::printf("savings: %zu pairs, %zu outside 5 %% or 0.25 GiB\n", pairs, outside);
  good = good && outside == 0;
  if (!good) std::printf("predictions have changed, or are above the floors: median 0.5 %%, worst 2 %%, savings within 5 %% or 0.25 GiB\n");
  return has("--floor") && !good ? 1 : 0;
}
