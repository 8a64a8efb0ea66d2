#include <string>

#include <doctest/doctest.h>

#include "signatures/plan/apply_text.hpp"
#include "signatures/plan/condition.hpp"

using namespace triage::signatures;
using triage::parsers::Key;
using triage::parsers::Place;
using triage::parsers::RunConfig;

namespace {

RunConfig config() {
  RunConfig made;
  (void)made.set_text(Key::tensor_parallel, "2", "test").ok();
  (void)made.set_text(Key::heads, "32", "test").ok();
  (void)made.set_text(Key::recompute, "selective", "test").ok();
  (void)made.set_text(Key::recompute_modules, "core_attn,mlp", "test").ok();
  (void)made.set_text(Key::sequence_parallel, "false", "test").ok();
  (void)made.set_text(Key::rollout_memory_fraction, "0.5", "test").ok();
  (void)made.set_text(Key::framework, "megatron-lm", "test").ok();
  return made;
}

Facts facts() { return {{"tried_gib", 2.0}, {"tried", std::string("2.00 GiB")}}; }

Truth truth(const std::string& text) {
  const auto made = Expression::condition(text, Place{});
  REQUIRE_MESSAGE(made.ok(), text);
  const RunConfig settings = config();
  const Facts known = facts();
  return made->truth({settings, known});
}

}  // namespace

TEST_CASE("conditions are true, false, or unknown when they touch what the log does not state") {
  struct Row {
    const char* text;
    Truth want;
  };
  for (const Row& row : {
           Row{"tensor_parallel == 2", Truth::yes},
           Row{"tensor_parallel * 2 <= 4", Truth::yes},
           Row{"heads % (2 * tensor_parallel) == 0", Truth::yes},
           Row{"heads - 2 * 16 == 0 and heads / 4 == 8", Truth::yes},
           Row{"tensor_parallel > 2", Truth::no},
           Row{"world > 1", Truth::unknown},
           Row{"world > 1 and tensor_parallel > 2", Truth::no},
           Row{"world > 1 or tensor_parallel == 2", Truth::yes},
           Row{"not world > 1", Truth::unknown},
           Row{"not not tensor_parallel == 2", Truth::yes},
           Row{"world * 2 >= 4", Truth::unknown},
           Row{"heads / (tensor_parallel - 2) > 1", Truth::unknown},
           Row{"heads % (tensor_parallel - 2) > 1", Truth::unknown},
           Row{"recompute == selective", Truth::yes},
           Row{"recompute != full", Truth::yes},
           Row{"recompute == SELECTIVE", Truth::yes},
           Row{"recompute in [full, selective]", Truth::yes},
           Row{"recompute in [full, none]", Truth::no},
           Row{"framework in ['megatron-lm', 'megatron-bridge']", Truth::yes},
           Row{"framework == 'megatron-lm'", Truth::yes},
           Row{"attention in [eager]", Truth::unknown},
           Row{"tensor_parallel in [2, 4]", Truth::yes},
           Row{"has(recompute_modules, mlp)", Truth::yes},
           Row{"has(recompute_modules, moe)", Truth::no},
           Row{"has(offload_modules, moe)", Truth::unknown},
           Row{"known(world)", Truth::no},
           Row{"known(heads)", Truth::yes},
           Row{"default(world, 1) == 1", Truth::yes},
           Row{"default(sequence_parallel, true)", Truth::no},
           Row{"sequence_parallel", Truth::no},
           Row{"sequence_parallel == false", Truth::yes},
           Row{"precision_aware_optimizer", Truth::unknown},
           Row{"default(attention, none) == none", Truth::yes},
           Row{"tried_gib >= 2", Truth::yes},
           Row{"known(free_gib)", Truth::no},
           Row{"floor(heads / 3) == 10 and min(heads, 4) == 4 and max(heads, 4) == 32", Truth::yes},
           Row{"rollout_memory_fraction <= 0.5", Truth::yes},
           Row{"true", Truth::yes},
           Row{"false or (tensor_parallel == 1 or heads == 32)", Truth::yes},
       }) {
    const std::string text = row.text;
    CAPTURE(text);
    CHECK(truth(text) == row.want);
  }
}

