// OTLP's log bodies, JSON and protobuf.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/http/push/batch.hpp"
#include "daemon/http/push/source_of_labels.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage::daemon::api;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto& batch : {read_otlp_json(bytes), read_otlp_protobuf(bytes)})
    if (batch.ok())
      for (const auto& stream : batch->streams) (void)source_of_labels(stream.labels);
  return 0;
}
