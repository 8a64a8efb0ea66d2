#include "signatures/memory/torch_model.hpp"

#include <algorithm>
#include <utility>

namespace triage::signatures::memory {

using tape::AttentionSizes;
using tape::BlockRef;
using tape::Tag;

namespace {

bool starts(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

// The residual stream has the type of the embedding.
int stream_width(const TorchRun& run) { return run.autocast > 0 ? run.stored_width : run.compute_width; }

}  // namespace

bool AdapterSetup::has(std::string_view name) const {
  if (rank <= 0) return false;
  if (targets.empty()) return name == "q_proj" || name == "v_proj";  // peft's mapping for Llama and its kin
  for (const std::string& target : targets)
    if (target == name || target == "all" || target == "all-linear") return true;
  return false;
}

TorchModel::TorchModel(const TorchRun& run, tape::Tape& tape)
    : run_(run), tape_(tape), ops_(tape, run.autocast, stream_width(run), run.fused_kernels) {
  const ModelShape& s = run.shape;
  const bool trainable = !s.frozen && run.adapter.rank == 0;
  root_unit = units_++;
  tokens = run.batch * run.seq;
  stream_rows = std::max<Count>(1, tokens / run.tensor);
  if (run.embedding) {
    if (s.vision && s.vision->layers > 0) add_vision();
    embedding = add(s.vocab / run.tensor * s.hidden, trainable, root_unit);
    if (s.learned_positions > 0) learned_positions = add((s.learned_positions + (s.model_type == "opt" ? 2 : 0)) * s.hidden, trainable, root_unit);
  }
  for (Count i = run.first_layer; i < run.last_layer; ++i) add_layer(i);
  if (run.head) {
    final_norm = add(s.hidden, trainable, root_unit);
    if (s.norm_bias()) final_norm_bias = add(s.hidden, trainable, root_unit);
    head.out = s.vocab / run.tensor;
    if (s.model_type == "phi") head.bias = add(head.out, trainable, root_unit);
    head.weight = s.tied && embedding ? embedding : add(head.out * s.hidden, trainable, root_unit);
  }
}

Parameter* TorchModel::add(Count elements, bool trainable, int unit) {
  Parameter p;
  p.elements = elements;
  p.trainable = trainable;
  const bool sharded = run_.shard.kind != ShardKind::none && run_.shard.kind != ShardKind::ddp && run_.shard.parameters;
  p.unit = sharded ? unit : -1;
  p.width = sharded ? run_.compute_width : run_.stored_width;
  p.grad_width = p.width;
  if (!sharded) p.weight = tape_.block(Tag::weights, elements * p.width);
  parameters_.push_back(std::move(p));
  return &parameters_.back();
}

Linear TorchModel::linear(std::string_view name, Count in, Count out, bool bias, bool trainable, int unit) {
  Linear made;
  made.out = out;
  made.weight = add(in * out, trainable, unit);
  const bool packed = run_.packed_bits > 0 && !trainable && in * out > 4096;
  if (packed && made.weight->weight) {
    // bitsandbytes: 4-bit values with double quantisation (0.127 bits a value for scales), or 8-bit with one fp32 a row.
    const double bits = run_.packed_bits == 4 ? 4.127 : 8.0;
    made.weight->weight = tape_.block(Tag::weights, static_cast<Count>(static_cast<double>(in * out) * bits / 8));
  }
  if (bias) made.bias = add(out, trainable, unit);
  if (run_.adapter.has(name)) {
    made.low = add(in * run_.adapter.rank, true, unit);
    made.high = add(run_.adapter.rank * out, true, unit);
    // peft casts adapters of a narrow model to fp32 (autocast_adapter_dtype); Trainer does not undo it.
    for (Parameter* p : {made.low, made.high}) {
      p->width = p->grad_width = 4;
      if (p->weight) p->weight = tape_.block(Tag::weights, p->elements * 4);
    }
    
  }
  return made;
}

Mlp TorchModel::make_mlp(Count ffn, bool trainable, int unit) {
  const ModelShape& s = run_.shape;
  Mlp made;
  if (s.gated) made.gate = linear("gate_proj", s.hidden, ffn, s.linear_bias, trainable, unit);
  made.up = linear("up_proj", s.hidden, ffn, s.linear_bias, trainable, unit);
  made.down = linear("down_proj", ffn, s.hidden, s.linear_bias, trainable, unit);
  return made;
}

void TorchModel::add_layer(Count index) {
  const ModelShape& s = run_.shape;
  const bool trainable = !s.frozen && run_.adapter.rank == 0;
  const Count t = run_.tensor;
  DecoderLayer layer;
  const int unit = run_.shard.wrapped ? units_++ : root_unit;
  layer.unit = unit;
  const auto norm = [&](Count width, Parameter*& weight, Parameter*& bias) {
    weight = add(width, trainable, unit);
    if (s.norm_bias()) bias = add(width, trainable, unit);
  };
  layer.windowed = run_.full_attention.size() <= static_cast<std::size_t>(index) || !run_.full_attention[static_cast<std::size_t>(index)];
  norm(s.hidden, layer.norm1, layer.norm1_bias);
  if (!run_.shared_norm) norm(s.hidden, layer.norm2, layer.norm2_bias);
  if (run_.sandwich_norm) {
    layer.norm3 = add(s.hidden, trainable, unit);
    layer.norm4 = add(s.hidden, trainable, unit);
  }
  if (s.mla) {
    const MlaShape& m = *s.mla;
    const Count qk = m.nope_dim + m.rope_dim, heads = s.heads / t;
    if (m.q_rank > 0) {
      layer.q_down = linear("q_a_proj", s.hidden, m.q_rank, false, trainable, unit);
      layer.q_down_norm = add(m.q_rank, trainable, unit);
      layer.q = linear("q_b_proj", m.q_rank, heads * qk, false, trainable, unit);
    } else {
      layer.q = linear("q_proj", s.hidden, heads * qk, false, trainable, unit);
    }
    layer.kv_down = linear("kv_a_proj_with_mqa", s.hidden, m.kv_rank + m.rope_dim, false, trainable, unit);
    layer.kv_down_norm = add(m.kv_rank, trainable, unit);
    layer.k = linear("kv_b_proj", m.kv_rank, heads * (m.nope_dim + m.v_dim), false, trainable, unit);
    layer.o = linear("o_proj", heads * m.v_dim, s.hidden, false, trainable, unit);
  } else {
    const Count q = s.query_width() / t, k = std::max<Count>(s.head_dim, s.key_width() / t);
    if (run_.fused_qkv) {
      layer.q = linear("query_key_value", s.hidden, q + 2 * k, s.qkv_bias, trainable, unit);
    } else {
      layer.q = linear("q_proj", s.hidden, q, s.qkv_bias, trainable, unit);
      layer.k = linear("k_proj", s.hidden, k, s.qkv_bias, trainable, unit);
      layer.v = linear("v_proj", s.hidden, k, s.qkv_bias, trainable, unit);
    }
    // attention_bias means all four but for families whose output has none (Seed-OSS has a setting of its own, off).
    const bool bare = starts(s.model_type, "qwen2") || starts(s.model_type, "seed_oss") || starts(s.model_type, "glm");
    layer.o = linear("o_proj", q, s.hidden, s.linear_bias || (s.qkv_bias && !bare), trainable, unit);
    if (s.qk_norm) {
      const bool whole = starts(s.model_type, "olmo");  // one norm over all heads
      layer.q_norm = add(whole ? q : s.head_dim, trainable, unit);
      layer.k_norm = add(whole ? k : s.head_dim, trainable, unit);
    }
  }
  if (s.model_type == "gpt_oss") layer.sinks = add(s.heads, trainable, unit);
  if (s.is_moe(index)) {
    const Count local = std::max<Count>(1, s.experts / run_.expert);
    const bool bias = s.model_type == "gpt_oss";
    layer.router = add(s.hidden * s.experts, trainable, unit);
    if (bias) layer.router_bias = add(s.experts, trainable, unit);
    layer.experts_in = add(local * s.hidden * s.expert_ffn * (s.gated ? 2 : 1), trainable, unit);
    layer.experts_out = add(local * s.expert_ffn * s.hidden, trainable, unit);
    expert_parameters += layer.experts_in->elements + layer.experts_out->elements;
    if (bias) {
      layer.experts_in_bias = add(local * s.expert_ffn * 2, trainable, unit);
      layer.experts_out_bias = add(local * s.hidden, trainable, unit);
    }
    if (s.shared_expert_ffn > 0) {
      layer.mlp = make_mlp(s.shared_expert_ffn / t, trainable, unit);
      if (starts(s.model_type, "qwen")) layer.shared_gate = add(s.hidden, trainable, unit);
    }
  } else {
    layer.mlp = make_mlp(s.ffn / t, trainable, unit);
  }
  layers.push_back(std::move(layer));
}

Tensor TorchModel::apply(const Linear& l, const Tensor& x, Count rows) {
  const int unpacked = run_.packed_bits > 0 && !l.weight->trainable && l.weight->elements > 4096
                           ? std::max(2, run_.autocast)
                           : 0;
  if (!l.low && unpacked == 0) return ops_.linear(x, rows, l.out, *l.weight, l.bias);
  tape::Ops::Adapter adapter;
  adapter.a = l.low;
  adapter.b = l.high;
  adapter.rank = run_.adapter.rank;
  adapter.dropout = run_.adapter.dropout;
  return ops_.adapted_linear(x, rows, l.out, *l.weight, l.bias, adapter, unpacked);
}

Tensor TorchModel::norm(const Tensor& x, Count rows, Parameter* weight, Parameter* bias) {
  if (bias) return ops_.layer_norm(x, rows, *weight, *bias);
  if (run_.written_layernorm) return ops_.layer_norm_written_out(x, rows, *weight);
  return ops_.rms_norm(x, rows, *weight, run_.fused_norm || run_.fused_kernels, run_.wide_norm);
}

Tensor TorchModel::attention(DecoderLayer& layer, const Tensor& x) {
  const ModelShape& s = run_.shape;
  const Count heads = s.heads / run_.tensor, kv = std::max<Count>(1, s.kv_heads / run_.tensor);
  AttentionSizes sizes;
  sizes.batch = run_.batch;
  sizes.queries = run_.seq;
  sizes.keys = run_.seq * run_.context;
  sizes.heads = heads;
  sizes.kv_heads = kv;
  sizes.key_dim = sizes.value_dim = s.head_dim;
  sizes.sinks = layer.sinks != nullptr;
  sizes.mask = run_.mask && layer.windowed;
  sizes.softcap = run_.attention_softcap;
  const tape::AttentionKernel kernel = run_.mask && !layer.windowed && !run_.expanded_kv ? tape::AttentionKernel::flash : run_.kernel;
  // Liger-Kernel: transformers/monkey_patch.py (0.8.2): on a model that exists already (Trainer) the norms of queries and keys of Qwen 3 stay
  // transformers' own; those of Qwen 3 VL and Gemma 3 are replaced.
  const bool own = run_.fused_kernels && !run_.fused_norm && starts(s.model_type, "qwen3") && !starts(s.model_type, "qwen3_vl");
  const auto inner = [&](const Tensor& y, Count rows, Parameter* weight) {
    return own ? ops_.rms_norm_written_out(y, rows, *weight) : norm(y, rows, weight, nullptr);
  };
  Tensor q = apply(layer.q, x, tokens), k, v;
  if (run_.fused_qkv) {
    std::vector<Tensor> parts = ops_.split(q, {tokens * heads * s.head_dim, tokens * kv * s.head_dim, tokens * kv * s.head_dim});
    q = std::move(parts[0]), k = std::move(parts[1]), v = std::move(parts[2]);
  } else {
    if (layer.q_norm) q = inner(q, tokens * heads, layer.q_norm);
    k = apply(layer.k, x, tokens);
    if (layer.k_norm) k = inner(k, tokens * kv, layer.k_norm);
    v = apply(layer.v, x, tokens);
  }
  if (!s.learned_positions) {
    BlockRef own_tables;
    if (run_.tables_each_layer) own_tables = tape_.empty(2 * run_.seq * s.head_dim, 4).block;
    const BlockRef& read = own_tables ? own_tables : tables;
    Tensor turned = ops_.rotate(ops_.reordered(q), read, run_.wide_rotation, run_.program == "torchtitan");
    k = ops_.rotate(ops_.reordered(k), read, run_.wide_rotation, run_.program == "torchtitan");
    q = std::move(turned);
  }
  // The math path works in fp32 on 16-bit operands (aten transformers/attention.cpp, allowFP16BF16ReductionMathSDP is off).
  const int narrow = q.width;
  const bool widened = kernel == tape::AttentionKernel::math && run_.autocast == 0 && narrow < 4;
  if (widened) q = ops_.convert(q, 4), k = ops_.convert(k, 4), v = ops_.convert(v, 4);
  Tensor out = ops_.attention(q, k, v, sizes, kernel);
  if (widened) out = ops_.convert(out, narrow);
  q = {}, k = {}, v = {};
  if (run_.partial_rotary && kernel == tape::AttentionKernel::flash) out = ops_.copy(out);
  return apply(layer.o, out, tokens);
}

// transformers: models/deepseek_v3/modeling_deepseek_v3.py, DeepseekV3Attention: low-rank queries and keys/values, queries and keys put
// together from two parts each; values are a view of the up-projection's output.
Tensor TorchModel::latent_attention(DecoderLayer& layer, const Tensor& x) {
  const MlaShape& m = *run_.shape.mla;
  const Count heads = run_.shape.heads / run_.tensor, qk = m.nope_dim + m.rope_dim;
  Tensor q;
  if (layer.q_down.weight) {
    Tensor low = apply(layer.q_down, x, tokens);
    q = apply(layer.q, norm(low, tokens, layer.q_down_norm, nullptr), tokens);
  } else {
    q = apply(layer.q, x, tokens);
  }
  Tensor compressed = apply(layer.kv_down, x, tokens);
  std::vector<Tensor> parts = ops_.split(compressed, {tokens * m.kv_rank, tokens * m.rope_dim});
  compressed = {};
  // The part is a view: the norm makes its own fp32 copy of it.
  Tensor kv = apply(layer.k, norm(parts[0], tokens, layer.kv_down_norm, nullptr), tokens);
  std::vector<Tensor> q_parts = ops_.split(q, {tokens * heads * m.nope_dim, tokens * heads * m.rope_dim});
  std::vector<Tensor> kv_parts = ops_.split(kv, {tokens * heads * m.nope_dim, tokens * heads * m.v_dim});
  q = {}, kv = {};
  Tensor q_turned = ops_.rotate(ops_.reordered(q_parts[1]), tables);
  Tensor k_turned = ops_.rotate(ops_.reordered(parts[1]), tables);
  parts.clear();
  Tensor spread = k_turned;  // expanded to all heads by a view
  spread.elements = tokens * heads * m.rope_dim;
  Tensor query = ops_.join({q_parts[0], q_turned});
  Tensor key = ops_.join({kv_parts[0], spread});
  q_turned = {}, k_turned = {}, spread = {};
  Tensor value = kv_parts[1];
  q_parts.clear(), kv_parts.clear();
  AttentionSizes sizes;
  sizes.batch = run_.batch;
  sizes.queries = run_.seq;
  sizes.keys = run_.seq * run_.context;
  sizes.heads = sizes.kv_heads = heads;
  sizes.key_dim = qk;
  sizes.value_dim = m.v_dim;
  Tensor out = ops_.attention(query, key, value, sizes, run_.kernel);
  query = {}, key = {}, value = {};
  if (run_.kernel == tape::AttentionKernel::flash) out = ops_.copy(out);  // as with a partial rotation
  return apply(layer.o, out, tokens);
}

Tensor TorchModel::activated(const Tensor& x, ActivationForm form) {
  if (form == ActivationForm::relu) return ops_.soft_max(x);  // keeps its result, as a soft-max does
  if (form == ActivationForm::relu_squared) return ops_.activation(ops_.soft_max(x));
  if (form == ActivationForm::quick_gelu) return ops_.quick_gelu(x);
  return form == ActivationForm::written_out ? ops_.gelu_written_out(x) : ops_.activation(x);
}

Tensor TorchModel::mlp(const Mlp& m, const Tensor& x, Count rows) {
  if (!run_.shape.gated) {
    Tensor up = apply(m.up, x, rows);
    const Tensor act = activated(up, run_.activation);
    up = {};
    return apply(m.down, act, rows);
  }
  // Liger-Kernel: transformers/monkey_patch.py (0.8.2): apply_liger_kernel_to_qwen3_vl leaves the MLP as it is (swiglu: False by default).
  const bool own = run_.shape.model_type == "qwen3_vl" || run_.shape.model_type == "qwen3_vl_text";
  if (run_.fused_kernels && !own) {
    Tensor gate = apply(m.gate, x, rows);
    return apply(m.down, ops_.gated(gate, apply(m.up, x, rows)), rows);
  }
  Tensor act = ops_.activation(apply(m.gate, x, rows));
  Tensor product = ops_.product(act, apply(m.up, x, rows));
  act = {};
  return apply(m.down, product, rows);
}

// transformers: integrations/moe.py, grouped_mm_experts_forward: rows gathered in the order of experts, one grouped product for gate and
// up, rows beyond the last expert masked, gate, second grouped product, masked, weighted, put back, summed over the choices.
Tensor TorchModel::experts(DecoderLayer& layer, const Tensor& x) {
  const ModelShape& s = run_.shape;
  const Tag before = tape_.section;
  tape_.section = Tag::moe;
  const Count rows = static_cast<Count>(static_cast<double>(tokens * s.experts_per_token) * run_.routing);
  const bool gpt_oss = s.model_type == "gpt_oss";
  const bool wide_router = run_.wide_router;
  Tensor weights;
  {
    Tensor in = wide_router ? ops_.convert(x, 4) : x;
    Tensor logits = ops_.linear(in, tokens, s.experts, *layer.router, layer.router_bias);
    Tensor probabilities = ops_.soft_max(ops_.convert(logits, 4));
    Tensor best = ops_.gather(probabilities, tokens * s.experts_per_token, tokens * s.experts_per_token);
    weights = ops_.convert(ops_.gather(ops_.scale(best), rows, 0), x.width);
  }
  Tensor chosen = ops_.gather(x, rows * s.hidden, rows);
  Tensor in = ops_.linear(chosen, rows, s.expert_ffn * (s.gated ? 2 : 1), *layer.experts_in, nullptr, false);
  if (!in.grad) chosen = {};
  if (layer.experts_in_bias) {
    Tensor bias = ops_.spread(*layer.experts_in_bias, in.elements);
    in = ops_.add(in, bias);
  }
  if (run_.program != "torchtitan") in = ops_.copy(in);
  Tensor active;
  if (gpt_oss) {
    // gate and up interleaved, both clamped; (up + 1) * gate * sigmoid(gate * alpha)
    std::vector<Tensor> halves = ops_.split(in, {in.elements / 2, in.elements / 2});
    in = {};
    Tensor gate = ops_.activation(halves[0]), up = ops_.activation(halves[1]);
    halves.clear();
    Tensor sigmoid = ops_.soft_max(ops_.scale(gate));
    Tensor glu = ops_.product(gate, sigmoid);
    gate = {}, sigmoid = {};
    active = ops_.product(ops_.scale(up), glu);
  } else if (s.gated) {
    std::vector<Tensor> halves = ops_.split(in, {in.elements / 2, in.elements / 2});
    in = {};
    Tensor act = ops_.activation(halves[0]);
    active = ops_.product(act, halves[1]);
  } else {
    active = ops_.activation(in);
    in = {};
  }
  Tensor out = ops_.linear(active, rows, s.hidden, *layer.experts_out, nullptr, false);
  active = {}, chosen = {};
  if (layer.experts_out_bias) {
    Tensor bias = ops_.spread(*layer.experts_out_bias, out.elements);
    out = ops_.add(out, bias);
  }
  if (run_.program != "torchtitan") out = ops_.copy(out);
  Tensor weighted = ops_.product(out, weights);
  out = {};
  Tensor ordered = ops_.gather(weighted, rows * s.hidden, rows);
  weighted = {};
  Tensor sum = ops_.sum_rows(ordered, tokens * s.hidden);
  ordered = {};
  if (layer.mlp.up.weight) {
    Tensor extra = mlp(layer.mlp, x, tokens);
    if (layer.shared_gate) {
      Tensor gate = ops_.soft_max(ops_.linear(x, tokens, 1, *layer.shared_gate));
      extra = ops_.product(extra, gate);
    }
    sum = ops_.add(sum, extra);
  }
  tape_.section = before;
  return sum;
}

Tensor TorchModel::decoder_layer(std::size_t index, Tensor hidden) {
  DecoderLayer& layer = layers[index];
  const ModelShape& s = run_.shape;
  const bool split = run_.tensor > 1;  // sequence parallel around norms and sums
  const auto whole = [&](Tensor x) { return split ? ops_.gather(x, tokens * s.hidden, 0) : std::move(x); };
  const auto part = [&](Tensor x) { return split ? ops_.sum_rows(x, stream_rows * s.hidden, true) : std::move(x); };
  if (run_.post_norm) {
    Tensor made = part(attention(layer, whole(hidden)));
    hidden = ops_.add(hidden, norm(made, stream_rows, layer.norm1, layer.norm1_bias));
    made = {};
    made = part(layer.router ? experts(layer, whole(hidden)) : mlp(layer.mlp, whole(hidden), tokens));
    return ops_.add(hidden, norm(made, stream_rows, layer.norm2, layer.norm2_bias));
  }
  Tensor inner = whole(norm(hidden, stream_rows, layer.norm1, layer.norm1_bias));
  if (run_.parallel_blocks) {
    Tensor attended = part(attention(layer, inner));
    Tensor second = layer.norm2 ? whole(norm(hidden, stream_rows, layer.norm2, layer.norm2_bias)) : inner;
    inner = {};
    Tensor fed = part(mlp(layer.mlp, second, tokens));
    second = {};
    Tensor sum = ops_.add(fed, attended);
    fed = {}, attended = {};
    return ops_.add(sum, hidden);
  }
  inner = part(s.mla ? latent_attention(layer, inner) : attention(layer, inner));
  if (layer.norm3) inner = norm(inner, stream_rows, layer.norm3, nullptr);
  if (run_.hidden_dropout > 0) inner = ops_.dropout(inner);
  hidden = ops_.add(hidden, inner);
  inner = {};
  inner = whole(norm(hidden, stream_rows, layer.norm2, layer.norm2_bias));
  inner = part(layer.router ? experts(layer, inner) : mlp(layer.mlp, inner, tokens));
  if (layer.norm4) inner = norm(inner, stream_rows, layer.norm4, nullptr);
  if (run_.hidden_dropout > 0) inner = ops_.dropout(inner);
  return ops_.add(hidden, inner);
}

}  // namespace triage::signatures::memory
