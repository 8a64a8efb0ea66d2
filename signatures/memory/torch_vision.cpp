// Vision towers: patch embedding, blocks with attention over all patches of an image, mergers. After Qwen2.5-VL and Qwen3-VL
// (transformers: models/qwen3_vl/modeling_qwen3_vl.py, models/qwen2_5_vl/modeling_qwen2_5_vl.py). Towers of fixed image size: torch_tower.
#include <algorithm>
#include <utility>

#include "signatures/memory/torch_model.hpp"

namespace triage::signatures::memory {

using tape::AttentionKernel;
using tape::AttentionSizes;
using tape::BlockRef;
using tape::Tag;

void TorchModel::add_vision() {
  const VisionShape& v = *run_.shape.vision;
  if (run_.tower.kind != TowerKind::merged) return add_tower();
  const bool trainable = !v.frozen && run_.adapter.rank == 0;
  const bool projector = !v.projector_frozen && trainable;
  const bool rms = v.gated;  // Qwen2.5-VL: RMSNorm and a gated MLP
  const Count pixels = 3 * v.temporal_patch * v.patch * v.patch;
  patch_embedding.out = v.hidden;
  patch_embedding.weight = add(pixels * v.hidden, trainable, root_unit);
  if (!rms) patch_embedding.bias = add(v.hidden, trainable, root_unit);
  if (v.positions > 0) positions = add(v.positions * v.hidden, trainable, root_unit);
  for (Count i = 0; i < v.layers; ++i) {
    VisionBlock b;
    b.unit = run_.shard.wrapped ? units_++ : root_unit;
    b.norm1 = add(v.hidden, trainable, b.unit);
    b.norm2 = add(v.hidden, trainable, b.unit);
    if (!rms) b.norm1_bias = add(v.hidden, trainable, b.unit), b.norm2_bias = add(v.hidden, trainable, b.unit);
    b.qkv = linear("qkv", v.hidden, 3 * v.hidden, true, trainable, b.unit);
    b.out = linear("proj", v.hidden, v.hidden, true, trainable, b.unit);
    if (v.gated) b.gate = linear("gate_proj", v.hidden, v.ffn, true, trainable, b.unit);
    b.fc1 = linear(v.gated ? "up_proj" : "linear_fc1", v.hidden, v.ffn, true, trainable, b.unit);
    b.fc2 = linear(v.gated ? "down_proj" : "linear_fc2", v.ffn, v.hidden, true, trainable, b.unit);
    blocks.push_back(std::move(b));
  }
  const Count wide = v.hidden * v.merge * v.merge;
  for (Count i = 0; i < v.mergers; ++i) {
    VisionMerger m;
    const Count width = i == 0 ? v.hidden : wide;  // deepstack levels normalise after the merge
    m.norm = add(width, projector, root_unit);
    if (!rms) m.norm_bias = add(width, projector, root_unit);
    m.fc1 = linear("linear_fc1", wide, wide, true, projector, root_unit);
    m.fc2 = linear("linear_fc2", wide, run_.shape.hidden, true, projector, root_unit);
    mergers.push_back(std::move(m));
  }
}

Tensor TorchModel::vision_block(VisionBlock& b, Tensor hidden, const BlockRef& rotary) {
  const VisionShape& v = *run_.shape.vision;
  const Count n = v.patches;
  Tensor inner = norm(hidden, n, b.norm1, b.norm1_bias);
  Tensor qkv = apply(b.qkv, inner, n);
  inner = {};
  std::vector<Tensor> parts = ops_.split(qkv, {n * v.hidden, n * v.hidden, n * v.hidden});
  qkv = {};
  Tensor q = parts[0], k = parts[1];
  if (rotary) {
    q = ops_.rotate(q, rotary, true);
    k = ops_.rotate(k, rotary, true);
  }
  AttentionSizes sizes;
  sizes.batch = std::max<Count>(1, v.images);
  sizes.queries = sizes.keys = n / sizes.batch;
  sizes.heads = sizes.kv_heads = v.heads;
  sizes.key_dim = sizes.value_dim = v.hidden / v.heads;
  sizes.causal = false;
  // Without grouped queries sdpa finds a fused kernel for fp32 too.
  const AttentionKernel kernel = run_.kernel == AttentionKernel::eager ? AttentionKernel::eager : AttentionKernel::flash;
  Tensor out = ops_.attention(q, k, parts[2], sizes, kernel);
  q = {}, k = {};
  parts.clear();
  if (!run_.variable_length) out = ops_.join({out});  // image by image, then put together
  hidden = ops_.add(hidden, apply(b.out, out, n));
  out = {};
  inner = norm(hidden, n, b.norm2, b.norm2_bias);
  Tensor active;
  if (b.gate.weight) {
    Tensor act = ops_.activation(apply(b.gate, inner, n));
    active = ops_.product(act, apply(b.fc1, inner, n));
  } else {
    active = activated(apply(b.fc1, inner, n), run_.tower.activation);
  }
  inner = apply(b.fc2, active, n);
  active = {};
  return ops_.add(hidden, inner);
}

Tensor TorchModel::vision(std::vector<Tensor>& deep) {
  const VisionShape& v = *run_.shape.vision;
  const Count n = v.patches, tokens_out = n / (v.merge * v.merge);
  const Tag before = tape_.section;
  tape_.section = Tag::vision;
  if (run_.tower.kind != TowerKind::merged) {
    Tensor made = tower();
    tape_.section = before;
    return made;
  }
  Tensor pixels;
  pixels.elements = n * 3 * v.temporal_patch * v.patch * v.patch;
  pixels.width = run_.autocast > 0 ? run_.autocast : run_.compute_width;
  pixels.block = tape_.block(Tag::buffers, pixels.bytes());
  images = pixels.block;
  Tensor hidden = ops_.linear(pixels, n, v.hidden, *patch_embedding.weight, patch_embedding.bias, false);
  if (positions) hidden = ops_.add(hidden, ops_.spread(*positions, n * v.hidden));
  const BlockRef rotary = tape_.empty(2 * n * (v.hidden / v.heads), 4).block;
  const auto merge = [&](VisionMerger& m, const Tensor& x, bool after) {
    const Tensor normed = norm(x, after ? tokens_out : n, m.norm, m.norm_bias);
    const Tensor act = ops_.activation(apply(m.fc1, normed, tokens_out));
    return apply(m.fc2, act, tokens_out);
  };
  const std::size_t levels = mergers.size() > 1 ? mergers.size() - 1 : 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    VisionBlock& block = blocks[i];
    const auto forward = [this, &block, rotary](tape::Tape&, Tensor x) { return vision_block(block, std::move(x), rotary); };
    hidden = unit(block.unit, std::move(hidden), [&](Tensor x) {
      return run_.checkpoint && (x.grad || block.norm1->trainable) ? tape_.checkpoint(x, forward)
                                                                   : forward(tape_, std::move(x));
    });
    // Levels at equal distances (8, 16, 24 of 27); their place changes nothing in what is kept.
    if (levels > 0 && deep.size() < levels && (i + 1) * (levels + 1) >= (deep.size() + 1) * blocks.size())
      deep.push_back(merge(mergers[deep.size() + 1], hidden, true));
  }
  Tensor out = merge(mergers[0], hidden, false);
  tape_.section = before;
  return out;
}

}  // namespace triage::signatures::memory
