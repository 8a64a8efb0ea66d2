// Stream: which process's output a block stands in, as far as the prefixes tell. Used by the readers of several lines of this folder.
#pragma once

#include <string>

#include "parsers/records/record.hpp"
#include "parsers/records/stream_key.hpp"

namespace triage::parsers {

class Stream {
 public:
  void open(const Record& record) { stream_key(record, key_); }
  bool holds(const Record& record) {
    stream_key(record, other_);
    return other_ == key_;
  }

 private:
  std::string key_, other_;
};

}  // namespace triage::parsers
