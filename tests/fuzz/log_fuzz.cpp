// A whole log from outside bytes: lines, prefixes, blocks, configuration lines and all shipped rules, then the judgement, the plan and the
// answer in each form.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/cli/view.hpp"
#include "daemon/http/json_view.hpp"
#include "tests/support/scan.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  const daemon::Answer answer = tests::scan_text({reinterpret_cast<const char*>(data), size}, 4096, "job-7/node3/rank2.log");
  for (const daemon::JudgedIncident& incident : answer.incidents) {
    const double sure = incident.diagnosis.confidence;
    if (!(sure >= 0 && sure <= 1)) std::abort();
  }
  for (const bool all : {false, true}) {
    daemon::TextStyle style;
    style.all = all;
    (void)daemon::answer_text(answer, style);
  }
  (void)daemon::answer_markdown(answer);
  (void)daemon::json_text(daemon::answer_sarif(answer), -1);
  (void)daemon::json_text(daemon::answer_json(answer, "hash"), -1);
  return 0;
}
