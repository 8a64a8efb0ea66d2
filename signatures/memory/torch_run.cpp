#include "signatures/memory/torch_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "parsers/base/text.hpp"

namespace triage::signatures::memory {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Key;
using parsers::RunConfig;
using tape::AttentionKernel;

namespace {

// limit: the simulated step has about a hundred records a layer; deeper models are refused, not approximated.
constexpr Count kMostLayers = 2048;
constexpr Count kMostMergers = 64;
constexpr Count kMostTokens = Count{1} << 28;
constexpr double kMostElements = 1e17;  // of one tensor; sums of many stay below 2^63 bytes

std::string word(const RunConfig& config, Key key) { return parsers::lower(config.text(key).value_or("")); }

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

int width_of(std::string_view dtype) {
  if (has(dtype, "bf16") || has(dtype, "fp16") || has(dtype, "16")) return 2;
  if (has(dtype, "32")) return 4;
  return 0;
}

Count at_least_one(const RunConfig& config, Key key) {
  return std::max<Count>(1, config.integer(key).value_or(1));
}

void read_types(const RunConfig& config, TorchRun& run, Assumptions& assumptions) {
  const std::string dtype = word(config, Key::dtype), autocast = word(config, Key::autocast);
  run.stored_width = width_of(dtype);
  if (run.stored_width == 0) {
    run.stored_width = 4;
    assume(assumptions, "dtype", "weights are fp32, PyTorch's default: not stated");
  }
  run.compute_width = run.stored_width;
  if (autocast.empty() && run.program == "torchtitan" && run.stored_width == 4) {
    run.compute_width = 2;
    assume(assumptions, "autocast", "FSDP computes in bf16 (mixed_precision_param, torchtitan's default)");
  }
  if (width_of(autocast) == 2) {
    const bool policy = run.shard.kind == ShardKind::fsdp1 || run.shard.kind == ShardKind::fsdp2;
    if (policy)
      run.compute_width = 2;  // FSDP's own mixed precision: units are gathered narrow
    else
      run.autocast = 2;
    if (run.stored_width == 2 && !policy)
      assume(assumptions, "dtype",
             "weights are 16 bits wide as dtype says; loaded in fp32 (older transformers without torch_dtype) they take twice that");
  }
  if (run.shard.kind == ShardKind::zero) {
    run.autocast = 0;
    if (run.stored_width == 4 && width_of(autocast) == 2) run.stored_width = 2;
    run.compute_width = run.stored_width;
  }
}

void read_shard(const RunConfig& config, TorchRun& run, Assumptions& assumptions) {
  ShardSetup& shard = run.shard;
  const std::string fsdp = word(config, Key::fsdp), strategy = word(config, Key::fsdp_strategy);
  const Count world = run.world, inside = run.tensor * run.pipeline * run.context;
  const Count replicas = std::max<Count>(1, world / std::max<Count>(1, inside));
  const Count nodes = at_least_one(config, Key::gpus_per_node);
  const auto stage = config.integer(Key::zero_stage);
  const bool deepspeed = stage.has_value() || run.program == "deepspeed" ||
                         std::find(config.frameworks().begin(), config.frameworks().end(), "deepspeed") != config.frameworks().end();
  if (deepspeed && run.program != "torchtitan") {
    shard.kind = ShardKind::zero;
    shard.stage = static_cast<int>(std::clamp<Count>(stage.value_or(0), 0, 3));
    if (!stage) assume(assumptions, "zero_stage", "ZeRO stage 0, DeepSpeed's default: not stated");
    shard.ranks = shard.stage == 0 ? 1 : replicas;
    shard.parameters = shard.stage == 3;
    const std::string optimizer = word(config, Key::zero_offload_optimizer), weights = word(config, Key::zero_offload_param);
    shard.offload_optimizer = !optimizer.empty() && optimizer != "none";
    shard.offload_parameters = !weights.empty() && weights != "none";
    shard.overlap = config.boolean(Key::overlap_grad_reduce).value_or(shard.stage == 3);
    // Defaults: deepspeed/runtime/zero/config.py.
    shard.reduce_bucket = config.integer(Key::reduce_bucket).value_or(500'000'000);
    shard.gather_bucket = config.integer(Key::allgather_bucket).value_or(500'000'000);
    if (!config.has(Key::reduce_bucket))
      assume(assumptions, "reduce_bucket", "5e8 elements, DeepSpeed's default: not stated or auto");
    shard.prefetch_bucket = 50'000'000;
    shard.live_parameters = 1'000'000'000;
    return;
  }
  const Count degree = config.integer(Key::data_parallel_shard).value_or(run.program == "torchtitan" ? replicas : 0);
  const bool on = (fsdp == "fsdp1" || fsdp == "fsdp2") || (run.program == "torchtitan" && degree > 1);
  if (on && strategy != "no_shard") {
    shard.kind = fsdp == "fsdp1" ? ShardKind::fsdp1 : ShardKind::fsdp2;
    shard.ranks = degree > 0 ? degree : replicas;
    if (has(strategy, "hybrid") && nodes > 1) shard.ranks = std::min(shard.ranks, nodes);
    shard.reshard = config.boolean(Key::reshard_after_forward).value_or(!has(strategy, "grad_op") && !has(strategy, "zero2"));
    // torchtitan: with pipeline parallel the default policy does not free units between micro batches.
    if (run.program == "torchtitan" && run.pipeline > 1 && !config.has(Key::reshard_after_forward)) shard.reshard = false;
    for (const std::string_view name : {"fsdp_use_orig_params", "use_orig_params", "fsdp_config.use_orig_params", "fsdp_config.fsdp_use_orig_params"})
      if (const auto found = config.raw().find(name); found != config.raw().end())
        shard.original_parameters = parsers::lower(found->second.value) != "false";
    shard.offload_parameters = config.boolean(Key::fsdp_offload).value_or(false);
    shard.reduce_width = run.program == "torchtitan" ? 4 : 2;
    for (const std::string_view name : {"reduce_dtype", "training.mixed_precision_reduce", "mixed_precision_reduce"})
      if (const auto found = config.raw().find(std::string(name)); found != config.raw().end())
        if (const int width = width_of(parsers::lower(found->second.value)); width > 0) shard.reduce_width = width;
    if (!config.has(Key::fsdp_wrap) && run.program != "torchtitan")
      assume(assumptions, "fsdp_wrap", "each decoder layer is a unit of its own: not stated");
    if (shard.ranks > 1) return;
    shard = {};
  }
  if (replicas > 1) {
    shard.kind = ShardKind::ddp;
    shard.ranks = replicas;
  }
}

// A value of config.json under one of the names, inside one of the parts; as the run printed it (also "model_config." in logs).
constexpr std::array<std::string_view, 4> kDecoderParts = {"text_config.", "llm_config.", "language_config.", ""};
constexpr std::array<std::string_view, 2> kTowerParts = {"vision_config.", "thinker_config.vision_config."};
template <std::size_t N>
std::string model_setting(const RunConfig& config, std::initializer_list<std::string_view> names, const std::array<std::string_view, N>& parts) {
  for (const std::string_view part : parts)
    for (const std::string_view name : names)
      for (const std::string_view before : {"", "model_config."}) {
        const auto found = config.raw().find(std::string(before) + std::string(part) + std::string(name));
        if (found != config.raw().end()) return parsers::lower(found->second.value);
      }
  return {};
}

// transformers: activations.py, ACT2FN. gelu_new, gelu_fast, gelu_python and gelu_accurate are written out in operations.
ActivationForm activation_form(std::string_view name, std::string_view otherwise) {
  if (name.empty()) name = otherwise;
  if (name == "quick_gelu") return ActivationForm::quick_gelu;
  if (name == "relu") return ActivationForm::relu;
  if (name == "relu2") return ActivationForm::relu_squared;
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_accurate") return ActivationForm::written_out;
  return ActivationForm::one_kernel;
}

// Which layers look at everything where others have a window: layer_types as written, else the family's pattern (transformers:
// models/{gemma2,gemma3,gpt_oss,cohere2,olmo3}/configuration_*.py).
void read_windows(const RunConfig& config, std::string_view type, TorchRun& run) {
  const auto layers = static_cast<std::size_t>(run.shape.layers);
  const std::string list = model_setting(config, {"layer_types"}, kDecoderParts);
  std::vector<bool> full;
  for (std::size_t at = 0; full.size() < layers && (at = list.find_first_of("fs", at)) != std::string::npos;) {
    const std::string_view rest = std::string_view(list).substr(at);
    const bool whole = rest.substr(0, 14) == "full_attention";
    if (whole || rest.substr(0, 17) == "sliding_attention") full.push_back(whole);
    at = list.find_first_of(",]", at);
  }
  if (full.size() != layers) {
    full.clear();
    const auto pattern = parsers::read_integer(model_setting(config, {"sliding_window_pattern"}, kDecoderParts));
    const auto starts = [&](std::string_view head) { return type.substr(0, head.size()) == head; };
    const Count every = pattern && *pattern > 0 ? *pattern : starts("gemma3") ? 6 : starts("gemma2") || starts("gpt_oss") ? 2 : starts("cohere2") || starts("olmo3") ? 4 : 0;
    if (every > 0)
      for (Count i = 0; i < run.shape.layers; ++i) full.push_back((i + 1) % every == 0);
  }
  run.full_attention = std::move(full);
}

// transformers: models/{phi,phi3,gpt_neox,falcon,cohere,bloom,olmo2,glm4,ernie4_5,nemotron,seed_oss,gemma2}/modeling_*.py.
void read_blocks(const RunConfig& config, std::string_view type, TorchRun& run) {
  const auto no = [&](std::string_view name) { return model_setting(config, {name}, kDecoderParts) == "false"; };
  const bool newer = model_setting(config, {"new_decoder_architecture"}, kDecoderParts) == "true";
  const bool cohere = type == "cohere" || type == "cohere2";
  run.parallel_blocks = type == "phi" || cohere || (type == "gpt_neox" && !no("use_parallel_residual")) || (type == "falcon" && (newer || !no("parallel_attn")));
  run.shared_norm = type == "phi" || cohere || (type == "falcon" && run.parallel_blocks && !newer);
  std::string share = model_setting(config, {"partial_rotary_factor", "rotary_pct", "rope_parameters.partial_rotary_factor"}, kDecoderParts);
  if (share.empty() && (type == "phi" || type == "gpt_neox" || type.substr(0, 3) == "glm" || type == "nemotron" || type == "stablelm")) share = "0.5";
  const auto turned = parsers::read_double(share);
  run.partial_rotary = turned && *turned > 0 && *turned < 1;
  run.fused_qkv = type == "gpt_neox" || type == "falcon" || type == "bloom" || type == "phi3";
  if (type == "phi3") run.partial_rotary = true;  // joined even where nothing is left out
  const auto any = [&](std::initializer_list<std::string_view> heads) {
    return std::any_of(heads.begin(), heads.end(), [&](std::string_view head) { return type.substr(0, head.size()) == head; });
  };
  run.post_norm = any({"olmo2", "olmo3", "exaone4"});
  run.sandwich_norm = any({"gemma2", "gemma3"}) || type == "glm4";
  run.wide_norm = any({"gpt_oss", "gemma", "olmo2", "olmo3"});
  run.written_layernorm = cohere;
  run.tables_each_layer = type.substr(0, 8) == "ernie4_5";
  run.wide_rotation = cohere || run.tables_each_layer;
  run.expanded_kv = type == "nemotron";
  run.wide_router = run.shape.mla.has_value() || any({"glm4_moe", "ernie4_5_moe", "dots1"});
  const auto cap = [&](std::string_view name) {
    const std::string value = model_setting(config, {name}, kDecoderParts);
    return value.empty() ? type.substr(0, 6) == "gemma2" : parsers::read_double(value).value_or(0) > 0;
  };
  run.attention_softcap = cap("attn_logit_softcapping");
  run.logit_softcap = cap("final_logit_softcapping");
  read_windows(config, type, run);
}

// Which tower it is: by its own model_type, else by the family. Defaults of the configuration classes of transformers' models clip, siglip,
// internvl, llava, gemma3, qwen2_vl.
void read_tower(const RunConfig& config, std::string_view type, VisionShape& vision, TowerSetup& tower) {
  const std::string own = model_setting(config, {"model_type"}, kTowerParts);
  const auto starts = [&](std::string_view head) { return type.substr(0, head.size()) == head; };
  if (has(own, "clip")) tower.kind = TowerKind::clip;
  else if (has(own, "siglip")) tower.kind = TowerKind::siglip;
  else if (has(own, "intern")) tower.kind = TowerKind::internvit;
  else if (starts("internvl")) tower.kind = TowerKind::internvit;
  else if (starts("llava_onevision") || starts("gemma3") || starts("paligemma") || starts("smolvlm") || starts("idefics")) tower.kind = TowerKind::siglip;
  else if (starts("llava") || starts("vipllava") || starts("phi3_v")) tower.kind = TowerKind::clip;
  else tower.kind = TowerKind::merged;
  tower.activation = activation_form(model_setting(config, {"hidden_act"}, kTowerParts), tower.kind == TowerKind::clip || starts("qwen2_vl") ? "quick_gelu" : "");
  if (tower.kind == TowerKind::merged) {
    tower.rms_norm = vision.gated;   // Qwen2.5-VL: RMSNorm and a gated MLP
    return;
  }
  tower.rms_norm = has(model_setting(config, {"norm_type"}, kTowerParts), "rms");
  tower.attention_bias = tower.kind != TowerKind::internvit || model_setting(config, {"attention_bias"}, kTowerParts) == "true";
  if (starts("gemma3") && vision.merge == 1) vision.merge = 4;  // pooled to 256 tokens an image
  // hidden_states[i]: what the i-th block was given; negative from the end, -1 the last block's output.
  std::string layer = model_setting(config, {"vision_feature_layer"}, kDecoderParts);
  if (layer.empty() && tower.kind == TowerKind::clip) layer = "-2";
  if (const auto number = parsers::read_integer(layer); number && *number > -vision.layers - 2 && *number <= vision.layers)
    tower.used_layers = std::max<Count>(1, *number < 0 ? vision.layers + 1 + *number : *number);
}

constexpr std::array<std::string_view, 9> kAttentionNames = {"eager", "unfused", "flash", "flex", "fused", "xformers", "sdpa", "math", "auto"};

void read_attention(const RunConfig& config, TorchRun& run, Assumptions& assumptions) {
  std::string name = word(config, Key::attention);
  if (name.empty()) {
    const bool none = run.shape.model_type == "gpt_oss" || run.shape.model_type == "bloom";
    name = none ? "eager" : "sdpa";
    if (run.program != "torchtitan")
      assume(assumptions, "attention", none ? "eager: " + run.shape.model_type + " has no sdpa path" : "sdpa, transformers' default: not stated");
  }
  if (std::none_of(kAttentionNames.begin(), kAttentionNames.end(), [&](std::string_view known) { return has(name, known); }))
    assume(assumptions, "attention", "as sdpa: '" + name.substr(0, 60) + "' is not known");
  const int width = run.autocast > 0 ? run.autocast : run.compute_width;
  const bool grouped = run.shape.kv_heads < run.shape.heads && !run.shape.mla;
  if (has(name, "eager") || has(name, "unfused")) {
    run.kernel = AttentionKernel::eager;
  } else if (has(name, "flash") || has(name, "flex") || has(name, "fused") || has(name, "xformers")) {
    run.kernel = AttentionKernel::flash;
    run.variable_length = has(name, "flash");
  } else if (width == 4) {
    // The flash kernels take 16 bits only; the memory-efficient one does not take grouped queries.
    run.kernel = grouped ? AttentionKernel::math : AttentionKernel::efficient;
  } else {
    run.kernel = run.shape.head_dim > 256 ? AttentionKernel::math : AttentionKernel::flash;
    // Falcon's one key/value head is spread over the queries' heads by the math path.
    if (run.shape.model_type == "falcon" && grouped) run.kernel = AttentionKernel::math;
    if (run.expanded_kv && grouped && run.kernel == AttentionKernel::flash) run.kernel = AttentionKernel::efficient;
    const bool window = run.shape.sliding_window > 0 && run.shape.sliding_window < run.seq;
    if ((window || config.boolean(Key::attention_mask) == true) && run.program != "torchtitan" && run.kernel == AttentionKernel::flash) {
      // masking_utils.py makes a mask then; with one sdpa expands keys and values.
      run.kernel = AttentionKernel::efficient;
      run.mask = true;
    }
  }
}

void read_optimizer(const RunConfig& config, TorchRun& run, Assumptions& assumptions) {
  OptimizerSetup& setup = run.optimizer;
  std::string name = word(config, Key::optimizer);
  using Form = OptimizerSetup::Form;
  const auto fused = config.boolean(Key::optimizer_fused), foreach = config.boolean(Key::optimizer_foreach);
  setup.form = fused == true ? Form::fused : foreach == false ? Form::loop : Form::foreach;
  if (name.empty()) {
    name = "adamw";
    if (!fused && !foreach && run.program != "fsdp") setup.form = Form::fused;
    assume(assumptions, "optimizer", "AdamW with the fused kernel, the program's default: not stated");
  }
  if (has(name, "fused") && !fused) setup.form = Form::fused;
  if (has(name, "loop") && !fused) setup.form = Form::loop;
  setup.paged = has(name, "paged");
  setup.momentum = config.number(Key::momentum).value_or(0);
  const bool narrow = has(name, "8bit") || has(name, "8_bit");
  // TrainingArguments were read: the optimizer is the one that Trainer makes.
  const bool trainer = config.raw().contains("optim") || config.raw().contains("--optim") || config.raw().contains("per_device_train_batch_size");
  if (has(name, "adafactor")) {
    // Trainer uses transformers' own; a script is more likely to use torch.optim's.
    setup.kind = trainer ? OptimizerKind::adafactor_transformers : OptimizerKind::adafactor;
  } else if (has(name, "sgd")) {
    setup.kind = OptimizerKind::sgd;
  } else if (has(name, "lion")) {
    setup.kind = narrow ? OptimizerKind::lion_8bit : OptimizerKind::lion;
  } else if (has(name, "rmsprop")) {
    setup.kind = OptimizerKind::rmsprop;
  } else if (has(name, "adagrad")) {
    setup.kind = OptimizerKind::adagrad;
  } else if (has(name, "muon")) {
    setup.kind = OptimizerKind::muon;
  } else {
    setup.kind = narrow ? OptimizerKind::adam_8bit : OptimizerKind::adam;
    if (!has(name, "adam") && name != "adamw")
      assume(assumptions, "optimizer", "two states a weight, as Adam has: '" + name.substr(0, 60) + "' is not known");
  }
  if (narrow) {
    setup.wide_embeddings = trainer;
    setup.form = Form::fused;
    assume(assumptions, "optimizer",
           trainer ? "embeddings keep 32-bit states, as Trainer sets bitsandbytes up"
                   : "embeddings keep 8-bit states as other weights; Trainer sets bitsandbytes up to keep 32-bit ones for them");
  }
  // Shards are stepped in the type that is stored, whatever the gathered units have.
  if (run.shard.kind == ShardKind::fsdp1 || run.shard.kind == ShardKind::fsdp2) setup.state_width = run.stored_width;
  if (run.shard.kind == ShardKind::zero) {
    setup.state_width = 4;
    setup.form = Form::fused;
  }
}

void read_loss(const RunConfig& config, TorchRun& run) {
  const std::string fusion = word(config, Key::loss_fusion);
  if (fusion == "liger") {
    run.loss = LossKind::liger;
    run.fused_kernels = true;
  } else if (fusion == "linear" || fusion == "fused_linear" || has(fusion, "cut")) {
    run.loss = LossKind::liger;
  } else if (has(fusion, "chunk")) {
    run.loss = LossKind::chunked;
  }
  if (const auto chunks = config.integer(Key::loss_chunks)) {
    if (fusion.empty() && *chunks > 1) run.loss = LossKind::chunked;
    run.loss_chunks = std::clamp<Count>(*chunks, 1, 1 << 20);
  }
}

void read_recompute(const RunConfig& config, TorchRun& run) {
  const std::string mode = word(config, Key::recompute);
  run.checkpoint = mode == "full" || mode == "selective";
  if (mode != "selective") return;
  if (const auto every = config.integer(Key::recompute_layers); every && *every > 0)
    run.checkpoint_every = *every;
  else
    run.selective_ops = true;
}

void read_adapter(const RunConfig& config, TorchRun& run, Assumptions& assumptions) {
  const auto rank = config.integer(Key::lora_rank);
  if (rank && *rank > 0) {
    run.adapter.rank = std::min<Count>(*rank, 1 << 16);
    if (const auto* targets = config.list(Key::lora_targets)) run.adapter.targets = *targets;
    for (const std::string_view name : {"lora_dropout", "lora_config.lora_dropout", "peft.lora_dropout"})
      if (const auto found = config.raw().find(std::string(name)); found != config.raw().end())
        run.adapter.dropout = parsers::read_double(found->second.value).value_or(0) > 0;
    if (run.adapter.targets.empty())
      assume(assumptions, "lora_targets", "adapters on q_proj and v_proj, peft's default: not stated");
  }
  const std::string quantised = word(config, Key::quantization);
  if (has(quantised, "4")) run.packed_bits = 4;
  if (has(quantised, "8")) run.packed_bits = 8;
}

// Architectures whose layers are not a decoder's attention and MLP: no figure is better than a wrong one.
bool other_architecture(std::string_view type) {
  for (const std::string_view head :
       {"mamba", "falcon_mamba", "falcon_h1", "rwkv", "jamba", "zamba", "bamba", "recurrent_gemma", "nemotron_h", "qwen3_next", "kimi_linear",
        "minimax", "t5", "mt5", "umt5", "bart", "mbart", "pegasus", "whisper", "wav2vec", "hubert", "bert", "roberta", "distilbert", "deberta",
        "xlm", "electra", "vit", "clip", "siglip", "segformer", "detr", "unet", "speech", "lfm2", "granitemoehybrid", "xlstm"})
    if (type.substr(0, head.size()) == head) return true;
  return false;
}
bool familiar(std::string_view type) {
  for (const std::string_view head :
       {"llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "deepseek_v", "gpt_oss", "phi3", "olmo", "internvl", "llava", "internlm", "gpt2",
        "granite", "smollm", "cohere", "glm4", "yi", "ministral", "exaone", "baichuan", "pixtral", "phi", "gpt_neox", "opt", "bloom", "falcon", "gpt_bigcode",
        "starcoder2", "paligemma", "idefics3", "smolvlm", "nemotron", "stablelm", "ernie4_5", "seed_oss", "glm"})
    if (type.substr(0, head.size()) == head) return true;
  return false;
}

parsers::Status check(const TorchRun& run) {
  const ModelShape& s = run.shape;
  const auto refuse = [](std::string text) { return Error(ErrorCode::conflict, std::move(text)); };
  if (s.vision && s.vision->layers > kMostLayers) return refuse("more than " + std::to_string(kMostLayers) + " blocks of a vision tower");
  if (s.vision && s.vision->mergers > kMostMergers) return refuse("more than " + std::to_string(kMostMergers) + " projectors of a vision tower");
  if (s.vision && s.vision->hidden % std::max<Count>(1, s.vision->heads) != 0)
    return refuse("the tower's width " + std::to_string(s.vision->hidden) + " does not divide by its " + std::to_string(s.vision->heads) + " heads");
  if (s.layers > kMostLayers) return refuse("more than " + std::to_string(kMostLayers) + " layers");
  if (run.batch > kMostTokens || run.seq > kMostTokens || run.batch * run.seq > kMostTokens)
    return refuse("a micro batch of more than " + std::to_string(kMostTokens) + " tokens on one rank");
  const double tokens = static_cast<double>(run.batch * run.seq);
  const double widest = static_cast<double>(std::max({s.vocab, s.ffn, s.hidden * 3, s.query_width(), s.experts * s.expert_ffn}));
  double largest = std::max(tokens * widest * static_cast<double>(std::max<Count>(1, s.experts_per_token)),
                            static_cast<double>(s.hidden) * widest * 2);
  if (run.kernel == AttentionKernel::eager || run.kernel == AttentionKernel::math || run.mask)
    largest = std::max(largest, tokens * static_cast<double>(run.seq * run.context) * static_cast<double>(s.heads));
  if (s.vision) largest = std::max(largest, static_cast<double>(s.vision->patches) * static_cast<double>(std::max(s.vision->ffn, 3 * s.vision->hidden)));
  if (largest > kMostElements) return refuse("a tensor of more than 1e17 elements would be needed");
  if (run.tensor > 1) {
    if (s.heads % run.tensor != 0)
      return refuse(std::to_string(s.heads) + " heads do not divide by tensor parallel " + std::to_string(run.tensor));
    if (s.vocab % run.tensor != 0)
      return refuse("the vocabulary of " + std::to_string(s.vocab) + " does not divide by tensor parallel " + std::to_string(run.tensor));
  }
  if (run.expert > 1 && s.experts > 0 && s.experts % run.expert != 0)
    return refuse(std::to_string(s.experts) + " experts do not divide by expert parallel " + std::to_string(run.expert));
  if (run.pipeline > s.layers) return refuse("more pipeline stages than layers");
  if (s.vision && s.vision->patches > 0) {
    const Count made = s.vision->patches / (s.vision->merge * s.vision->merge);
    if (made > run.batch * run.seq)
      return refuse("the images of a micro batch make " + std::to_string(made) + " tokens, more than micro_batch x seq_length");
  }
  return parsers::done();
}

}  // namespace

parsers::Result<TorchRun> torch_run(const RunConfig& config, Assumptions& assumptions) {
  TorchRun run;
  run.program = word(config, Key::framework);
  if (run.program.empty()) run.program = "huggingface";
  const std::string type = word(config, Key::model_type);
  if (other_architecture(type))
    return Error(ErrorCode::unsupported, "there is no memory model of '" + type.substr(0, 60) + "' models: they are not decoders of attention and MLP layers");
  TRIAGE_TRY(run.shape, model_shape(config, assumptions));
  if (type.empty() || !familiar(parsers::lower(run.shape.model_type)))
    assume(assumptions, "model_type",
           (type.empty() ? std::string("the model type is not stated") : "model type '" + type.substr(0, 60) + "' is not known") +
               ": layers are taken as Llama's, of the sizes that are stated");
  if (run.shape.vision) {
    VisionShape& vision = *run.shape.vision;
    read_tower(config, type, vision, run.tower);
  }
  run.activation = activation_form(model_setting(config, {"activation_function", "hidden_act", "hidden_activation"}, kDecoderParts),
                                         type == "gpt2" || type == "phi" ? "gelu_new" : type == "opt" ? "relu" : type == "arcee" ? "relu2" : "");
  read_blocks(config, type, run);
  if (run.shape.vocab == 0) run.shape.vocab = run.shape.padded_vocab;
  std::string missing;
  std::string wrong;
  for (const Key key : {Key::seq_length, Key::micro_batch, Key::world, Key::tensor_parallel, Key::pipeline_parallel, Key::context_parallel, Key::expert_parallel,
                        Key::gradient_accumulation})
    if (const auto value = config.integer(key); value && *value <= 0)
      wrong += (wrong.empty() ? "" : ", ") + std::string(parsers::key_info(key).name) + " is " + std::to_string(*value);
  if (const auto stage = config.integer(Key::zero_stage); stage && (*stage < 0 || *stage > 3))
    wrong += (wrong.empty() ? "" : ", ") + std::string("zero_stage is ") + std::to_string(*stage) + ", not 0 to 3";
  if (!wrong.empty()) return Error(ErrorCode::conflict, "the run cannot be: " + wrong);
  if (!run.shape.vision && config.integer(Key::images).value_or(0) > 0)
    assume(assumptions, "images", "no images: the model has no vision tower");
  const auto need = [&](Key key) {
    const Count value = config.integer(key).value_or(0);
    if (value <= 0) missing += (missing.empty() ? "" : ", ") + std::string(parsers::key_info(key).name);
    return value;
  };
  run.seq = need(Key::seq_length);
  run.batch = need(Key::micro_batch);
  if (!missing.empty()) return Error(ErrorCode::not_found, "the batch is not known: missing " + missing);
  if (run.seq > kMostTokens || run.batch > kMostTokens)
    return Error(ErrorCode::conflict, "a micro batch of more than " + std::to_string(kMostTokens) + " tokens on one rank");
  run.world = at_least_one(config, Key::world);
  run.tensor = at_least_one(config, Key::tensor_parallel);
  run.pipeline = at_least_one(config, Key::pipeline_parallel);
  run.context = at_least_one(config, Key::context_parallel);
  run.expert = at_least_one(config, Key::expert_parallel);
  for (const Count size : {run.world, run.tensor, run.pipeline, run.context, run.expert})
    if (size > 1'000'000) return Error(ErrorCode::conflict, "a parallel size of " + std::to_string(size));
  if (run.tensor * run.pipeline * run.context > run.world && run.world > 1)
    return Error(ErrorCode::conflict, "tensor x pipeline x context parallel is more than the world of " + std::to_string(run.world));
  const bool titan = run.program == "torchtitan";
  if (!titan && (run.tensor > 1 || run.pipeline > 1 || run.expert > 1))
    return Error(ErrorCode::unsupported, "tensor, pipeline and expert parallel are modelled for torchtitan and Megatron only");
  run.context = std::max(run.context, at_least_one(config, Key::ulysses));
  run.seq = (run.seq + run.context - 1) / run.context;
  run.accumulation = at_least_one(config, Key::gradient_accumulation);
  run.fused_norm = titan;
  read_shard(config, run, assumptions);
  read_types(config, run, assumptions);
  read_attention(config, run, assumptions);
  read_optimizer(config, run, assumptions);
  read_loss(config, run);
  read_recompute(config, run);
  read_adapter(config, run, assumptions);
  if (run.expert > 1 && run.shape.has_experts()) run.routing = std::clamp(config.number(Key::moe_imbalance).value_or(1), 1.0, static_cast<double>(run.expert));
  run.hidden_dropout = config.number(Key::hidden_dropout).value_or(0);
  if (type == "seed_oss") run.hidden_dropout = parsers::read_double(model_setting(config, {"residual_dropout"}, kDecoderParts)).value_or(0.1);
  run.last_layer = run.shape.layers;
  // aten/src/ATen/cuda/CublasHandlePool.cpp: 32 MiB on Hopper and later, 8.1 MiB before.
  const std::string gpu = word(config, Key::gpu);
  const bool older = has(gpu, "a100") || has(gpu, "v100") || has(gpu, "a10") || has(gpu, "a40") || has(gpu, "l40") || has(gpu, "t4") ||
                     has(gpu, "4090") || has(gpu, "3090") || has(gpu, "a6000");
  run.workspace = older ? 8519680 : Count{32} << 20;
  if (gpu.empty()) assume(assumptions, "gpu", "cuBLAS workspaces of 32 MiB, as on Hopper and Blackwell: the card is not stated");
  if (config.boolean(Key::compile) == true)
    assume(assumptions, "compile", "torch.compile keeps and fuses differently: usually less than the eager step that is computed here");
  TRIAGE_CHECK(check(run));
  return run;
}

}  // namespace triage::signatures::memory
