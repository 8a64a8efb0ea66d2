// Transports over TCP sockets, and the certificate of the TLS ones.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "daemon/http/http_config.hpp"
#include "daemon/http/server/transport.hpp"
#include "parsers/base/result.hpp"

namespace triage::daemon::api {

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

std::unique_ptr<Transport> plain_transport(boost::asio::ip::tcp::socket socket);
std::unique_ptr<Transport> tls_transport(boost::asio::ip::tcp::socket socket, TlsContext context);

// TLS 1.2 and 1.3 with the configured certificate; null without one. Errors: io (a file cannot be read, the key is another's).
parsers::Result<TlsContext> load_tls(const HttpConfig& config);

}  // namespace triage::daemon::api
