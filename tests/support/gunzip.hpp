// Test data that is kept packed.
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include <zlib.h>

namespace triage::tests {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("test data is missing: " + path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string gunzip_file(const std::string& path) {
  gzFile in = gzopen(path.c_str(), "rb");
  if (in == nullptr) throw std::runtime_error("test data is missing: " + path);
  std::string out;
  char room[65536];
  int count = 0;
  while ((count = gzread(in, room, sizeof room)) > 0) out.append(room, static_cast<std::size_t>(count));
  gzclose(in);
  if (count < 0) throw std::runtime_error("test data is damaged: " + path);
  return out;
}

}  // namespace triage::tests
