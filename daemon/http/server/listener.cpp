#include "daemon/http/server/listener.hpp"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "daemon/http/server/connection.hpp"
#include "daemon/http/server/socket_transport.hpp"

namespace triage::daemon::api {

namespace asio = boost::asio;
using boost::system::error_code;
using parsers::Error;
using parsers::ErrorCode;
using parsers::Status;
using tcp = asio::ip::tcp;

namespace {

constexpr std::size_t kRefusals = 64;                          // connections that are being told 503 at the same time
constexpr int kBacklog = 1024;                                 // connections that wait in the kernel
constexpr auto kSweep = std::chrono::milliseconds(100);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // after a failed accept: no descriptors, mostly

}  // namespace

struct Listener::Impl {
  explicit Impl(Shared& server) : shared(server), sweeper(io) {}

  struct Door {
    explicit Door(asio::io_context& io) : acceptor(io), pause(io) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
  };

  Status bind(const ListenAddress& at);
  void accept(Door& door);
  void accepted(tcp::socket socket);
  void sweep();

  Shared& shared;
  asio::io_context io{1};
  TlsContext tls;
  std::vector<std::unique_ptr<Door>> doors;
  std::vector<int> ports;
  asio::steady_timer sweeper;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::atomic<bool> wake_pending = false;
  int hub_token = 0;
  std::thread thread;
};

Listener::Listener(Shared& shared) : impl_(std::make_unique<Impl>(shared)) {
  shared.post = [&io = impl_->io](std::function<void()> task) { asio::post(io, std::move(task)); };
}

Listener::~Listener() { stop(); }

const std::vector<int>& Listener::ports() const { return impl_->ports; }

Status Listener::open() {
  auto context = load_tls(impl_->shared.config);
  if (!context.ok()) return std::move(context).error();
  impl_->tls = std::move(context).value();
  for (const ListenAddress& at : impl_->shared.config.listen)
    if (Status status = impl_->bind(at); !status.ok()) return status;
  return parsers::done();
}

Status Listener::Impl::bind(const ListenAddress& at) {
  error_code ec;
  const auto fault = [&](const char* doing) {
    return Error(ErrorCode::io, std::string("the service cannot ") + doing + " " + at.address + ":" + std::to_string(at.port)).because(ec.message());
  };
  const auto address = asio::ip::make_address(at.address, ec);
  if (ec) return fault("read the address");
  const tcp::endpoint endpoint(address, static_cast<unsigned short>(at.port));
  auto door = std::make_unique<Door>(io);
  door->acceptor.open(endpoint.protocol(), ec);
  if (ec) return fault("open a socket for");
  door->acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (address.is_v6()) door->acceptor.set_option(asio::ip::v6_only(true), ec);
  door->acceptor.bind(endpoint, ec);
  if (ec) return fault("bind to");
  door->acceptor.listen(kBacklog, ec);
  if (ec) return fault("listen on");
  ports.push_back(door->acceptor.local_endpoint(ec).port());
  doors.push_back(std::move(door));
  return parsers::done();
}

void Listener::run() {
  Impl& self = *impl_;
  self.work.emplace(self.io.get_executor());
  self.sweep();
  for (const auto& door : self.doors) self.accept(*door);
  self.hub_token = self.shared.hub.listen([&self] {
    if (self.wake_pending.exchange(true)) return;
    asio::post(self.io, [&self] {
      self.wake_pending = false;
      self.shared.wake_streams();
    });
  });
  self.thread = std::thread([&self] {
    for (;;) {
      try {
        self.io.run();
        return;
      } catch (const std::exception&) {
        self.shared.refused("internal");   // of one connection; the others go on
      }
    }
  });
}

void Listener::Impl::sweep() {
  shared.sweep();
  sweeper.expires_after(kSweep);
  sweeper.async_wait([this](error_code ec) {
    if (!ec) sweep();
  });
}

void Listener::Impl::accept(Door& door) {
  if (shared.stopping) return;
  door.acceptor.async_accept([this, &door](error_code ec, tcp::socket socket) {
    if (shared.stopping || ec == asio::error::operation_aborted) return;
    if (!ec) {
      accepted(std::move(socket));
      return accept(door);
    }
    shared.refused("accept");
    if (ec == asio::error::no_descriptors) shared.idle_gives_way();
    door.pause.expires_after(kAcceptPause);   // connections wait in the kernel meanwhile
    door.pause.async_wait([this, &door](error_code) { accept(door); });
  });
}

void Listener::Impl::accepted(tcp::socket socket) {
  error_code ec;
  socket.set_option(tcp::no_delay(true), ec);
  const auto peer = socket.remote_endpoint(ec).address();
  if (ec) return;
  const auto own = socket.local_endpoint(ec).address();
  if (ec) return;
  const bool loopback = peer.is_loopback() && own.is_loopback();
  // What gives way ends at once, so the limit is passed by one for that moment.
  const bool room = shared.has_room() || shared.idle_gives_way();
  if (!room) {
    shared.refused("too_many_connections");
    if (tls || shared.refusals >= kRefusals) return;
  }
  auto transport = tls ? tls_transport(std::move(socket), tls) : plain_transport(std::move(socket));
  const auto connection = std::make_shared<Connection>(shared, std::move(transport), loopback, room);
  shared.connections.emplace(connection.get(), connection);
  room ? connection->begin() : connection->turn_away();
}

Status Listener::reload_tls() {
  auto context = load_tls(impl_->shared.config);
  if (!context.ok()) return std::move(context).error();
  asio::post(impl_->io, [impl = impl_.get(), fresh = std::move(context).value()] { impl->tls = fresh; });
  return parsers::done();
}

void Listener::close_all() {
  if (!impl_->thread.joinable()) return;
  impl_->shared.hub.unlisten(impl_->hub_token);
  asio::post(impl_->io, [impl = impl_.get()] {
    error_code ignored;
    for (const auto& door : impl->doors) door->acceptor.close(ignored);
    impl->shared.stop_connections();
  });
}

void Listener::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->io.stop();
  impl_->thread.join();
}

}  // namespace triage::daemon::api
