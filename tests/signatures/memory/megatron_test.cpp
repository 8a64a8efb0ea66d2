#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "parsers/config/command_line.hpp"
#include "parsers/config/merge.hpp"
#include "signatures/memory/calibrate.hpp"
#include "signatures/memory/estimate.hpp"

using namespace triage::signatures::memory;
using namespace triage;
using parsers::Key;
using parsers::RunConfig;

namespace {

RunConfig megatron(const std::string& more, std::int64_t world = 8) {
  RunConfig config;
  parsers::Target target(config, "test", "command line");
  const std::string line =
      "pretrain_gpt.py --bf16 --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
      "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --num-layers 8 --hidden-size 4096 "
      "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128 "
      "--seq-length 4096 --micro-batch-size 1 --global-batch-size 32 --vocab-size 128256 " + more;
  parsers::apply_options(parsers::options_of(parsers::command_words(line), 1), target);
  config.set(Key::world, world, "test");
  parsers::derive(config);
  return config;
}

double gib(const std::string& more, std::size_t stage = 0) {
  const auto got = estimate(megatron(more));
  REQUIRE(got.ok());
  REQUIRE(stage < got->stages.size());
  return got->stages[stage].peak_allocated.mid.gib();
}

double static_gib(const std::string& more) {
  const auto got = estimate(megatron(more));
  REQUIRE(got.ok());
  return got->stages[0].static_bytes.gib();
}

}  // namespace

TEST_CASE("terms add up to the phase, and the highest phase is the peak") {
  for (const char* more : {"", "--use-distributed-optimizer", "--pipeline-model-parallel-size 4 --use-distributed-optimizer",
                           "--transformer-impl local --no-gradient-accumulation-fusion",
                           "--num-experts 16 --moe-router-topk 2 --moe-ffn-hidden-size 1024 --expert-model-parallel-size 4",
                           "--recompute-granularity full --recompute-method uniform --recompute-num-layers 3"}) {
    CAPTURE(std::string(more));
    const auto got = estimate(megatron(more));
    REQUIRE(got.ok());
    for (const StageEstimate& stage : got->stages) {
      Bytes highest;
      for (const PhaseEstimate& phase : stage.phases) {
        const Range sum = sum_of(phase.terms);
        CHECK(sum.mid.count() == phase.allocated.mid.count());
        highest = std::max(highest, sum.mid);
        for (const Term& term : phase.terms) {
          CHECK(term.low.count() >= 0);
          CHECK(term.low <= term.mid);
          CHECK(term.mid <= term.high);
        }
      }
      CHECK(highest.count() == stage.peak_allocated.mid.count());
      CHECK(stage.peak_device.mid > stage.peak_allocated.mid);
      CHECK(stage.static_bytes < stage.peak_allocated.mid);
    }
  }
}

TEST_CASE("bytes a parameter follow the optimizer's settings") {
  // 2.7956 billion parameters; 8 ranks.
  const auto got = estimate(megatron("--use-distributed-optimizer"));
  REQUIRE(got.ok());
  const double p = static_cast<double>(got->stages[0].dense_parameters) / (1 << 30);
  CHECK(got->stages[0].dense_parameters == 2795573248);
  const double base = static_gib("--use-distributed-optimizer"), whole = static_gib("");
  CHECK(whole - base == doctest::Approx(12 * p * 7 / 8).epsilon(0.001));
  const double aware = static_gib("--use-distributed-optimizer --use-precision-aware-optimizer");
  CHECK(base - aware == doctest::Approx(2 * p / 8).epsilon(0.001));
  const double bf16 = static_gib("--use-distributed-optimizer --use-precision-aware-optimizer --main-grads-dtype bf16 "
                                 "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16");
  CHECK(aware - bf16 == doctest::Approx(2 * p + 4 * p / 8).epsilon(0.001));
  // The hybrid optimizer: whole fp32 masters and moments, both on the host as far as they are offloaded.
  const std::string offload = "--use-distributed-optimizer --use-precision-aware-optimizer --optimizer-cpu-offload ";
  CHECK(base - static_gib(offload + "--optimizer-offload-fraction 1.0") == doctest::Approx(12 * p / 8).epsilon(0.001));
  CHECK(static_gib(offload + "--optimizer-offload-fraction 0.0") == doctest::Approx(base).epsilon(0.001));
  // The first data rank's slice is a part of the output matrix: one parameter, offloaded whole.
  CHECK(base - static_gib(offload + "--optimizer-offload-fraction 0.5") == doctest::Approx(12 * p / 8).epsilon(0.001));
  const auto half = estimate(megatron(offload + "--optimizer-offload-fraction 0.5"));
  REQUIRE(half.ok());
  for (const Term& term : half->stages[0].terms)
    if (term.name == term::kOptimizer) CHECK((term.high - term.mid).gib() > 4 * p / 8);
}

