// What `triage plan` answers to configurations that cannot be, are cut or of wrong types: a clear message, never a made-up number.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "daemon/pipeline/memory_plan.hpp"

using namespace triage;
using namespace triage::daemon;

namespace {

// A whole config.json with one value replaced ("" leaves the key out).
std::string model(const std::string& name = "", const std::string& value = "") {
  const std::vector<std::pair<std::string, std::string>> whole = {
      {"model_type", "\"llama\""}, {"hidden_size", "4096"}, {"intermediate_size", "14336"}, {"num_hidden_layers", "32"}, {"num_attention_heads", "32"},
      {"num_key_value_heads", "8"}, {"vocab_size", "128256"}, {"rms_norm_eps", "1e-05"}, {"tie_word_embeddings", "false"}};
  std::string text = "{";
  bool put = false;
  const auto add = [&](const std::string& key, const std::string& what) { text += (text.size() > 1 ? ", \"" : "\"") + key + "\": " + what; };
  for (const auto& [key, usual] : whole) {
    if (key != name) { add(key, usual); continue; }
    put = true;
    if (!value.empty()) add(key, value);
  }
  if (!put && !name.empty()) add(name, value);
  return text + "}";
}

using Settings = std::vector<std::pair<std::string, std::string>>;
const Settings kUsual = {{"framework", "hf"}, {"micro_batch", "1"}, {"seq_length", "4096"}, {"dtype", "bfloat16"}};

parsers::Result<MemoryPlan> plan_of(const std::string& text, Settings more = {}, const std::string& megatron = "") {
  PlanInput input;
  if (!text.empty()) input.model = NamedText{"config.json", text};
  input.megatron_arguments = megatron;
  if (!text.empty()) input.settings = kUsual;
  for (auto& setting : more) input.settings.push_back(std::move(setting));
  input.gpu = "h100";
  return make_memory_plan(Knowledge(), std::move(input), parsers::TimePoint());
}

bool assumed(const MemoryPlan& plan, const std::string& part) {
  const auto& list = plan.forecast->estimate().assumptions;
  return std::any_of(list.begin(), list.end(), [&](const auto& a) { return a.text.find(part) != std::string::npos; });
}

struct Refused {
  const char* name;
  std::string text;
  Settings settings;
  const char* says;   // part of the message
};

}  // namespace

