#include "daemon/runtime/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "parsers/base/visible.hpp"

namespace triage::daemon {

namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> made = [] {
    auto out = std::make_shared<spdlog::logger>("triaged", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    out->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    out->flush_on(spdlog::level::info);
    return out;
  }();
  return *made;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

void set_log_level(const std::string& level) { logger().set_level(spdlog::level::from_str(level)); }

void log_line(LogLevel level, const std::string& text) { logger().log(level_of(level), spdlog::string_view_t(parsers::visible(text))); }

}  // namespace triage::daemon
