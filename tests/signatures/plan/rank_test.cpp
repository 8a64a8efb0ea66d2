#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "signatures/plan/rank.hpp"
#include "tests/signatures/plan/diagnoses.hpp"

using namespace triage::signatures;
using namespace triage::signatures::tests;
using triage::parsers::Key;

namespace {

const std::vector<CatalogueFix>& catalogue() {
  static const std::vector<CatalogueFix> fixes = read_catalogue(embedded_fixes()).fixes;
  return fixes;
}

std::vector<std::string> ids(const Plan& plan) {
  std::vector<std::string> out;
  for (const Fix& fix : plan.fixes) out.push_back(fix.id);
  return out;
}

std::string family(const Fix& fix) { return fix.id.substr(0, fix.id.find('.')); }

const Fix* find(const Plan& plan, std::string_view id) {
  for (const Fix& fix : plan.fixes)
    if (fix.id == id) return &fix;
  return nullptr;
}

bool offers(const Plan& plan, std::string_view family_name) {
  return std::any_of(plan.fixes.begin(), plan.fixes.end(),
                     [&](const Fix& fix) { return family(fix) == family_name; });
}

std::string joined(const Plan& plan) {
  std::string text;
  for (const std::string& id : ids(plan)) text += id + " ";
  return text;
}

}  // namespace

TEST_CASE("the recorded failures get the right first fix and none that cannot help") {
  struct Row {
    const char* name;
    Diagnosis diagnosis;
    std::vector<std::string> first, never;
  };
  for (const Row& row : {
           Row{"capacity_forward", capacity_forward(), {"recompute", "micro_batch", "sequence", "loss"}, {"moe", "vision"}},
           Row{"capacity_forward-with-checkpointing", loss_with_checkpointing(), {"loss", "micro_batch"}, {"recompute"}},
           Row{"logits_spike", logits_spike(), {"loss", "micro_batch"}, {"recompute"}},
           Row{"optimizer_first_step", optimizer_first_step(), {"optimizer", "sharding", "parallelism", "precision", "offload"},
               {"recompute", "loss", "micro_batch", "sequence"}},
           Row{"fragmentation", fragmentation(), {"allocator"}, {"recompute", "micro_batch"}},
           Row{"other_process", other_process(), {"device", "process"}, {"recompute", "micro_batch", "loss", "optimizer", "sharding"}},
           Row{"model_load", model_load(), {"parallelism", "sharding", "precision"}, {"recompute", "micro_batch", "loss"}},
       }) {
    SUBCASE(row.name) {
      const Plan plan = plan_fixes(row.diagnosis, catalogue());
      CAPTURE(joined(plan));
      REQUIRE(!plan.fixes.empty());
      const std::string first = family(plan.fixes[0]);
      CHECK(std::find(row.first.begin(), row.first.end(), first) != row.first.end());
      for (const std::string& name : row.never) CHECK_MESSAGE(!offers(plan, name), name);
    }
  }
}

TEST_CASE("every kind gets at least one fix, for any program") {
  for (const std::string& kind : all_kinds())
    for (const char* framework : {"", "megatron-lm", "megatron-bridge", "huggingface", "deepspeed", "torchtitan", "verl",
                                  "lightning", "nemo", "jax"}) {
      // XLA kinds come from JAX only, PyTorch's allocator kinds not from it.
      const std::string name = framework;
      const bool xla = kind.starts_with("jax") || kind.starts_with("tf");
      if ((name == "jax") != xla && !name.empty() && (xla || kind.starts_with("gpu.oom") || kind == "triton.shared_memory")) continue;
      if (name == "jax" && kind.starts_with("tf")) continue;
      CAPTURE(kind);
      CAPTURE(name);
      Diagnosis diagnosis;
      diagnosis.kind = kind;
      if (!name.empty()) diagnosis.frameworks = {name};
      const Plan plan = plan_fixes(diagnosis, catalogue());
      CHECK(!plan.fixes.empty());
      CHECK(plan.fixes.size() <= 6);
      for (const Fix& fix : plan.fixes) {
        CAPTURE(fix.id);
        CHECK(!fix.apply.empty());
        CHECK(!fix.why.empty());
        CHECK(!fix.title.empty());
        for (const FixSetting& setting : fix.apply) CHECK(!setting.set.empty());
      }
    }
  Diagnosis none;
  none.kind = "none";
  CHECK(plan_fixes(none, catalogue()).fixes.empty());
}

