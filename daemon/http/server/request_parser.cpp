#include "daemon/http/server/request_parser.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include "parsers/base/text.hpp"

namespace triage::daemon::api {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// A body for Beast's parser whose bytes are taken away after each portion.
struct PortionBody {
  using value_type = std::string;
  struct reader {
    value_type& body;
    template <bool R, class F>
    reader(http::header<R, F>&, value_type& value) : body(value) {}
    void init(const boost::optional<std::uint64_t>&, error_code& ec) { ec = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& ec) {
      ec = {};
      std::size_t taken = 0;
      for (auto at = asio::buffer_sequence_begin(buffers); at != asio::buffer_sequence_end(buffers); ++at) {
        const asio::const_buffer piece(*at);
        body.append(static_cast<const char*>(piece.data()), piece.size());
        taken += piece.size();
      }
      return taken;
    }
    void finish(error_code& ec) { ec = {}; }
  };
};

}  // namespace

struct RequestParser::Impl {
  http::request_parser<PortionBody> parser;
};

RequestParser::RequestParser(std::size_t header_bytes) : impl_(std::make_unique<Impl>()), header_bytes_(header_bytes) {
  impl_->parser.header_limit(static_cast<std::uint32_t>(header_bytes));
  impl_->parser.body_limit(boost::none);   // the connection knows the route's limit
  impl_->parser.eager(false);
}

RequestParser::~RequestParser() = default;

std::size_t RequestParser::put(std::string_view bytes) {
  if (fault_ != Fault::none) return 0;
  const bool in_header = !impl_->parser.is_header_done();
  error_code ec;
  const std::size_t used = impl_->parser.put(asio::const_buffer(bytes.data(), bytes.size()), ec);
  if (ec && ec != http::error::need_more) {
    fault_ = ec == http::error::header_limit ? Fault::header_too_large : ec == http::error::bad_version ? Fault::bad_version : Fault::malformed;
    fault_text_ = ec.message();
  } else if (in_header) {
    // Beast's own limit starts anew with each portion.
    header_used_ += used;
    if (header_used_ > header_bytes_) fault_ = Fault::header_too_large;
  }
  return used;
}

bool RequestParser::header_done() const { return impl_->parser.is_header_done(); }

RequestHeader RequestParser::header() const {
  const auto& message = impl_->parser.get();
  RequestHeader out;
  out.method = std::string(message.method_string());
  out.target = std::string(message.target());
  out.version = static_cast<int>(message.version());
  out.keep_alive = impl_->parser.keep_alive();
  out.chunked = impl_->parser.chunked();
  out.transfer_coding = message.count(http::field::transfer_encoding) > 0;
  if (const auto length = impl_->parser.content_length()) out.content_length = *length;
  for (const auto& field : message) {
    std::string name = parsers::lower(std::string_view(field.name_string().data(), field.name_string().size()));
    out.hosts += name == "host" ? 1 : 0;
    out.fields.emplace_back(std::move(name), std::string(field.value().data(), field.value().size()));
  }
  return out;
}

void RequestParser::read_body() { impl_->parser.eager(true); }
bool RequestParser::done() const { return impl_->parser.is_done(); }
std::string& RequestParser::portion() { return impl_->parser.get().body(); }

}  // namespace triage::daemon::api
