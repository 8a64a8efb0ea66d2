// How a PyTorch program trains, as its memory depends on it: types, attention kernel, checkpointing, loss, optimizer, adapters, sharding.
// Read from a RunConfig by torch_run(); used by torch_step and torch_optimizer.
#pragma once

#include <string>

#include "parsers/base/result.hpp"
#include "parsers/config/run_config.hpp"
#include "signatures/memory/shape.hpp"
#include "signatures/memory/torch_ops.hpp"

namespace triage::signatures::memory {

enum class LossKind : std::uint8_t {
  logits,   // transformers: logits, their fp32 copy, log-soft-max, all whole
  liger,    // linear layer and loss fused, chunk by chunk, gradients made in the forward pass
  chunked,  // chunks of tokens, each recomputed or finished at once
};

enum class OptimizerKind : std::uint8_t { none, adam, adam_8bit, sgd, rmsprop, adagrad, adafactor, adafactor_transformers, lion, lion_8bit, muon };

struct OptimizerSetup {
  OptimizerKind kind = OptimizerKind::adam;
  enum class Form : std::uint8_t { foreach, fused, loop } form = Form::foreach;
  double momentum = 0;
  bool paged = false;             // states in managed memory, outside torch's allocator
  bool wide_embeddings = false;   // Trainer keeps 32-bit states for embeddings under 8-bit optimizers
  int state_width = 0;            // bytes of one state element, 0: that of the weight
};

struct AdapterSetup {
  Count rank = 0;
  bool dropout = false;
  std::vector<std::string> targets;  // names of linear layers; empty: q and v
  bool has(std::string_view name) const;
};

enum class ShardKind : std::uint8_t { none, ddp, fsdp1, fsdp2, zero };

struct ShardSetup {
  ShardKind kind = ShardKind::none;
  Count ranks = 1;
  int stage = 0;                 // ZeRO
  bool parameters = true;        // weights sharded (FULL_SHARD, stage 3)
  bool reshard = true;           // freed after the forward pass
  bool original_parameters = true;  // FSDP1: use_orig_params, accelerate's default
  bool wrapped = true;           // each layer is a unit; else the whole model is one
  bool offload_parameters = false, offload_optimizer = false;
  int reduce_width = 2;          // bytes of what is reduced
  Count reduce_bucket = 0, gather_bucket = 0, prefetch_bucket = 0, live_parameters = 0;  // elements, ZeRO
  bool overlap = false;
};

// Towers. merged: Qwen-VL and its kin (rotary positions, patches of any number, mergers). Of fixed image size: CLIP (a class token, a norm
// before the blocks), SigLIP, InternViT (a class token, learnt scales of the branches).
enum class TowerKind : std::uint8_t { merged, clip, siglip, internvit };
// Activation functions by what they keep: one kernel (its input); x sigmoid(1.702 x); the tanh form written out in operations; ReLU (its result);
// ReLU squared (ReLU's result and the square).
enum class ActivationForm : std::uint8_t { one_kernel, quick_gelu, written_out, relu, relu_squared };

struct TowerSetup {
  TowerKind kind = TowerKind::merged;
  ActivationForm activation = ActivationForm::one_kernel;
  bool rms_norm = false;        // of the blocks
  Count used_layers = 0;        // blocks whose output is read; 0: all
  bool attention_bias = true;   // of queries, keys, values
  Count class_tokens() const { return kind == TowerKind::clip || kind == TowerKind::internvit ? 1 : 0; }
};

struct TorchRun {
  std::string program;           // "huggingface", "torchtitan", "deepspeed", "fsdp"
  ModelShape shape;
  TowerSetup tower;
  ActivationForm activation = ActivationForm::one_kernel;  // of the MLP
  bool parallel_blocks = false, shared_norm = false;  // attention and MLP read the same input (and one norm of it): Phi, GPT-NeoX, Falcon
  bool partial_rotary = false;   // queries and keys are put together again: another layout, which the kernel's output takes over and is copied out of
  bool fused_qkv = false;        // one projection whose output the values are a view of: all of it stays
  bool post_norm = false;        // norms stand behind attention and MLP only: OLMo 2 and 3, EXAONE 4
  bool sandwich_norm = false;    // norms before and behind: Gemma 2 and 3, GLM 4
  bool wide_norm = false;        // RMSNorm multiplies with its weight in fp32 and narrows the product
  bool written_layernorm = false;  // Cohere: LayerNorm without bias, written out in fp32
  bool wide_rotation = false;    // queries and keys are turned in fp32
  bool tables_each_layer = false;  // ERNIE 4.5: each layer spreads the fp32 tables anew and keeps them
  bool expanded_kv = false;      // keys and values are spread over all heads before the kernel: Nemotron
  bool wide_router = false;      // the router multiplies in fp32
  bool attention_softcap = false, logit_softcap = false;  // x = cap tanh(x / cap): tanh keeps its result
  std::vector<bool> full_attention;  // layers without the sliding window, where layers differ
  Count batch = 1, seq = 0;      // of one micro batch on one rank; tokens of one sample after context parallel
  Count accumulation = 1;
  int stored_width = 2;          // of the weights that the optimizer steps
  int compute_width = 2;         // of the weights as the layers read them
  int autocast = 0;              // compute type under torch.autocast, 0: off
  int packed_bits = 0;           // quantised frozen base
  tape::AttentionKernel kernel = tape::AttentionKernel::flash;
  bool variable_length = false;  // flash-attn's own calls: images of a tower need no splitting
  bool mask = false;             // attention gets an explicit mask (a sliding window shorter than the sample)
  bool checkpoint = false;
  Count checkpoint_every = 1;    // layers; torchtitan's selective layer mode
  bool selective_ops = false;    // torchtitan's selective op mode
  bool fused_norm = false, fused_kernels = false;  // one-kernel norm; Liger's set
  LossKind loss = LossKind::logits;
  Count loss_chunks = 8;
  double routing = 1.0;          // rows of this rank's experts over the mean
  double hidden_dropout = 0;
  AdapterSetup adapter;
  OptimizerSetup optimizer;
  ShardSetup shard;
  Count tensor = 1, pipeline = 1, expert = 1, context = 1, world = 1;
  Count first_layer = 0, last_layer = 0;  // of the stage: [first, last)
  bool embedding = true, head = true;     // held by the stage
  Count in_flight = 1;                    // micro batches whose activations are held at once
  Count workspace = 0;           // bytes of one cuBLAS workspace
};

// Reads the settings; what was taken for granted goes to `assumptions`. Errors: not_found (sequence length, shape), conflict (sizes that
// cannot be), unsupported (layouts that are not modelled).
parsers::Result<TorchRun> torch_run(const parsers::RunConfig& config, Assumptions& assumptions);

}  // namespace triage::signatures::memory
