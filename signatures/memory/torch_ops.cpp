#include "signatures/memory/torch_ops.hpp"

#include <utility>

namespace triage::signatures::memory::tape {

namespace {

using Grads = std::vector<Tensor>;

// Sum of a gradient over all rows, for a weight or bias of `elements`; converted to the type that it is stored in.
Tensor reduced(Tape& tape, const Parameter& parameter, int width) {
  Tensor gradient = tape.gradient(parameter.elements, width);
  if (width == parameter.grad_width) return gradient;
  Tensor wide = tape.gradient(parameter.elements, parameter.grad_width);
  return wide;
}

}  // namespace

Tensor Ops::made(Count elements, int width, std::vector<Edge> inputs, std::vector<BlockRef> saved, Backward backward) {
  Tensor out = tape_.empty(elements, width);
  out.node = tape_.record(std::move(inputs), std::move(saved), 1, std::move(backward));
  out.grad = out.node >= 0;
  return out;
}

BlockRef Ops::operand(Parameter& weight) {
  if (autocast_ == 0 || weight.width <= autocast_ || weight.width < 2) return weight.weight;
  // limit: autocast keeps the copy of a frozen weight only while the operation runs (it caches leaves that need a gradient).
  if (!weight.trainable) return tape_.empty(weight.elements, autocast_).block;
  if (!weight.cast) weight.cast = tape_.block(Tag::communication, weight.elements * autocast_);
  return weight.cast;
}

Tensor Ops::narrow(const Tensor& x) { return autocast_ > 0 && x.width > autocast_ ? convert(x, autocast_) : x; }

Tensor Ops::linear(const Tensor& input, Count rows, Count out, Parameter& weight, Parameter* bias, bool folded) {
  const Tensor x = narrow(input);
  const BlockRef read = operand(weight);
  const int width = x.width;
  std::vector<Edge> inputs = {Tape::edge(x), Tape::edge(weight)};
  if (bias) inputs.push_back(Tape::edge(*bias));
  std::vector<BlockRef> saved;
  if (weight.trainable) saved.push_back(x.block);
  if (x.grad) saved.push_back(read);
  const Count in = x.elements;
  const bool needs = x.grad;
  Parameter* leaf = weight.trainable ? &weight : nullptr;
  Parameter* leaf_bias = bias && bias->trainable ? bias : nullptr;
  const bool through = folded;
  return made(rows * out, width, std::move(inputs), std::move(saved),
              [=](Tape& tape, Grads& grads) {
                Grads result(3);
                if (leaf) result[1] = reduced(tape, *leaf, width);
                if (needs) {
                  result[0] = tape.gradient(in, width);
                  result[0].through_view = through;
                }
                if (leaf_bias) result[2] = reduced(tape, *leaf_bias, width);
                grads.clear();
                return result;
              });
}

Tensor Ops::adapted_linear(const Tensor& input, Count rows, Count out, Parameter& weight, Parameter* bias, const Adapter& adapter,
                           int unpacked) {
  Tensor result;
  if (unpacked > 0) {
    // A packed base weight is unpacked for the product and thrown away, in the forward and again in the backward pass
    // (bitsandbytes: autograd/_functions.py, MatMul4Bit, MatMul8bitLt).
    const Tensor x = narrow(input);
    const Count elements = weight.elements, in = x.elements;
    const int width = x.width;
    const bool needs = x.grad;
    const BlockRef copy = tape_.empty(elements, unpacked).block;
    result = made(rows * out, width, {Tape::edge(x)}, {},
                  [=](Tape& tape, Grads& grads) {
                    Grads back(1);
                    if (!needs) return back;
                    const Tensor whole = tape.gradient(elements, unpacked);
                    back[0] = tape.gradient(in, width);
                    grads.clear();
                    return back;
                  });
  } else {
    result = linear(input, rows, out, weight, bias);
  }
  if (!adapter.a) return result;
  // peft/tuners/lora/layer.py: x is cast to the adapter's type (under autocast too, which narrows it again for the product: a copy of its
  // own for each adapter), A, B, scaling, sum.
  Tensor x = convert(input, adapter.a->width);
  if (adapter.dropout) x = dropout(x);
  const Tensor low = linear(x, rows, adapter.rank, *adapter.a);
  Tensor high = linear(low, rows, out, *adapter.b);
  high = scale(high);
  return convert(add(result, high), result.width);
}

Tensor Ops::embedding(Count rows, Count hidden, Parameter& weight) {
  Parameter* leaf = weight.trainable ? &weight : nullptr;
  return made(rows * hidden, weight.width, {Tape::edge(weight)}, {}, [=](Tape& tape, Grads&) {
    Grads result(1);
    if (leaf) result[0] = tape.gradient(leaf->elements, leaf->grad_width);
    return result;
  });
}

Tensor Ops::convert(const Tensor& x, int width) {
  if (x.width == width) return x;
  const Count elements = x.elements;
  const int before = x.width;
  return made(elements, width, {Tape::edge(x)}, {}, [=](Tape& tape, Grads& grads) {
    Grads result(1);
    result[0] = tape.gradient(elements, before);
    grads.clear();
    return result;
  });
}

Tensor Ops::copy(const Tensor& x) {
  const Count elements = x.elements;
  const int width = x.width;
  return made(elements, width, {Tape::edge(x)}, {}, [=](Tape& tape, Grads& grads) {
    Grads result(1);
    result[0] = tape.gradient(elements, width);
    grads.clear();
    return result;
  });
}

Tensor Ops::reordered(const Tensor& x) {
  if (!x.grad) return x;
  Tensor out = x;
  const Count elements = x.elements;
  const int width = x.width;
  out.node = tape_.record({Tape::edge(x)}, {}, 1, [=](Tape& tape, Grads& grads) {
    Grads result(1);
    result[0] = tape.gradient(elements, width);
    grads.clear();
    return result;
  });
  out.output = 0;
  out.grad = out.node >= 0;
  return out;
}

Tensor Ops::view(const Tensor& x, Count elements) {
  Tensor out = x;
  out.elements = elements;
  const Count whole = x.elements;
  const int width = x.width;
  out.node = tape_.record({Tape::edge(x)}, {}, 1, [=](Tape& tape, Grads& grads) {
    Grads result(1);
    if (whole == elements) {
      result[0] = std::move(grads[0]);
      result[0].through_view = true;
    } else {
      result[0] = tape.gradient(whole, width);  // zeros, the part copied in (slice_backward)
      grads.clear();
    }
    return result;
  });
  out.output = 0;
  out.grad = out.node >= 0;
  return out;
}

std::vector<Tensor> Ops::split(const Tensor& x, const std::vector<Count>& elements) {
  const Count whole = x.elements;
  const int width = x.width;
  const int node = tape_.record({Tape::edge(x)}, {}, static_cast<int>(elements.size()),
                                [=](Tape& tape, Grads& grads) {
                                  Grads result(1);
                                  result[0] = tape.gradient(whole, width);
                                  grads.clear();
                                  return result;
                                });
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Tensor part = x;
    part.elements = elements[i];
    part.node = node;
    part.output = static_cast<int>(i);
    part.grad = node >= 0;
    parts.push_back(std::move(part));
  }
  return parts;
}

