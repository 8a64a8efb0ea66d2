// Packs bytes as gzip does.
#pragma once

#include <zlib.h>

#include <cstdlib>
#include <string>

namespace triage::tests {

inline std::string gzipped(std::string text) {
  std::string packed(compressBound(static_cast<uLong>(text.size())) + 64, '\0');
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace triage::tests
