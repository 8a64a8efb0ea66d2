#include "signatures/memory/tape.hpp"

#include <doctest/doctest.h>

#include "signatures/memory/torch_ops.hpp"

namespace memory = triage::signatures::memory;
using namespace triage::signatures::memory::tape;
using memory::Phase;

namespace {

Parameter weight(Tape& tape, Count elements, bool trainable = true) {
  Parameter p;
  p.elements = elements;
  p.trainable = trainable;
  p.weight = tape.block(Tag::weights, elements * p.width);
  return p;
}

}  // namespace

TEST_CASE("a linear layer keeps its input only where its weight learns") {
  for (const bool trainable : {true, false}) {
    CAPTURE(trainable);
    Meter meter;
    Tape tape(meter);
    Ops ops(tape, 0, 2, false);
    Parameter table = weight(tape, 1024 * 1024), w = weight(tape, 1024 * 1024, trainable);
    const Count before = meter.live();
    Tensor y;
    {
      Tensor x = ops.embedding(1024, 1024, table);
      y = ops.linear(x, 1024, 1024, w);
    }
    CHECK(meter.live() - before == (trainable ? 2 : 1) * 1024 * 1024 * 2);
    Tensor gradient = tape.gradient(y.elements, y.width);
    Tensor root = std::move(y);
    tape.backward(root, std::move(gradient));
    root = {};
    // Gradients of the weights stay, nothing else.
    CHECK(meter.live() - before == (trainable ? 2 : 1) * 1024 * 1024 * 2);
    CHECK(meter.by_tag()[static_cast<std::size_t>(Tag::gradients)] == (trainable ? 2 : 1) * 1024 * 1024 * 2);
  }
}

TEST_CASE("a checkpointed layer keeps its input and is rebuilt at its backward pass") {
  Meter meter;
  Tape tape(meter);
  Ops ops(tape, 0, 2, false);
  Parameter table = weight(tape, 1024 * 1024), w = weight(tape, 1024 * 4096), v = weight(tape, 1024 * 4096);
  const Count before = meter.live(), unit = 1024 * 1024 * 2;
  meter.enter(Phase::forward);
  Tensor y;
  {
    Tensor x = ops.embedding(1024, 1024, table);
    y = tape.checkpoint(x, [&](Tape&, Tensor in) {
      const Tensor wide = ops.activation(ops.linear(in, 1024, 4096, w));
      return ops.linear(wide, 1024, 1024, v);
    });
  }
  CHECK(meter.live() - before == 2 * unit);
  meter.enter(Phase::backward);
  Tensor gradient = tape.gradient(y.elements, y.width), root = std::move(y);
  tape.backward(root, std::move(gradient));
  CHECK(meter.peak(Phase::backward).by_tag[static_cast<std::size_t>(Tag::recompute)] >= 4 * unit);
  CHECK(w.grad != nullptr);
  CHECK(v.grad != nullptr);
  CHECK(table.grad != nullptr);
}

TEST_CASE("the second gradient of a tensor is added in place unless the first came through a view") {
  for (const bool folded : {true, false}) {
    CAPTURE(folded);
    Meter meter;
    Tape tape(meter);
    Ops ops(tape, 0, 2, false);
    Parameter table = weight(tape, 1 << 20), a = weight(tape, 1 << 20, false), b = weight(tape, 1 << 20, false);
    Tensor x = ops.embedding(1024, 1024, table);
    Tensor y = ops.add(ops.linear(x, 1024, 1024, a, nullptr, folded), ops.linear(x, 1024, 1024, b, nullptr, folded));
    meter.enter(Phase::backward);
    meter.reset();
    x = {};
    Tensor gradient = tape.gradient(y.elements, y.width), root = std::move(y);
    tape.backward(root, std::move(gradient));
    // The incoming gradient is gone when the second product is delivered; then two products, and their sum beside them.
    const Count unit = 1024 * 1024 * 2;
    CHECK(meter.peak(Phase::backward).by_tag[static_cast<std::size_t>(Tag::backward)] == 3 * unit);
    CHECK(table.grad != nullptr);
  }
}

TEST_CASE("a block counts in steps of 512 bytes and never below zero") {
  Meter meter;
  Tape tape(meter);
  {
    const BlockRef one = tape.block(Tag::buffers, 1), none = tape.block(Tag::buffers, 0), negative = tape.block(Tag::buffers, -5);
    CHECK(meter.live() == 512);
  }
  CHECK(meter.live() == 0);
}