Tensor Ops::join(const std::vector<Tensor>& parts) {
  Count sum = 0;
  std::vector<Edge> inputs;
  for (const Tensor& part : parts) {
    sum += part.elements;
    inputs.push_back(Tape::edge(part));
  }
  const std::size_t count = parts.size();
  // Gradients are slices of the one that came in.
  return made(sum, parts.empty() ? 2 : parts[0].width, std::move(inputs), {}, [=](Tape&, Grads& grads) {
    Grads result(count);
    for (Tensor& part : result) {
      part = grads[0];
      part.through_view = true;
    }
    return result;
  });
}

Tensor Ops::add(const Tensor& a, const Tensor& b) {
  const int width = a.width > b.width ? a.width : b.width;
  const int widths0 = a.width, widths1 = b.width;
  const Count elements0 = a.elements, elements1 = b.elements;
  const bool needs0 = a.grad, needs1 = b.grad;
  const Count whole = elements0 > elements1 ? elements0 : elements1;
  // A gradient passes through unless the operand was narrower or spread over the other's rows.
  return made(whole, width, {Tape::edge(a), Tape::edge(b)}, {},
              [=](Tape& tape, Grads& grads) {
                Grads result(2);
                if (needs0) result[0] = widths0 == width && elements0 == whole ? grads[0] : tape.gradient(elements0, widths0);
                if (needs1) result[1] = widths1 == width && elements1 == whole ? grads[0] : tape.gradient(elements1, widths1);
                return result;
              });
}

