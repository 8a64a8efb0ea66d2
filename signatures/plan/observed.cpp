#include "signatures/plan/observed.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "parsers/base/quantity.hpp"
#include "signatures/memory/megatron_setup.hpp"

namespace triage::signatures {

using parsers::Bytes;
using parsers::Key;
using parsers::RunConfig;

namespace {

constexpr int kSteps = 24;                     // bisections of an open amount
constexpr std::int64_t kMostImages = 32;       // of one sample, tried one after the other
constexpr double kUneven = 1.05;               // rows over the mean from which a request is a sign of uneven routing
constexpr std::int64_t kWorthIt = std::int64_t{256} << 20;   // bytes; a smaller gap settles nothing

memory::Phase memory_phase(Phase phase) {
  switch (phase) {
    case Phase::loss: return memory::Phase::loss;
    case Phase::backward: return memory::Phase::backward;
    case Phase::optimizer_init:
    case Phase::optimizer_step: return memory::Phase::optimizer_step;
    case Phase::init:
    case Phase::load: return memory::Phase::init;
    default: return memory::Phase::forward;
  }
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string two_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

// Bytes of the forward pass's highest moment that do not grow with the layers done: all but what layers keep.
Bytes beside_layers(const memory::Estimate& estimate) {
  Bytes sum;
  for (const memory::PhaseEstimate& phase : estimate.highest().phases) {
    if (phase.phase != memory::Phase::forward) continue;
    for (const memory::Term& term : phase.terms)
      if (term.name != memory::term::kActivations && term.name != memory::term::kMoe && term.name != memory::term::kOptimizer) sum += term.mid;
  }
  // Of the states, the masters are there from the start.
  for (const memory::PhaseEstimate& phase : estimate.highest().phases)
    if (phase.phase == memory::Phase::first_step)
      for (const memory::Term& term : phase.terms)
        if (term.name == memory::term::kOptimizer) sum += term.mid;
  return sum;
}

// The least share of the layers that a forward pass had done when it failed: if routing was as uneven as can be (`worst`: bytes of the whole
// pass then). 1: nothing follows (another phase, several stages).
double least_share_done(const memory::Observation& failed, const memory::Estimate& estimate, std::optional<Bytes> worst) {
  if (failed.phase != memory::Phase::forward || !failed.before_states || estimate.layout.pipeline > 1 || !worst) return 1;
  const double beside = static_cast<double>(beside_layers(estimate).count());
  const double all = static_cast<double>(worst->count()) - beside, done = static_cast<double>(failed.bytes.count()) - beside;
  return all > 0 && done > 0 ? std::min(1.0, done / all) : 1;
}

// No step was completed that the log would show.
bool in_first_step(const Diagnosis& diagnosis) {
  if (diagnosis.root.step) return *diagnosis.root.step <= 1;
  if (diagnosis.past_first_step) return false;
  return std::none_of(diagnosis.memory.begin(), diagnosis.memory.end(), [](const parsers::MemoryReport& r) { return r.max_allocated.has_value(); });
}

// The largest value (of `most`, in whole units) whose model does not exceed what was seen.
std::int64_t solve(std::int64_t most, const std::function<std::optional<Bytes>(std::int64_t)>& model, Bytes seen) {
  std::int64_t low = 0, high = most;
  for (int i = 0; i < kSteps && high - low > 1; ++i) {
    const std::int64_t middle = low + (high - low) / 2;
    const std::optional<Bytes> bytes = model(middle);
    if (bytes && *bytes <= seen) low = middle;
    else high = middle;
  }
  const std::optional<Bytes> all = model(most);
  return all && *all <= seen ? most : low;
}

}  // namespace

Bytes rest_of_loss(const Diagnosis& diagnosis, bool to_backward) {
  if (diagnosis.phase != Phase::loss || !diagnosis.ledger || !diagnosis.ledger->tried || diagnosis.root.frames.empty()) return {};
  const std::int64_t tried = diagnosis.ledger->tried->count();
  if (tried <= 0 || tried > (std::int64_t{1} << 50)) return {};
  // Bytes a logit. transformers: src/transformers/loss/loss_utils.py (ForCausalLMLoss: logits.float()), torch.nn.functional.cross_entropy:
  // 2 logits, 4 fp32 copy, 4 log-soft-max; backward 2 more. Measured: 10 and 12 (docs/memory-model-pytorch.md).
  const parsers::Frame& inner = diagnosis.root.frames.back();
  const bool wide = diagnosis.config.text(Key::dtype).value_or("") == "fp32" && !diagnosis.config.has(Key::autocast);
  if (wide) return Bytes(contains(inner.file, "modules/linear.py") ? (to_backward ? 2 : 1) * tried : 0);
  if (contains(inner.file, "modules/linear.py") || inner.function == "linear") return Bytes((to_backward ? 5 : 4) * tried);
  if (inner.function == "ForCausalLMLoss" || inner.function == "convert_to_fp32") return Bytes(tried + (to_backward ? tried / 2 : 0));
  if (inner.function == "cross_entropy" || inner.function == "log_softmax") return Bytes(to_backward ? tried / 2 : 0);
  return {};
}

std::vector<memory::Observation> observations_of(const Diagnosis& diagnosis) {
  using Kind = memory::Observation::Kind;
  std::vector<memory::Observation> out;
  const auto add = [&out](Kind kind, Bytes bytes, std::string origin) {
    memory::Observation made;
    made.kind = kind;
    made.bytes = bytes;
    made.origin = std::move(origin);
    out.push_back(std::move(made));
  };
  for (const parsers::MemoryReport& report : diagnosis.memory) {
    const std::string origin = report.printer + (report.rank ? ", rank " + std::to_string(*report.rank) : "") +
                               (report.iteration ? ", iteration " + std::to_string(*report.iteration) : "");
    if (report.max_allocated) add(Kind::peak_allocated, *report.max_allocated, origin);
    if (report.allocated && report.max_allocated) add(Kind::allocated_at_rest, *report.allocated, origin);
  }
  if (diagnosis.ledger && diagnosis.ledger->allocated && diagnosis.ledger->tried && diagnosis.kind.starts_with("gpu.oom")) {
    const Bytes rest = rest_of_loss(diagnosis, false);
    add(Kind::failed_allocation, *diagnosis.ledger->allocated + *diagnosis.ledger->tried + rest,
        rest.count() > 0 ? "the out-of-memory error, with what the loss asks for after it" : "the out-of-memory error");
    if (diagnosis.phase != Phase::unknown) out.back().phase = memory_phase(diagnosis.phase);
    out.back().before_states = in_first_step(diagnosis);
    // Megatron's main gradients stand in buffers from the start.
    const auto& programs = diagnosis.config.frameworks();
    const bool buffers = std::any_of(programs.begin(), programs.end(), [](const std::string& name) {
      return name == "megatron-lm" || name == "megatron-bridge" || name == "nemo" || name == "deepspeed";
    });
    out.back().before_gradients = !buffers && (diagnosis.phase == Phase::loss || diagnosis.phase == Phase::forward);
  }
  return out;
}

RunConfig completed_config(const Diagnosis& diagnosis, RunConfig config) {
  if (config.has(Key::attention)) return config;
  // transformers: src/transformers/integrations/*.py, models/*/modeling_*.py: the function that computes attention.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kKernels = {{{"eager_attention_forward", "eager"},
                                                                                      {"sdpa_attention_forward", "sdpa"},
                                                                                      {"flash_attention_forward", "flash"},
                                                                                      {"flex_attention_forward", "flex"}}};
  for (const parsers::Frame& frame : diagnosis.root.frames)
    for (const auto& [function, kernel] : kKernels)
      if (frame.function == function) config.set(Key::attention, std::string(kernel), "inferred: the traceback's " + std::string(function));
  return config;
}

