// The routes of the service: /api/v1, the push receivers, /healthz, /readyz, /metrics and the page. Every route stands in
// deploy/openapi/triaged.yaml, and a test compares both.
#pragma once

#include <memory>
#include <span>

#include "daemon/http/http_config.hpp"
#include "daemon/http/message.hpp"
#include "daemon/http/push_sink.hpp"
#include "daemon/http/service_view.hpp"
#include "daemon/metrics/registry.hpp"
#include "parsers/base/embedded_file.hpp"

namespace triage::daemon::api {

// What the routes work on. All of it outlives the Routes.
struct ApiParts {
  ServiceView& view;
  PushSink& sink;
  metrics::Registry& registry;
  HttpConfig config;
  std::span<const parsers::EmbeddedFile> page;   // files of the page; "index.html" is its start; empty: no page
};

Routes make_routes(const ApiParts& parts);

// The files of the page that are compiled in; none when it was built without Node.js.
std::span<const parsers::EmbeddedFile> page_files();

// The OpenAPI document that is compiled in.
std::string_view openapi_text();

}  // namespace triage::daemon::api