TEST_CASE("every entry of the catalogue is for a kind that exists") {
  for (const CatalogueFix& fix : catalogue())
    for (const std::string& prefix : fix.kinds) {
      CAPTURE(fix.id);
      CAPTURE(prefix);
      const auto kinds = all_kinds();
      CHECK(std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
        return kind.starts_with(prefix) || prefix.starts_with("gpu.xid.");
      }));
    }
}

TEST_CASE("what is on already, or cannot apply, is not proposed") {
  const std::vector<Phase> phases = {Phase::init, Phase::load, Phase::optimizer_init, Phase::forward, Phase::loss,
                                     Phase::backward, Phase::optimizer_step, Phase::comm, Phase::unknown};
  struct Row {
    const char* name;
    std::vector<std::pair<Key, const char*>> settings;
    std::vector<std::string> never;   // families (no dot) or ids
  };
  const std::vector<Row> rows = {
      {"full recompute", {{Key::recompute, "full"}},
       {"recompute.full_uniform", "recompute.full_block", "recompute.selective", "recompute.mlp", "recompute.core_attn", "recompute.layernorm"}},
      {"micro batch of one", {{Key::micro_batch, "1"}}, {"micro_batch.halve", "micro_batch.auto", "micro_batch.token_budget"}},
      {"dense model", {{Key::experts, "0"}}, {"moe", "recompute.moe", "recompute.moe_act", "parallelism.ep_up"}},
      {"one GPU", {{Key::world, "1"}, {Key::data_parallel, "1"}},
       {"parallelism.tp_up", "parallelism.cp_up", "parallelism.ep_up", "parallelism.sequence_parallel", "pipeline", "sharding", "optimizer.distributed"}},
      {"distributed optimizer", {{Key::distributed_optimizer, "true"}}, {"optimizer.distributed"}},
      {"Megatron FSDP", {{Key::fsdp, "megatron"}, {Key::fsdp_strategy, "optim_grads_params"}}, {"sharding.megatron_fsdp", "sharding.strategy_up", "optimizer.distributed"}},
      {"flash attention", {{Key::attention, "flash"}, {Key::transformer_impl, "transformer_engine"}}, {"attention.flash", "recompute.core_attn"}},
      {"expandable segments", {{Key::expandable_segments, "true"}}, {"allocator.expandable"}},
      {"sequence parallel", {{Key::tensor_parallel, "2"}, {Key::sequence_parallel, "true"}}, {"parallelism.sequence_parallel"}},
      {"heads that do not divide", {{Key::heads, "3"}}, {"parallelism.tp_up", "loss.vocab_parallel"}},
      {"layers that do not divide", {{Key::layers, "25"}}, {"pipeline.pp_up"}},
      {"whole node in tensor parallel", {{Key::tensor_parallel, "8"}, {Key::gpus_per_node, "8"}}, {"parallelism.tp_up"}},
      {"precision-aware optimizer", {{Key::precision_aware_optimizer, "true"}}, {"optimizer.precision_aware"}},
      {"native loss fusion off", {{Key::loss_fusion, "none"}}, {"loss.no_native_fusion"}},
  };
  for (const Row& row : rows)
    for (const Phase phase : phases)
      for (const char* framework : {"megatron-lm", "huggingface"}) {
        Diagnosis diagnosis = megatron(phase);
        diagnosis.frameworks = {framework};
        set(diagnosis, Key::framework, framework);
        for (const auto& [key, text] : row.settings) set(diagnosis, key, text);
        // All that counts for the phase, not the best six alone: each candidate is planned on its own.
        for (const CatalogueFix& entry : catalogue()) {
          const bool named = std::find(row.never.begin(), row.never.end(), entry.id) != row.never.end() ||
                             std::find(row.never.begin(), row.never.end(), entry.family) != row.never.end();
          if (!named) continue;
          CAPTURE(std::string(row.name));
          CAPTURE(entry.id);
          CHECK(plan_fixes(diagnosis, {entry}).fixes.empty());
        }
      }
}

