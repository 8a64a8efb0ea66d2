// One decoder layer of Megatron Core walked forward and backward: which tensors live when. Sizes follow from the programs' code, op by
// op; docs/memory-model.md tells which tensor is saved by which operation.
#pragma once

#include "signatures/memory/arena.hpp"
#include "signatures/memory/megatron_setup.hpp"

namespace triage::signatures::memory {

// Bytes of the tensors of one layer and one micro batch on one rank.
struct LayerSizes {
  explicit LayerSizes(const MegatronSetup& run);
  double hidden;        // residual stream as a rank holds it (split by sequence parallel): tokens x h
  double hidden_full;   // the same, gathered
  double query, key;    // rotated queries; keys (values are as large), of one rank
  double qkv;           // output of the qkv projection
  double scores;        // one score matrix: b x a/t x s x s
  double softmax;       // the same in the type that the soft-max works in
  double statistics;    // of a fused attention kernel: 4 a/t a token
  double rope_tables;   // cosines and sines that the unfused rotary embedding saves, for queries and keys
  double fc1, act;      // gate and up (or up), their product, of the dense MLP
  double shared_fc1, shared_act;
  double qkv_weight, out_weight, fc1_weight, fc2_weight;  // gradients of weights as the backward pass makes them
  double linear_input;  // factor on inputs that linear layers save: 0.5 in fp8, else 1
  double mask;          // causal, one byte an element
  bool expanded;        // keys and values are expanded to all heads (unfused attention, fewer key/value heads)
};

// How many rows the experts of the hottest rank get, over what it would get if all were equal.
// peak: the same of the worst layer (not below factor, which is then the mean over the layers).
struct Imbalance {
  double factor = 1;
  double peak = 0;
};
double worst_imbalance(const MegatronSetup& run);

class Layer {
 public:
  // own_mask: its chunk gets no attention mask, so that unfused attention makes a causal one.
  Layer(const MegatronSetup& run, bool moe, Imbalance imbalance, bool own_mask = false);

  // After it: what the backward pass needs and the output (hidden) are live. The input belongs to whoever made it.
  void forward(Arena& arena) const;
  // The same without gradients (inside a checkpoint): only the output stays.
  void forward_only(Arena& arena) const;
  // Before: kept tensors, output's gradient. After: the input's gradient. The output must have been dropped.
  void backward(Arena& arena) const;
  double output() const { return size_.hidden; }
  const LayerSizes& sizes() const { return size_; }
  // Bytes that stay between steps because the token dispatcher remembers the last routing.
  double remembered() const;

 private:
  void attention_forward(Arena& arena) const;
  void attention_forward_only(Arena& arena) const;
  void core_forward(Arena& arena, bool keep) const;
  void core_backward(Arena& arena) const;
  void attention_backward(Arena& arena) const;
  void mla_forward(Arena& arena, bool keep) const;
  void mla_backward(Arena& arena) const;
  void mlp_forward(Arena& arena, double fc1, double act, bool keep) const;
  void mlp_backward(Arena& arena, double fc1, double act, double fc1_weight, double fc2_weight) const;
  void moe_forward(Arena& arena, bool keep) const;
  void moe_backward(Arena& arena) const;
  void feed_forward(Arena& arena) const;
  double wgrad(double bytes) const { return run_.grad_fusion ? 0 : bytes; }

  const MegatronSetup& run_;
  LayerSizes size_;
  bool moe_;
  Imbalance imbalance_;
  double mask_;  // of its own, kept by each layer
};

// Tensors of a routed layer, bytes.
struct MoeSizes {
  MoeSizes(const MegatronSetup& run, const LayerSizes& size, Imbalance imbalance);
  double router;     // logits, probabilities, routing map, orders: saved for the backward pass
  double sent;       // rows of this rank's tokens: k x tokens x h
  double received;   // rows for this rank's experts before the gather of expert tensor parallel
  double rows;       // rows that its experts work on, as a tensor of width h
  double fc1, act;   // of those rows
  double fc1_weight, fc2_weight;  // of one expert, or of all where they run as one GEMM
  double experts;    // local experts
  bool sorts;        // rows are sorted by local expert
};

}  // namespace triage::signatures::memory
