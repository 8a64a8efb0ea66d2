#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "parsers/config/run_config.hpp"
#include "signatures/memory/layer_pattern.hpp"
#include "signatures/memory/layout.hpp"
#include "signatures/memory/stage_split.hpp"

using namespace triage::signatures::memory;
using triage::parsers::ErrorCode;
using triage::parsers::Key;
using triage::parsers::RunConfig;

namespace {

std::string counts(const std::vector<Stage>& stages) {
  std::string text;
  for (const Stage& stage : stages) {
    if (!text.empty()) text += " ";
    for (std::size_t i = 0; i < stage.chunks.size(); ++i)
      text += (i ? "+" : "") + std::to_string(stage.chunks[i].layers.size());
  }
  return text;
}

RunConfig llama() {
  RunConfig config;
  const auto put = [&](Key key, std::int64_t value) { config.set(key, value, "test"); };
  put(Key::layers, 32);
  put(Key::hidden, 4096);
  put(Key::ffn, 14336);
  put(Key::heads, 32);
  put(Key::kv_heads, 8);
  put(Key::vocab, 128256);
  put(Key::seq_length, 8192);
  put(Key::micro_batch, 1);
  return config;
}

}  // namespace

TEST_CASE("layers with experts are read as Python evaluates the pattern") {
  struct Row {
    const char* text;
    std::int64_t layers;
    const char* want;
  };
  for (const Row& row : {Row{"1", 3, "111"}, Row{"2", 5, "10101"}, Row{"[0, 1, 1]", 3, "011"},
                         Row{"([0]*3+[1]*4)", 7, "0001111"}, Row{"([1]+[0]*2)*2", 6, "100100"},
                         Row{"'([0]*1+[1]*1)*2'", 4, "0101"}, Row{"[1]*3", 4, "-"}, Row{"[1", 1, "-"},
                         Row{"[2]", 1, "-"}, Row{"0", 2, "-"}, Row{"[1]*99999999", 4, "-"},
                         Row{"foo", 4, "-"}, Row{"", 4, "-"}}) {
    CAPTURE(std::string(row.text));
    const auto got = layer_pattern(row.text, row.layers);
    std::string text = "-";
    if (got) {
      text.clear();
      for (const bool moe : *got) text += moe ? '1' : '0';
    }
    CHECK(text == std::string(row.want));
  }
}

TEST_CASE("layers are spread over pipeline stages as Megatron does") {
  SplitRules even{8, 0, 4, 2, {}, {}, false, false};
  auto stages = split_layers(even);
  REQUIRE(stages.ok());
  CHECK(counts(*stages) == "1+1 1+1 1+1 1+1");
  CHECK(stages->at(1).chunks[1].layers == std::vector<Count>{5});
  CHECK(stages->at(0).embedding());
  CHECK(stages->at(3).chunks[1].loss);

  SplitRules ends{30, 1, 4, 1, 6, 4, false, false};
  stages = split_layers(ends);
  REQUIRE(stages.ok());
  CHECK(counts(*stages) == "6 10 10 4");
  CHECK(stages->at(1).chunks[0].layers.front() == 6);
  CHECK(stages->at(3).mtp_layers() == 1);

  SplitRules counted{62, 0, 4, 2, {}, {}, true, true};
  stages = split_layers(counted);
  REQUIRE(stages.ok());
  CHECK(counts(*stages) == "7+8 8+8 8+8 8+7");

  CHECK(split_layers({30, 0, 4, 1, {}, {}, false, false}).error().code() == ErrorCode::conflict);
  CHECK(split_layers({32, 0, 4, 3, {}, {}, false, false}).error().code() == ErrorCode::conflict);
  CHECK(split_layers({32, 0, 4, 1, 40, {}, false, false}).error().code() == ErrorCode::conflict);
}

TEST_CASE("a layout string gives the stages") {
  auto stages = read_stage_layout("Et|(tt|)*2tm|L", 5, 6);
  REQUIRE(stages.ok());
  CHECK(counts(*stages) == "1 2 2 1 0");
  CHECK(stages->at(3).mtp_layers() == 1);
  CHECK(stages->at(4).loss());

  stages = read_stage_layout("Et*3|t*2|tt,|L", 2, 7);
  REQUIRE(stages.ok());
  CHECK(counts(*stages) == "3+2 2+0");
  CHECK(stages->at(0).chunks[1].layers == std::vector<Count>{5, 6});
  CHECK(stages->at(1).chunks[1].loss);

  for (const char* text : {"Ettt|L", "Ext|L", "(E", "E(t)*99999999", "Et|t|L", ""}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(read_stage_layout(text, 2, 2).ok());
  }
}

TEST_CASE("shape and layout name what is missing and what cannot be") {
  Assumptions assumptions;
  RunConfig config = llama();
  auto shape = model_shape(config, assumptions);
  REQUIRE(shape.ok());
  CHECK(model_parameters(*shape) == 8030261248);
  CHECK(shape->head_dim == 128);

  config.set(Key::tensor_parallel, std::int64_t{6}, "test");
  auto layout = make_layout(config, *shape, assumptions);
  REQUIRE(layout.ok());
  const auto faults = layout_faults(*layout, *shape);
  REQUIRE(faults.size() == 3);
  CHECK(faults[0] == "32 heads are not divisible by tensor parallel 6");

  config.unset(Key::seq_length);
  CHECK(make_layout(config, *shape, assumptions).error().message() ==
        "the batch is not known: missing seq_length");
  config.unset(Key::hidden);
  config.unset(Key::heads);
  CHECK(model_shape(config, assumptions).error().message() ==
        "the model's shape is not known: missing hidden, heads");
  config = llama();
  config.set(Key::layers, std::int64_t{0}, "test");
  CHECK(model_shape(config, assumptions).error().code() == ErrorCode::conflict);
  config.set(Key::layers, std::int64_t{1} << 60, "test");
  CHECK(model_shape(config, assumptions).error().code() == ErrorCode::conflict);
  config = llama();
  config.set(Key::heads, std::int64_t{30}, "test");
  CHECK(model_shape(config, assumptions).error().code() == ErrorCode::conflict);
  config = llama();
  config.set(Key::tensor_parallel, std::int64_t{1} << 19, "test");
  config.set(Key::context_parallel, std::int64_t{1} << 19, "test");
  CHECK_FALSE(make_layout(config, *model_shape(config, assumptions), assumptions).ok());
}
