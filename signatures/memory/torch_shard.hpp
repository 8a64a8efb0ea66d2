// Sharded data parallel on a tape: FSDP1, FSDP2 and ZeRO. Gathers units around their forward and backward pass, reduces gradients.
// Called by torch_step.
#pragma once

#include <vector>

#include "signatures/memory/tape.hpp"
#include "signatures/memory/torch_model.hpp"

namespace triage::signatures::memory {

class Sharder {
 public:
  Sharder(const TorchRun& run, tape::Tape& tape, TorchModel& model);
  // What lives for ever: shards, DDP's buckets, ZeRO's buffers.
  void persistent();
  void before_forward();   // the root unit is gathered
  void before_backward();
  void after_backward();   // what is still whole is reduced and freed
  Count states_split() const { return split_ ? run_.shard.ranks : 1; }

 private:
  Tensor around(int unit, Tensor input, const std::function<Tensor(Tensor)>& body);
  void gather(int unit);
  void prefetch(int unit);
  void reduce(int unit);
  void release();          // ZeRO: a bucket is full
  void keep(tape::Tag tag, double bytes);

  struct Unit {
    Count elements = 0;
    bool trainable = false;
    tape::BlockRef gathered, flat, gradient;
  };
  const TorchRun& run_;
  tape::Tape& tape_;
  TorchModel& model_;
  std::vector<Unit> units_;
  std::vector<std::vector<Parameter*>> members_;
  std::vector<tape::BlockRef> kept_;
  tape::BlockRef last_flat_, reduced_;
  std::vector<Parameter*> bucket_;
  Count bucket_elements_ = 0;
  bool split_ = false;
  bool backward_ = false;
};

}  // namespace triage::signatures::memory
