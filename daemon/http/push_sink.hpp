// What the push receivers hand to the service: streams of lines with the labels that their shipper gave. Implemented by the runtime; called
// from several handler threads at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parsers/base/units.hpp"

namespace triage::daemon {

// A line as it was pushed. May hold line ends: then it is several lines of one record (OTLP bodies, tracebacks).
struct PushedLine {
  std::optional<parsers::TimePoint> time;      // the shipper's clock; empty: not said
  std::string text;                            // any bytes; not repaired
};

struct PushedStream {
  std::vector<std::pair<std::string, std::string>> labels;   // by name; names are unique
  std::vector<PushedLine> lines;                             // in the order of the body
};

struct PushAnswer {
  enum class What {
    accepted,                                  // committed: it survives a kill -9
    busy,                                      // nothing was taken: the sender has to repeat the whole batch after retry_after_s
    refused,                                   // nothing was taken, and never will be; why says the reason
  };
  What what = What::accepted;
  int retry_after_s = 1;                       // of busy
  std::string why;                             // of busy and refused: one sentence
  std::uint64_t rejected = 0;                  // of accepted: lines that were left out (too old, over a limit); why says the reason
  bool repeated = false;                       // of accepted: the same batch had been taken before, nothing was done
};

class PushSink {
 public:
  virtual ~PushSink() = default;
  // Takes all streams or none. Returns after the commit, so accepted means safe. batch_hash: of the decompressed body; the same batch that is
  // sent again after a lost answer is to be taken once.
  virtual PushAnswer offer(std::vector<PushedStream>&& streams, std::uint64_t batch_hash) = 0;
};

}  // namespace triage::daemon
