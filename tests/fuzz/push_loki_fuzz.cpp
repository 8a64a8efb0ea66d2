// Loki's push bodies, JSON and protobuf, packed and not.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/http/compression.hpp"
#include "daemon/http/push/batch.hpp"
#include "daemon/http/push/source_of_labels.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage::daemon::api;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto look = [](const auto& batch) {
    if (batch.ok())
      for (const auto& stream : batch->streams) (void)source_of_labels(stream.labels);
  };
  look(read_loki_json(bytes));
  look(read_loki_protobuf(bytes));
  for (const Coding coding : {Coding::gzip, Coding::deflate, Coding::zstd, Coding::snappy})
    if (const auto body = unpack(coding, bytes, 1 << 20); body.ok()) look(read_loki_protobuf(*body));
  return 0;
}