TEST_CASE("a model that cannot be is refused by the name of what is wrong") {
  const std::vector<Refused> rows = {
      {"no layers", model("num_hidden_layers", "0"), {}, "layers is 0"},
      {"negative layers", model("num_hidden_layers", "-3"), {}, "layers is -3"},
      {"too many layers", model("num_hidden_layers", "100000"), {}, "layers is 100000"},
      {"layers as a word", model("num_hidden_layers", "\"thirty\""), {}, "num_hidden_layers is 'thirty', not a whole number"},
      {"layers as a list", model("num_hidden_layers", "[32]"), {}, "num_hidden_layers"},
      {"width as an object", model("hidden_size", "{\"decoder\": 4096}"), {}, "hidden_size is an object (it holds 'decoder'), where a whole number was expected"},
      {"layers as a flag", model("num_hidden_layers", "true"), {}, "num_hidden_layers is 'true'"},
      {"half a layer", model("num_hidden_layers", "32.5"), {}, "num_hidden_layers is '32.5'"},
      {"1e30 layers", model("num_hidden_layers", "1e30"), {}, "num_hidden_layers is '1e30'"},
      {"layers without a value", model("num_hidden_layers", "null"), {}, "missing layers"},
      {"no such key", model("num_hidden_layers", ""), {}, "missing layers"},
      {"1e30 hidden", model("hidden_size", "1e30"), {}, "hidden_size is '1e30'"},
      {"thirty digits", model("hidden_size", "1000000000000000000000000000000"), {}, "hidden_size is '1000000000000000000000000000000'"},
      {"heads that do not divide", model("num_attention_heads", "30"), {}, "not divisible by 30 heads"},
      {"key/value heads that do not divide", model("num_key_value_heads", "7"), {}, "not divisible by 7 key/value heads"},
      {"more key/value heads", model("num_key_value_heads", "64"), {}, "64 key/value heads"},
      {"key/value heads as a word", model("num_key_value_heads", "\"few\""), {}, "num_key_value_heads is 'few'"},
      {"no key/value heads", model("num_key_value_heads", "0"), {}, "kv_heads is 0"},
      {"no heads", model("num_attention_heads", "0"), {}, "heads is 0"},
      {"head of width 0", model("head_dim", "0"), {}, "head_dim is 0"},
      {"head of negative width", model("head_dim", "-128"), {}, "head_dim is -128"},
      {"no words", model("vocab_size", "0"), {}, "vocab is 0"},
      {"negative words", model("vocab_size", "-5"), {}, "vocab is -5"},
      {"words missing", model("vocab_size", ""), {}, "missing vocab"},
      {"width of the MLP missing", model("intermediate_size", ""), {}, "missing ffn"},
      {"experts without top-k", model("num_local_experts", "8"), {}, "missing experts_per_token"},
      {"negative experts", model("num_local_experts", "-8"), {}, "experts is -8"},
      {"tower without heads", model("vision_config", "{\"depth\": 27, \"hidden_size\": 1152, \"num_heads\": 0}"), {}, "vision_heads is 0"},
      {"tower that does not divide", model("vision_config", "{\"depth\": 27, \"hidden_size\": 1152, \"num_heads\": 7}"), {}, "does not divide by its 7 heads"},
      {"another architecture", model("model_type", "\"mamba2\""), {}, "no memory model of 'mamba2'"},
      {"an encoder", model("model_type", "\"bert\""), {}, "no memory model of 'bert'"},
      {"a list", "[1, 2, 3]", {}, "describes no model"},
      {"a number", "5", {}, "describes no model"},
      {"a word", "\"llama\"", {}, "describes no model"},
      {"null", "null", {}, "describes no model"},
      {"blanks", " \n", {}, "is empty"},
      {"no JSON", "hello world", {}, "describes no model"},
      {"cut", model().substr(0, 100), {}, ""},
      {"nested without end", std::string(100000, '[') + std::string(100000, ']'), {}, "nested deeper"},
      {"too large", std::string(64u << 20, ' '), {}, ""},
      // Flags
      {"micro batch 0", model(), {{"micro_batch", "0"}}, "micro_batch is 0"},
      {"micro batch -1", model(), {{"micro_batch", "-1"}}, "micro_batch is -1"},
      {"micro batch as a word", model(), {{"micro_batch", "x"}}, "micro_batch is 'x'"},
      {"micro batch 1e30", model(), {{"micro_batch", "1e30"}}, "micro_batch is '1e30'"},
      {"sequence 0", model(), {{"seq_length", "0"}}, "seq_length is 0"},
      {"sequence without end", model(), {{"seq_length", "1000000000000"}}, "a micro batch of more than"},
      {"world 0", model(), {{"world", "0"}}, "world is 0"},
      {"world -1", model(), {{"world", "-1"}}, "world is -1"},
      {"stage 9", model(), {{"zero_stage", "9"}}, "zero_stage is 9"},
      {"adapters of rank -1", model(), {{"lora_rank", "-1"}}, "lora_rank is -1"},
      {"no accumulation", model(), {{"gradient_accumulation", "0"}}, "gradient_accumulation is 0"},
      {"unknown type", model(), {{"dtype", "int3"}}, "dtype is 'int3'"},
      {"unknown program", model(), {{"framework", "foo"}}, "no framework 'foo'"},
      {"unknown setting", model(), {{"foo", "1"}}, "no setting 'foo'"},
      {"heads over ranks", model(), {{"framework", "megatron-lm"}, {"world", "6"}, {"tensor_parallel", "3"}}, "32 heads are not divisible by tensor parallel 3"},
      {"more ranks than there are", model(), {{"framework", "megatron-lm"}, {"world", "8"}, {"tensor_parallel", "16"}}, "8 ranks are not divisible by"},
      {"negative ranks", model(), {{"framework", "megatron-lm"}, {"world", "8"}, {"tensor_parallel", "-2"}}, "tensor_parallel is -2"},
      {"more stages than layers", model(), {{"framework", "megatron-lm"}, {"world", "64"}, {"pipeline_parallel", "64"}}, "32 layers are not divisible"},
      {"experts of a dense model", model(), {{"framework", "megatron-lm"}, {"world", "8"}, {"expert_parallel", "8"}}, "in a model without experts"},
  };
  for (const Refused& row : rows) {
    const std::string name = row.name;
    CAPTURE(name);
    const auto plan = plan_of(row.text, row.settings);
    REQUIRE_FALSE(plan.ok());
    const std::string message = plan.error().message();
    CAPTURE(message);
    CHECK(message.find(row.says) != std::string::npos);
    CHECK(message.size() < 600);
  }
}

