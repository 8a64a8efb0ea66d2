#include "signatures/memory/torch_shard.hpp"

#include <algorithm>
#include <utility>

namespace triage::signatures::memory {

using tape::Tag;

Sharder::Sharder(const TorchRun& run, tape::Tape& tape, TorchModel& model)
    : run_(run), tape_(tape), model_(model) {
  const ShardKind kind = run.shard.kind;
  split_ = kind == ShardKind::fsdp1 || kind == ShardKind::fsdp2 || kind == ShardKind::zero;
  units_.resize(static_cast<std::size_t>(model.units()));
  members_.resize(units_.size());
  for (Parameter& p : model.parameters())
    if (p.unit >= 0 && static_cast<std::size_t>(p.unit) < units_.size()) {
      Unit& unit = units_[static_cast<std::size_t>(p.unit)];
      unit.elements += p.elements;
      unit.trainable = unit.trainable || p.trainable;
      members_[static_cast<std::size_t>(p.unit)].push_back(&p);
    }
  if (kind == ShardKind::fsdp1 || kind == ShardKind::fsdp2)
    model.around = [this](int unit, Tensor input, const std::function<Tensor(Tensor)>& body) {
      return around(unit, std::move(input), body);
    };
  if (kind == ShardKind::zero && run.shard.stage >= 2)
    tape.accumulated = [this](Parameter& p) {
      bucket_.push_back(&p);
      bucket_elements_ += p.elements;
      if (bucket_elements_ >= run_.shard.reduce_bucket) release();
    };
}

void Sharder::keep(Tag tag, double bytes) {
  kept_.push_back(tape_.block(tag, static_cast<Count>(bytes)));
}

// FSDP: the shard of every weight in the type that is stepped. DDP: buckets as large as all gradients (gradient_as_bucket_view false is
// the default: torch/nn/parallel/distributed.py). ZeRO 1 and 2: fp32 master copy of a rank's part, buckets of reduce_bucket elements,
// two with overlap_comm; ZeRO 3: shards in 16 bits, weights gathered up to max_live_parameters, master copy
// (DeepSpeed: runtime/zero/stage_1_and_2.py, stage3.py, parameter_offload.py).
void Sharder::persistent() {
  const ShardSetup& shard = run_.shard;
  if (shard.kind == ShardKind::none) return;
  double all = 0, trainable = 0, narrow_grads = 0;
  for (const Parameter& p : model_.parameters()) {
    all += static_cast<double>(p.elements);
    if (!p.trainable) continue;
    trainable += static_cast<double>(p.elements);
    narrow_grads += static_cast<double>(p.elements * p.grad_width);
  }
  const double n = static_cast<double>(shard.ranks);
  if (shard.kind == ShardKind::ddp) {
    if (shard.ranks > 1) keep(Tag::communication, narrow_grads);
    return;
  }
  if (shard.kind == ShardKind::fsdp1 || shard.kind == ShardKind::fsdp2) {
    if (shard.parameters && !shard.offload_parameters) keep(Tag::weights, all / n * run_.stored_width);
    return;
  }
  const double width = run_.compute_width;
  if (shard.stage >= 3) {
    if (!shard.offload_parameters) keep(Tag::weights, all / n * width);
    // limit: a weight that is larger than the limit is gathered all the same.
    double largest = 0;
    for (const Parameter& p : model_.parameters()) largest = std::max(largest, static_cast<double>(p.elements));
    const double live = std::max(largest, std::min(all, static_cast<double>(shard.live_parameters)));
    keep(Tag::communication, live * width);
    keep(Tag::communication, std::min(all, static_cast<double>(shard.prefetch_bucket)) * width);
  }
  if (!shard.offload_optimizer) keep(Tag::optimizer, trainable / n * 4);
  keep(Tag::communication, static_cast<double>(shard.reduce_bucket) * width * (shard.overlap ? 2 : 1));
}

void Sharder::before_forward() {
  backward_ = false;
  if (!model_.around) return;
  gather(model_.root_unit);
}

// FSDP2: an all-gather into one flat buffer, copied out to the weights. In the forward pass the buffer stays until the next gather has
// been issued, in the backward pass it is freed at once (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, unshard,
// wait_for_unshard). FSDP1: gathered in place
// (torch/distributed/fsdp/_flat_param.py).
void Sharder::gather(int index) {
  Unit& unit = units_[static_cast<std::size_t>(index)];
  if (unit.gathered || unit.elements == 0 || !run_.shard.parameters) return;
  const Count bytes = unit.elements * run_.compute_width;
  if (run_.shard.kind == ShardKind::fsdp1) {
    unit.gathered = tape_.block(Tag::communication, bytes);
    return;
  }
  if (!unit.flat) unit.flat = tape_.block(Tag::communication, bytes);
  last_flat_.reset();
  unit.gathered = tape_.block(Tag::communication, bytes);
  if (!backward_) last_flat_ = std::move(unit.flat);
  unit.flat.reset();
}

// The root's hooks: after its forward pass FSDP2 frees the last flat buffer; before its backward pass the last unit is gathered ahead
// (_fsdp_state.py, _post_forward; _fsdp_param_group.py, pre_backward; FSDP1: _runtime_utils.py, _prefetch_handle).
void Sharder::before_backward() {
  if (!model_.around) return;
  last_flat_.reset();
  backward_ = true;
  prefetch(static_cast<int>(units_.size()) - 1);
}

void Sharder::prefetch(int index) {
  if (index < 0 || index == model_.root_unit) return;
  Unit& unit = units_[static_cast<std::size_t>(index)];
  if (unit.gathered || unit.elements == 0 || !run_.shard.parameters) return;
  const Count bytes = unit.elements * run_.compute_width;
  (run_.shard.kind == ShardKind::fsdp1 ? unit.gathered : unit.flat) = tape_.block(Tag::communication, bytes);
}

// Gradients of the unit are copied into one buffer of the type that is reduced; the shard of the result stays. FSDP2 keeps the buffer
// until the next unit's reduction (reduce_scatter_state); FSDP1 joins the gradients of the views first.
void Sharder::reduce(int index) {
  Unit& unit = units_[static_cast<std::size_t>(index)];
  Count elements = 0;
  for (const Parameter* p : members_[static_cast<std::size_t>(index)])
    if (p->grad) elements += p->elements;
  if (elements > 0) {
    tape::BlockRef joined;
    if (run_.shard.kind == ShardKind::fsdp1) {
      joined = tape_.block(Tag::communication, elements * run_.compute_width);
      for (Parameter* p : members_[static_cast<std::size_t>(index)]) p->grad.reset();
    }
    reduced_.reset();
    if (run_.shard.kind == ShardKind::fsdp2) unit.gathered.reset();
    if (run_.shard.kind == ShardKind::fsdp2 || run_.shard.reduce_width != run_.compute_width)
      reduced_ = tape_.block(Tag::communication, elements * run_.shard.reduce_width);
    for (Parameter* p : members_[static_cast<std::size_t>(index)]) p->grad.reset();
    const Count part = (elements + run_.shard.ranks - 1) / run_.shard.ranks;
    tape::BlockRef result = tape_.block(Tag::communication, part * run_.shard.reduce_width);
    if (!unit.gradient && !run_.shard.offload_parameters)
      unit.gradient = tape_.block(Tag::gradients, part * run_.stored_width);
    if (run_.shard.kind == ShardKind::fsdp1) reduced_.reset();
  }
  unit.gathered.reset();
  unit.flat.reset();
}

Tensor Sharder::around(int index, Tensor input, const std::function<Tensor(Tensor)>& body) {
  if (index == model_.root_unit) return body(std::move(input));
  gather(index);
  Tensor inside = tape_.mark(input, [this, index] { reduce(index); });
  input = {};
  Tensor out = body(std::move(inside));
  if (run_.shard.reshard) units_[static_cast<std::size_t>(index)].gathered.reset();
  return tape_.mark(out, [this, index] {
    backward_ = true;
    last_flat_.reset();
    gather(index);
    prefetch(index - 1);
  });
}

void Sharder::release() {
  Count elements = 0;
  for (Parameter* p : bucket_) {
    elements += p->elements;
    p->grad.reset();
  }
  const Count part = (elements + run_.shard.ranks - 1) / run_.shard.ranks;
  if (!run_.shard.offload_optimizer) kept_.push_back(tape_.block(Tag::gradients, part * run_.compute_width));
  bucket_.clear();
  bucket_elements_ = 0;
}

void Sharder::after_backward() {
  if (!bucket_.empty()) release();
  if (!model_.around) return;
  for (std::size_t i = units_.size(); i > 0; --i) reduce(static_cast<int>(i) - 1);
  reduced_.reset();
  last_flat_.reset();
}

}  // namespace triage::signatures::memory
