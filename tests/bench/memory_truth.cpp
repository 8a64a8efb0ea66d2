// Predicted against measured memory of real runs (tests/corpus/memory/*.jsonl), and predicted against measured saving of pairs of runs
// that differ in one thing.
// usage: memory_truth [--floor] [--terms NAME] [--write] FOLDER
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "parsers/config/command_line.hpp"
#include "parsers/config/merge.hpp"
#include "signatures/memory/estimate.hpp"
#include "tests/support/approved.hpp"
#include "tests/support/prediction_text.hpp"

using namespace triage;
using namespace triage::signatures::memory;
using parsers::Key;
using parsers::RunConfig;

namespace {

constexpr double kMib = 1048576;

struct Row {
  std::string name;
  RunConfig config;
  std::int64_t rank = 0, stage = 0;       // of the job; its pipeline rank
  double rest = 0, peak = 0, theirs = 0;  // measured, MiB
  double rest_model = 0, low = 0, mid = 0, high = 0;
  std::string phase;
  bool experts = false, loose = false;    // loose: only the range is promised (routing of a fake process group)
  bool modelled = false;
};

Row read_row(const nlohmann::json& json) {
  Row row;
  row.name = json.at("name");
  parsers::Target target(row.config, "megatron-h200.jsonl", "command line");
  const auto words = parsers::command_words(json.at("args").get<std::string>());
  const auto options = parsers::options_of(words, 1);
  target.raw(options, "--");
  parsers::apply_options(options, target);
  row.config.set(Key::world, json.at("world").get<std::int64_t>(), "command line");
  parsers::derive(row.config);
  row.rank = json.at("rank");
  row.rest = json.at("allocated_mib");
  row.peak = json.at("max_allocated_mib");
  if (json.contains("megatron_estimate_mib")) row.theirs = json.at("megatron_estimate_mib").at("total");
  row.experts = row.config.integer(Key::experts).value_or(0) > 0;
  row.loose = row.experts && row.config.integer(Key::expert_parallel).value_or(1) > 1 &&
              !row.config.has(Key::moe_capacity_factor);
  return row;
}

double error(double model, double truth) { return 100 * (model - truth) / truth; }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Settings that go together: one knob.
std::string knob(Key key) {
  switch (key) {
    case Key::recompute:
    case Key::recompute_modules:
    case Key::recompute_method:
    case Key::recompute_layers: return "recompute";
    case Key::micro_batch: return "micro_batch";
    case Key::seq_length:
    case Key::max_positions: return "seq_length";
    case Key::tensor_parallel:
    case Key::sequence_parallel: return "tensor_parallel";
    case Key::moe_capacity_factor:
    case Key::moe_pad_to_capacity: return "moe_capacity";
    case Key::fsdp:
    case Key::fsdp_strategy: return "fsdp";
    case Key::optimizer_offload:
    case Key::optimizer_offload_fraction: return "offload";
    case Key::global_batch:
    case Key::gradient_accumulation:
    case Key::data_parallel:
    case Key::padded_vocab:
    case Key::framework: return "";
    default: return std::string(parsers::key_info(key).name);
  }
}

std::set<std::string> difference(const RunConfig& a, const RunConfig& b) {
  std::set<std::string> knobs;
  for (const auto& info : parsers::all_keys()) {
    const auto *x = a.find(info.key), *y = b.find(info.key);
    const std::string left = x ? parsers::value_text(x->value) : "", right = y ? parsers::value_text(y->value) : "";
    if (left != right) knobs.insert(knob(info.key));
  }
  knobs.erase("");
  return knobs;
}

void print_terms(const Estimate& estimate) {
  for (const StageEstimate& stage : estimate.stages) {
    std::printf("  stage %lld\n", static_cast<long long>(stage.pipeline_rank));
    for (const PhaseEstimate& phase : stage.phases) {
      std::printf("   %-15s %10.1f\n", std::string(phase_name(phase.phase)).c_str(),
                  static_cast<double>(phase.allocated.mid.count()) / kMib);
      for (const Term& term : phase.terms)
        std::printf("      %-15s %10.1f  %s\n", term.name.c_str(), static_cast<double>(term.mid.count()) / kMib,
                    term.note.c_str());
    }
  }
  for (const Assumption& a : estimate.assumptions) std::printf("  assumed %s: %s\n", a.key.c_str(), a.text.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  bool floor = false, write = false;
  std::string folder, terms;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--floor") floor = true;
    else if (word == "--write") write = true;
    else if (word == "--terms" && i + 1 < count) terms = arguments[++i];
    else folder = word;
  }
  std::vector<Row> rows;
  std::ifstream file(std::filesystem::path(folder) / "megatron-h200.jsonl");
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) rows.push_back(read_row(nlohmann::json::parse(line)));
  if (rows.empty()) {
    std::fprintf(stderr, "no rows in %s\n", folder.c_str());
    return 2;
  }
  int faults = 0;
  const auto fault = [&](const std::string& text) {
    std::printf("FLOOR: %s\n", text.c_str());
    ++faults;
  };
  std::printf("Megatron-LM, MiB: at rest and peak, measured, modelled, error; Megatron's own estimate beside it\n");
  std::vector<double> dense, all, theirs, rest;
  std::string predictions;
  for (Row& row : rows) {
    const auto estimated = estimate(row.config);
    if (!estimated.ok()) {
      std::printf("%-32s %s\n", row.name.c_str(), estimated.error().message().c_str());
      fault(row.name + " is not modelled");
      continue;
    }
    // Pipeline ranks are the outermost: parallel_state.py, order tp-cp-ep-dp-pp.
    row.stage = row.rank / (estimated->layout.world / estimated->layout.pipeline);
    const StageEstimate& stage = estimated->stages.at(static_cast<std::size_t>(row.stage));
    const auto mib = [](Bytes b) { return static_cast<double>(b.count()) / kMib; };
    row.modelled = true;
    row.rest_model = mib(stage.static_bytes);
    row.low = mib(stage.peak_allocated.low);
    row.mid = mib(stage.peak_allocated.mid);
    row.high = mib(stage.peak_allocated.high);
    row.phase = phase_name(stage.peak_phase);
    const double r = error(row.rest_model, row.rest), e = error(row.mid, row.peak);
    const bool inside = row.peak >= row.low * 0.96 && row.peak <= row.high * 1.04;
    std::printf("%-32s rest %9.1f %9.1f %+7.2f%%  peak %9.1f %9.1f %+7.2f%% [%9.1f, %9.1f]%s  theirs %+6.1f%%  %s\n",
                row.name.c_str(), row.rest, row.rest_model, r, row.peak, row.mid, e, row.low, row.high,
                inside ? "" : " OUTSIDE", error(row.theirs, row.peak), row.phase.c_str());
    if (row.name == terms) print_terms(*estimated);
    predictions += tests::prediction_text(row.name, *estimated);
    rest.push_back(std::abs(r));
    if (row.theirs > 0) theirs.push_back(std::abs(error(row.theirs, row.peak)));
    if (!row.loose) (row.experts ? all : dense).push_back(std::abs(e));
    if (std::abs(r) > 0.5) fault(row.name + ": at rest off by more than 0.5 %");
    if (!inside) fault(row.name + ": the measured peak is outside the range");
    if (!row.loose && std::abs(e) > 1) fault(row.name + ": peak off by more than 1 %");
  }
  std::printf("dense peak: median %.2f %%, worst %.2f %% of %zu; experts, balanced: worst %.2f %% of %zu; at rest: worst %.2f %%; "
              "Megatron's own: median %.1f %%, worst %.1f %%\n",
              median(dense), *std::max_element(dense.begin(), dense.end()), dense.size(),
              all.empty() ? 0 : *std::max_element(all.begin(), all.end()), all.size(),
              *std::max_element(rest.begin(), rest.end()), median(theirs), *std::max_element(theirs.begin(), theirs.end()));
  if (median(dense) > 1.5) fault("median of the dense rows over 1.5 %");
  std::size_t loose_rows = 0, loose_inside = 0;
  for (const Row& row : rows)
    if (row.loose && row.modelled) ++loose_rows, loose_inside += row.peak >= row.low * 0.96 && row.peak <= row.high * 1.04 ? 1 : 0;
  std::printf("experts over a fake process group: %zu of %zu inside the stated range\n", loose_inside, loose_rows);
  std::size_t pairs = 0, off = 0, open = 0;
  std::printf("Saving of one change, MiB: measured, modelled\n");
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      const Row &a = rows[i], &b = rows[j];
      const auto knobs = difference(a.config, b.config);
      if (knobs.size() != 1 || !a.modelled || !b.modelled || a.stage != b.stage) continue;
      const double measured = a.peak - b.peak, modelled = a.mid - b.mid;
      const bool near = std::abs(measured - modelled) <= std::max(0.05 * std::abs(measured), 256.0);
      const bool loose = a.loose || b.loose;
      loose ? ++open : ++pairs;
      if (!loose && !near) ++off;
      std::printf("%-18s %-32s -> %-32s %10.1f %10.1f %s\n", knobs.begin()->c_str(), a.name.c_str(), b.name.c_str(),
                  measured, modelled, near ? "" : loose ? "(only the range is promised)" : "OFF");
      if (!near && !loose) fault(a.name + " -> " + b.name + ": saving off");
    }
  std::printf("savings: %zu pairs, %zu outside 5 %% or 0.25 GiB; %zu more with open routing\n", pairs, off, open);
  if (pairs < 14) fault("fewer than 14 pairs of runs that differ in one setting");
  if (!tests::approved(std::filesystem::path(folder) / "megatron-h200.predicted.txt", predictions, write)) fault("predictions have changed");
  return floor && faults ? 1 : 0;
}