Tensor Ops::scale(const Tensor& x) { return copy(x); }

Tensor Ops::activation(const Tensor& x) {
  const Count elements = x.elements;
  const int width = x.width;
  std::vector<BlockRef> saved;
  if (x.grad) saved.push_back(x.block);
  return made(elements, width, {Tape::edge(x)}, std::move(saved), [=](Tape& tape, Grads& grads) {
    Grads result(1);
    result[0] = tape.gradient(elements, width);
    grads.clear();
    return result;
  });
}

Tensor Ops::quick_gelu(const Tensor& x) {
  const Tensor gate = soft_max(scale(x));
  return product(x, gate);
}

Tensor Ops::gelu_written_out(const Tensor& x) {
  const Tensor half = scale(x);
  Tensor bent = scale(activation(x));
  bent = add(x, bent);
  bent = scale(bent);
  bent = soft_max(bent);       // tanh keeps its result, as a soft-max does
  const Tensor raised = add(bent, Tensor{});
  bent = {};
  return product(half, raised);
}

Tensor Ops::product(const Tensor& a, const Tensor& b) {
  const Count left = a.elements, right = b.elements;
  const int width = a.width > b.width ? a.width : b.width;
  const bool need_a = a.grad, need_b = b.grad;
  const int width_a = a.width, width_b = b.width;
  std::vector<BlockRef> saved;
  if (need_b) saved.push_back(a.block);
  if (need_a) saved.push_back(b.block);
  const Count whole = left > right ? left : right;
  return made(whole, width, {Tape::edge(a), Tape::edge(b)}, std::move(saved), [=](Tape& tape, Grads& grads) {
    Grads result(2);
    if (need_a) result[0] = tape.gradient(whole, width);
    if (need_b) result[1] = tape.gradient(whole, width);
    // A factor that was spread over the other (a weight of each row) gets its gradient summed.
    if (need_a && left < whole) result[0] = tape.gradient(left, width_a);
    if (need_b && right < whole) result[1] = tape.gradient(right, width_b);
    grads.clear();
    return result;
  });
}

Tensor Ops::times(const Tensor& x, Parameter& factor) {
  const Count elements = x.elements;
  const int width = x.width;
  const bool needs = x.grad;
  Parameter* leaf = factor.trainable ? &factor : nullptr;
  std::vector<BlockRef> saved;
  if (leaf) saved.push_back(x.block);
  return made(elements, width, {Tape::edge(x), Tape::edge(factor)}, std::move(saved), [=](Tape& tape, Grads& grads) {
    Grads result(2);
    if (needs) result[0] = tape.gradient(elements, width);
    if (leaf) {
      const Tensor spread = tape.gradient(elements, width);
      result[1] = reduced(tape, *leaf, width);
    }
    grads.clear();
    return result;
  });
}

Tensor Ops::dropout(const Tensor& x) {
  const Count elements = x.elements;
  const int width = x.width;
  std::vector<BlockRef> saved;
  if (x.grad) saved.push_back(tape_.empty(elements, 1).block);
  return made(elements, width, {Tape::edge(x)}, std::move(saved), [=](Tape& tape, Grads& grads) {
    Grads result(1);
    result[0] = tape.gradient(elements, width);
    grads.clear();
    return result;
  });
}

