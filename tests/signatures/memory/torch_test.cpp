// Estimates of Hugging Face and plain PyTorch programs: what each setting changes, and what is refused.
#include <doctest/doctest.h>

#include "signatures/memory/estimate.hpp"
#include "signatures/memory/frameworks.hpp"

namespace memory = triage::signatures::memory;
using triage::parsers::ErrorCode;
using triage::parsers::Key;
using triage::parsers::RunConfig;

namespace {

constexpr double kGib = 1073741824.0;

// The Llama of one row of tests/corpus/memory: 1.012 B parameters.
RunConfig llama() {
  RunConfig c;
  const auto set = [&](Key key, triage::parsers::Value value) { c.set(key, std::move(value), "test"); };
  set(Key::framework, std::string("huggingface"));
  set(Key::model_type, std::string("llama"));
  for (const auto& [key, value] : std::initializer_list<std::pair<Key, std::int64_t>>{
           {Key::layers, 8}, {Key::hidden, 2048}, {Key::ffn, 8192}, {Key::heads, 32}, {Key::kv_heads, 8}, {Key::vocab, 128256},
           {Key::seq_length, 4096}, {Key::micro_batch, 2}})
    set(key, value);
  set(Key::tied_embeddings, false);
  set(Key::dtype, std::string("bf16"));
  set(Key::attention, std::string("sdpa"));
  set(Key::optimizer, std::string("adamw"));
  return c;
}

double peak(const RunConfig& c) {
  const auto estimate = memory::estimate_torch(c);
  REQUIRE_MESSAGE(estimate.ok(), estimate.error().message());
  return static_cast<double>(estimate->highest().peak_allocated.mid.count());
}

double term(const RunConfig& c, memory::Phase phase, std::string_view name) {
  const auto estimate = memory::estimate_torch(c);
  REQUIRE(estimate.ok());
  for (const memory::PhaseEstimate& p : estimate->highest().phases)
    if (p.phase == phase)
      for (const memory::Term& t : p.terms)
        if (t.name == name) return static_cast<double>(t.mid.count());
  return 0;
}

RunConfig with(RunConfig c, Key key, triage::parsers::Value value) {
  c.set(key, std::move(value), "test");
  return c;
}

}  // namespace

TEST_CASE("the measured Llama's peak is met within half a per cent") {
  CHECK(peak(llama()) == doctest::Approx(26006575104.0).epsilon(0.005));
  CHECK(peak(with(llama(), Key::recompute, std::string("full"))) == doctest::Approx(19152582656.0).epsilon(0.005));
}

TEST_CASE("terms of a phase add up to what is allocated in it") {
  const auto estimate = memory::estimate_torch(llama());
  REQUIRE(estimate.ok());
  REQUIRE(estimate->stages.size() == 1);
  for (const memory::PhaseEstimate& phase : estimate->stages[0].phases)
    CHECK(memory::sum_of(phase.terms).mid == phase.allocated.mid);
}

TEST_CASE("settings change the peak in the direction and by the amount that their sources state") {
  const double base = peak(llama());
  const auto less = [&](Key key, triage::parsers::Value value) { return (base - peak(with(llama(), key, std::move(value)))) / kGib; };
  // Two states of 2 bytes for 1.012 B parameters go.
  CHECK(less(Key::optimizer, std::string("sgd")) == doctest::Approx(3.770).epsilon(0.01));
  // One byte a state and a scale for 256 of them, instead of two bytes; no temporary.
  CHECK(less(Key::optimizer, std::string("adamw_8bit")) == doctest::Approx(3.770 - 1.885 * (1 + 4.0 / 256)).epsilon(0.01));
  CHECK(less(Key::optimizer, std::string("adafactor")) == doctest::Approx(3.76).epsilon(0.01));
  CHECK(less(Key::optimizer, std::string("lion")) == doctest::Approx(1.885).epsilon(0.02));
  CHECK(less(Key::optimizer, std::string("paged_adamw")) == doctest::Approx(3.770).epsilon(0.01));
  // Fused loss and kernels: the logits (12 bytes a token and word) shrink to a chunk.
  CHECK(less(Key::loss_fusion, std::string("liger")) > 11);
  CHECK(less(Key::loss_fusion, std::string("chunked")) > 8);
  CHECK(less(Key::attention, std::string("eager")) == doctest::Approx(-48.37).epsilon(0.01));
  CHECK(less(Key::attention, std::string("flash_attention_2")) == doctest::Approx(0).epsilon(0.01));
  // Weights in fp32 with narrow products: twice the states, and copies of weights and activations.
  CHECK(peak(with(with(llama(), Key::dtype, std::string("fp32")), Key::autocast, std::string("bf16"))) > base);
  // Gradients of earlier micro batches are there already.
  CHECK(less(Key::gradient_accumulation, std::int64_t{4}) == doctest::Approx(-1.885).epsilon(0.05));
}

TEST_CASE("adapters leave the base without gradients and states") {
  RunConfig c = with(llama(), Key::lora_rank, std::int64_t{16});
  const auto estimate = memory::estimate_torch(c);
  REQUIRE(estimate.ok());
  CHECK(term(c, memory::Phase::optimizer_step, memory::term::kOptimizer) < 0.02 * kGib);
  CHECK(peak(c) < peak(llama()) - 4 * kGib);
  RunConfig packed = with(c, Key::quantization, std::string("4bit"));
  CHECK(term(packed, memory::Phase::forward, memory::term::kWeights) < 0.7 * term(c, memory::Phase::forward, memory::term::kWeights));
  // Checkpointing works where no input of the first layer needs a gradient.
  CHECK(peak(with(c, Key::recompute, std::string("full"))) < peak(c) - 4 * kGib);
}

