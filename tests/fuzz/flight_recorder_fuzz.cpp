// Flight recorder dumps (pickle and JSON) and error.json from outside bytes; what was read is judged beside a healthy peer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parsers/snapshot/elastic_error.hpp"
#include "signatures/verdict/dump_finding.hpp"
#include "signatures/verdict/flight_recorder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)parsers::read_elastic_error(bytes, "fuzz");
  auto recording = parsers::read_flight_recorder(bytes, "fuzz");
  if (!recording.ok()) return 0;
  parsers::Recording peer = *recording;
  if (!peer.pending.empty()) peer.pending.pop_back();
  const signatures::RankRecording ranks[] = {{recording->rank.value_or(0), &*recording}, {1, &peer}};
  (void)signatures::judge_recordings(ranks);
  (void)signatures::finding_of_recording(std::move(recording).value(), 0);
  return 0;
}
