#include "signatures/memory/layout.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "signatures/memory/stage_split.hpp"

namespace triage::signatures::memory {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Key;
using parsers::RunConfig;

namespace {

constexpr Count kMaxRanks = 1 << 20;
constexpr Count kMaxTokens = Count{1} << 28;
constexpr Count kMaxStages = 4096;

std::string number(Count n) { return std::to_string(n); }

std::optional<Count> positive(const RunConfig& config, Key key) {
  const auto value = config.integer(key);
  return value && *value > 0 ? value : std::nullopt;
}

void read_sizes(const RunConfig& config, Layout& layout, Assumptions& assumptions) {
  const auto size = [&](Key key) { return positive(config, key).value_or(1); };
  layout.tensor = size(Key::tensor_parallel);
  layout.pipeline = size(Key::pipeline_parallel);
  layout.virtual_pipeline = layout.pipeline > 1 ? size(Key::virtual_pipeline) : 1;
  layout.context = size(Key::context_parallel);
  layout.expert = size(Key::expert_parallel);
  layout.expert_tensor = positive(config, Key::expert_tensor_parallel).value_or(layout.tensor);
  layout.sequence_parallel =
      layout.tensor > 1 && config.boolean(Key::sequence_parallel).value_or(false);
  layout.microbatch_group = positive(config, Key::microbatch_group).value_or(layout.pipeline);
  const Count model = layout.tensor * layout.pipeline * layout.context;
  if (const auto world = positive(config, Key::world)) {
    layout.world = *world;
  } else if (const auto data = positive(config, Key::data_parallel)) {
    layout.world = *data * model;
  } else {
    layout.world = std::max(model, layout.pipeline * layout.expert * layout.expert_tensor);
    assume(assumptions, "world",
           number(layout.world) + " ranks, the fewest that this layout takes: not stated");
  }
  layout.data = std::max<Count>(1, layout.world / model);
  layout.expert_data = std::max<Count>(
      1, layout.world / (layout.pipeline * layout.expert * layout.expert_tensor));
}

parsers::Status read_batch(const RunConfig& config, Layout& layout, Assumptions& assumptions) {
  const auto seq = positive(config, Key::seq_length), micro = positive(config, Key::micro_batch);
  std::string missing;
  if (!seq) missing = "seq_length";
  if (!micro) missing += (missing.empty() ? "" : ", ") + std::string("micro_batch");
  if (!missing.empty())
    return Error(ErrorCode::not_found, "the batch is not known: missing " + missing);
  if (*seq > kMaxTokens || *micro > kMaxTokens || *seq * *micro > kMaxTokens * 16)
    return Error(ErrorCode::conflict, "a micro batch of " + number(*micro) + " samples of " +
                                          number(*seq) + " tokens cannot be");
  layout.seq_length = *seq;
  layout.micro_batch = *micro;
  const auto global = positive(config, Key::global_batch);
  if (const auto steps = positive(config, Key::gradient_accumulation)) {
    layout.microbatches = *steps;
  } else if (global) {
    const Count one = layout.micro_batch * layout.data;
    if (*global % one != 0)
      assume(assumptions, "global_batch",
             "global batch " + number(*global) + " is not divisible by micro batch x data parallel " +
                 number(one) + ": micro batches rounded up");
    layout.microbatches = std::max<Count>(1, (*global + one - 1) / one);
  } else if (layout.pipeline > 1) {
    layout.microbatches = layout.pipeline * layout.virtual_pipeline;
    assume(assumptions, "global_batch", "enough micro batches to fill the pipeline: not stated");
  }
  return parsers::done();
}

}  // namespace

Count Stage::layers() const {
  Count sum = 0;
  for (const StageChunk& chunk : chunks) sum += static_cast<Count>(chunk.layers.size());
  return sum;
}
bool Stage::embedding() const {
  return std::any_of(chunks.begin(), chunks.end(), [](const StageChunk& c) { return c.embedding; });
}
bool Stage::loss() const {
  return std::any_of(chunks.begin(), chunks.end(), [](const StageChunk& c) { return c.loss; });
}
Count Stage::mtp_layers() const {
  Count sum = 0;
  for (const StageChunk& chunk : chunks) sum += chunk.mtp_layers;
  return sum;
}

double Layout::tokens() const {
  return static_cast<double>(seq_length) * static_cast<double>(micro_batch) /
         static_cast<double>(context);
}

parsers::Result<Layout> make_layout(const RunConfig& config, const ModelShape& shape,
                                    Assumptions& assumptions) {
  for (const Key key : {Key::world, Key::tensor_parallel, Key::pipeline_parallel,
                        Key::virtual_pipeline, Key::context_parallel, Key::expert_parallel,
                        Key::expert_tensor_parallel, Key::data_parallel}) {
    const auto value = config.integer(key);
    if (value && (*value < 0 || *value > kMaxRanks))
      return Error(ErrorCode::conflict, std::string(parsers::key_info(key).name) + " is " +
                                            number(*value) + ": cannot be");
  }
  const auto size = [&](Key key) {
    return static_cast<double>(positive(config, key).value_or(1));
  };
  const double stages = size(Key::pipeline_parallel);
  if (stages * size(Key::tensor_parallel) * size(Key::context_parallel) > kMaxRanks ||
      stages * size(Key::expert_parallel) * size(Key::expert_tensor_parallel) > kMaxRanks)
    return Error(ErrorCode::conflict, "the parallel sizes multiply to more than a million ranks");
  Layout layout;
  read_sizes(config, layout, assumptions);
  if (layout.pipeline > kMaxStages || layout.pipeline * layout.virtual_pipeline > shape.layers + 64)
    return Error(ErrorCode::conflict,
                 number(shape.layers) + " layers cannot fill pipeline parallel " +
                     number(layout.pipeline) + " x " + number(layout.virtual_pipeline) + " stages");
  TRIAGE_CHECK(read_batch(config, layout, assumptions));
  const std::string text = config.text(Key::pipeline_layout).value_or("");
  if (!text.empty() && layout.pipeline > 1) {
    TRIAGE_TRY(layout.stages, read_stage_layout(text, layout.pipeline, shape.layers));
    layout.virtual_pipeline = static_cast<Count>(layout.stages[0].chunks.size());
  } else {
    SplitRules rules;
    rules.layers = shape.layers;
    rules.mtp_layers = shape.mtp_layers;
    rules.pipeline = layout.pipeline;
    rules.virtual_pipeline = layout.virtual_pipeline;
    if (layout.pipeline > 1) {
      rules.first_stage = positive(config, Key::layers_first_stage);
      rules.last_stage = positive(config, Key::layers_last_stage);
      rules.count_embedding = config.boolean(Key::account_embedding).value_or(false);
      rules.count_loss = config.boolean(Key::account_loss).value_or(false);
    }
    TRIAGE_TRY(layout.stages, split_layers(rules));
  }
  return layout;
}

std::vector<std::string> layout_faults(const Layout& layout, const ModelShape& shape) {
  std::vector<std::string> faults;
  const auto divides = [&](Count what, std::string_view of, Count by, std::string_view name) {
    if (by > 1 && what > 0 && what % by != 0)
      faults.push_back(number(what) + " " + std::string(of) + " are not divisible by " +
                       std::string(name) + " " + number(by));
  };
  divides(shape.heads, "heads", layout.tensor, "tensor parallel");
  if (!shape.mla && shape.kv_heads % layout.tensor != 0 && layout.tensor % shape.kv_heads != 0)
    faults.push_back(number(shape.kv_heads) + " key/value heads and tensor parallel " +
                     number(layout.tensor) + " do not divide each other");
  if (shape.moe_layers() < shape.layers)
    divides(shape.ffn, "columns of the MLP", layout.tensor, "tensor parallel");
  if (shape.has_experts()) {
    divides(shape.experts, "experts", layout.expert, "expert parallel");
    divides(shape.expert_ffn, "columns of an expert", layout.expert_tensor,
            "expert tensor parallel");
    divides(shape.shared_expert_ffn, "columns of the shared expert", layout.tensor,
            "tensor parallel");
  } else if (layout.expert > 1) {
    faults.push_back("expert parallel " + number(layout.expert) + " in a model without experts");
  }
  divides(layout.world, "ranks", layout.tensor * layout.pipeline * layout.context,
          "tensor x pipeline x context parallel");
  if (shape.has_experts())
    divides(layout.world, "ranks", layout.pipeline * layout.expert * layout.expert_tensor,
            "pipeline x expert x expert tensor parallel");
  divides(layout.seq_length, "tokens", layout.context > 1 ? 2 * layout.context : 1,
          "twice context parallel");
  if (layout.sequence_parallel)
    divides(layout.seq_length / layout.context, "tokens of a context rank", layout.tensor,
            "tensor parallel (sequence parallel)");
  return faults;
}

}  // namespace triage::signatures::memory
