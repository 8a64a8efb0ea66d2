#include "signatures/memory/tape.hpp"

#include <utility>

namespace triage::signatures::memory::tape {

namespace {

constexpr Count kGranularity = 512;
constexpr std::string_view kNames[kTags] = {
    term::kWeights, term::kGradients, term::kOptimizer, term::kActivations,   term::kMoe,
    term::kVision,  term::kLogits,    term::kBackward,  term::kRecompute,     term::kBuffers,
    term::kWorkspace, term::kCommunication, term::kOptimizerStep};

}  // namespace

std::string_view tag_name(Tag tag) { return kNames[static_cast<std::size_t>(tag)]; }

void Meter::add(Tag tag, Count bytes) {
  live_ += bytes;
  by_tag_[static_cast<std::size_t>(tag)] += bytes;
  Peak& peak = peaks_[static_cast<std::size_t>(phase_)];
  if (live_ > peak.bytes) peak = {live_, by_tag_};
}

void Meter::enter(Phase phase) {
  phase_ = phase;
  Peak& peak = peaks_[static_cast<std::size_t>(phase)];
  if (live_ > peak.bytes) peak = {live_, by_tag_};
}

Block::Block(Meter& meter, Tag tag, Count bytes)
    : meter_(meter),
      tag_(tag),
      bytes_(bytes <= 0 ? 0 : (bytes + kGranularity - 1) / kGranularity * kGranularity) {
  meter_.add(tag_, bytes_);
}

void Block::retag(Tag tag) {
  meter_.retag(tag_, tag, bytes_);
  tag_ = tag;
}

Tensor Tape::empty(Count elements, int width) {
  Tensor tensor;
  tensor.elements = elements;
  tensor.width = width;
  tensor.block = block(rebuilding ? Tag::recompute : section, elements * width);
  return tensor;
}

Tensor Tape::gradient(Count elements, int width) {
  Tensor tensor;
  tensor.elements = elements;
  tensor.width = width;
  tensor.block = block(backward_tag_, elements * width);
  return tensor;
}

void Tape::scratch(Count bytes) { Block(meter_, Tag::workspace, bytes); }

int Tape::record(std::vector<Edge> inputs, std::vector<BlockRef> saved, int outputs,
                 Backward backward, bool always) {
  if (!recording) return -1;
  bool needed = always;
  for (const Edge& edge : inputs) needed = needed || edge.node >= 0 || edge.leaf;
  if (!needed) return -1;
  Node node;
  node.inputs = std::move(inputs);
  node.saved = std::move(saved);
  node.grads.resize(static_cast<std::size_t>(outputs));
  node.backward = std::move(backward);
  node.section = section;
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

void Tape::deliver(const Edge& edge, Tensor gradient) {
  if (!gradient.block) return;
  if (edge.leaf) {
    if (!edge.leaf->grad) {
      gradient.block->retag(edge.leaf->unit >= 0 ? Tag::communication : Tag::gradients);
      edge.leaf->grad = std::move(gradient.block);
    }
    if (accumulated) accumulated(*edge.leaf);
    return;
  }
  if (edge.node < 0) return;
  Node& node = nodes_[static_cast<std::size_t>(edge.node)];
  Tensor& slot = node.grads[static_cast<std::size_t>(edge.output)];
  if (!slot.block) {
    slot = std::move(gradient);
  } else if (slot.through_view) {
    Tensor sum = this->gradient(slot.elements, slot.width);
    slot = std::move(sum);
  }
}

void Tape::run(std::size_t index) {
  Node& node = nodes_[index];
  bool any = false;
  for (const Tensor& gradient : node.grads) any = any || gradient.block != nullptr;
  if (!any || node.leaf) return;
  std::vector<Tensor> incoming = std::move(node.grads);
  const std::vector<Edge> inputs = std::move(node.inputs);
  const Tag before = backward_tag_;
  backward_tag_ = node.section == Tag::logits ? Tag::logits : Tag::backward;
  const Backward apply = std::move(node.backward);
  node.backward = nullptr;
  // `apply` may push nodes (a recomputation); a deque keeps this one where it is.
  std::vector<Tensor> outgoing = apply(*this, incoming);
  incoming.clear();
  node.saved.clear();
  for (std::size_t i = 0; i < inputs.size() && i < outgoing.size(); ++i)
    deliver(inputs[i], std::move(outgoing[i]));
  backward_tag_ = before;
}

void Tape::backward(const Tensor& root, Tensor gradient, std::size_t first) {
  if (root.node < 0) return;
  deliver({root.node, root.output, nullptr}, std::move(gradient));
  for (std::size_t i = static_cast<std::size_t>(root.node) + 1; i > first; --i) run(i - 1);
}

Tensor Tape::checkpoint(const Tensor& input, std::function<Tensor(Tape&, Tensor)> layer,
                        Count extra) {
  const bool before = recording;
  recording = false;
  Tensor output = layer(*this, input);
  recording = before;
  const Tensor kept = input;
  std::vector<BlockRef> saved = {input.block};
  if (extra > 0 && recording) saved.push_back(block(section, extra));
  const int index = record(
      {edge(input)}, std::move(saved), 1,
      [kept, part = section, layer = std::move(layer)](Tape& tape, std::vector<Tensor>& grads) {
        const std::size_t first = tape.nodes_.size();
        Node leaf;  // the detached input
        leaf.grads.resize(1);
        leaf.leaf = true;
        tape.nodes_.push_back(std::move(leaf));
        Tensor detached = kept;
        detached.node = static_cast<int>(first);
        detached.output = 0;
        detached.grad = kept.grad;
        const bool was = tape.rebuilding;
        tape.rebuilding = true;
        const Tag outer = tape.section;
        tape.section = part;
        Tensor again = layer(tape, std::move(detached));
        tape.rebuilding = was;
        tape.section = outer;
        if (tape.rebuilt) tape.rebuilt();
        again.block.reset();
        tape.backward(again, std::move(grads[0]), first + 1);
        Tensor result = std::move(tape.nodes_[first].grads[0]);
        while (tape.nodes_.size() > first) tape.nodes_.pop_back();
        return std::vector<Tensor>{std::move(result)};
      },
      true);
  output.node = index;
  output.output = 0;
  output.grad = index >= 0;
  return output;
}

Tensor Tape::mark(const Tensor& tensor, std::function<void()> hook) {
  if (!tensor.grad) return tensor;
  Tensor out = tensor;
  out.node = record({edge(tensor)}, {}, 1, [hook = std::move(hook)](Tape&, std::vector<Tensor>& grads) {
    hook();
    return std::vector<Tensor>{std::move(grads[0])};
  });
  out.output = 0;
  out.grad = out.node >= 0;
  return out;
}

}  // namespace triage::signatures::memory::tape
