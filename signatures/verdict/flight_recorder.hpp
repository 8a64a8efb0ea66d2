// Flight recorder dumps of all ranks compared: which call did not complete, who never came to it, who only waits for a waiting one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parsers/snapshot/flight_recorder.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// Looks into the recording of its caller.
struct RankRecording {
  int rank = 0;
  const parsers::Recording* recording = nullptr;
};

// Looks into the recordings: valid while they are.
struct RecorderVerdict {
  CollectiveFault fault;                            // operation, group, number and sizes of the call that was waited in
  bool desync = false;                              // ranks called different things at one number
  bool proven = true;                               // false: a culprit has no dump, as many others have none: it may itself wait for one of them
  std::vector<std::string> reasons;
  std::optional<int> witness;                       // a rank whose dump shows it: the first culprit with a dump, else the first that waits
  const parsers::RecordedOp* waited = nullptr;      // the call that was waited in, of a waiting rank; may be null
  std::vector<parsers::RecordedFrame> stack;        // of the culprit's last call, else of the call that was waited in; innermost first
};

// Empty when nothing is pending anywhere (a dump of a job that is well), or when there is no dump. A rank given twice counts once.
std::optional<RecorderVerdict> judge_recordings(std::span<const RankRecording> recordings);

// One line of what a dump says: the evidence that stands for it.
std::string recording_text(const parsers::Recording& recording, std::optional<int> rank);

}  // namespace triage::signatures
