#include "signatures/memory/megatron_layer.hpp"

namespace triage::signatures::memory {

// Sources, all NVIDIA/Megatron-LM@d98e8a6: megatron/core/transformer/dot_product_attention.py, fusions/fused_softmax.py.
//
// Unfused: keys and values expanded to all heads, scores (baddbmm into a buffer that lives for ever, its result a new tensor), a copy of
// them in fp32 and a scaled one where asked for, masked in place (a mask that the layer makes, from two matrices of fp32, is saved),
// soft-max (saved), its narrow copy if it was made in fp32 (saved by the GEMM that follows), dropout (a mask of bytes and a second matrix,
// saved), context transposed.
// Fused: queries, keys, values as given, output and statistics.
void Layer::core_forward(Arena& arena, bool keep) const {
  const LayerSizes& z = size_;
  if (run_.flash) {
    arena.take(Part::dense, z.query);  // output
    if (keep) arena.take(Part::dense, z.statistics);
    return;
  }
  const bool wide = z.softmax > z.scores, dropout = run_.attention_dropout > 0;
  const double expanded = z.expanded ? 2 * z.query : 0;
  const double copy = wide || run_.scores_scaled ? z.softmax : 0;
  arena.take(Part::dense, expanded);
  arena.take(Part::transient, z.scores);
  arena.take(Part::transient, copy);
  if (wide && run_.scores_scaled) arena.touch(Part::transient, copy);
  arena.touch(Part::transient, 8 * mask_);
  arena.take(Part::dense, mask_);
  arena.take(Part::dense, z.softmax);
  double kept = expanded + mask_ + z.softmax;
  if (wide) arena.take(Part::dense, z.scores), kept += z.scores;
  arena.drop(Part::transient, copy);
  if (dropout) {
    arena.take(Part::dense, z.scores + z.scores / run_.weight), kept += z.scores + z.scores / run_.weight;
    if (wide) arena.drop(Part::dense, z.scores), kept -= z.scores;  // what went in is saved by nobody
  }
  arena.take(Part::transient, z.query);
  arena.take(Part::dense, z.query);  // context
  arena.drop(Part::transient, z.query + z.scores);
  if (!keep) arena.drop(Part::dense, kept);
}

// After it the gradients of queries, keys and values are live (transient); what core_forward kept, the context and its gradient, the
// queries, keys and values are gone.
void Layer::core_backward(Arena& arena) const {
  const LayerSizes& z = size_;
  if (run_.flash) {
    // dq, dk, dv, and the kernel's fp32 accumulator of dq.
    arena.take(Part::transient, z.query + 2 * z.key);
    arena.touch(Part::transient, z.query / run_.weight * 4);
    arena.drop(Part::dense, z.statistics);
    arena.drop(Part::transient, z.query);  // gradient of the output
    return;
  }
  const bool wide = z.softmax > z.scores, dropout = run_.attention_dropout > 0;
  const double kv = z.expanded ? z.query : z.key;
  arena.take(Part::transient, z.scores + kv);  // of the probabilities, of the values
  if (z.expanded) arena.drop(Part::dense, z.query);
  if (wide || dropout) arena.drop(Part::dense, z.scores);  // what went into the second GEMM
  if (dropout) {  // the product with the mask is a new matrix
    arena.take(Part::transient, z.scores);
    arena.drop(Part::transient, z.scores);
    arena.drop(Part::dense, z.scores / run_.weight);
  }
  if (wide) {
    arena.take(Part::transient, z.softmax);
    arena.drop(Part::transient, z.scores);
  }
  // Of the soft-max; beside it the product of gradient and result (pytorch: aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out).
  arena.take(Part::transient, z.softmax);
  arena.touch(Part::transient, z.softmax);
  arena.drop(Part::dense, z.softmax);
  arena.drop(Part::transient, z.softmax);
  // Masked in place: a copy of the gradient without what is masked. Of scores that are a view of the GEMM's result autograd copies the whole
  // gradient, its slice, and the masked slice.
  const bool view = !wide && !run_.scores_scaled;
  if (!run_.softmax_fusion) arena.touch(Part::transient, (view ? 3 : 1) * z.softmax);
  if (run_.scores_scaled) arena.touch(Part::transient, z.softmax);
  arena.drop(Part::dense, mask_);
  if (wide) {
    arena.take(Part::transient, z.scores);
    arena.drop(Part::transient, z.softmax);
  }
  arena.take(Part::transient, 2 * z.query);  // of the queries, before and after the scale
  arena.drop(Part::transient, z.query);
  arena.take(Part::transient, kv);
  arena.drop(Part::transient, z.scores);
  if (z.expanded) {
    arena.drop(Part::dense, z.query);
    arena.take(Part::transient, 2 * z.key);
    arena.drop(Part::transient, 2 * z.query);
  }
  arena.drop(Part::transient, z.query);  // gradient of the context
}

}  // namespace triage::signatures::memory