TEST_CASE("load and optimizer phases get neither recompute nor a smaller batch nor another loss") {
  for (const Phase phase : {Phase::load, Phase::optimizer_init, Phase::optimizer_step}) {
    Diagnosis diagnosis = megatron(phase);
    diagnosis.fix_hints = {"recompute", "micro_batch", "loss", "sequence", "recompute.full_uniform"};
    const Plan plan = plan_fixes(diagnosis, catalogue());
    CAPTURE(joined(plan));
    CHECK(!plan.fixes.empty());
    for (const char* name : {"recompute", "micro_batch", "loss", "sequence"}) CHECK(!offers(plan, name));
  }
}

TEST_CASE("exact values of the run stand in the change") {
  const Plan plan = plan_fixes(megatron(Phase::forward), catalogue());
  const Fix* halve = find(plan, "micro_batch.halve");
  REQUIRE(halve);
  CHECK(halve->apply[0].framework == "megatron-lm");
  CHECK(halve->apply[0].set == "--micro-batch-size 2");
  CHECK(halve->assumes.empty());

  Diagnosis unknown = capacity_forward();
  const Plan other = plan_fixes(unknown, catalogue());
  const Fix* same = find(other, "micro_batch.halve");
  REQUIRE(same);
  CHECK(same->apply[0].framework == "huggingface");
  CHECK(same->apply[0].set.find('{') == std::string::npos);
  CHECK(!same->assumes.empty());
  CHECK(same->why.find("cannot be computed: the log does not state") != std::string::npos);
  CHECK(!same->saving);
  CHECK(same->basis == Basis::rule);
}

TEST_CASE("without the distributed optimizer over several ranks, that is the first fix") {
  Diagnosis diagnosis = megatron(Phase::loss);
  set(diagnosis, Key::distributed_optimizer, "false");
  set(diagnosis, Key::micro_batch, "1");
  const Plan plan = plan_fixes(diagnosis, catalogue());
  CAPTURE(joined(plan));
  CHECK(plan.fixes[0].id == "optimizer.distributed");
  CHECK(!offers(plan, "micro_batch"));
}

TEST_CASE("a foreign process is named with its pid and bytes, and the saving is measured") {
  const Plan plan = plan_fixes(other_process(), catalogue());
  REQUIRE(!plan.fixes.empty());
  const Fix& fix = plan.fixes[0];
  CHECK(fix.apply[0].set.find("1387") != std::string::npos);
  CHECK(fix.why.find("118.50 GiB") != std::string::npos);
  REQUIRE(fix.saving);
  CHECK(fix.saving->mid == gib(118.5));
  CHECK(fix.basis == Basis::measured);
  for (const Fix& each : plan.fixes) CHECK((family(each) == "process" || family(each) == "device"));
}

TEST_CASE("fragmentation: what is reserved and unallocated is the saving, and the predicted peak fits") {
  const Plan plan = plan_fixes(fragmentation(), catalogue());
  const Fix& fix = plan.fixes[0];
  CHECK(fix.id == "allocator.expandable");
  REQUIRE(fix.saving);
  CHECK(fix.saving->mid == gib(118.6));
  CHECK(fix.saving->low == gib(30.0));
  REQUIRE(fix.predicted_peak);
  CHECK(fix.predicted_peak->gib() == doctest::Approx(19.3 + 30.0));
  CHECK(fix.fits == true);
  CHECK(fix.basis == Basis::measured);

  Diagnosis on = fragmentation();
  set(on, Key::expandable_segments, "true");
  const Plan without = plan_fixes(on, catalogue());
  CHECK(!without.fixes.empty());
  CHECK(!find(without, "allocator.expandable"));
  CHECK(!find(without, "allocator.max_split"));
}

