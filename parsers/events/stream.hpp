// Stream: which process's output a block stands in, as far as the prefixes tell. Used by the readers of several lines of this folder.
#pragma once

#include <cstdint>

#include "parsers/records/record.hpp"
#include "parsers/records/stream_key.hpp"

namespace triage::parsers {

class Stream {
 public:
  void open(const Record& record) { key_ = stream_key(record); }
  bool holds(const Record& record) const { return stream_key(record) == key_; }

 private:
  std::uint64_t key_ = 0;
};

}  // namespace triage::parsers
