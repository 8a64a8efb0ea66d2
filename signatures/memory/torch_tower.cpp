// Vision towers of fixed image size on the tape: CLIP (LLaVA), SigLIP (Gemma 3, PaliGemma), InternViT (InternVL), and their projectors.
// After transformers: models/clip/modeling_clip.py, models/siglip/modeling_siglip.py, models/internvl/modeling_internvl.py,
// models/llava/modeling_llava.py, models/gemma3/modeling_gemma3.py.
#include <algorithm>
#include <utility>

#include "signatures/memory/torch_model.hpp"

namespace triage::signatures::memory {

using tape::AttentionKernel;
using tape::AttentionSizes;
using tape::Tag;

namespace {

bool starts(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

// Images of a micro batch: stated, or as many as the patches make.
Count image_count(const VisionShape& v) { return std::max<Count>(1, v.images); }

}  // namespace

void TorchModel::add_tower() {
  const VisionShape& v = *run_.shape.vision;
  const bool trainable = !v.frozen && run_.adapter.rank == 0;
  const bool projector = !v.projector_frozen && trainable;
  const Count used = run_.tower.used_layers > 0 ? std::min(run_.tower.used_layers, v.layers) : v.layers;
  patch_embedding.out = v.hidden;
  patch_embedding.weight = add(3 * v.patch * v.patch * v.hidden, trainable, root_unit);
  if (run_.tower.kind != TowerKind::clip) patch_embedding.bias = add(v.hidden, trainable, root_unit);
  if (v.positions > 0) positions = add(v.positions * v.hidden, trainable, root_unit);
  if (run_.tower.class_tokens() > 0) class_token = add(v.hidden, trainable, root_unit);
  if (run_.tower.kind == TowerKind::clip || run_.tower.kind == TowerKind::siglip) {
    tower_norm = add(v.hidden, trainable, root_unit);
    tower_norm_bias = add(v.hidden, trainable, root_unit);
  }
  if (run_.tower.kind == TowerKind::clip) {  // of the class token's output, which LLaVA does not read: no gradient arrives
    add(v.hidden, false, root_unit);
    add(v.hidden, false, root_unit);
  }
  for (Count i = 0; i < v.layers; ++i) {
    VisionBlock b;
    const bool learns = trainable && i < used;
    b.unit = run_.shard.wrapped ? units_++ : root_unit;
    const auto norm = [&](Parameter*& weight, Parameter*& bias) {
      weight = add(v.hidden, learns, b.unit);
      if (!run_.tower.rms_norm) bias = add(v.hidden, learns, b.unit);
    };
    norm(b.norm1, b.norm1_bias);
    norm(b.norm2, b.norm2_bias);
    b.q = linear("q_proj", v.hidden, v.hidden, run_.tower.attention_bias, learns, b.unit);
    b.k = linear("k_proj", v.hidden, v.hidden, run_.tower.attention_bias, learns, b.unit);
    b.v = linear("v_proj", v.hidden, v.hidden, run_.tower.attention_bias, learns, b.unit);
    b.out = linear("out_proj", v.hidden, v.hidden, true, learns, b.unit);
    b.fc1 = linear("fc1", v.hidden, v.ffn, true, learns, b.unit);
    b.fc2 = linear("fc2", v.ffn, v.hidden, true, learns, b.unit);
    if (run_.tower.kind == TowerKind::internvit) b.scale1 = add(v.hidden, learns, b.unit), b.scale2 = add(v.hidden, learns, b.unit);
    blocks.push_back(std::move(b));
  }
  VisionMerger m;
  const Count text = run_.shape.hidden;
  if (starts(run_.shape.model_type, "gemma3")) {  // pooled, RMSNorm, one matrix
    m.norm = add(v.hidden, projector, root_unit);
    m.fc1 = linear("projection", v.hidden, text, false, projector, root_unit);
  } else if (starts(run_.shape.model_type, "paligemma")) {
    m.fc1 = linear("linear", v.hidden, text, true, projector, root_unit);
  } else if (starts(run_.shape.model_type, "idefics3") || starts(run_.shape.model_type, "smolvlm")) {
    m.fc1 = linear("proj", v.hidden * v.merge * v.merge, text, false, projector, root_unit);
  } else {  // LLaVA: two layers; InternVL: a norm before them
    const Count wide = v.hidden * v.merge * v.merge;
    if (run_.tower.kind == TowerKind::internvit) m.norm = add(wide, projector, root_unit), m.norm_bias = add(wide, projector, root_unit);
    m.fc1 = linear("linear_1", wide, text, true, projector, root_unit);
    m.fc2 = linear("linear_2", text, text, true, projector, root_unit);
  }
  mergers.push_back(std::move(m));
}

Tensor TorchModel::tower_block(VisionBlock& b, Tensor hidden) {
  const VisionShape& v = *run_.shape.vision;
  const Count images_here = image_count(v), n = v.patches + images_here * run_.tower.class_tokens();
  AttentionSizes sizes;
  sizes.batch = images_here;
  sizes.queries = sizes.keys = n / images_here;
  sizes.heads = sizes.kv_heads = v.heads;
  sizes.key_dim = sizes.value_dim = v.hidden / v.heads;
  sizes.causal = false;
  const AttentionKernel kernel = run_.kernel == AttentionKernel::eager ? AttentionKernel::eager : AttentionKernel::flash;
  Tensor inner = norm(hidden, n, b.norm1, b.norm1_bias);
  Tensor q = apply(b.q, inner, n), k = apply(b.k, inner, n), value = apply(b.v, inner, n);
  inner = {};
  Tensor out = ops_.attention(q, k, value, sizes, kernel);
  q = {}, k = {}, value = {};
  out = apply(b.out, out, n);
  if (b.scale1) out = ops_.times(out, *b.scale1);
  hidden = ops_.add(hidden, out);
  out = {};
  inner = norm(hidden, n, b.norm2, b.norm2_bias);
  Tensor up = apply(b.fc1, inner, n);
  inner = {};
  Tensor active = activated(up, run_.tower.activation);
  up = {};
  inner = apply(b.fc2, active, n);
  active = {};
  if (b.scale2) inner = ops_.times(inner, *b.scale2);
  return ops_.add(hidden, inner);
}

Tensor TorchModel::tower() {
  const VisionShape& v = *run_.shape.vision;
  const Count images_here = image_count(v), n = v.patches + images_here * run_.tower.class_tokens(), made = v.patches / (v.merge * v.merge);
  Tensor pixels;
  pixels.elements = v.patches * 3 * v.patch * v.patch;
  pixels.width = run_.autocast > 0 ? run_.autocast : run_.compute_width;
  pixels.block = tape_.block(Tag::buffers, pixels.bytes());
  images = pixels.block;
  Tensor hidden = ops_.linear(pixels, v.patches, v.hidden, *patch_embedding.weight, patch_embedding.bias, false);
  if (class_token) {
    Tensor first = ops_.spread(*class_token, images_here * v.hidden);
    hidden = ops_.join({first, hidden});
  }
  if (positions) hidden = ops_.add(hidden, ops_.spread(*positions, positions->elements));
  if (run_.tower.kind == TowerKind::clip) hidden = norm(hidden, n, tower_norm, tower_norm_bias);
  const std::size_t used = run_.tower.used_layers > 0 ? static_cast<std::size_t>(std::min(run_.tower.used_layers, v.layers)) : blocks.size();
  for (std::size_t i = 0; i < used; ++i) {
    VisionBlock& block = blocks[i];
    const auto forward = [this, &block](tape::Tape&, Tensor x) { return tower_block(block, std::move(x)); };
    hidden = unit(block.unit, std::move(hidden), [&](Tensor x) {
      return run_.checkpoint && (x.grad || block.norm1->trainable) ? tape_.checkpoint(x, forward) : forward(tape_, std::move(x));
    });
  }
  if (run_.tower.kind == TowerKind::siglip) hidden = norm(hidden, n, tower_norm, tower_norm_bias);
  if (class_token) hidden = ops_.view(hidden, v.patches * v.hidden);
  VisionMerger& m = mergers.front();
  if (run_.tower.kind == TowerKind::internvit) {  // pixel shuffle: two transpositions, each copied
    hidden = ops_.copy(hidden);
    hidden = ops_.copy(hidden);
  } else if (starts(run_.shape.model_type, "gemma3")) {
    Tensor pooled = ops_.gather(hidden, made * v.hidden, 0);
    hidden = ops_.rms_norm(pooled, made, *m.norm, false, true);
  } else if (class_token) {
    hidden = ops_.copy(hidden);  // a part of the rows is put together for the product
  }
  if (m.norm_bias) hidden = norm(hidden, made, m.norm, m.norm_bias);
  hidden = apply(m.fc1, hidden, made);
  if (!m.fc2.weight) return hidden;
  hidden = ops_.activation(hidden);
  return apply(m.fc2, hidden, made);
}

}  // namespace triage::signatures::memory
