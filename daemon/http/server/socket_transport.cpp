#include "daemon/http/server/socket_transport.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <string>
#include <utility>

namespace triage::daemon::api {

namespace asio = boost::asio;
using boost::system::error_code;
using parsers::Error;
using parsers::ErrorCode;
using tcp = asio::ip::tcp;

namespace {

// The callback in the form that asio calls.
auto told(Transport::Done done) {
  return [done = std::move(done)](error_code ec, std::size_t size) { done(!ec, size); };
}

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(tcp::socket socket) : socket_(std::move(socket)) {}
  void handshake(std::function<void(bool)> done) override { done(true); }
  void read_some(std::span<char> room, Done done) override { socket_.async_read_some(asio::buffer(room.data(), room.size()), told(std::move(done))); }
  void write_some(std::string_view bytes, Done done) override { socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), told(std::move(done))); }
  void end_writing() override {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    error_code ignored;
    socket_.close(ignored);
  }
  bool is_tls() const override { return false; }

 private:
  tcp::socket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(tcp::socket socket, TlsContext context) : context_(std::move(context)), stream_(std::move(socket), *context_) {}
  void handshake(std::function<void(bool)> done) override {
    stream_.async_handshake(asio::ssl::stream_base::server, [done = std::move(done)](error_code ec) { done(!ec); });
  }
  void read_some(std::span<char> room, Done done) override { stream_.async_read_some(asio::buffer(room.data(), room.size()), told(std::move(done))); }
  void write_some(std::string_view bytes, Done done) override { stream_.async_write_some(asio::buffer(bytes.data(), bytes.size()), told(std::move(done))); }
  void end_writing() override {
    error_code ignored;
    stream_.next_layer().shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    error_code ignored;
    stream_.next_layer().close(ignored);
  }
  bool is_tls() const override { return true; }

 private:
  TlsContext context_;
  asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

std::unique_ptr<Transport> plain_transport(tcp::socket socket) { return std::make_unique<PlainTransport>(std::move(socket)); }
std::unique_ptr<Transport> tls_transport(tcp::socket socket, TlsContext context) { return std::make_unique<TlsTransport>(std::move(socket), std::move(context)); }

parsers::Result<TlsContext> load_tls(const HttpConfig& config) {
  if (config.certificate.empty()) return TlsContext();
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code ec;
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 | asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                           asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression,
                       ec);
  context->use_certificate_chain_file(config.certificate, ec);
  if (ec) return Error(ErrorCode::io, "the certificate " + config.certificate + " cannot be used").because(ec.message());
  context->use_private_key_file(config.key, asio::ssl::context::pem, ec);
  if (ec) return Error(ErrorCode::io, "the key " + config.key + " cannot be used with the certificate").because(ec.message());
  return context;
}

}  // namespace triage::daemon::api
