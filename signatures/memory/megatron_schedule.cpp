#include "signatures/memory/megatron_schedule.hpp"

#include <algorithm>

namespace triage::signatures::memory {
namespace {

void raise(Parts& top, const Parts& live) {
  if (total(live) > total(top)) top = live;
}

constexpr Count kSteps = 4096;  // micro batches walked through: the pattern repeats long before

double border_bytes(const MegatronSetup& run) { return LayerSizes(run).hidden; }

// How many tensors of the size of a stage's border are live beyond those that a chunk's own walk counts (its input, from the forward to
// the backward pass, and the gradient of its output during the backward pass). An input outlives its backward pass, and its gradient with
// it (retain_grad), where the program still names it.
class Borders {
 public:
  struct Micro {  // the n-th micro batch of a chunk
    Count chunk = -1, number = 0;
    bool operator==(const Micro&) const = default;
  };
  explicit Borders(const std::vector<ChunkCost>& chunks) : chunks_(chunks), passes_(chunks.size()) {}

  Count count() const {
    std::vector<Micro> outlived;
    const auto add = [&](const Micro& m) {
      if (m.chunk < 0 || m.number >= of(m.chunk).backward || !receives(m.chunk)) return;
      if (std::find(outlived.begin(), outlived.end(), m) == outlived.end()) outlived.push_back(m);
    };
    for (std::size_t i = 0; i < passes_.size(); ++i) add({static_cast<Count>(i), passes_[i].forward - 1});  // set_input_tensor
    add(named_);
    if (graph_) add(sent_);
    const bool sent = sent_.chunk >= 0 && receives(sent_.chunk) && std::find(outlived.begin(), outlived.end(), sent_) == outlived.end();
    return 2 * static_cast<Count>(outlived.size()) + (sent ? 1 : 0) + inputs_ + gradients_ + (output_ ? 1 : 0);
  }
  void input_arrives(Count chunk) {
    ++inputs_;
    arrived_ = {chunk, of(chunk).inputs++};
  }
  void gradient_arrives() { ++gradients_; }
  // From here on a variable of the program names the input that arrived last.
  void name_input() { named_ = arrived_; }
  void forward(Count chunk) {
    if (receives(chunk) && inputs_ > 0) --inputs_;
    ++of(chunk).forward;
  }
  void backward(Count chunk) {
    if (chunks_[static_cast<std::size_t>(chunk)].sends && gradients_ > 0) --gradients_;
  }
  void backward_done(Count chunk) { sent_ = {chunk, of(chunk).backward++}; }
  // The output of a forward pass has been sent and is still there.
  void output_waits(Count chunk) { output_ = chunks_[static_cast<std::size_t>(chunk)].sends; }
  void output_gone() { output_ = false; }
  // The graph of the last backward pass is named, and with it its input.
  void name_graph(bool named) { graph_ = named; }

 private:
  struct Passes {
    Count inputs = 0, forward = 0, backward = 0;
  };
  Passes& of(Count chunk) { return passes_[static_cast<std::size_t>(chunk)]; }
  const Passes& of(Count chunk) const { return passes_[static_cast<std::size_t>(chunk)]; }
  bool receives(Count chunk) const { return chunks_[static_cast<std::size_t>(chunk)].receives; }

  const std::vector<ChunkCost>& chunks_;
  std::vector<Passes> passes_;
  Count inputs_ = 0, gradients_ = 0;  // arrived, their pass has not begun
  Micro arrived_, named_, sent_;      // sent: the gradient of its input, which stays named
  bool output_ = false, graph_ = false;
};

// A rank's passes, in the order of the program, with everything that is live at each.
class Walk {
 public:
  Walk(const MegatronSetup& run, Count rank, const std::vector<ChunkCost>& chunks)
      : run_(run), rank_(rank), chunks_(chunks), border_(border_bytes(run)), borders_(chunks) {
    const Layout& l = run.layout;
    const Count v = static_cast<Count>(chunks.size());
    const Count microbatches = std::min(l.microbatches, std::max<Count>(kSteps / v, 4 * l.pipeline));
    // Groups of micro batches go through all chunks.
    const Count group = std::max<Count>(1, v > 1 ? l.microbatch_group : 1);
    for (Count first = 0; first < microbatches; first += group)
      for (Count chunk = 0; chunk < v; ++chunk)
        for (Count m = first; m < std::min(microbatches, first + group); ++m) order_.push_back(chunk);
    all_ = static_cast<Count>(order_.size());
    warm_ = l.pipeline - rank - 1;
    if (v > 1) {
      warm_ = 2 * (l.pipeline - rank - 1) + (v - 1) * group;
      if (run.expert_overlap) ++warm_;
    }
    warm_ = std::min(warm_, all_);
  }

