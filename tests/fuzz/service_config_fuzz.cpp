// The service's configuration from outside bytes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/config/config.hpp"
#include "parsers/base/error_text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  const daemon::ReadConfig read = daemon::read_service_config(std::string(reinterpret_cast<const char*>(data), size), "triaged.yaml");
  (void)parsers::error_text(read.faults);
  (void)daemon::needs_restart(daemon::ServiceConfig(), read.config);
  return 0;
}
