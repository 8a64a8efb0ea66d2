#include <doctest/doctest.h>

#include <string>

#include "signatures/memory/alloc_conf.hpp"

using triage::parsers::Bytes;
using triage::signatures::AllocConf;
using triage::signatures::block_size;
using triage::signatures::read_alloc_conf;
using triage::signatures::segment_size;
using triage::signatures::settings_text;

namespace {
constexpr std::int64_t kMiB = 1 << 20;
}

TEST_CASE("allocator settings are read as PyTorch writes them, and printed in one form") {
  const struct {
    const char *text, *want;
  } rows[] = {
      {"", "default"},
      {"default", "default"},
      {" , ", "default"},
      {"expandable_segments:True", "expandable_segments:True"},
      {"expandable_segments=true", "expandable_segments:True"},
      {"expandable_segments:False", "default"},
      {"backend:native,max_split_size_mb: 128", "max_split_size_mb:128"},
      {"max_split_size_mb:-1", "default"},
      {"garbage_collection_threshold:0.6,max_split_size_mb:512", "max_split_size_mb:512,garbage_collection_threshold:0.6"},
      {"roundup_power2_divisions:4", "roundup_power2_divisions:4"},
      {"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
       "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"},
      {"roundup_power2_divisions:[1:0,2:4,32768:2]", "roundup_power2_divisions:[1:0,2:4,4:0,8:0,16:0,32:0,64:0,128:0,256:0,512:0,1024:0,2048:0,4096:0,8192:0,16384:0,>:2]"},
      {"roundup_power2_divisions:[1:8,>:2]", "roundup_power2_divisions:[1:8,>:2]"},
      {"pinned_use_cuda_host_register:True,pinned_num_register_threads:8", "default"},
      {"per_process_memory_fraction:0.2,memory_limit=40GiB", "per_process_memory_fraction:0.2,memory_limit:42949672960"},
      {"large_segment_size_mb:40", "large_segment_size_mb:40"},
      {"max_non_split_rounding_mb:30,max_split_size_mb:100", "max_split_size_mb:100,max_non_split_rounding_mb:30"},
  };
  for (const auto& row : rows) {
    const std::string text = row.text;
    CAPTURE(text);
    const auto conf = read_alloc_conf(text);
    REQUIRE(conf.ok());
    CHECK(settings_text(*conf) == row.want);
    const auto again = read_alloc_conf(settings_text(*conf));
    REQUIRE(again.ok());
    CHECK(*again == *conf);
  }
}

TEST_CASE("wrong allocator settings are told, an unknown key with the one that was meant") {
  const struct {
    const char *text, *message, *help;
  } rows[] = {
      {"expandable_segment:True", "unknown allocator setting 'expandable_segment'", "did you mean expandable_segments?"},
      {"max_split_size:128", "unknown allocator setting 'max_split_size'", "did you mean max_split_size_mb?"},
      {"zzz:1", "unknown allocator setting 'zzz'", ""},
      {"max_split_size_mb:19", "max_split_size_mb must be a whole number of MiB, at least 20", ""},
      {"max_split_size_mb:99999999999999999999", "max_split_size_mb must be a whole number of MiB, at least 20", ""},
      {"expandable_segments:1", "expandable_segments must be True or False", ""},
      {"expandable_segments", "allocator setting 'expandable_segments' has no value (KEY:VALUE is expected)", ""},
      {"garbage_collection_threshold:1.0", "garbage_collection_threshold must be a number between 0 and 1", ""},
      {"garbage_collection_threshold:nan", "garbage_collection_threshold must be a number between 0 and 1", ""},
      {"roundup_power2_divisions:3", "roundup_power2_divisions must be a power of two", ""},
      {"roundup_power2_divisions:[256:1", "a bracket is not closed in the allocator settings", ""},
      {"roundup_power2_divisions:[3:1]", "roundup_power2_divisions: a boundary must be a power of two (MiB)", ""},
      {"backend:cudaMallocAsync", "only the native allocator can be replayed, not backend 'cudaMallocAsync'", ""},
      {"memory_limit:-5", "memory_limit must be an amount of memory (40GiB, or bytes)", ""},
      {"large_segment_size_mb:64,max_split_size_mb:32", "max_split_size_mb must not be smaller than large_segment_size_mb", ""},
      {"]]]", "brackets that do not match in the allocator settings", ""},
  };
  for (const auto& row : rows) {
    const std::string text = row.text;
    CAPTURE(text);
    const auto conf = read_alloc_conf(text);
    REQUIRE_FALSE(conf.ok());
    CHECK(conf.error().message() == row.message);
    CHECK(conf.error().help_text() == row.help);
  }
  CHECK_FALSE(read_alloc_conf(std::string(5000, 'a')).ok());
}

TEST_CASE("sizes of blocks and segments") {
  const AllocConf plain;
  AllocConf divided;
  divided.roundup_power2_divisions.fill(4);
  AllocConf powers;
  powers.roundup_power2_divisions.fill(1 << 29);   // more steps than bytes: up to the next power of two never happens
  const struct {
    std::int64_t bytes, block, segment, divided;
  } rows[] = {
      {0, 512, 2 * kMiB, 512},
      {513, 1024, 2 * kMiB, 1024},
      {2049, 2560, 2 * kMiB, 2560},
      {1200 << 10, 1200 << 10, 20 * kMiB, 1280 << 10},
      {kMiB, kMiB, 2 * kMiB, kMiB},
      {kMiB + 1, kMiB + 512, 20 * kMiB, kMiB + 256 * 1024},
      {10 * kMiB - 1, 10 * kMiB, 10 * kMiB, 10 * kMiB},
      {10 * kMiB, 10 * kMiB, 10 * kMiB, 10 * kMiB},
      {11 * kMiB, 11 * kMiB, 12 * kMiB, 12 * kMiB},
      {(std::int64_t{100} << 30) + 1, (std::int64_t{100} << 30) + 512, (std::int64_t{100} << 30) + 2 * kMiB, std::int64_t{112} << 30},
  };
  for (const auto& row : rows) {
    CAPTURE(row.bytes);
    CHECK(block_size(row.bytes, plain) == row.block);
    CHECK(segment_size(row.block, plain) == row.segment);
    CHECK(block_size(row.bytes, divided) == row.divided);
    CHECK(block_size(row.bytes, powers) >= row.bytes);
  }
}