bool had_gradients(const RunConfig& config, const memory::Estimate& estimate, const memory::Observation& failed) {
  if (!failed.before_gradients || config.integer(Key::gradient_accumulation).value_or(1) < 2) return false;
  memory::Observation later = failed;
  later.before_gradients = false;
  const std::int64_t first_gap = failed.bytes.count() - memory::modelled(failed, estimate).count();
  const std::int64_t later_gap = failed.bytes.count() - memory::modelled(later, estimate).count();
  return first_gap > kWorthIt && std::abs(later_gap) < first_gap;
}

std::optional<double> routed_to_this_rank(const Diagnosis& diagnosis, const RunConfig& config, const memory::Estimate& estimate) {
  const memory::ModelShape& shape = estimate.shape;
  if (!diagnosis.ledger || !diagnosis.ledger->tried || !shape.has_experts() || estimate.layout.expert <= 1 || estimate.model != "megatron") return std::nullopt;
  // NVIDIA/Megatron-LM@d98e8a6: megatron/core/transformer/moe/token_dispatcher.py: what these make first is as wide as the hidden states, one
  // row for each that this rank's experts receive.
  constexpr std::array<std::string_view, 3> kMakers = {"token_dispatch", "dispatch_postprocess", "combine_preprocess"};
  const auto& frames = diagnosis.root.frames;
  const std::size_t first = frames.size() > 6 ? frames.size() - 6 : 0;
  const bool made_here = std::any_of(frames.begin() + static_cast<std::ptrdiff_t>(first), frames.end(), [&](const parsers::Frame& f) {
    return contains(f.file, "token_dispatcher") && std::find(kMakers.begin(), kMakers.end(), f.function) != kMakers.end();
  });
  if (!made_here) return std::nullopt;
  const memory::Layout& l = estimate.layout;
  const double width = config.text(Key::dtype).value_or("") == "fp32" ? 4 : 2;
  const double tokens = l.tokens() / static_cast<double>(l.sequence_split());
  const double mean = tokens * static_cast<double>(shape.experts_per_token) * static_cast<double>(shape.hidden) * width;
  if (mean <= 0) return std::nullopt;
  const double factor = static_cast<double>(diagnosis.ledger->tried->count()) / mean;
  if (factor < kUneven || factor > static_cast<double>(l.expert * l.expert_tensor) * 1.02) return std::nullopt;
  return factor;
}