TEST_CASE("an expression that cannot be read is a fault with its place and a reason") {
  struct Row {
    const char* text;
    const char* reason;
  };
  Place place;
  place.file = "x.yaml";
  place.line = 7;
  const std::string deep = std::string(40, '(') + "1" + std::string(40, ')') + " == 1";
  const std::string wide(2000, ' ');
  for (const Row& row : {
           Row{"tensor_paralel == 2", "there is no setting or fact 'tensor_paralel'"},
           Row{"recompute", "neither true nor false"},
           Row{"heads", "neither true nor false"},
           Row{"recompute > full", "text has no order"},
           Row{"heads == full", "there is no setting or fact 'full'"},
           Row{"heads == 2 and", "ends too early"},
           Row{"(heads == 2", "')' is missing"},
           Row{"heads == 2)", "more after its end"},
           Row{"recompute in [full", "']' is missing"},
           Row{"recompute in []", "item of the list is missing"},
           Row{"has(heads, 2)", "has() needs a list"},
           Row{"sqrt(heads) == 2", "no function 'sqrt'"},
           Row{"heads and recompute == full", "'and' needs true or false"},
           Row{"recompute + 1 == 2", "arithmetic needs a number"},
           Row{"framework == 'x", "quote is not closed"},
           Row{"", "ends too early"},
           Row{deep.c_str(), "nested too deeply"},
           Row{wide.c_str(), ""},
       }) {
    const std::string text = row.text;
    CAPTURE(text);
    const auto made = Expression::condition(text, place);
    REQUIRE(!made.ok());
    const std::string reason = made.error().reason();
    CAPTURE(reason);
    CHECK(reason.find(row.reason) != std::string::npos);
    REQUIRE(made.error().place());
    CHECK(made.error().place()->line == 7);
  }
}

TEST_CASE("an expression tells which names it lacks and whether it always has a value") {
  const auto made = Expression::condition("world > 1 and default(context_parallel, 1) < world * heads", {});
  REQUIRE(made.ok());
  const RunConfig settings = config();
  const Facts none;
  CHECK(made->missing({settings, none}) == std::vector<std::string>{"world"});
  CHECK(!made->always_known());
  CHECK(Expression::parse("default(world, 1) * 2", {})->always_known());
  CHECK(Expression::parse("known(world)", {})->always_known());
}

TEST_CASE("a text takes its first form whose values are all known") {
  const auto forms = [](std::vector<std::string> texts) {
    std::vector<TextTemplate> made;
    for (const std::string& text : texts) {
      auto one = TextTemplate::parse(text, {});
      REQUIRE(one.ok());
      made.push_back(std::move(*one));
    }
    return TextForms::make(std::move(made), {});
  };
  const RunConfig settings = config();
  const Facts known = facts();
  const Scope scope{settings, known};
  CHECK(forms({"--tp {tensor_parallel} -> {tensor_parallel * 2}", "--tp doubled"})->render(scope) == "--tp 2 -> 4");
  CHECK(forms({"--mbs {micro_batch}", "{tried} of logits", "halved"})->render(scope) == "2.00 GiB of logits");
  CHECK(forms({"--mbs {micro_batch}", "halved"})->render(scope) == "halved");
  CHECK(forms({"{rollout_memory_fraction} -> {rollout_memory_fraction / 4}", "less"})->render(scope) == "0.5 -> 0.125");
  CHECK(forms({"{recompute_modules} {sequence_parallel} {default(world, 8)}", "x"})->render(scope) ==
        "[core_attn, mlp] false 8");
  CHECK(forms({"{spaced(with(recompute_modules, mlp, moe))}"})->render(scope) == "core_attn mlp moe");
  CHECK(forms({"[{quoted(with(offload_modules, expert_fc1))}]"})->render(scope) == "[\"expert_fc1\"]");
  CHECK(forms({"{\"stage\": 3} {'a': {}} {"})->render(scope) == "{\"stage\": 3} {'a': {}} {");
  CHECK(!forms({"--mbs {micro_batch}"}).ok());
  CHECK(!forms({}).ok());
  CHECK(!TextTemplate::parse("{micro_batch", {}).ok());
  CHECK(!TextTemplate::parse("{micro_batsh}", {}).ok());
}
