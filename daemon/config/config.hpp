// The configuration of the service: one YAML file. docs/operating.md lists the keys; deploy/config/triaged.yaml is the commented example.
#pragma once

#include <string>
#include <vector>

#include "daemon/alert/alert_config.hpp"
#include "daemon/http/http_config.hpp"
#include "daemon/runtime/desk.hpp"
#include "daemon/tail/source_config.hpp"
#include "db/retention.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon {

struct ServiceConfig {
  std::string database = "/var/lib/triaged/triaged.db";
  bool move_damaged_aside = false;
  bool mask_stored = false;                     // what is stored is masked as alerts are
  std::vector<std::string> rules;               // files and folders of the user's rules
  SourceConfig sources;
  api::HttpConfig http;
  AlertConfig alerts;
  db::RetentionLimits retention;
  DeskOptions desk;
  unsigned workers = 0;                         // 0: one a core, at most 8
  std::string log_level = "info";
};

struct ReadConfig {
  ServiceConfig config;
  std::vector<parsers::Error> faults;           // all of them; with one the configuration is not to be used
};

// What differs and cannot be changed while the service runs: names of sections, or empty.
std::string needs_restart(const ServiceConfig& running, const ServiceConfig& wanted);

// text: of the file; name: for the places of faults; lookup: of the secrets.
ReadConfig read_service_config(const std::string& text, const std::string& name, const SecretLookup& lookup = system_secret);
// The same of a file, and secrets also from the file `environment` beside it.
ReadConfig read_config_file(const std::string& path);

}  // namespace triage::daemon