TEST_CASE("in the loss the failed request is the measure of the saving") {
  const Plan plan = plan_fixes(logits_spike(), catalogue());
  const Fix* fused = find(plan, "loss.liger");
  if (!fused) fused = find(plan, "loss.fused_linear");
  REQUIRE(fused);
  REQUIRE(fused->saving);
  CHECK(fused->saving->mid == gib(128));
  CHECK(fused->saving->low == gib(112));
  const Fix* halve = find(plan, "micro_batch.halve");
  REQUIRE(halve);
  REQUIRE(halve->saving);
  CHECK(halve->saving->mid == gib(64));
}

TEST_CASE("unfused attention known from the log brings the fused kernel to the front") {
  Diagnosis diagnosis = capacity_forward();
  set(diagnosis, Key::attention, "eager");
  CHECK(plan_fixes(diagnosis, catalogue()).fixes[0].id == "attention.flash");
  set(diagnosis, Key::attention, "sdpa");
  set(diagnosis, Key::dtype, "bf16");
  CHECK(!find(plan_fixes(diagnosis, catalogue()), "attention.flash"));
}

TEST_CASE("mixture of experts: its own fixes come up only when the log states experts") {
  Diagnosis diagnosis = megatron(Phase::forward);
  CHECK(!offers(plan_fixes(diagnosis, catalogue()), "moe"));
  set(diagnosis, Key::experts, "128");
  set(diagnosis, Key::expert_parallel, "8");
  set(diagnosis, Key::moe_dispatcher, "allgather");
  set(diagnosis, Key::transformer_impl, "transformer_engine");
  const Plan plan = plan_fixes(diagnosis, catalogue());
  CAPTURE(joined(plan));
  CHECK(offers(plan, "moe"));
}

TEST_CASE("the programs of the run come first, in their order; settings of others are left out") {
  Diagnosis diagnosis = megatron(Phase::forward);
  diagnosis.frameworks = {"megatron-bridge", "megatron-lm"};
  const Plan plan = plan_fixes(diagnosis, catalogue());
  const Fix* halve = find(plan, "micro_batch.halve");
  REQUIRE(halve);
  REQUIRE(halve->apply.size() == 2);
  CHECK(halve->apply[0].framework == "megatron-bridge");
  CHECK(halve->apply[1].framework == "megatron-lm");

  diagnosis = capacity_forward();
  diagnosis.frameworks = {};
  const Plan generic = plan_fixes(diagnosis, catalogue());
  CHECK(generic.fixes[0].apply[0].framework == "pytorch");
}

TEST_CASE("scheduler kinds get that scheduler's words first") {
  Diagnosis diagnosis;
  diagnosis.kind = "host.oom.slurm";
  CHECK(plan_fixes(diagnosis, catalogue()).fixes[0].apply[0].framework == "slurm");
  diagnosis.kind = "host.oom.k8s";
  CHECK(plan_fixes(diagnosis, catalogue()).fixes[0].apply[0].framework == "kubernetes");
  diagnosis.kind = "host.oom.ray";
  CHECK(plan_fixes(diagnosis, catalogue()).fixes[0].apply[0].framework == "ray");
}

TEST_CASE("a fix that the rule names by id leads outside device memory") {
  Diagnosis diagnosis;
  diagnosis.kind = "nccl.timeout";
  diagnosis.fix_hints = {"collective.longer_timeout"};
  CHECK(plan_fixes(diagnosis, catalogue()).fixes[0].id == "collective.longer_timeout");
}

TEST_CASE("a family that a rule names brings none of its fixes that are for other kinds") {
  Diagnosis diagnosis;
  diagnosis.kind = "num.nan";
  diagnosis.fix_hints = {"precision", "data"};
  const Plan plan = plan_fixes(diagnosis, catalogue());
  CAPTURE(joined(plan));
  CHECK(!plan.fixes.empty());
  CHECK(!offers(plan, "precision"));
  diagnosis.fix_hints = {"precision.bf16"};
  CHECK(find(plan_fixes(diagnosis, catalogue()), "precision.bf16"));
}

