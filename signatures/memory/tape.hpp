// An eager training step without numbers: tensors that only have a size, operations that allocate, keep and free as PyTorch's do, and
// a backward pass in autograd's order. What stands at the highest moment of a phase is the answer. Used by the models of PyTorch
// programs (torch_*.cpp); it knows no model and no configuration.
//
// Rules, from pytorch/pytorch (torch/csrc/autograd/engine.cpp, input_buffer.cpp, saved_variable.cpp) and seen in recorded allocator
// traces: nodes run backward in the reverse order of their creation; a node's incoming gradient lives until the node has returned, then
// what it saved is freed; a second gradient for the same tensor is added in place, but not when the first one came through a view; the
// first gradient of a parameter is taken over, not copied.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "signatures/memory/term.hpp"

namespace triage::signatures::memory::tape {

using Count = std::int64_t;

// What a block of memory is for; one term of the answer each.
enum class Tag : std::uint8_t {
  weights, gradients, optimizer, activations, moe, vision, logits, backward, recompute, buffers, workspace, communication,
  optimizer_step
};
inline constexpr std::size_t kTags = 13;
inline constexpr std::size_t kPhases = 6;  // of enum Phase
std::string_view tag_name(Tag tag);  // a name of memory::term

// Counts live bytes by tag and keeps the highest moment of each phase.
class Meter {
 public:
  using ByTag = std::array<Count, kTags>;
  struct Peak {
    Count bytes = 0;
    ByTag by_tag{};
  };
  void add(Tag tag, Count bytes);
  void remove(Tag tag, Count bytes) { live_ -= bytes, by_tag_[static_cast<std::size_t>(tag)] -= bytes; }
  void retag(Tag from, Tag to, Count bytes) {
    by_tag_[static_cast<std::size_t>(from)] -= bytes;
    by_tag_[static_cast<std::size_t>(to)] += bytes;
  }
  // From now on moments belong to `phase`; what is live counts for it at once.
  void enter(Phase phase);
  Count live() const { return live_; }
  const ByTag& by_tag() const { return by_tag_; }
  const Peak& peak(Phase phase) const { return peaks_[static_cast<std::size_t>(phase)]; }
  // Forgets the peaks.
  void reset() { peaks_ = {}; }

 private:
  Count live_ = 0;
  ByTag by_tag_{};
  Phase phase_ = Phase::init;
  std::array<Peak, kPhases> peaks_{};
};

// One allocation. PyTorch's allocator hands out multiples of 512 bytes (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize).
// The meter must outlive it.
class Block {
 public:
  Block(Meter& meter, Tag tag, Count bytes);
  ~Block() { meter_.remove(tag_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void retag(Tag tag);
  Count bytes() const { return bytes_; }

 private:
  Meter& meter_;
  Tag tag_;
  Count bytes_;
};
using BlockRef = std::shared_ptr<Block>;

// A weight. Kept by the model; `grad` is set by the backward pass.
struct Parameter {
  Count elements = 0;
  int width = 2;           // bytes of one element as stored
  int grad_width = 2;      // bytes of one element of its gradient
  bool trainable = true;
  int unit = -1;           // of sharded data parallel
  BlockRef weight;         // storage that lives for ever; empty where the unit is sharded
  BlockRef grad;
  BlockRef cast;           // autocast's copy of this forward pass
};

// A tensor's size, its storage and who made it. A view shares the storage.
struct Tensor {
  BlockRef block;
  Count elements = 0;
  int width = 2;
  int node = -1;                  // index of the node that made it; -1: none
  int output = 0;
  bool grad = false;              // requires a gradient
  bool through_view = false;      // a gradient that came out of a view's backward
  explicit operator bool() const { return block != nullptr || elements > 0; }
  Count bytes() const { return elements * width; }
};

class Tape;
// Computes the gradients of a node's inputs from the gradients of its outputs; entries may stay empty.
using Backward = std::function<std::vector<Tensor>(Tape&, std::vector<Tensor>& grads)>;

struct Edge {
  int node = -1;
  int output = 0;
  Parameter* leaf = nullptr;
};

class Tape {
 public:
  explicit Tape(Meter& meter) : meter_(meter) {}
  Meter& meter() { return meter_; }

  // Tag of what the forward pass allocates from here on; gradients of logits stay logits, others are `backward`.
  Tag section = Tag::activations;
  bool recording = true;          // false: torch.no_grad
  bool rebuilding = false;        // inside a recomputation

  Tensor empty(Count elements, int width);
  Tensor gradient(Count elements, int width);  // the same, by the backward pass
  BlockRef block(Tag tag, Count bytes) { return std::make_shared<Block>(meter_, tag, bytes); }
  // Allocates and frees at once: a kernel's scratch.
  void scratch(Count bytes);

  // Makes a node with `outputs` outputs. Keeps `saved` until it has run. Returns its index, or -1 where nothing needs a gradient.
  // always: also where no input needs a gradient, since something inside does (a checkpointed layer).
  int record(std::vector<Edge> inputs, std::vector<BlockRef> saved, int outputs, Backward backward, bool always = false);
  // Edge to what made the tensor; an edge to nothing if it needs no gradient.
  static Edge edge(const Tensor& tensor) { return {tensor.grad ? tensor.node : -1, tensor.output, nullptr}; }
  static Edge edge(Parameter& parameter) { return {-1, 0, parameter.trainable ? &parameter : nullptr}; }

  // Runs backward from `root` with that gradient, down to nodes made at or after `first`.
  void backward(const Tensor& root, Tensor gradient, std::size_t first = 0);
  std::size_t size() const { return nodes_.size(); }

  // Runs `layer` without keeping anything but its input and runs it again in the backward pass (torch.utils.checkpoint). `extra`:
  // bytes that are kept all the same (a selective policy).
  Tensor checkpoint(const Tensor& input, std::function<Tensor(Tape&, Tensor)> layer, Count extra = 0);
  // The same tensor; `hook` is called when its gradient has arrived.
  Tensor mark(const Tensor& tensor, std::function<void()> hook);

  // Called when a checkpointed layer has been run again (autocast's cache is dropped then); may be empty.
  std::function<void()> rebuilt;
  // Called when a parameter's gradient is there (sharded data parallel); may be empty.
  std::function<void(Parameter&)> accumulated;

 private:
  struct Node {
    std::vector<Edge> inputs;
    std::vector<BlockRef> saved;
    std::vector<Tensor> grads;
    Backward backward;
    Tag section = Tag::activations;
    bool leaf = false;
  };
  void deliver(const Edge& edge, Tensor gradient);
  void run(std::size_t index);

  Meter& meter_;
  std::deque<Node> nodes_;
  Tag backward_tag_ = Tag::backward;
};

}  // namespace triage::signatures::memory::tape
