#include "parsers/config/run_config.hpp"

#include <doctest/doctest.h>

using namespace triage::parsers;

TEST_CASE("every key is found by its name and keeps its order") {
  for (std::size_t i = 0; i < all_keys().size(); ++i) {
    CHECK(static_cast<std::size_t>(all_keys()[i].key) == i);
    CHECK(key_by_name(all_keys()[i].name) == all_keys()[i].key);
  }
  CHECK_FALSE(key_by_name("no_such_key"));
}

TEST_CASE("text becomes the key's type, None unsets, nonsense is refused by name") {
  RunConfig config;
  REQUIRE(config.set_text(Key::micro_batch, "4", "test").ok());
  CHECK(config.integer(Key::micro_batch) == 4);
  CHECK(config.number(Key::micro_batch) == 4.0);
  REQUIRE(config.set_text(Key::recompute_modules, "['core_attn', 'mlp']", "test").ok());
  REQUIRE(config.list(Key::recompute_modules));
  CHECK(*config.list(Key::recompute_modules) == std::vector<std::string>{"core_attn", "mlp"});
  REQUIRE(config.set_text(Key::micro_batch, "None", "test").ok());
  CHECK_FALSE(config.has(Key::micro_batch));
  const Status bad = config.set_text(Key::sequence_parallel, "maybe", "test");
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().message() == "sequence_parallel is 'maybe', not true or false");
  CHECK_FALSE(config.set_text(Key::layers, "1e400", "test").ok());
}