TEST_CASE("changes move the peak the right way") {
  const std::string distopt = "--use-distributed-optimizer ";
  const double base = gib(distopt);
  CHECK(gib(distopt + "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1") < base);
  CHECK(gib(distopt + "--recompute-granularity selective --recompute-modules mlp") < base);
  const double some = gib(distopt + "--recompute-granularity full --recompute-method block --recompute-num-layers 4");
  CHECK(some < base);
  CHECK(some > gib(distopt + "--recompute-granularity full --recompute-method block --recompute-num-layers 8"));
  CHECK(gib(distopt + "--transformer-impl local --no-masked-softmax-fusion") > base);
  CHECK(gib(distopt + "--context-parallel-size 2") < base);
  CHECK(gib(distopt + "--tensor-model-parallel-size 2 --sequence-parallel") < gib(distopt + "--tensor-model-parallel-size 2"));
  // Interleaving holds more micro batches on the first stage.
  const std::string pipe = distopt + "--pipeline-model-parallel-size 4 ";
  CHECK(gib(pipe + "--num-layers-per-virtual-pipeline-stage 1") > gib(pipe));
  CHECK(gib(pipe, 0) > gib(pipe, 1));
}

TEST_CASE("a soft-max in fp32 counts where a kernel does not take the scores") {
  // 8 layers; a score matrix of 32 heads and 4096 x 4096 tokens in fp32 is 2 GiB.
  const std::string local = "--use-distributed-optimizer --transformer-impl local --no-masked-softmax-fusion ";
  const double base = gib(local), wide = gib(local + "--attention-softmax-in-fp32");
  CHECK(wide - base > 8 * 2);
  CHECK(wide - base < 8 * 2 + 5);
  const double scaled = gib(local + "--apply-query-key-layer-scaling");
  CHECK(scaled == doctest::Approx(wide).epsilon(0.001));
  for (const char* none : {"--transformer-impl local", "--transformer-impl transformer_engine --no-masked-softmax-fusion"})
    CHECK(gib("--use-distributed-optimizer " + std::string(none)) ==
          gib("--use-distributed-optimizer " + std::string(none) + " --attention-softmax-in-fp32"));
  // The kernel takes 16-bit scores of at most 4096 keys.
  const std::string longer = "--use-distributed-optimizer --transformer-impl local --seq-length 8192";
  CHECK(gib(longer) == gib(longer + " --no-masked-softmax-fusion"));
}

TEST_CASE("the difference to what was measured is a term of its own and moves with the activations") {
  const auto base = estimate(megatron("--use-distributed-optimizer"));
  const auto less = estimate(megatron("--use-distributed-optimizer --recompute-granularity full --recompute-method uniform "
                                      "--recompute-num-layers 1"));
  REQUIRE(base.ok());
  REQUIRE(less.ok());
  const Bytes peak = base->stages[0].peak_allocated.mid + parsers::gib(2), rest = base->stages[0].static_bytes + parsers::gib(0.5);
  const Observation seen[] = {{Observation::Kind::peak_allocated, peak, 0, {}, "", "report"},
                              {Observation::Kind::allocated_at_rest, rest, {}, {}, "", "report"},
                              {Observation::Kind::peak_allocated, parsers::gib(900), {}, {}, "", "of another card"}};
  const Calibration calibration = calibrate(*base, seen);
  CHECK(calibration.notes.size() == 3);
  const Estimate same = apply(calibration, *base, *base);
  CHECK(std::abs((same.stages[0].peak_allocated.mid - peak).count()) < 16);
  CHECK(same.stages[0].static_bytes.count() == rest.count());
  const Estimate moved = apply(calibration, *base, *less);
  const double more = (moved.stages[0].peak_allocated.mid - less->stages[0].peak_allocated.mid).gib();
  CHECK(more > 0.5);
  CHECK(more < 2);
  bool told = false;
  for (const Term& term : moved.stages[0].terms) told |= term.name == term::kUnexplained;
  CHECK(told);
}

TEST_CASE("what is missing or cannot be is an error, never a crash") {
  RunConfig config = megatron("");
  config.unset(Key::hidden);
  CHECK_FALSE(estimate(config).ok());
  CHECK_FALSE(estimate(megatron("--pipeline-model-parallel-size 3")).ok());
  CHECK_FALSE(estimate(megatron("--micro-batch-size 100000000 --seq-length 100000000")).ok());
  CHECK_FALSE(estimate(megatron("--num-experts 4 --moe-router-topk 9")).ok());
  for (const char* more : {"--global-batch-size 1000000000", "--num-attention-heads 1 --num-query-groups 1 --tensor-model-parallel-size 8",
                           "--recompute-granularity full --recompute-num-layers 100000", "--num-layers 1 --num-experts 2 --moe-router-topk 1",
                           "--multi-latent-attention --q-lora-rank 512 --kv-lora-rank 128 --qk-head-dim 64 --qk-pos-emb-head-dim 32 --v-head-dim 64",
                           "--mtp-num-layers 1 --pipeline-model-parallel-size 2"}) {
    CAPTURE(std::string(more));
    const auto got = estimate(megatron(more, 16));
    REQUIRE(got.ok());
    CHECK(got->stages[0].peak_allocated.mid.count() > 0);
  }
}
