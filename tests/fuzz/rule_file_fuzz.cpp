// A user's rule file from outside bytes: read, compiled, linted, its examples run; where it has no fault, its rules meet a line.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parsers/base/error_text.hpp"
#include "signatures/match/explain.hpp"
#include "signatures/match/rule_examples.hpp"
#include "signatures/match/rule_lint.hpp"
#include "signatures/match/rule_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  using namespace triage::signatures;
  const RuleFile file{"mine.yaml", {reinterpret_cast<const char*>(data), size}};
  ReadRules read = read_rules({&file, 1});
  const auto set = SignatureSet::compile_rest(std::move(read.rules), {}, read.faults);
  TrialBudget budget(*set, std::chrono::seconds(1));
  std::vector<parsers::Error> faults = check_examples(*set, budget);
  for (parsers::Error& fault : lint(*set, budget)) faults.push_back(std::move(fault));
  if (budget.used_up()) faults.push_back(budget.fault());
  (void)parsers::error_text(faults);
  (void)parsers::error_text(read.faults);
  (void)try_text(*set, "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", &budget);
  return 0;
}
