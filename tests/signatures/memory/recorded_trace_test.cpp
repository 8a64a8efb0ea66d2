// Moments of recorded allocator traces (PyTorch 2.11, transformers 5.17, one H200) against the simulated step.
#include <doctest/doctest.h>

#include "signatures/memory/frameworks.hpp"

namespace memory = triage::signatures::memory;
using triage::parsers::Key;
using triage::parsers::RunConfig;

namespace {

constexpr double kMib = 1048576.0;

RunConfig run(std::string type, std::initializer_list<std::pair<Key, std::int64_t>> sizes) {
  RunConfig c;
  c.set(Key::framework, std::string("huggingface"), "test");
  c.set(Key::model_type, std::move(type), "test");
  for (const auto& [key, value] : sizes) c.set(key, value, "test");
  c.set(Key::tied_embeddings, false, "test");
  c.set(Key::dtype, std::string("bf16"), "test");
  c.set(Key::attention, std::string("sdpa"), "test");
  c.set(Key::optimizer, std::string("adamw"), "test");
  c.set(Key::gpu, std::string("NVIDIA H200"), "test");
  return c;
}

// MiB of the named terms (all of them where the list is empty) at the highest moment of a phase.
double mib(const RunConfig& config, memory::Phase phase, std::initializer_list<std::string_view> names = {}) {
  const auto estimate = memory::estimate_torch(config);
  REQUIRE(estimate.ok());
  double sum = 0;
  for (const memory::PhaseEstimate& p : estimate->stages[0].phases)
    if (p.phase == phase)
      for (const memory::Term& term : p.terms) {
        bool wanted = names.size() == 0;
        for (const std::string_view name : names) wanted = wanted || term.name == name;
        if (wanted) sum += static_cast<double>(term.mid.count()) / kMib;
      }
  return sum;
}

}  // namespace

TEST_CASE("a recorded Llama: whole steps, and the moment inside the backward pass of its last norm") {
  RunConfig c = run("llama", {{Key::layers, 6}, {Key::hidden, 2048}, {Key::ffn, 5632}, {Key::heads, 16}, {Key::kv_heads, 4},
                              {Key::vocab, 32000}, {Key::seq_length, 4096}, {Key::micro_batch, 4}});
  CHECK(mib(c, memory::Phase::backward) == doctest::Approx(16.49 * 1024).epsilon(0.001));
  // The backward thread's workspace of 32 MiB did not exist yet at the first step's peak, 15319 MiB.
  CHECK(mib(c, memory::Phase::first_step) - 32 == doctest::Approx(15319.0).epsilon(0.001));
  // 9987.9 MiB stood at the highest moment after the logits were gone. A vocabulary of 32 words takes the logits away; with it go
  // 249.75 MiB of weights and the gradient of the output matrix, 124.875 MiB.
  c.set(Key::vocab, std::int64_t{32}, "test");
  CHECK(mib(c, memory::Phase::first_step) == doctest::Approx(9987.9 - 249.75 - 124.875).epsilon(0.001));
}

TEST_CASE("a recorded checkpointed Llama: what stood when the fp32 copy of the logits failed") {
  RunConfig c = run("llama", {{Key::layers, 16}, {Key::hidden, 4096}, {Key::ffn, 14336}, {Key::heads, 32}, {Key::kv_heads, 8},
                              {Key::vocab, 128256}, {Key::seq_length, 16384}, {Key::micro_batch, 8}});
  c.set(Key::recompute, std::string("full"), "test");
  // 125375.9 MiB and the failed request of 64128 MiB, in the first step; the backward thread's workspace was not there.
  CHECK(mib(c, memory::Phase::loss) - mib(c, memory::Phase::loss, {memory::term::kOptimizer}) - 32 ==
        doctest::Approx(125375.9 + 64128).epsilon(0.001));
}

TEST_CASE("a recorded mixture of experts: 12163 MiB a layer") {
  const auto kept = [](std::int64_t layers) {
    const RunConfig c = run("qwen3_moe", {{Key::layers, layers}, {Key::hidden, 2048}, {Key::ffn, 6144}, {Key::heads, 32}, {Key::kv_heads, 4},
                                          {Key::head_dim, 128}, {Key::experts, 128}, {Key::experts_per_token, 8}, {Key::expert_ffn, 768},
                                          {Key::vocab, 151936}, {Key::seq_length, 8192}, {Key::micro_batch, 8}});
    return mib(c, memory::Phase::loss, {memory::term::kActivations, memory::term::kMoe});
  };
  CHECK(kept(5) - kept(4) == doctest::Approx(12163.0).epsilon(0.001));
}