TEST_CASE("sharded data parallel divides what is kept and gathers one unit at a time") {
  RunConfig c = with(llama(), Key::world, std::int64_t{8});
  const double ddp = peak(c);
  CHECK(ddp > peak(llama()));  // buckets
  for (const char* kind : {"fsdp1", "fsdp2"}) {
    CAPTURE(std::string(kind));
    RunConfig sharded = with(c, Key::fsdp, std::string(kind));
    CHECK(peak(sharded) < ddp - 4 * kGib);
    CHECK(peak(with(sharded, Key::reshard_after_forward, false)) > peak(sharded));
    CHECK(peak(with(sharded, Key::fsdp_offload, true)) < peak(sharded));
  }
  RunConfig zero = with(c, Key::framework, std::string("deepspeed"));
  zero.set(Key::reduce_bucket, std::int64_t{50'000'000}, "test");
  double before = 0;
  for (const std::int64_t stage : {3, 2, 1}) {
    CAPTURE(stage);
    const double now = peak(with(zero, Key::zero_stage, stage));
    if (stage != 3) CHECK(now > before - 1.5 * kGib);
    before = now;
  }
  CHECK(peak(with(with(zero, Key::zero_stage, std::int64_t{2}), Key::zero_offload_optimizer, std::string("cpu"))) <
        peak(with(zero, Key::zero_stage, std::int64_t{2})));
}

TEST_CASE("torchtitan's layouts") {
  RunConfig c = with(with(llama(), Key::framework, std::string("torchtitan")), Key::world, std::int64_t{16});
  c.set(Key::dtype, std::string("fp32"), "test");
  const double plain = peak(c);
  CHECK(peak(with(c, Key::tensor_parallel, std::int64_t{2})) < plain);
  CHECK(peak(with(c, Key::recompute, std::string("full"))) < peak(with(c, Key::recompute, std::string("selective"))));
  CHECK(peak(with(c, Key::recompute, std::string("selective"))) < plain);
  const auto stages = memory::estimate_torch(with(c, Key::pipeline_parallel, std::int64_t{2}));
  REQUIRE(stages.ok());
  REQUIRE(stages->stages.size() == 2);
  // Both stages keep what their layers need; the first two micro batches of it, the last one.
  for (const memory::StageEstimate& stage : stages->stages) CHECK(stage.peak_allocated.mid.gib() > stage.static_bytes.gib() + 1);
}

TEST_CASE("what cannot be is refused with a sentence, never computed") {
  struct Row {
    const char* name;
    Key key;
    triage::parsers::Value value;
    ErrorCode code;
  };
  const Row rows[] = {
      {"no layers", Key::layers, std::int64_t{0}, ErrorCode::not_found},
      {"negative hidden", Key::hidden, std::int64_t{-4}, ErrorCode::conflict},
      {"enormous hidden", Key::hidden, std::int64_t{1} << 40, ErrorCode::conflict},
      {"heads that do not divide", Key::heads, std::int64_t{31}, ErrorCode::conflict},
      {"too many layers", Key::layers, std::int64_t{16000}, ErrorCode::conflict},
      {"no sequence", Key::seq_length, std::int64_t{0}, ErrorCode::not_found},
      {"endless sequence", Key::seq_length, std::int64_t{1} << 50, ErrorCode::conflict},
      {"endless batch", Key::micro_batch, std::int64_t{1} << 62, ErrorCode::conflict},
      {"negative batch", Key::micro_batch, std::int64_t{-1}, ErrorCode::not_found},
      {"tensor parallel in transformers", Key::tensor_parallel, std::int64_t{2}, ErrorCode::unsupported},
      {"negative world", Key::world, std::int64_t{9'000'000'000}, ErrorCode::conflict},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto estimate = memory::estimate_torch(with(llama(), row.key, row.value));
    REQUIRE_FALSE(estimate.ok());
    CHECK(estimate.error().code() != ErrorCode::internal);
    CHECK_FALSE(estimate.error().message().empty());
  }
  RunConfig tower = llama();
  tower.set(Key::vision_layers, std::int64_t{4}, "test");
  tower.set(Key::vision_hidden, std::int64_t{64}, "test");
  tower.set(Key::vision_heads, std::int64_t{4}, "test");
  CHECK(memory::estimate_torch(tower).ok());
  CHECK_FALSE(memory::estimate_torch(with(tower, Key::vision_mergers, std::int64_t{1} << 23)).ok());
  CHECK_FALSE(memory::estimate_torch(with(tower, Key::vision_heads, std::int64_t{5})).ok());
  RunConfig images = with(with(tower, Key::image_grid_height, std::int64_t{1} << 13), Key::image_grid_width, std::int64_t{1} << 13);
  const auto crowded = memory::estimate_torch(images);
  REQUIRE_FALSE(crowded.ok());
  CHECK(crowded.error().message().find("tokens") != std::string::npos);
  const auto empty = memory::estimate_torch(RunConfig());
  REQUIRE_FALSE(empty.ok());
  CHECK(empty.error().message().find("layers") != std::string::npos);
}
