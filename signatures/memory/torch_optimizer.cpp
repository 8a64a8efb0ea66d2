#include "signatures/memory/torch_optimizer.hpp"

#include <algorithm>

namespace triage::signatures::memory {

namespace {

constexpr Count kSmall = 4096;   // bitsandbytes: optim/optimizer.py, min_8bit_size
constexpr Count kBlock = 256;    // elements of one scale

Count up_to_512(Count bytes) { return (bytes + 511) / 512 * 512; }

// Two dimensions of a matrix are not kept; near-square ones have about this many rows and columns together.
Count rows_and_columns(Count elements) {
  Count root = 1;
  while (root * root < elements) root *= 2;
  return 2 * root;
}

}  // namespace

// torch.optim: states have the weight's type (zeros_like). Update: foreach Adam makes the square roots of all second moments at once;
// a loop makes two tensors of the largest weight; fused kernels nothing. pytorch/pytorch: torch/optim/{adam,sgd,_adafactor,_muon}.py.
// bitsandbytes: optim/optimizer.py, Optimizer2State: one byte a state and one fp32 scale for 256; tensors below 4096 elements in fp32.
// transformers: optimization.py, Adafactor: row and column means in fp32; gradient, weight and update in fp32 while one tensor is stepped.
OptimizerBytes optimizer_bytes(const OptimizerSetup& setup, const std::deque<tape::Parameter>& parameters,
                               const tape::Parameter* embedding, Count split) {
  OptimizerBytes out;
  Count all = 0, largest = 0, largest_width = 2;
  for (const tape::Parameter& p : parameters) {
    if (!p.trainable) continue;
    const Count n = (p.elements + split - 1) / split;
    const Count width = setup.state_width > 0 ? setup.state_width : p.width;
    const Count plain = up_to_512(n * width);
    all += plain;
    if (n * width > largest * largest_width) largest = n, largest_width = width;
    switch (setup.kind) {
      case OptimizerKind::none: break;
      case OptimizerKind::adam: out.states += 2 * plain; break;
      case OptimizerKind::lion: out.states += plain; break;
      case OptimizerKind::sgd: out.states += setup.momentum > 0 ? plain : 0; break;
      case OptimizerKind::rmsprop: out.states += plain * (setup.momentum > 0 ? 2 : 1); break;
      case OptimizerKind::adagrad: out.states += plain; break;
      case OptimizerKind::adam_8bit:
      case OptimizerKind::lion_8bit: {
        const Count states = setup.kind == OptimizerKind::adam_8bit ? 2 : 1;
        const bool wide = n < kSmall || (setup.wide_embeddings && &p == embedding);
        out.states += states * (wide ? up_to_512(4 * n) : up_to_512(n) + up_to_512((n + kBlock - 1) / kBlock * 4));
        break;
      }
      case OptimizerKind::adafactor: out.states += n < 65536 ? plain : up_to_512(rows_and_columns(n) * width); break;
      case OptimizerKind::adafactor_transformers: out.states += n < 65536 ? up_to_512(4 * n) : up_to_512(4 * rows_and_columns(n)); break;
      // Matrices of hidden layers have one moment; embeddings, norms and biases are stepped by AdamW beside it.
      case OptimizerKind::muon: out.states += (n < 65536 || &p == embedding ? 2 : 1) * plain; break;
    }
  }
  if (setup.paged) out.states = 0;
  const Count one = largest * largest_width;
  using Form = OptimizerSetup::Form;
  switch (setup.kind) {
    case OptimizerKind::rmsprop:
    case OptimizerKind::adagrad:
    case OptimizerKind::adam: out.temporary = setup.form == Form::foreach ? all : setup.form == Form::loop ? 2 * one : 0; break;
    case OptimizerKind::sgd: out.temporary = 0; break;
    case OptimizerKind::adafactor: out.temporary = one; break;
    case OptimizerKind::adafactor_transformers: out.temporary = 4 * 4 * largest; break;
    case OptimizerKind::lion: out.temporary = setup.form == Form::fused ? 0 : one; break;
    // Newton-Schulz on one matrix in 16 bits: the matrix, two Gram matrices, the next one (torch/optim/_muon.py).
    case OptimizerKind::muon: out.temporary = 4 * 2 * largest; break;
    case OptimizerKind::none:
    case OptimizerKind::adam_8bit:
    case OptimizerKind::lion_8bit: out.temporary = 0; break;
  }
  return out;
}

}  // namespace triage::signatures::memory
