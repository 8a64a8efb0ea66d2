#include "daemon/http/server.hpp"

#include <thread>
#include <utility>

#include "daemon/http/server/listener.hpp"
#include "daemon/http/server/shared.hpp"
#include "daemon/http/server/upload_file.hpp"

namespace triage::daemon::api {

using parsers::Result;
using parsers::Status;

namespace {
constexpr auto kStopTime = std::chrono::milliseconds(1900);
}

struct Server::Impl {
  Impl(const HttpConfig& config, const std::vector<HttpToken>& tokens, const Routes& routes, EventHub& hub, metrics::Registry& registry, std::function<void(const AccessRecord&)> log)
      : shared(config, tokens, routes, hub, registry, std::move(log)), listener(shared) {}
  ~Impl() {
    stop();
    // Handlers that still run are waited for here: they hand their answers to the listener.
    shared.join_lanes();
  }

  bool stop() {
    if (std::exchange(stopped, true)) return shared.lanes_idle();
    listener.close_all();
    const auto until = Clock::now() + kStopTime;
    while (Clock::now() < until && (shared.open > 0 || !shared.lanes_idle())) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    listener.stop();
    shared.stop_lanes();   // after the I/O thread: what waits holds connections, and they end here
    return shared.lanes_idle();
  }

  Shared shared;
  Listener listener;   // ends before shared, which its connections use until they end
  bool stopped = false;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(const HttpConfig& config, const Routes& routes, EventHub& hub, metrics::Registry& registry,
                                              std::function<void(const AccessRecord&)> log) {
  std::vector<HttpToken> tokens = config.tokens;
  for (HttpToken& token : tokens) {
    auto secret = read_secret(token.secret);
    if (!secret.ok()) return std::move(secret).error().context("reading the token '" + token.name + "'");
    token.secret = std::move(secret).value();
  }
  auto impl = std::make_unique<Impl>(config, tokens, routes, hub, registry, std::move(log));
  if (!config.upload_folder.empty())
    if (Status status = UploadFile::prepare(config.upload_folder); !status.ok()) return std::move(status).error();
  if (Status status = impl->listener.open(); !status.ok()) return std::move(status).error();
  impl->shared.start_lanes();
  impl->listener.run();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::vector<int> Server::ports() const { return impl_->listener.ports(); }
Status Server::reload_tls() { return impl_->listener.reload_tls(); }
bool Server::stop() { return impl_->stop(); }

}  // namespace triage::daemon::api
