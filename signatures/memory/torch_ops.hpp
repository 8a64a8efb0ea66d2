// Operations of PyTorch models on a tape: what each allocates in the forward pass, keeps for the backward pass and allocates there.
// Used by torch_decoder, torch_vision, torch_loss. Sizes in elements; widths in bytes of one element.
//
// Sources: pytorch/pytorch tools/autograd/derivatives.yaml (what is saved), aten/src/ATen/native (temporaries); the orders were
// compared with recorded allocator traces of PyTorch 2.11.
#pragma once

#include <vector>

#include "signatures/memory/tape.hpp"

namespace triage::signatures::memory::tape {

enum class AttentionKernel : std::uint8_t {
  flash,      // output and one statistic a row and head: flash-attn, cuDNN, sdpa's flash kernel
  efficient,  // sdpa's memory-efficient kernel: the same kept, keys and values expanded to all heads before
  math,       // sdpa without a fused kernel: fp32 with grouped queries, or a device without one
  eager,      // transformers' own: fp32 soft-max and its narrow copy
};

struct AttentionSizes {
  Count batch = 1, queries = 0, keys = 0;  // sequence lengths
  Count heads = 0, kv_heads = 0;
  Count key_dim = 0, value_dim = 0;        // of one head
  Count window = 0;                        // limit: a window does not change what these kernels keep
  bool causal = true;
  bool mask = false;                       // an explicit mask: eager, or padding
  bool sinks = false;                      // GPT-OSS: one more column in the soft-max
  bool softcap = false;                    // scores go through cap tanh(x / cap)
};

class Ops {
 public:
  // autocast: bytes of the compute type of torch.autocast, 0: off. stream: bytes of the residual stream's type, which the rotation's
  // tables have too. fused: kernels of Liger replace norm, rotation, gated product.
  Ops(Tape& tape, int autocast, int stream, bool fused)
      : tape_(tape), autocast_(autocast), stream_(stream), fused_(fused) {}

  Tape& tape() { return tape_; }
  int autocast() const { return autocast_; }

  // x times a weight: rows x in -> rows x out. bias may be null. `folded`: a 3-dimensional input without bias, whose gradient comes
  // through a view. Quantised weights (dequantised: bytes of one element of the temporary 16-bit copy) are unpacked twice.
  Tensor linear(const Tensor& x, Count rows, Count out, Parameter& weight, Parameter* bias = nullptr, bool folded = true);
  // The same with a low-rank adapter beside it: result + B(A(dropout(x))) * scale.
  struct Adapter {
    Parameter* a = nullptr;
    Parameter* b = nullptr;
    Count rank = 0;
    bool dropout = false;
  };
  Tensor adapted_linear(const Tensor& x, Count rows, Count out, Parameter& weight, Parameter* bias, const Adapter& adapter,
                        int unpacked);

  Tensor embedding(Count rows, Count hidden, Parameter& weight);
  // RMSNorm as transformers writes it (in fp32, then multiplied in the narrow type), or as one fused kernel.
  // wide: the product with the weight is made in fp32 too (GPT-OSS, Gemma).
  Tensor rms_norm(const Tensor& x, Count rows, Parameter& weight, bool fused = false, bool wide = false);
  // The first of these two whatever kernels Liger replaces elsewhere.
  Tensor rms_norm_written_out(const Tensor& x, Count rows, Parameter& weight);
  Tensor layer_norm_written_out(const Tensor& x, Count rows, Parameter& weight);
  Tensor layer_norm(const Tensor& x, Count rows, Parameter& weight, Parameter& bias);
  Tensor add(const Tensor& a, const Tensor& b);
  // act(gate) * up
  Tensor gated(const Tensor& gate, const Tensor& up);
  Tensor activation(const Tensor& x);      // gelu, silu, relu: input kept
  // transformers: activations.py, QuickGELUActivation (x sigmoid(1.702 x)) and NewGELUActivation (0.5 x (1 + tanh(c (x + 0.044715 x^3)))):
  // each operation a kernel of its own.
  Tensor quick_gelu(const Tensor& x);
  Tensor gelu_written_out(const Tensor& x);
  Tensor scale(const Tensor& x);           // times a number: nothing kept
  Tensor soft_max(const Tensor& x);        // soft-max, sigmoid: the result kept
  // Rows picked by an index (kept, `indices` numbers of 8 bytes); backward: zeros of x's size, filled after a sort of the index.
  Tensor gather(const Tensor& x, Count elements, Count indices);
  // Sum over groups of rows; its gradient is a view. copied: a collective instead, whose gradient is a new tensor.
  Tensor sum_rows(const Tensor& x, Count elements, bool copied = false);
  // Rows of a small weight (the bias of each row's expert).
  Tensor spread(Parameter& weight, Count elements);
  Tensor product(const Tensor& a, const Tensor& b);       // both kept
  Tensor times(const Tensor& x, Parameter& factor);       // by a small learnt vector
  Tensor dropout(const Tensor& x);         // keeps a mask of one byte an element
  Tensor convert(const Tensor& x, int width);  // .to(dtype); the same tensor if it has that width
  Tensor copy(const Tensor& x);            // contiguous(), cat, gather: new storage, gradient copied back
  Tensor view(const Tensor& x, Count elements);           // shares storage; gradient of the whole is built from the part
  // Views that together are the whole of x (split, chunk, unbind): gradients are joined by one cat.
  std::vector<Tensor> split(const Tensor& x, const std::vector<Count>& elements);
  Tensor join(const std::vector<Tensor>& parts);          // cat
  Tensor reordered(const Tensor& x);       // transposed view whose gradient has to be copied into the old order
  // x cos + rotate_half(x) sin. `wide`: in fp32 inside (vision towers). tables: cos and sin, kept.
  // complex: torchtitan's product of complex numbers, in fp32.
  Tensor rotate(const Tensor& x, const BlockRef& tables, bool wide = false, bool complex = false);
  // The weight as the kernel reads it: itself, or autocast's copy (made once a forward pass, kept by whoever uses it).
  BlockRef operand(Parameter& weight);
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSizes& sizes, AttentionKernel kernel);

 private:
  Tensor made(Count elements, int width, std::vector<Edge> inputs, std::vector<BlockRef> saved, Backward backward);
  Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSizes& sizes);
  Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSizes& sizes, bool eager);
  Tensor narrow(const Tensor& x);  // autocast's copy of an input

  Tape& tape_;
  int autocast_;
  int stream_;
  bool fused_;
};

}  // namespace triage::signatures::memory::tape