Tensor Ops::gated(const Tensor& gate, const Tensor& up) {
  if (!fused_) return product(activation(gate), up);
  // Liger-Kernel: ops/swiglu.py keeps gate and up and writes their gradients into them.
  const Tensor a = gate, b = up;
  std::vector<BlockRef> saved = {gate.block, up.block};
  return made(gate.elements, gate.width, {Tape::edge(gate), Tape::edge(up)}, std::move(saved), [=](Tape&, Grads& grads) {
    Grads result(2);
    result[0] = Tensor{a.block, a.elements, a.width, -1, 0, false, false};
    result[1] = Tensor{b.block, b.elements, b.width, -1, 0, false, false};
    grads.clear();
    return result;
  });
}

// Llama's norm: x to fp32 (kept), mean of squares, times its root's inverse, back to the narrow type (kept where the weight learns),
// times the weight. Backward: product's two gradients, then in fp32 those of the product with the root, of the mean and of the power.
Tensor Ops::rms_norm(const Tensor& x, Count rows, Parameter& weight, bool fused, bool wide_product) {
  const Count elements = x.elements;
  const int width = x.width;
  Parameter* leaf = weight.trainable ? &weight : nullptr;
  const bool needs = x.grad;
  BlockRef root = tape_.empty(rows, 4).block;
  if (fused || fused_) {
    std::vector<BlockRef> saved = {x.block, root};
    const bool in_place = fused_;  // Liger-Kernel: ops/rms_norm.py, in_place
    return made(elements, width, {Tape::edge(x), Tape::edge(weight)}, std::move(saved), [=](Tape& tape, Grads& grads) {
      Grads result(2);
      if (leaf) result[1] = reduced(tape, *leaf, leaf->width);
      result[0] = in_place ? std::move(grads[0]) : tape.gradient(elements, width);
      grads.clear();
      return result;
    });
  }
  BlockRef wide = width == 4 ? x.block : tape_.empty(elements, 4).block;
  { const Tensor squares = tape_.empty(elements, 4); }
  BlockRef normed = tape_.empty(elements, 4).block;
  BlockRef kept = width == 4 || wide_product ? normed : tape_.empty(elements, width).block;
  const int out_width = weight.width > width ? weight.width : width, product_width = wide_product ? 4 : out_width;
  if (!needs) wide.reset(), root.reset();
  if (!leaf) kept.reset();
  if (product_width > out_width) { const Tensor product = tape_.empty(elements, product_width); }
  Tensor out = tape_.empty(elements, out_width);
  normed.reset();
  out.node = tape_.record({Tape::edge(x), Tape::edge(weight)}, {}, 1,
                          [=](Tape& tape, Grads& grads) mutable {
                            Grads result(2);
                            Tensor narrow;
                            if (product_width > out_width) {
                              const Tensor wider = tape.gradient(elements, product_width);
                              grads.clear();
                            }
                            if (needs) narrow = tape.gradient(elements, product_width);
                            if (leaf) {
                              const Tensor spread = tape.gradient(elements, product_width);
                              result[1] = reduced(tape, *leaf, leaf->width);
                            }
                            grads.clear();
                            kept.reset();
                            if (!needs) return result;
                            Tensor grad = width == 4 || product_width == 4 ? std::move(narrow) : tape.gradient(elements, 4);
                            narrow = {};
                            Tensor to_root = tape.gradient(elements, 4);
                            Tensor sum = tape.gradient(elements, 4);
                            to_root = {};
                            grad = {};
                            root.reset();
                            Tensor mean = tape.gradient(elements, 4), p = tape.gradient(elements, 4), q = tape.gradient(elements, 4);
                            Tensor square = tape.gradient(elements, 4);
                            q = {}, p = {}, mean = {};
                            wide.reset();
                            square = {};
                            result[0] = width == 4 ? std::move(sum) : tape.gradient(elements, width);
                            sum = {};
                            return result;
                          });
  out.grad = out.node >= 0;
  return out;
}

