#include <cstdio>
#include <cstdlib>

#include "daemon/cli/command.hpp"
#include "daemon/config/config.hpp"
#include "daemon/config/secret.hpp"
#include "daemon/http/client.hpp"
#include "daemon/http/json_view.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon {

namespace {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

std::string url_of(const api::HttpConfig& http) {
  if (http.listen.empty()) return "";
  const api::ListenAddress& at = http.listen.front();
  std::string host = at.address == "0.0.0.0" ? "127.0.0.1" : at.address == "::" ? "::1" : at.address;
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return (http.certificate.empty() ? "http://" : "https://") + host + ":" + std::to_string(at.port);
}

Result<Json> ask(const HttpClient& client, const std::string& url, const std::string& token) {
  HttpRequest request;
  request.method = "GET";
  request.url = url;
  if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
  const HttpReply reply = client.send(request, {});
  if (const auto* const fault = std::get_if<SendFault>(&reply))
    return Error(ErrorCode::unavailable, "the service does not answer at " + url).because(fault->why).help("is it running? systemctl status triaged; another address: --url");
  const auto& response = std::get<HttpResponse>(reply);
  Json body = Json::parse(response.body, nullptr, false);
  if (response.status == 401 || response.status == 403) return Error(ErrorCode::unavailable, "the service wants a token").help("give one that may read: --token file:PATH, or TRIAGED_TOKEN");
  if (response.status != 200 || body.is_discarded()) return Error(ErrorCode::unavailable, "what answers at " + url + " is no triaged").because("status " + std::to_string(response.status));
  return body;
}

std::string word(const Json& in, const char* key) {
  const auto at = in.is_object() ? in.find(key) : in.end();
  return at != in.end() && at->is_string() ? parsers::visible(at->get<std::string>()) : std::string();
}

}  // namespace

int status_command(const StatusCommand& command) {
  std::string url = command.url;
  if (url.empty()) {
    const ReadConfig read = read_config_file(command.config);
    url = url_of(read.faults.empty() ? read.config.http : api::HttpConfig());
  }
  while (url.ends_with('/')) url.pop_back();
  std::string token;
  if (!command.token.empty()) {
    auto secret = secret_of(command.token);
    if (!secret.ok()) {
      complain(secret.error());
      return kTrouble;
    }
    token = std::move(*secret);
  } else if (const char* const given = std::getenv("TRIAGED_TOKEN")) {
    token = given;
  }
  const HttpClient client{ClientSettings{}};
  const auto health = ask(client, url + "/api/v1/health", token);
  const auto outbox = health.ok() ? ask(client, url + "/api/v1/outbox", token) : Result<Json>(Json());
  for (const auto* const answer : {&health, &outbox})
    if (!answer->ok()) {
      complain(answer->error());
      return kTrouble;
    }
  const bool alive = health->value("alive", false), ready = health->value("ready", false);
  bool well = alive && ready;
  for (const Json& part : health->value("parts", Json::array())) well = well && part.value("ok", false);
  if (command.format == Format::json) {
    std::printf("%s\n", json_text(Json{{"health", *health}, {"outbox", *outbox}}, 2).c_str());
    return well ? kNothingFound : kFailureFound;
  }
  std::printf("triaged %s at %s: %s\n", word(*health, "version").c_str(), url.c_str(), !alive ? "stuck" : !ready ? "not ready" : well ? "well" : "running, with trouble");
  for (const Json& part : health->value("parts", Json::array()))
    std::printf("  %-14s %s\n", word(part, "part").c_str(), part.value("ok", false) ? "ok" : word(part, "why").c_str());
  return well ? kNothingFound : kFailureFound;
}

}  // namespace triage::daemon