std::optional<Settled> settle_open_amount(const RunConfig& config, const memory::Estimate& estimate, const std::vector<memory::Observation>& observations,
                                          std::optional<double> worst_layer) {
  const auto failed = std::find_if(observations.begin(), observations.end(), [](const memory::Observation& o) {
    return o.kind == memory::Observation::Kind::failed_allocation && o.phase &&
           (*o.phase == memory::Phase::forward || *o.phase == memory::Phase::loss || *o.phase == memory::Phase::backward);
  });
  if (failed == observations.end()) return std::nullopt;
  if (std::any_of(observations.begin(), observations.end(), [](const memory::Observation& o) { return o.kind == memory::Observation::Kind::peak_allocated; }))
    return std::nullopt;   // completed steps say more than a failed request
  if (failed->bytes.count() - memory::modelled(*failed, estimate).count() < kWorthIt) return std::nullopt;
  const auto model = [&](const RunConfig& changed) -> std::optional<Bytes> {
    const parsers::Result<memory::Estimate> made = memory::estimate(changed);
    if (!made.ok()) return std::nullopt;
    return memory::modelled(*failed, *made);
  };
  const memory::ModelShape& shape = estimate.shape;
  // A tower of fixed image size takes whole images: the number a sample, and whether gradients of an earlier micro batch were there, that
  // meet the figures best.
  const std::int64_t side = shape.vision && shape.vision->patch > 0 ? config.integer(Key::vision_image_size).value_or(0) / shape.vision->patch : 0;
  if (shape.vision && shape.vision->patches == 0 && side > 0 && side < 1024) {
    const std::int64_t batch = std::max<std::int64_t>(1, config.integer(Key::micro_batch).value_or(1)), merge = shape.vision->merge * shape.vision->merge;
    const std::int64_t room = std::min<std::int64_t>(config.integer(Key::seq_length).value_or(0) / std::max<std::int64_t>(1, side * side / merge), kMostImages);
    const bool accumulates = failed->before_gradients && config.integer(Key::gradient_accumulation).value_or(1) > 1;
    std::optional<Settled> best;
    std::int64_t nearest = failed->bytes.count() / 50;   // 2 %
    for (std::int64_t images = 1; images <= room; ++images) {
      RunConfig changed = config;
      changed.set(Key::images, images * batch, "inferred: from what was allocated when it failed");
      const parsers::Result<memory::Estimate> made = memory::estimate(changed);
      if (!made.ok()) break;
      for (const bool later : {false, true}) {
        if (later && !accumulates) continue;
        memory::Observation seen = *failed;
        if (later) seen.before_gradients = false;
        const std::int64_t gap = std::abs(failed->bytes.count() - memory::modelled(seen, *made).count());
        if (gap >= nearest) continue;
        nearest = gap;
        best = Settled{changed, later, std::to_string(images) + (images == 1 ? " image" : " images") + " in a sample, from what was allocated when it failed" +
                                           (later ? " in a later micro batch of its step" : "") + ": the log states no images"};
      }
    }
    if (best) return best;
  }
  if (shape.vision && !shape.vision->frozen && shape.vision->patches == 0) {
    const std::int64_t batch = std::max<std::int64_t>(1, config.integer(Key::micro_batch).value_or(1)), merge = shape.vision->merge * shape.vision->merge;
    const std::int64_t most = std::min<std::int64_t>(std::max<std::int64_t>(0, config.integer(Key::seq_length).value_or(0)), 1 << 14);   // merged patches of one sample
    const auto with = [&](std::int64_t tokens) {
      RunConfig changed = config;
      const std::string origin = "inferred: from what was allocated when it failed";
      changed.set(Key::images, batch, origin);
      changed.set(Key::image_grid_height, merge, origin);
      changed.set(Key::image_grid_width, std::max<std::int64_t>(1, tokens), origin);
      return changed;
    };
    const std::int64_t tokens = solve(most, [&](std::int64_t n) { return n == 0 ? std::optional<Bytes>(Bytes()) : model(with(n)); }, failed->bytes);
    if (tokens > 0)
      return Settled{with(tokens), false, std::to_string(tokens * merge * batch) + " image patches in a micro batch, " +
                                       (tokens == most ? "as many as its tokens allow" : "from what was allocated when it failed") +
                                       ": the log states no images"};
  }
  const bool open = shape.has_experts() && estimate.layout.expert > 1 && !config.has(Key::moe_capacity_factor) && !config.has(Key::moe_imbalance);
  if (open) {
    const auto with = [&](std::int64_t hundredths) {
      RunConfig changed = config;
      if (worst_layer) changed.raw()[std::string(memory::kWorstLayer)] = {std::to_string(*worst_layer), "inferred: the size of the failed request", {}};
      changed.set(Key::moe_imbalance, 1 + static_cast<double>(hundredths) / 100, "inferred: from what was allocated when it failed");
      return changed;
    };
    const std::int64_t most = std::min<std::int64_t>(100 * (estimate.layout.expert - 1), 100000);
    const std::int64_t least = solve(most, [&](std::int64_t n) { return model(with(n)); }, failed->bytes);
    // In the forward pass it is not known which layer failed: the first that could have at the worst routing, the last at the least uneven
    // one. The middle is taken.
    std::int64_t hundredths = least;
    if (const double done = least > 0 && least < most ? least_share_done(*failed, estimate, model(with(most))) : 1; done > 0 && done < 1) {
      const double share = (1 + done) / 2, beside = static_cast<double>(beside_layers(estimate).count());
      const double target = beside + (static_cast<double>(failed->bytes.count()) - beside) / share;
      hundredths = solve(most, [&](std::int64_t n) { return model(with(n)); }, Bytes(static_cast<std::int64_t>(target)));
    }
    if (hundredths > 0) {
      return Settled{with(hundredths), false, "this rank's experts receive " + (hundredths > least ? std::string("between ") + two_digits(1 + static_cast<double>(least) / 100) + " (the last layer failed) and " + two_digits(1 + static_cast<double>(most) / 100) + ", taken as " : std::string("at least ")) +
                                                    two_digits(1 + static_cast<double>(hundredths) / 100) +
                                           " times the mean number of rows: so much was allocated when it failed" +
                                           (worst_layer ? "; in the layer that failed it was " + two_digits(*worst_layer) + " times" : "")};
    }
  }
  return std::nullopt;
}

}  // namespace triage::signatures