Tensor Ops::rms_norm_written_out(const Tensor& x, Count rows, Parameter& weight) {
  const bool before = std::exchange(fused_, false);
  Tensor out = rms_norm(x, rows, weight);
  fused_ = before;
  return out;
}

// transformers: models/cohere/modeling_cohere.py, CohereLayerNorm: x in fp32, its mean taken off twice (once for the square, kept by the
// power; once for the product with the root, kept by it), the product (kept where the weight learns), times the weight in fp32, narrowed.
Tensor Ops::layer_norm_written_out(const Tensor& x, Count rows, Parameter& weight) {
  const Count elements = x.elements;
  const int width = x.width;
  const bool needs = x.grad;
  Parameter* leaf = weight.trainable ? &weight : nullptr;
  BlockRef root = tape_.empty(rows, 4).block;
  BlockRef wide = width == 4 ? x.block : tape_.empty(elements, 4).block;
  BlockRef first = tape_.empty(elements, 4).block;
  { const Tensor squares = tape_.empty(elements, 4); }
  BlockRef second = tape_.empty(elements, 4).block;
  BlockRef normed = tape_.empty(elements, 4).block;
  wide.reset();
  if (!needs) first.reset(), second.reset(), root.reset();
  Tensor out;
  {
    const Tensor product = tape_.empty(elements, 4);
    if (!leaf) normed.reset();
    out = width == 4 ? product : tape_.empty(elements, width);
  }
  out.node = tape_.record({Tape::edge(x), Tape::edge(weight)}, {}, 1, [=](Tape& tape, Grads& grads) mutable {
    Grads result(2);
    Tensor grad = width == 4 ? std::move(grads[0]) : tape.gradient(elements, 4);
    grads.clear();
    Tensor inner;
    if (needs) inner = tape.gradient(elements, 4);
    if (leaf) {
      const Tensor spread = tape.gradient(elements, 4);
      result[1] = reduced(tape, *leaf, leaf->width);
    }
    normed.reset();
    grad = {};
    if (!needs) return result;
    Tensor to_second = tape.gradient(elements, 4), to_root = tape.gradient(elements, 4);
    inner = {}, to_root = {};
    second.reset(), root.reset();
    Tensor square = tape.gradient(elements, 4), to_first = tape.gradient(elements, 4);
    square = {};
    first.reset();
    { const Tensor sum = tape.gradient(elements, 4); }
    to_first = {};
    result[0] = width == 4 ? std::move(to_second) : tape.gradient(elements, width);
    to_second = {};
    return result;
  });
  out.grad = out.node >= 0;
  return out;
}

// native_layer_norm: input, mean and inverse deviation kept.
Tensor Ops::layer_norm(const Tensor& input, Count rows, Parameter& weight, Parameter& bias) {
  const Tensor x = autocast_ > 0 ? convert(input, 4) : input;  // on autocast's fp32 list
  const Count elements = x.elements;
  const int width = x.width;
  const bool needs = x.grad;
  Parameter* leaf = weight.trainable ? &weight : nullptr;
  std::vector<BlockRef> saved = {tape_.empty(rows, 4).block, tape_.empty(rows, 4).block};
  if (needs || leaf) saved.push_back(x.block);
  return made(elements, width, {Tape::edge(x), Tape::edge(weight), Tape::edge(bias)}, std::move(saved),
              [=](Tape& tape, Grads& grads) {
                Grads result(3);
                if (needs) result[0] = tape.gradient(elements, width);
                if (leaf) result[1] = reduced(tape, *leaf, leaf->width), result[2] = reduced(tape, *leaf, leaf->width);
                grads.clear();
                return result;
              });
}