TEST_CASE("values that Megatron-LM itself would refuse are refused by the name of their flag") {
  const std::string whole =
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
      "--global-batch-size 64 --vocab-size 128256 --bf16 ";
  REQUIRE(plan_of("", {{"world", "8"}}, whole).ok());
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"--tensor-model-parallel-size 0", "--tensor-model-parallel-size is '0': Megatron-LM takes a whole number from 1"},
      {"--tensor-model-parallel-size -2", "--tensor-model-parallel-size is '-2'"},
      {"--tensor-model-parallel-size 1e30", "--tensor-model-parallel-size is '1e30'"},
      {"--tensor-model-parallel-size NaN", "--tensor-model-parallel-size is 'NaN'"},
      {"--pipeline-model-parallel-size two", "--pipeline-model-parallel-size is 'two'"},
      {"--context-parallel-size 1.5", "--context-parallel-size is '1.5'"},
      {"--micro-batch-size 0", "--micro-batch-size is '0'"},
      {"--global-batch-size", "--global-batch-size has no value"},
      {"--group-query-attention --num-query-groups 0", "--num-query-groups is '0'"},
      {"--num-experts 8 --moe-router-topk none", "--moe-router-topk is 'none'"},
      {"--recompute-granularity most", "--recompute-granularity is 'most': Megatron-LM takes full selective"},
      {"--recompute-granularity full --recompute-method each", "--recompute-method is 'each'"},
      {"--recompute-granularity selective --recompute-modules core_attn all", "--recompute-modules is 'core_attn all'"},
      {"--transformer-impl magic", "--transformer-impl is 'magic'"},
      {"--normalization BatchNorm", "--normalization is 'BatchNorm'"},
      {"--optimizer magic", "--optimizer is 'magic'"},
      {"--attention-dropout 55", "--attention-dropout is '55': Megatron-LM takes a number from 0 to 1"},
      {"--hidden-dropout -3", "--hidden-dropout is '-3'"},
      {"--optimizer-cpu-offload --optimizer-offload-fraction NaN", "--optimizer-offload-fraction is 'NaN'"},
      {"--num-experts 8 --moe-expert-capacity-factor 1e300", "--moe-expert-capacity-factor is '1e300'"},
      {"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3", "8 layers of a pipeline stage are not divisible"},
      {"--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4", "8 ranks are not divisible by"},
      {"--num-experts 6 --expert-model-parallel-size 4", "6 experts are not divisible by expert parallel 4"},
      {"--num-experts 4 --moe-router-topk 9", "experts_per_token 9 of 4 experts"},
  };
  for (const auto& row : rows) {
    const std::string more = row.first, says = row.second;   // clang 14 captures no structured binding
    CAPTURE(more);
    const auto plan = plan_of("", {{"world", "8"}}, whole + more);
    REQUIRE_FALSE(plan.ok());
    CHECK_MESSAGE(plan.error().message().find(says) != std::string::npos, plan.error().message());
  }
}

TEST_CASE("what is odd but can be is planned, and told") {
  struct Odd {
    const char* name;
    std::string text;
    Settings settings;
    const char* told;
  };
  const std::vector<Odd> rows = {
      {"an unknown type", model("model_type", "\"zephyrion\""), {}, "model type 'zephyrion' is not known"},
      {"a type that is a number", model("model_type", "5"), {}, "model type '5' is not known"},
      {"a type without end", model("model_type", "\"" + std::string(100000, 'x') + "\""), {}, "is not known"},
      {"a tower that is a word", model("vision_config", "\"yes\""), {}, "vision_config is 'yes', not a table"},
      {"images without a tower", model(), {{"images", "3"}}, "no images: the model has no vision tower"},
      {"an unknown optimizer", model(), {{"optimizer", "magic"}}, "'magic' is not known"},
      {"an unknown kernel", model(), {{"attention", "magic"}}, "'magic' is not known"},
  };
  for (const Odd& row : rows) {
    const std::string name = row.name;
    CAPTURE(name);
    const auto plan = plan_of(row.text, row.settings);
    REQUIRE_MESSAGE(plan.ok(), plan.error().message());
    CHECK(assumed(*plan, row.told));
  }
}

