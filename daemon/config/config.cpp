#include "daemon/config/config.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "daemon/config/environment_file.hpp"
#include "daemon/config/fields.hpp"
#include "parsers/base/yaml_text.hpp"

namespace triage::daemon {

using std::chrono::milliseconds;
using parsers::YamlNode;

namespace {

constexpr std::size_t kConfigBytes = 1 << 20;   // limit

const YamlNode& section(Fields& fields, std::string_view key) {
  static const YamlNode kNone;
  const YamlNode* const node = fields.find(key);
  return node ? *node : kNone;
}

void read_retention(const YamlNode& node, db::RetentionLimits& limits, std::vector<parsers::Error>& faults) {
  Fields fields(node, "retention", faults);
  constexpr milliseconds kHour{3'600'000}, kYears{10LL * 365 * 24 * 3'600'000};
  milliseconds age{90LL * 24 * 3'600'000}, sources{14LL * 24 * 3'600'000};
  fields.duration("incidents_age", age, kHour, kYears);
  fields.duration("sources_age", sources, kHour, kYears);
  std::int64_t incidents = 100'000;
  fields.count("incidents", incidents, 100, 100'000'000);
  std::uint64_t bytes = 4ULL << 30;
  fields.bytes("size", bytes, 16 << 20);
  limits.age = std::chrono::duration_cast<std::chrono::seconds>(age);
  limits.sources_age = std::chrono::duration_cast<std::chrono::seconds>(sources);
  limits.incidents = incidents;
  limits.bytes = bytes;
}

void read_incidents(const YamlNode& node, DeskOptions& desk, std::vector<parsers::Error>& faults) {
  Fields fields(node, "incidents", faults);
  milliseconds quiet = desk.quiet, late = desk.late, settle = desk.settle;
  fields.duration("close_after", quiet, milliseconds(1000), milliseconds(86'400'000));
  fields.duration("late", late, milliseconds(0), milliseconds(7 * 86'400'000LL));
  fields.duration("settle", settle, milliseconds(10), milliseconds(600'000));
  desk.quiet = std::chrono::ceil<std::chrono::seconds>(quiet);
  desk.late = std::chrono::ceil<std::chrono::minutes>(late);
  desk.settle = settle;
}

}  // namespace

std::string needs_restart(const ServiceConfig& running, const ServiceConfig& wanted) {
  std::string out;
  const auto add = [&out](bool differs, const char* section) {
    if (differs) out += (out.empty() ? "" : ", ") + std::string(section);
  };
  add(running.database != wanted.database || running.move_damaged_aside != wanted.move_damaged_aside || running.mask_stored != wanted.mask_stored, "database");
  add(running.http != wanted.http, "http");
  add(running.desk != wanted.desk, "incidents");
  add(running.workers != wanted.workers, "workers");
  add(running.sources.kernel_log != wanted.sources.kernel_log || running.sources.journal != wanted.sources.journal, "sources: kernel_log, journal");
  return out;
}

ReadConfig read_service_config(const std::string& text, const std::string& name, const SecretLookup& lookup) {
  ReadConfig out;
  auto yaml = parsers::read_yaml(text, name);
  if (!yaml.ok()) {
    out.faults.push_back(std::move(yaml).error());
    return out;
  }
  ServiceConfig& config = out.config;
  Fields fields(*yaml, "the configuration", out.faults);
  if (const YamlNode* const database = fields.find("database")) {
    if (database->kind == YamlNode::Kind::scalar) {
      config.database = database->scalar;
    } else {
      Fields inner(*database, "database", out.faults);
      inner.text("path", config.database);
      inner.flag("move_damaged_aside", config.move_damaged_aside);
      inner.flag("mask", config.mask_stored);
    }
  }
  fields.texts("rules", config.rules);
  config.sources = read_source_config(section(fields, "sources"), out.faults);
  config.http = api::read_http_config(section(fields, "http"), out.faults);
  if (config.http.upload_folder.empty()) config.http.upload_folder = std::filesystem::path(config.database).parent_path() / "uploads";
  config.alerts = read_alert_config(section(fields, "alerts"), out.faults, lookup);
  read_retention(section(fields, "retention"), config.retention, out.faults);
  read_incidents(section(fields, "incidents"), config.desk, out.faults);
  std::int64_t workers = 0;
  fields.count("workers", workers, 0, 64);
  config.workers = static_cast<unsigned>(workers);
  if (const YamlNode* const log = fields.find("log")) {
    Fields inner(*log, "log", out.faults);
    inner.text("level", config.log_level);
    if (config.log_level != "debug" && config.log_level != "info" && config.log_level != "warn" && config.log_level != "error")
      inner.fault(*log, "'" + config.log_level + "' is no level of the log", "debug, info, warn or error");
  }
  return out;
}

ReadConfig read_config_file(const std::string& path) {
  ReadConfig out;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in && !std::filesystem::is_directory(path)) {
    text.resize(kConfigBytes);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    in.clear(in.bad() ? std::ios::badbit : std::ios::goodbit);
  }
  if (text.size() == kConfigBytes) {
    out.faults.push_back(parsers::Error(parsers::ErrorCode::limit, "the configuration is larger than 1 MiB").at(parsers::Place{path, {}, {}, {}, {}}));
    return out;
  }
  if (!in || std::filesystem::is_directory(path)) {
    out.faults.push_back(parsers::Error(parsers::ErrorCode::io, "the configuration cannot be read").at(parsers::Place{path, {}, {}, {}, {}}).because(std::strerror(errno)).help("name another with --config, or check the permission"));
    return out;
  }
  return read_service_config(text, path, secrets_beside(std::filesystem::path(path).parent_path()));
}

}  // namespace triage::daemon