Tensor Ops::soft_max(const Tensor& x) {
  const Count elements = x.elements;
  const int width = x.width;
  Tensor out = tape_.empty(elements, width);
  out.node = tape_.record({Tape::edge(x)}, {out.block}, 1, [=](Tape& tape, Grads& grads) {
    Grads result(1);
    result[0] = tape.gradient(elements, width);
    grads.clear();
    return result;
  });
  out.grad = out.node >= 0;
  return out;
}

Tensor Ops::gather(const Tensor& x, Count elements, Count indices) {
  const Count whole = x.elements;
  const int width = x.width;
  std::vector<BlockRef> saved;
  if (x.grad && indices > 0) saved.push_back(tape_.empty(indices, 8).block);
  return made(elements, width, {Tape::edge(x)}, std::move(saved), [=](Tape& tape, Grads& grads) {
    Grads result(1);
    result[0] = tape.gradient(whole, width);
    if (indices > 0) tape.scratch(indices * 32);
    grads.clear();
    return result;
  });
}

Tensor Ops::sum_rows(const Tensor& x, Count elements, bool copied) {
  const Count whole = x.elements;
  const int width = x.width;
  return made(elements, width, {Tape::edge(x)}, {}, [=](Tape& tape, Grads& grads) {
    Grads result(1);
    if (copied) {
      result[0] = tape.gradient(whole, width);
      grads.clear();
    } else {
      result[0] = std::move(grads[0]);
      result[0].through_view = true;
    }
    return result;
  });
}

Tensor Ops::spread(Parameter& weight, Count elements) {
  Parameter* leaf = weight.trainable ? &weight : nullptr;
  return made(elements, autocast_ > 0 ? autocast_ : weight.width, {Tape::edge(weight)}, {}, [=](Tape& tape, Grads& grads) {
    Grads result(1);
    if (leaf) result[0] = reduced(tape, *leaf, leaf->width);
    grads.clear();
    return result;
  });
}

Tensor Ops::rotate(const Tensor& x, const BlockRef& tables, bool wide, bool complex) {
  const Count elements = x.elements;
  const int width = x.width;
  std::vector<BlockRef> saved;
  if (x.grad) saved.push_back(tables);
  if (complex) {
    const Tensor y = convert(x, 4);
    const Tensor out = made(elements, 4, {Tape::edge(y)}, std::move(saved), [=](Tape& tape, Grads& grads) {
      Grads result(1);
      result[0] = tape.gradient(elements, 4);
      grads.clear();
      return result;
    });
    return convert(out, width);
  }
  if (fused_ && !wide) {  // in place (Liger-Kernel: ops/rope.py)
    Tensor out = x;
    out.node = tape_.record({Tape::edge(x)}, std::move(saved), 1, [=](Tape&, Grads& grads) {
      Grads result(1);
      result[0] = std::move(grads[0]);
      return result;
    });
    out.output = 0;
    out.grad = out.node >= 0;
    return out;
  }
  // Under autocast the tables have the width of the residual stream (fp32), and so has the result.
  const int inner = wide ? 4 : stream_ > width ? stream_ : width;
  const Tensor y = wide ? convert(x, inner) : x;
  const int from = y.width;
  const Tensor straight = tape_.empty(elements, inner);
  Tensor turned;
  {
    const Tensor half = tape_.empty(elements / 2, from);
    turned = tape_.empty(elements, from);
  }
  const Tensor crossed = tape_.empty(elements, inner);
  turned = {};
  Tensor out = made(elements, inner, {Tape::edge(y)}, std::move(saved), [=](Tape& tape, Grads& grads) {
    Tensor first = tape.gradient(elements, inner);
    Tensor sum;
    {
      const Tensor half = tape.gradient(elements / 2, inner);
      sum = tape.gradient(elements, inner);
    }
    { const Tensor other = tape.gradient(elements, inner), drop = std::move(first); }
    { const Tensor plain = tape.gradient(elements, inner); }
    grads.clear();
    Grads result(1);
    result[0] = from == inner ? std::move(sum) : tape.gradient(elements, from);
    return result;
  });
  return wide ? convert(out, width) : out;
}

