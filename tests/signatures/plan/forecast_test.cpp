#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "parsers/config/command_line.hpp"
#include "parsers/config/config_file.hpp"
#include "signatures/plan/cards.hpp"
#include "signatures/plan/change.hpp"
#include "signatures/plan/rank.hpp"
#include "signatures/plan/sweep.hpp"

using namespace triage::signatures;
using triage::parsers::Bytes;
using triage::parsers::Key;
using triage::parsers::RunConfig;

namespace {

const std::vector<CatalogueFix>& catalogue() {
  static const std::vector<CatalogueFix> fixes = read_catalogue(embedded_fixes()).fixes;
  return fixes;
}

RunConfig megatron(const std::string& more) {
  const std::string line =
      "torchrun --nproc-per-node 8 pretrain_gpt.py --transformer-impl local --use-mcore-models --bf16 --normalization RMSNorm --swiglu --disable-bias-linear "
      "--position-embedding-type rope --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --hidden-size 4096 --ffn-hidden-size 14336 "
      "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 128255 "
      "--kv-channels 128 " + more;
  RunConfig config = triage::parsers::read_megatron_arguments(triage::parsers::command_words(line));
  if (!config.has(Key::world)) change_setting(config, Key::world, std::int64_t{8}, "flag");
  return config;
}

Diagnosis failure(RunConfig config, Bytes capacity) {
  Diagnosis d;
  d.kind = "gpu.oom.capacity";
  d.phase = Phase::forward;
  d.frameworks = {"megatron-lm"};
  d.config = std::move(config);
  d.ledger.emplace();
  d.ledger->capacity = capacity;
  return d;
}

const Fix* find(const Plan& plan, std::string_view id) {
  for (const Fix& fix : plan.fixes)
    if (fix.id == id) return &fix;
  return nullptr;
}

}  // namespace

TEST_CASE("a run whose configuration is known gets savings, peaks, and first what fits") {
  const Diagnosis d = failure(megatron("--num-layers 24 --micro-batch-size 4 --global-batch-size 32 --use-distributed-optimizer"), triage::parsers::gib(139.8));
  const auto forecast = forecast_of(d, d.config);
  REQUIRE(forecast.ok());
  CHECK_FALSE(forecast->now().fits);
  const Plan plan = plan_fixes(d, catalogue(), {12, 4});
  REQUIRE(plan.fixes.size() >= 4);
  CHECK(plan.verdict.empty());
  bool fitted = true;
  for (const Fix& fix : plan.fixes) {
    if (!fix.fits) continue;
    if (!*fix.fits) fitted = false;
    CHECK_MESSAGE((fitted || !*fix.fits), fix.id << " fits and stands behind one that does not");
    REQUIRE(fix.saving);
    REQUIRE(fix.predicted_peak);
    CHECK(fix.saving->mid == forecast->now().peak.mid - *fix.predicted_peak);
  }
  const Fix* core = find(plan, "recompute.core_attn");
  REQUIRE(core);
  CHECK(core->basis == Basis::modelled);
  CHECK(core->fits == true);
  // Local attention keeps two score matrices in 2 bytes and one mask a layer: 24 layers of them are most of the saving.
  CHECK(core->saving->mid.gib() > 24 * 3.0);
  CHECK(core->apply[0].set == "--recompute-granularity selective --recompute-modules core_attn");
}

TEST_CASE("where no single change is enough, two together are proposed; where nothing is, that is said") {
  const RunConfig config = megatron("--num-layers 48 --micro-batch-size 4 --global-batch-size 32");
  const Plan two = plan_fixes(failure(config, triage::parsers::gib(100)), catalogue());
  REQUIRE_FALSE(two.fixes.empty());
  CAPTURE(two.fixes[0].id);
  CAPTURE(two.verdict);
  CHECK(two.fixes[0].parts.size() >= 2);
  CHECK(two.fixes[0].fits == true);
  CHECK(two.verdict.empty());
  const Plan none = plan_fixes(failure(config, triage::parsers::gib(12)), catalogue());
  CAPTURE(none.verdict);
  CHECK(none.verdict.find("short by") != std::string::npos);
  for (const Fix& fix : none.fixes) CHECK(fix.fits.value_or(false) == false);
}

TEST_CASE("a change keeps the number of ranks and the global batch") {
  RunConfig config = megatron("--num-layers 24 --micro-batch-size 4 --global-batch-size 64");
  REQUIRE(config.integer(Key::data_parallel) == 8);
  change_setting(config, Key::micro_batch, std::int64_t{2}, "test");
  CHECK(config.integer(Key::global_batch) == 64);
  CHECK(config.integer(Key::gradient_accumulation) == 4);
  change_setting(config, Key::tensor_parallel, std::int64_t{2}, "test");
  CHECK(config.integer(Key::world) == 8);
  CHECK(config.integer(Key::data_parallel) == 4);
  CHECK(config.integer(Key::gradient_accumulation) == 8);
}

TEST_CASE("modules to recompute are added to those that the run has") {
  RunConfig config = megatron("--num-layers 24 --micro-batch-size 4 --global-batch-size 64 --recompute-granularity selective --recompute-modules core_attn layernorm");
  const Facts facts;
  for (const CatalogueFix& entry : catalogue()) {
    if (entry.id != "recompute.mlp") continue;
    const auto changed = changed_config(entry, Scope{config, facts});
    REQUIRE(changed);
    REQUIRE(changed->list(Key::recompute_modules));
    CHECK(*changed->list(Key::recompute_modules) == std::vector<std::string>{"core_attn", "layernorm", "mlp"});
    for (const auto& [framework, forms] : entry.apply)
      if (framework == "megatron-lm")
        CHECK(forms.render(Scope{config, facts}) == "--recompute-granularity selective --recompute-modules core_attn layernorm mlp");
  }
}

TEST_CASE("a sweep lists only layouts that fit, the cheapest first") {
  const Diagnosis d = failure(megatron("--num-layers 24 --micro-batch-size 4 --global-batch-size 32 --use-distributed-optimizer"), triage::parsers::gib(79));
  const auto forecast = forecast_of(d, d.config);
  REQUIRE(forecast.ok());
  const Sweep sweep = sweep_layouts(*forecast, d.config);
  REQUIRE_FALSE(sweep.choices.empty());
  CHECK_FALSE(sweep.nearest);
  CHECK(std::is_sorted(sweep.choices.begin(), sweep.choices.end(), [](const LayoutChoice& a, const LayoutChoice& b) { return a.cost < b.cost; }));
  for (const LayoutChoice& choice : sweep.choices) {
    CHECK(choice.need.fits);
    CHECK(choice.need.peak.mid < triage::parsers::gib(79));
    CHECK(choice.config.integer(Key::world) == 8);
    CHECK(choice.config.integer(Key::global_batch) == 32);
  }
}

TEST_CASE("cards are known by the names people give them") {
  for (const auto& [name, gib] : {std::pair{"h200", 139.8}, {"H100 80GB", 79.11}, {"NVIDIA A100-80G", 79.15}, {"gb200", 184.0}}) {
    const auto bytes = card_capacity(name);
    REQUIRE(bytes);
    CHECK(bytes->gib() == doctest::Approx(gib));
  }
  CHECK_FALSE(card_capacity("abacus"));
}