  // forward_backward_pipelining_without_interleaving: what is received is used at once. The variables of the loop hold the gradient that
  // was received last until the next one comes, the one that was sent last, and the last output with its graph until the next output.
  void plain() {
    for (Count i = 0; i < warm_; ++i) forward(i, 0);
    for (Count i = warm_; i < all_; ++i) {
      borders_.name_graph(i > warm_);
      forward(i, i > warm_ && chunks_.front().sends ? 1 : 0);
      borders_.name_graph(false);
      backward(i - warm_);
    }
    for (Count i = all_ - warm_; i < all_; ++i) backward(i);
  }

  // forward_backward_pipelining_with_interleaving, with overlap_p2p_comm (default): after each pass the next input or gradient is
  // received. The first rank receives inputs, the last one gradients, as many passes before their use as a group is longer than the
  // pipeline, and one. What a forward pass has sent is given back before the next forward pass only. The input received last in the
  // warm-up stays named (input_tensor) until the step ends.
  void interleaved() {
    if (rank_ > 0) borders_.input_arrives(0);
    for (Count i = 0; i < warm_; ++i) {
      forward(i, 0);
      if (receive_input(i) && i + 1 == warm_) borders_.name_input();
    }
    if (!last_rank() && all_ > 0) borders_.gradient_arrives();
    for (Count i = warm_; i < all_; ++i) {
      borders_.output_gone();
      forward(i, 0);
      receive_input(i);
      borders_.output_waits(order_[static_cast<std::size_t>(i)]);
      backward(i - warm_);
      receive_gradient(i - warm_);
    }
    borders_.output_gone();
    for (Count i = all_ - warm_; i < all_; ++i) {
      backward(i);
      receive_gradient(i);
    }
  }

  const StepTops& tops() const { return tops_; }

 private:
  Count forward_chunk(Count i) const { return order_[static_cast<std::size_t>(i)]; }
  Count backward_chunk(Count i) const { return static_cast<Count>(chunks_.size()) - 1 - forward_chunk(i); }
  bool last_rank() const { return rank_ + 1 == run_.layout.pipeline; }

  // recv_tensor_from_previous_stage: the first rank gets what the last one makes, which is as many passes behind as there are stages
  // between them; nothing comes of the last chunk.
  bool receive_input(Count i) {
    if (i + 1 >= all_) return false;
    const Count behind = i - (run_.layout.pipeline - 1);
    const bool comes = rank_ > 0 || (behind >= 0 && forward_chunk(behind) + 1 < static_cast<Count>(chunks_.size()));
    if (comes) borders_.input_arrives(rank_ > 0 ? forward_chunk(i + 1) : forward_chunk(behind) + 1);
    return comes;
  }
  void receive_gradient(Count i) {
    if (i + 1 >= all_) return;
    const Count behind = i - (run_.layout.pipeline - 1);
    if (!last_rank() || (behind >= 0 && backward_chunk(behind) > 0)) borders_.gradient_arrives();
  }

  Parts live(Count more) const {
    Parts parts = held_;
    parts[static_cast<std::size_t>(Part::exchange)] += border_ * static_cast<double>(borders_.count() + more);
    return parts;
  }
  void forward(Count i, Count more) {
    const ChunkCost& c = chunks_[static_cast<std::size_t>(forward_chunk(i))];
    borders_.forward(forward_chunk(i));
    const Parts before = live(more);
    raise(tops_.forward, before + c.forward_top);
    if (total(c.loss_top) > 0) raise(tops_.loss, before + c.loss_top);
    held_ = held_ + c.kept;
  }
  void backward(Count i) {
    const ChunkCost& c = chunks_[static_cast<std::size_t>(backward_chunk(i))];
    borders_.backward(backward_chunk(i));
    held_ = held_ + c.kept * -1.0;
    const Parts before = live(0);
    if (total(c.loss_backward_top) > 0) raise(tops_.loss_backward, before + c.loss_backward_top);
    raise(tops_.backward, before + c.backward_top);
    borders_.backward_done(backward_chunk(i));
  }

  const MegatronSetup& run_;
  Count rank_;
  const std::vector<ChunkCost>& chunks_;
  double border_;
  Borders borders_;
  std::vector<Count> order_;  // chunk of the i-th forward pass
  Count all_ = 0, warm_ = 0;
  Parts held_{};
  StepTops tops_;
};

}  // namespace

// NVIDIA/Megatron-LM@d98e8a6: megatron/core/pipeline_parallel/schedules.py (get_schedule_table, get_pp_rank_microbatches, and the two
// functions named above).
StepTops walk_schedule(const MegatronSetup& run, Count rank, const std::vector<ChunkCost>& chunks) {
  Walk walk(run, rank, chunks);
  if (chunks.size() > 1)
    walk.interleaved();
  else
    walk.plain();
  return walk.tops();
}

double remembered_inputs(const MegatronSetup& run, const Stage& stage) {
  double receivers = 0;
  for (const StageChunk& chunk : stage.chunks) receivers += chunk.embedding ? 0 : 1;
  return receivers * 2 * border_bytes(run);
}

}  // namespace triage::signatures::memory