Tensor Ops::attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSizes& sizes, AttentionKernel kernel) {
  const Tensor query = narrow(q), key = narrow(k), value = narrow(v);
  if (kernel == AttentionKernel::flash) return fused_attention(query, key, value, sizes);
  if (kernel != AttentionKernel::efficient)
    return plain_attention(query, key, value, sizes, kernel == AttentionKernel::eager);
  AttentionSizes whole = sizes;
  whole.kv_heads = sizes.heads;
  if (sizes.heads == sizes.kv_heads && !sizes.mask) return fused_attention(query, key, value, whole);
  const Count tokens = sizes.batch * sizes.keys;
  const auto expand = [&](const Tensor& x, Count dim) {
    const Count elements = x.elements;
    const int width = x.width;
    return made(tokens * sizes.heads * dim, width, {Tape::edge(x)}, {}, [=](Tape& tape, Grads& grads) {
      Grads result(1);
      result[0] = tape.gradient(elements, width);
      grads.clear();
      return result;
    });
  };
  return fused_attention(query, expand(key, sizes.key_dim), expand(value, sizes.value_dim), whole);
}

// Forward: output and log-sum-exp. Backward: the three gradients and, as scratch, the queries' gradient in fp32, with grouped queries
// the keys' and values' gradients of all heads, one fp32 a row and head (flash-attention csrc/flash_attn/flash_api.cpp, mha_bwd; the
// same sizes were seen for cuDNN's kernel).
Tensor Ops::fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSizes& sizes) {
  const Count tokens = sizes.batch * sizes.queries;
  const Count out_elements = tokens * sizes.heads * sizes.value_dim;
  const int width = q.width;
  Tensor out = tape_.empty(out_elements, width);
  std::vector<BlockRef> saved = {q.block, k.block, v.block, out.block, tape_.empty(tokens * sizes.heads, 4).block};
  if (sizes.mask) saved.push_back(tape_.empty(tokens * sizes.keys, width).block);  // a mask of bools becomes a bias
  const Count eq = q.elements, ek = k.elements, ev = v.elements;
  Count scratch = 4 * eq + 4 * tokens * sizes.heads;
  if (sizes.kv_heads < sizes.heads)
    scratch += static_cast<Count>(width) * sizes.batch * sizes.keys * sizes.heads * (sizes.key_dim + sizes.value_dim);
  out.node = tape_.record({Tape::edge(q), Tape::edge(k), Tape::edge(v)}, std::move(saved), 1, [=](Tape& tape, Grads& grads) {
    Grads result(3);
    result[0] = tape.gradient(eq, width);
    result[1] = tape.gradient(ek, width);
    result[2] = tape.gradient(ev, width);
    tape.scratch(scratch);
    grads.clear();
    return result;
  });
  out.grad = out.node >= 0;
  return out;
}