TEST_CASE("several processes of the job on one card: each rank gets its own card first") {
  Diagnosis diagnosis = other_process();
  diagnosis.ledger->other_processes = {{11, gib(4)}, {12, gib(4)}, {13, gib(4)}};
  CHECK(plan_fixes(diagnosis, catalogue()).fixes[0].id == "process.one_device");
}

TEST_CASE("saving a checkpoint: neither a smaller batch nor recompute nor allocator settings") {
  Diagnosis diagnosis = capacity_forward();
  diagnosis.phase = Phase::checkpoint;
  const Plan plan = plan_fixes(diagnosis, catalogue());
  CAPTURE(joined(plan));
  REQUIRE(!plan.fixes.empty());
  CHECK(family(plan.fixes[0]) == "checkpoint");
  for (const char* name : {"recompute", "micro_batch", "allocator"}) CHECK(!offers(plan, name));
}

TEST_CASE("where little is reserved and unallocated, expandable segments are not proposed") {
  Diagnosis diagnosis = capacity_forward();
  diagnosis.ledger = ledger(79.1, 0.1, 1.5, 78.9, 77.9, 0.5);
  for (const CatalogueFix& entry : catalogue())
    if (entry.id == "allocator.expandable") CHECK(plan_fixes(diagnosis, {entry}).fixes.empty());
}

TEST_CASE("DeepSpeed under Hugging Face: DeepSpeed's forms come first, and ZeRO is raised before FSDP is thought of") {
  Diagnosis diagnosis = oom("gpu.oom.capacity", Phase::optimizer_init, {"deepspeed", "huggingface"});
  set(diagnosis, Key::zero_stage, "1");
  set(diagnosis, Key::world, "8");
  const Plan plan = plan_fixes(diagnosis, catalogue());
  CAPTURE(joined(plan));
  const Fix* zero = find(plan, "sharding.zero_two");
  REQUIRE(zero);
  CHECK(zero->apply[0].framework == "deepspeed");
  CHECK(!find(plan, "sharding.torch_fsdp2"));
  for (const Fix& fix : plan.fixes)
    for (const FixSetting& setting : fix.apply) CHECK(setting.framework != "pytorch");
}

TEST_CASE("the words about the failed request are those of its phase") {
  Diagnosis diagnosis = capacity_forward();
  for (const CatalogueFix& entry : catalogue())
    if (entry.id == "loss.liger" || entry.id == "loss.fused_linear") {
      if (plan_fixes(diagnosis, {entry}).fixes.empty()) continue;
      diagnosis.phase = Phase::forward;
      CHECK(plan_fixes(diagnosis, {entry}).fixes.at(0).why.find("asked for") == std::string::npos);
      diagnosis.phase = Phase::loss;
      CHECK(plan_fixes(diagnosis, {entry}).fixes.at(0).why.find("asked for 2.00 GiB") != std::string::npos);
    }
}

TEST_CASE("CuPy's failures get CuPy's fixes") {
  Diagnosis diagnosis = oom("gpu.oom.capacity", Phase::unknown);
  Finding finding;
  finding.rule = "cupy.oom";
  finding.role = Role::root;
  diagnosis.findings.push_back(finding);
  const Plan plan = plan_fixes(diagnosis, catalogue());
  REQUIRE(!plan.fixes.empty());
  CHECK(plan.fixes[0].id == "allocator.cupy_pool");
  CHECK(plan.fixes[0].apply[0].framework == "cupy");
}

TEST_CASE("captures of the cause stand in the words of a fix") {
  Diagnosis diagnosis;
  diagnosis.kind = "io.enospc";
  Finding finding;
  finding.role = Role::root;
  finding.captures.emplace_back("path", std::string("/scratch/run7"));
  diagnosis.findings.push_back(finding);
  const Plan plan = plan_fixes(diagnosis, catalogue());
  CHECK(plan.fixes[0].apply[0].set.find("/scratch/run7") != std::string::npos);
}
