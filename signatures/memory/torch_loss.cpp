// Output layer and loss.
#include <algorithm>

#include "signatures/memory/torch_model.hpp"

namespace triage::signatures::memory {

using tape::BlockRef;
using tape::Tag;
using tape::Tape;

namespace {

using Grads = std::vector<Tensor>;

Count next_power_of_two(Count n) {
  Count power = 1;
  while (power < n) power *= 2;
  return power;
}

// transformers: loss/loss_utils.py, ForCausalLMLoss: logits.float(), cross_entropy (log_softmax kept, then nll_loss). `logits` stays
// alive until the caller has dropped the model's output.
Tensor whole_loss(tape::Ops& ops, Tensor logits, Count rows) {
  Tape& tape = ops.tape();
  const Count elements = logits.elements;
  const Tensor wide = ops.convert(logits, 4);
  const BlockRef labels = tape.empty(rows, 8).block;
  BlockRef result = tape.empty(elements, 4).block;
  Tensor loss = tape.empty(1, 4);
  loss.node = tape.record({Tape::edge(wide)}, {labels}, 1, [=](Tape& t, Grads& grads) mutable {
    Tensor nll = t.gradient(elements, 4);
    grads.clear();
    Grads back(1);
    back[0] = t.gradient(elements, 4);
    nll = {};
    result.reset();
    return back;
  });
  loss.grad = loss.node >= 0;
  return loss;
}

}  // namespace

Tensor TorchModel::loss(Tensor hidden) {
  const ModelShape& s = run_.shape;
  const Count v = s.vocab / run_.tensor, n = tokens;
  tape_.section = Tag::logits;
  Parameter& weight = *head.weight;
  if (run_.loss == LossKind::logits) {
    Tensor logits = ops_.linear(hidden, n, v, weight, head.bias);  // `hidden` stays: the decoder's output object holds it
    if (run_.logit_softcap) logits = ops_.scale(logits), logits = ops_.soft_max(logits), logits = ops_.scale(logits);  // tanh keeps its result
    Tensor out = whole_loss(ops_, logits, n);
    // accelerate's convert_outputs_to_fp32 copies the narrow logits of an autocast model once more.
    if (run_.autocast > 0 && run_.autocast < 4) { const Tensor copy = tape_.empty(logits.elements, 4); }
    return out;
  }
  // Chunks. Liger-Kernel: ops/fused_linear_cross_entropy.py: the chunk is the power of two above tokens / ceil(V / h); the gradients
  // of hidden states and of the matrix are made during the forward pass and kept. Others: chunks of the logits, each with its fp32 copy,
  // recomputed in the backward pass.
  const bool liger = run_.loss == LossKind::liger;
  const Count parts = std::max<Count>(1, liger ? (v + s.hidden - 1) / s.hidden : run_.loss_chunks);
  const Count chunk = std::min(n, liger ? next_power_of_two((n + parts - 1) / parts) : (n + parts - 1) / parts);
  const int width = hidden.width == 4 && run_.autocast > 0 ? run_.autocast : hidden.width;
  const bool trainable = weight.trainable;
  const Count in = hidden.elements, weights = weight.elements;
  const int weight_width = weight.width;
  std::vector<BlockRef> saved;
  BlockRef to_hidden, to_weight;
  const int hidden_width = hidden.width;
  if (liger) {
    to_hidden = tape_.empty(in, hidden_width).block;
    if (trainable) to_weight = tape_.empty(weights, weight_width).block;
    // Under autocast a wide matrix is narrowed for the logits (a view: not cached) and once more, cached, for the gradient.
    { const Tensor narrowed = tape_.empty(weight_width > width ? weights : 0, width); }
    const Tensor logits = tape_.empty(chunk * v, width);
    const BlockRef read = ops_.operand(weight);
    // "grad_weight += mm(...).float()": the product and its fp32 copy, of the whole matrix; a wide gradient beside narrow logits is
    // added up in place since 0.8.1.
    if (trainable && weight_width == width) {
      const Tensor product = tape_.empty(weights, width);
      { const Tensor wide = tape_.empty(width < 4 ? weights : 0, 4); }
    }
  } else {
    saved.push_back(hidden.block);
    const Tensor logits = tape_.empty(chunk * v, width);
    const Tensor wide = tape_.empty(chunk * v, 4);
    { const Tensor probabilities = tape_.empty(chunk * v, 4); }
  }
  Tensor out = tape_.empty(1, 4);
  Parameter* leaf = trainable ? &weight : nullptr;
  out.node = tape_.record({Tape::edge(hidden), Tape::edge(weight)}, std::move(saved), 1, [=](Tape& t, Grads& grads) mutable {
    grads.clear();
    Grads back(2);
    if (liger) {
      back[0] = Tensor{to_hidden, in, hidden_width, -1, 0, false, false};
      if (leaf) back[1] = Tensor{to_weight, weights, weight_width, -1, 0, false, false};
      to_hidden.reset(), to_weight.reset();
      return back;
    }
    back[0] = t.gradient(in, width);
    if (leaf) back[1] = t.gradient(weights, weight_width);
    const Tensor logits = t.gradient(chunk * v, width);
    const Tensor a = t.gradient(chunk * v, 4), b = t.gradient(chunk * v, 4);
    { const Tensor c = t.gradient(chunk * v, 4); }
    if (leaf) { const Tensor product = t.gradient(weights, weight_width); }
    return back;
  });
  out.grad = out.node >= 0;
  return out;
}

}  // namespace triage::signatures::memory