// Scores are made whole. sdpa's math path (aten transformers/attention.cpp, _scaled_dot_product_attention_math): queries and keys
// scaled, scores, mask added in place, safe soft-max (its result kept). transformers' eager path: scores, scaled, mask added, soft-max
// in fp32 (kept), narrowed (kept).
Tensor Ops::plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSizes& sizes, bool eager) {
  const Count tokens = sizes.batch * sizes.queries, key_tokens = sizes.batch * sizes.keys;
  const Count scores = sizes.batch * sizes.heads * sizes.queries * (sizes.keys + (sizes.sinks ? 1 : 0));
  const Count expanded_k = key_tokens * sizes.heads * sizes.key_dim, expanded_v = key_tokens * sizes.heads * sizes.value_dim;
  const bool grouped = sizes.kv_heads < sizes.heads;
  const int width = q.width;
  // GPT-OSS takes its soft-max in the narrow type.
  const int soft = eager && !sizes.sinks ? 4 : width;
  const bool widened = eager && soft > width;
  BlockRef keys = grouped ? tape_.empty(expanded_k, width).block : k.block;
  BlockRef values = grouped ? tape_.empty(expanded_v, width).block : v.block;
  BlockRef queries = q.block;
  if (!eager) {
    queries = tape_.empty(q.elements, width).block;
    keys = tape_.empty(expanded_k, width).block;
  }
  BlockRef mask;
  if (!eager && sizes.causal) mask = tape_.empty(sizes.queries * sizes.keys, width).block;
  BlockRef raw = tape_.empty(scores, width).block, bent;
  if (eager) {
    raw = tape_.empty(scores, width).block;                              // times the scale
    if (sizes.softcap) {
      raw = tape_.empty(scores, width).block;                            // over the cap
      bent = raw = tape_.empty(scores, width).block;                     // tanh: kept
      raw = tape_.empty(scores, width).block;                            // times the cap
    }
    if (sizes.causal || sizes.mask) raw = tape_.empty(scores, width).block;  // plus the mask
    if (sizes.sinks) raw = tape_.empty(scores, width).block;             // the sink's column joined
  }
  BlockRef probabilities, narrow;
  if (widened) {
    const BlockRef wide = tape_.empty(scores, 4).block;
    probabilities = tape_.empty(scores, 4).block;
  } else {
    probabilities = tape_.empty(scores, soft).block;
  }
  if (widened)
    narrow = tape_.empty(scores, width).block;
  else if (!eager)
    narrow = tape_.empty(scores, width).block;  // where(masked rows)
  else
    narrow = probabilities;
  raw.reset();
  Tensor out = tape_.empty(tokens * sizes.heads * sizes.value_dim, width);
  if (!eager) narrow = probabilities;  // one operation with one result
  mask.reset();
  const Count eq = q.elements, ek = k.elements, ev = v.elements, eo = out.elements;
  // Both transpose the result back with a copy.
  out = tape_.empty(eo, width);
  if (!q.grad && !k.grad && !v.grad) return out;
  out.node = tape_.record(
      {Tape::edge(q), Tape::edge(k), Tape::edge(v)}, {}, 1, [=](Tape& tape, Grads& grads) mutable {
        Grads result(3);
        Tensor turned = tape.gradient(eo, width);
        grads.clear();
        Tensor to_scores = tape.gradient(scores, width);
        Tensor to_values = tape.gradient(expanded_v, width);
        turned = {};
        narrow.reset();
        values.reset();
        if (widened) to_scores = tape.gradient(scores, 4);
        Tensor soft_max = tape.gradient(scores, soft);
        tape.gradient(scores, soft);  // product of gradient and result (aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out)
        to_scores = {};
        probabilities.reset();
        if (widened) {
          Tensor back = tape.gradient(scores, width);
          soft_max = std::move(back);
        }
        if (bent) {
          for (int i = 0; i < 3; ++i) {
            Tensor next = tape.gradient(scores, width);
            soft_max = std::move(next);
          }
          bent.reset();
        }
        if (eager) {
          Tensor scaled = tape.gradient(scores, width);
          soft_max = std::move(scaled);
        }
        result[0] = tape.gradient(eq, width);
        Tensor to_keys = tape.gradient(expanded_k, width);
        soft_max = {};
        queries.reset();
        keys.reset();
        if (!eager) {
          Tensor scaled = tape.gradient(eq, width);
          result[0] = std::move(scaled);
          scaled = tape.gradient(expanded_k, width);
          to_keys = std::move(scaled);
        }
        if (grouped) {
          result[1] = tape.gradient(ek, width);
          to_keys = {};
          result[2] = tape.gradient(ev, width);
        } else {
          result[1] = std::move(to_keys);
          result[2] = std::move(to_values);
        }
        return result;
      });
  out.grad = out.node >= 0;
  return out;
}

}  // namespace triage::signatures::memory::tape