TEST_CASE("what is not stated widens the range") {
  const auto spread = [](const parsers::Result<MemoryPlan>& plan) {
    REQUIRE_MESSAGE(plan.ok(), plan.error().message());
    const signatures::Range& peak = plan->forecast->now().peak;
    return static_cast<double>(peak.high.count() - peak.low.count()) / static_cast<double>(peak.mid.count());
  };
  PlanInput input;
  input.model = NamedText{"config.json", model()};
  input.settings = {{"framework", "hf"}, {"micro_batch", "1"}, {"seq_length", "4096"}};
  const auto open = make_memory_plan(Knowledge(), std::move(input), parsers::TimePoint());
  CHECK(spread(plan_of(model())) < 0.01);
  CHECK(spread(open) > 0.2);
  CHECK(assumed(*open, "the range spans other usual values of dtype"));
  CHECK(assumed(*open, "weights are fp32"));
}

TEST_CASE("flags of Megatron that mean nothing here are listed, mistyped ones with the name that was meant") {
  const auto plan = plan_of("", {{"world", "8"}},
                            "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
                            "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 128256 --swiglu --disable-bias-linear --no-such-flag 3 "
                            "--tensor-model-paralel-size 2 --lr 1e-4 --no-persist-layer-norm --no-masked-softmax-fusion");
  REQUIRE_MESSAGE(plan.ok(), plan.error().message());
  const auto listed = [&](const std::string& text) { return std::find(plan->ignored.begin(), plan->ignored.end(), text) != plan->ignored.end(); };
  CHECK(listed("--no-such-flag"));
  CHECK(listed("--tensor-model-paralel-size (did you mean --tensor-model-parallel-size?)"));
  CHECK(listed("--lr"));
  CHECK(listed("--no-persist-layer-norm"));
  CHECK_FALSE(listed("--persist-layer-norm"));        // nobody wrote it
  CHECK_FALSE(listed("--no-masked-softmax-fusion"));  // has an effect
  CHECK_FALSE(listed("--num-layers"));
  CHECK_FALSE(listed("--bf16"));
  CHECK(plan->ignored.front().find("did you mean") != std::string::npos);
}

TEST_CASE("a file of 64 MiB of zeros, of digits, of quotes ends with a message") {
  for (const char c : {'\0', '1', '"', '{'}) {
    CAPTURE(c);
    CHECK_FALSE(plan_of(std::string(64u << 20, c)).ok());
  }
}

TEST_CASE("of a script's text its comments are no arguments, and its variables are named as not filled in") {
  const std::string script =
      "TRAIN_ARGS=(\n    --num-layers 4\n    # Note: --num-layers might be inferred\n    --hidden-size 1024   # was --hidden-size 4096\n    --num-attention-heads 8 \\\n"
      "    --seq-length 2048 --micro-batch-size 1 --global-batch-size 8 --vocab-size 32000\n  # --vocab-size might be inferred\n)\n";
  const auto plan = plan_of("", {{"world", "8"}}, script);
  REQUIRE(plan.ok());
  CHECK(plan->forecast->estimate().shape.layers == 4);
  CHECK(plan->forecast->estimate().shape.hidden == 1024);
  CHECK(plan->forecast->estimate().shape.vocab == 32000);
  const auto open = plan_of("", {{"world", "8"}}, "--num-layers $NUM_LAYERS --hidden-size 1024 --num-attention-heads 8 --seq-length 2048 --micro-batch-size 1 --vocab-size 32000");
  REQUIRE(!open.ok());
  CHECK(open.error().message().find("$NUM_LAYERS") != std::string::npos);
  CHECK(open.error().help_text().find("shell script") != std::string::npos);
}
