// Configuration files and models' config.json from outside bytes, and the memory model over what was read: a made-up number must be no crash
// and no endless loop.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parsers/config/command_line.hpp"
#include "parsers/config/config_file.hpp"
#include "signatures/memory/estimate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto model = [](parsers::RunConfig config) {
    if (!config.has(parsers::Key::micro_batch)) config.set(parsers::Key::micro_batch, std::int64_t{1}, "fuzz");
    if (!config.has(parsers::Key::seq_length)) config.set(parsers::Key::seq_length, std::int64_t{128}, "fuzz");
    (void)signatures::memory::estimate(config);
  };
  for (auto read : {parsers::read_config_file(bytes, "run"), parsers::read_model_config(bytes)})
    if (read.ok()) model(std::move(*read));
  if (size <= 64 * 1024) model(parsers::read_megatron_arguments(parsers::command_words(bytes)));
  return 0;
}
