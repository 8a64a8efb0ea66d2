// Flight recorder dumps (pickle and JSON) from outside bytes; what was read is judged beside peers that differ from it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "signatures/verdict/dump_finding.hpp"
#include "signatures/verdict/flight_recorder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)parsers::looks_like_recorder_json(bytes.substr(0, 4096));
  (void)parsers::looks_like_recorder_pickle(bytes.substr(0, 4096));
  auto recording = parsers::read_flight_recorder(bytes, "fuzz");
  if (!recording.ok()) return 0;
  parsers::Recording peer = *recording, idle = *recording, ahead = *recording;
  if (!peer.pending.empty()) peer.pending.pop_back();
  idle.pending.clear();
  if (!ahead.pending.empty()) ahead.pending.front().sequence += 1;
  const signatures::RankRecording ranks[] = {{recording->rank.value_or(0), &*recording}, {1, &peer}, {2, &idle}, {3, &ahead}};
  (void)signatures::judge_recordings(ranks);
  (void)signatures::finding_of_recording(std::move(recording).value(), 0);
  return 0;
}
