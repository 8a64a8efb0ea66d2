// Layers of PyTorch models on a tape, written after the programs' own modules. Holds the parameters.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "signatures/memory/torch_ops.hpp"
#include "signatures/memory/torch_run.hpp"

namespace triage::signatures::memory {

using tape::Parameter;
using tape::Tensor;

// A linear layer with what stands beside it.
struct Linear {
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;
  Parameter* low = nullptr;   // LoRA's A and B
  Parameter* high = nullptr;
  Count out = 0;
};

struct Mlp {
  Linear gate, up, down;
};

struct DecoderLayer {
  Parameter *norm1 = nullptr, *norm1_bias = nullptr, *norm2 = nullptr, *norm2_bias = nullptr;
  Parameter *norm3 = nullptr, *norm4 = nullptr;  // Gemma 2 and 3: after attention and MLP
  Linear q, k, v, o;
  Parameter *q_norm = nullptr, *k_norm = nullptr;
  bool windowed = false;       // attends through a mask where the run has one
  Linear q_down, kv_down;      // multi-latent attention
  Parameter *q_down_norm = nullptr, *kv_down_norm = nullptr;
  Parameter* sinks = nullptr;
  Mlp mlp;                     // dense, or the shared experts
  Parameter *router = nullptr, *router_bias = nullptr;
  Parameter* shared_gate = nullptr;
  Parameter *experts_in = nullptr, *experts_out = nullptr, *experts_in_bias = nullptr, *experts_out_bias = nullptr;
  int unit = -1;
};

struct VisionBlock {
  Parameter *norm1 = nullptr, *norm1_bias = nullptr, *norm2 = nullptr, *norm2_bias = nullptr;
  Linear qkv, out, fc1, gate, fc2;
  Linear q, k, v;                                 // of towers of fixed image size
  Parameter *scale1 = nullptr, *scale2 = nullptr;  // InternViT: of the branches
  int unit = -1;
};
struct VisionMerger {
  Parameter *norm = nullptr, *norm_bias = nullptr;
  Linear fc1, fc2;
};

class TorchModel {
 public:
  TorchModel(const TorchRun& run, tape::Tape& tape);
  TorchModel(const TorchModel&) = delete;
  TorchModel& operator=(const TorchModel&) = delete;

  std::deque<Parameter>& parameters() { return parameters_; }
  int units() const { return units_; }
  // Runs a unit of sharded data parallel (torch_shard.cpp): gathered before, freed after, gradients reduced in the backward pass.
  std::function<Tensor(int unit, Tensor input, const std::function<Tensor(Tensor)>& body)> around;
  Tensor unit(int index, Tensor input, const std::function<Tensor(Tensor)>& body) {
    return around ? around(index, std::move(input), body) : body(std::move(input));
  }

  Tensor decoder_layer(std::size_t index, Tensor hidden);
  // Patches to decoder tokens; the merged image tokens and deepstack levels.
  Tensor vision(std::vector<Tensor>& deep);
  Tensor loss(Tensor hidden);

  std::vector<DecoderLayer> layers;
  std::vector<VisionBlock> blocks;
  std::vector<VisionMerger> mergers;
  Linear patch_embedding;
  Parameter *positions = nullptr, *learned_positions = nullptr;  // of the tower, of the decoder
  Parameter *class_token = nullptr, *tower_norm = nullptr, *tower_norm_bias = nullptr;  // before (CLIP) or after (SigLIP) the blocks
  Parameter *embedding = nullptr, *final_norm = nullptr, *final_norm_bias = nullptr;
  Linear head;
  int root_unit = -1;

  Count tokens = 0;             // of one micro batch on this rank
  Count stream_rows = 0;        // tokens of the residual stream (tensor parallel splits it)
  tape::BlockRef tables;        // cos and sin
  tape::BlockRef mask;          // eager attention's
  tape::BlockRef images;        // pixels of the batch: the program holds them until the step is over
  Tensor norm(const Tensor& x, Count rows, Parameter* weight, Parameter* bias);
  tape::Ops& ops() { return ops_; }
  Tensor apply(const Linear& linear, const Tensor& x, Count rows);

  Count expert_parameters = 0;

 private:
  Parameter* add(Count elements, bool trainable, int unit);
  Linear linear(std::string_view name, Count in, Count out, bool bias, bool trainable, int unit);
  Mlp make_mlp(Count ffn, bool trainable, int unit);
  void add_layer(Count index);
  void add_vision();
  Tensor attention(DecoderLayer& layer, const Tensor& x);
  Tensor latent_attention(DecoderLayer& layer, const Tensor& x);
  Tensor mlp(const Mlp& mlp, const Tensor& x, Count rows);
  Tensor activated(const Tensor& x, ActivationForm form);
  Tensor experts(DecoderLayer& layer, const Tensor& x);
  Tensor vision_block(VisionBlock& block, Tensor hidden, const tape::BlockRef& rotary);
  // Towers of fixed image size (torch_tower.cpp).
  void add_tower();
  Tensor tower();
  Tensor tower_block(VisionBlock& block, Tensor hidden);

  const TorchRun& run_;
  tape::Tape& tape_;
  tape::Ops ops_;
  std::deque<Parameter> parameters_;
  int units_ = 0;
};

}  // namespace triage::signatures::memory
