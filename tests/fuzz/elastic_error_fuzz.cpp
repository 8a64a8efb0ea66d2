// torchelastic's error.json from outside bytes, and the JSON tree below it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "parsers/base/limits.hpp"
#include "parsers/snapshot/elastic_error.hpp"
#include "parsers/snapshot/recorder_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage::parsers;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)looks_like_elastic_error(bytes.substr(0, 512));
  const auto error = read_elastic_error(bytes, "fuzz");
  if (!error.ok()) return 0;
  if (error->message.size() > limits::kElasticErrorText * 3 || (error->message.empty() && error->callstack.empty())) std::abort();
  return 0;
}
