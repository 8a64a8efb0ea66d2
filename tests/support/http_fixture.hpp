// A server with the whole API over a fake service, on a free port of loopback.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "daemon/http/api.hpp"
#include "daemon/http/server.hpp"
#include "tests/support/fake_service.hpp"
#include "tests/support/http_client.hpp"

namespace triage::tests {

inline api::HttpConfig test_config() {
  api::HttpConfig config;
  config.listen[0].port = 0;
  config.limits.header_s = 1;
  config.limits.idle_s = 2;
  config.limits.stall_s = 1;
  return config;
}

class HttpFixture {
 public:
  explicit HttpFixture(api::HttpConfig settings = test_config(), std::span<const parsers::EmbeddedFile> page = {}) {
    std::string pattern = (std::filesystem::temp_directory_path() / "triage-http-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    folder = pattern;
    if (settings.upload_folder.empty()) settings.upload_folder = folder + "/uploads";
    config = settings;
    routes = api::make_routes(api::ApiParts{service, service, registry, config, page});
    auto started = api::Server::start(config, routes, service.hub, registry);
    if (!started.ok()) throw std::runtime_error(started.error().message() + ": " + started.error().reason());
    server = std::move(started).value();
    port = server->ports()[0];
  }
  ~HttpFixture() {
    server.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  double refused(const char* reason) { return registry.counter(daemon::metrics::kHttpRefused, {reason}).value(); }

  std::string folder;
  api::HttpConfig config;
  FakeService service;
  daemon::metrics::Registry registry;
  api::Routes routes;
  std::unique_ptr<api::Server> server;
  int port = 0;
};

}  // namespace triage::tests
