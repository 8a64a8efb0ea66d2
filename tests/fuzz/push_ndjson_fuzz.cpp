// Records of HTTP sinks.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/http/push/batch.hpp"
#include "daemon/http/push/source_of_labels.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage::daemon::api;
  const auto batch = read_ndjson(std::string_view(reinterpret_cast<const char*>(data), size), {{"job", "j"}});
  if (batch.ok())
    for (const auto& stream : batch->streams) (void)source_of_labels(stream.labels);
  return 0;
}
