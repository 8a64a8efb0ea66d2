#include "daemon/http/server.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "daemon/http/compression.hpp"
#include "daemon/http/gate.hpp"
#include "daemon/http/lane_pool.hpp"
#include "daemon/http/problem.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;
using parsers::Status;
using tcp = asio::ip::tcp;

namespace {

constexpr std::size_t kBodyRead = 128 * 1024;          // one read of a body
constexpr std::size_t kWritePiece = 256 * 1024;        // one write of an answer
constexpr std::size_t kGzipFrom = 1024;                // smaller answers gain nothing
constexpr std::size_t kDiscard = 4 * 1024 * 1024;      // of a body that is refused, so that the peer can read why
constexpr std::size_t kRefusals = 64;                  // connections that are being told 503 at the same time
constexpr std::size_t kUploads = 4;                    // bodies written to files at the same time
constexpr auto kDiscardTime = std::chrono::seconds(1);
constexpr auto kHeartbeat = std::chrono::seconds(15);  // of event streams: below the time-outs of proxies
constexpr auto kSweep = std::chrono::milliseconds(100);
constexpr auto kStopTime = std::chrono::milliseconds(1900);
constexpr std::string_view kUploadPrefix = "upload-";

Clock::duration seconds(double s) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s)); }

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

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  constexpr std::array<const char*, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  char room[64];
  std::snprintf(room, sizeof room, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                months[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return room;
}

bool worth_packing(const Response& response) {
  if (response.content().size() < kGzipFrom) return false;
  for (const auto& [name, value] : response.headers) {
    if (parsers::equal_ignoring_case(name, "content-encoding")) return false;
    if (parsers::equal_ignoring_case(name, "content-type"))
      return value.find("json") != std::string::npos || value.starts_with("text/") || value.find("javascript") != std::string::npos || value.find("yaml") != std::string::npos;
  }
  return false;
}

std::string_view method_label(std::string_view method) {
  for (const std::string_view known : {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
    if (method == known) return known;
  return "other";
}

}  // namespace

struct Server::Impl {
  class Session;
  class PlainSession;
  class TlsSession;

  Impl(const HttpConfig& settings, std::vector<HttpToken> tokens, const Routes& known_routes, EventHub& events, metrics::Registry& values,
       std::function<void(const AccessRecord&)> access)
      : config(settings),
        routes(known_routes),
        hub(events),
        registry(values),
        log(std::move(access)),
        gate(settings, tokens),
        connections_gauge(values.gauge(metrics::kHttpConnections)),
        streams_gauge(values.gauge(metrics::kHttpStreams)),
        body_bytes(values.counter(metrics::kHttpBodyBytes)) {}

  ~Impl() {
    stop();
    // Handlers that still run are waited for by the lanes' destructors, before the io_context goes.
    for (auto& lane : lanes) lane.reset();
    disk.reset();
  }

  Status open();
  void accept(std::size_t index);
  void accepted(std::size_t index, tcp::socket socket);
  void sweep();
  bool stop();
  void refuse_count(std::string_view reason) { registry.counter(metrics::kHttpRefused, {reason}).add(); }
  static Result<std::shared_ptr<asio::ssl::context>> load_tls(const HttpConfig& config);
  void wake_streams();
  bool reserve(std::uint64_t bytes) {
    std::uint64_t used = memory_used.load();
    do {
      if (used + bytes > config.limits.memory_bytes) return false;
    } while (!memory_used.compare_exchange_weak(used, used + bytes));
    return true;
  }

  const HttpConfig config;
  const Routes& routes;
  EventHub& hub;
  metrics::Registry& registry;
  std::function<void(const AccessRecord&)> log;
  const Gate gate;
  metrics::Gauge& connections_gauge;
  metrics::Gauge& streams_gauge;
  metrics::Counter& body_bytes;

  // On the I/O thread only, but for the atomic ones.
  std::unordered_map<Session*, std::weak_ptr<Session>> sessions;
  std::size_t counted = 0, refusals = 0, streams = 0, uploads = 0;
  std::string date = date_text();
  Clock::time_point date_at = Clock::now();
  bool stopping = false;
  std::atomic<std::uint64_t> memory_used = 0;
  std::atomic<bool> wake_pending = false;
  std::atomic<std::size_t> open_sessions = 0;
  int hub_token = 0;
  bool stopped = false;

  asio::io_context io{1};
  std::shared_ptr<asio::ssl::context> tls;
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
  std::vector<std::unique_ptr<asio::steady_timer>> accept_timers;
  std::vector<int> bound;
  std::optional<asio::steady_timer> sweeper;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::array<std::unique_ptr<LanePool>, kLanes> lanes;   // at_once has none
  std::unique_ptr<LanePool> disk;
  std::thread thread;
};

// One connection. Everything runs on the I/O thread, but for handlers and file writes, during which nothing else touches the session.
class Server::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  using Done = std::function<void(error_code, std::size_t)>;

  Session(Impl& server, bool loopback, bool counted) : server_(server), loopback_(loopback), counted_(counted) {
    if (counted_)
      server_.connections_gauge.set(static_cast<double>(++server_.counted));
    else
      ++server_.refusals;
    ++server_.open_sessions;
  }
  virtual ~Session() {
    end_request();
    if (is_stream_) server_.streams_gauge.set(static_cast<double>(--server_.streams));
    if (counted_)
      server_.connections_gauge.set(static_cast<double>(--server_.counted));
    else
      --server_.refusals;
    server_.sessions.erase(this);
    --server_.open_sessions;
  }

  virtual void begin() = 0;                                       // handshake, then read_header()
  virtual void read_some(asio::mutable_buffer room, Done done) = 0;
  virtual void write_some(asio::const_buffer bytes, Done done) = 0;
  virtual tcp::socket& socket() = 0;
  virtual bool is_tls() const = 0;

  void close() {
    closed_ = true;
    error_code ignored;
    socket().close(ignored);
  }

  // The sweeper's view: called often.
  void check_time(Clock::time_point now) {
    if (closed_) return;
    if (state_ == State::events && stream_waits_ && now - last_write_ >= kHeartbeat) {
      stream_waits_ = false;
      send_events(": still here\n\n");
      return;
    }
    if (now < deadline_) return;
    switch (state_) {
      case State::idle: break;
      case State::header: server_.refuse_count(handshake_done_ ? "slow_header" : "slow_handshake"); break;
      case State::body: server_.refuse_count("slow_body"); break;
      case State::answer:
      case State::events: server_.refuse_count("slow_reader"); break;
      case State::discard: break;
      case State::handler: return;                                // ours, not the peer's
    }
    close();
  }

  void wake() {
    if (state_ == State::events && stream_waits_ && !closed_) pump();
  }

  void server_stops() {
    keep_alive_ = false;
    if (state_ == State::idle || state_ == State::events || state_ == State::discard || (state_ == State::header && in_end_ == in_begin_)) close();
  }

  void read_header() {
    if (closed_) return;
    handshake_done_ = true;
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(server_.config.limits.header_bytes));
    parser_->body_limit(boost::none);
    parser_->eager(false);
    state_ = State::idle;
    deadline_ = Clock::now() + seconds(server_.config.limits.idle_s);
    if (server_.stopping && in_begin_ == in_end_) return close();
    continue_header();
  }

  // Tells a peer that there is no room, without having read its request.
  void turn_away() {
    request_ = {};
    keep_alive_ = false;
    Response response = problem_response(Problem{503, "too_many_connections", "the service has all the connections that it may have", {}, {}, {}, 1});
    respond(std::move(response));
  }

 protected:
  bool handshake_done_ = false;
  Clock::time_point deadline_ = Clock::now() + std::chrono::seconds(10);
  enum class State { idle, header, body, handler, answer, events, discard };
  State state_ = State::header;
  Impl& server_;

 private:
  void room(std::size_t wanted) {
    if (in_begin_ > 0) {
      std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
      in_end_ -= in_begin_;
      in_begin_ = 0;
    }
    if (in_.size() < wanted) in_.resize(wanted);
  }

  void continue_header() {
    if (in_end_ > in_begin_) {
      if (state_ == State::idle) {
        state_ = State::header;
        began_ = Clock::now();
        deadline_ = began_ + seconds(server_.config.limits.header_s);
      }
      error_code ec;
      in_begin_ += parser_->put(asio::const_buffer(in_.data() + in_begin_, in_end_ - in_begin_), ec);
      if (ec && ec != http::error::need_more) return header_fault(ec);
      if (!ec && parser_->is_header_done()) return header_read();
    }
    const std::size_t most = server_.config.limits.header_bytes + 4096;
    room(std::min<std::size_t>(most, std::max<std::size_t>(4096, (in_end_ - in_begin_) * 2)));
    if (in_end_ == in_.size()) return header_fault(http::error::header_limit);
    read_some(asio::buffer(in_.data() + in_end_, in_.size() - in_end_), [self = shared_from_this()](error_code ec, std::size_t size) {
      if (ec || self->closed_) return self->close();
      self->in_end_ += size;
      self->continue_header();
    });
  }

  void header_fault(error_code ec) {
    request_ = {};
    keep_alive_ = false;
    discard_body_ = true;
    Problem problem{400, "bad_request", "the request's header cannot be read", ec.message()};
    if (ec == http::error::header_limit) problem = Problem{431, "header_too_large", "the request's header is larger than " + std::to_string(server_.config.limits.header_bytes) + " bytes"};
    if (ec == http::error::bad_version) problem = Problem{505, "bad_version", "only HTTP/1.0 and HTTP/1.1 are spoken here"};
    server_.refuse_count(problem.code);
    respond(problem_response(problem));
  }

  void header_read() {
    const auto& message = parser_->get();
    request_ = {};
    request_.method = std::string(message.method_string());
    request_.loopback = loopback_;
    request_.tls = is_tls();
    request_.keep_alive = keep_alive_ = parser_->keep_alive() && !server_.stopping;
    int hosts = 0;
    for (const auto& field : message) {
      std::string name = parsers::lower(std::string_view(field.name_string().data(), field.name_string().size()));
      hosts += name == "host" ? 1 : 0;
      request_.headers.emplace_back(std::move(name), std::string(field.value().data(), field.value().size()));
    }
    route_ = nullptr;
    has_body_ = parser_->chunked() || parser_->content_length().value_or(0) > 0;
    discard_body_ = has_body_;
    if (hosts > 1) return refuse(Problem{400, "bad_host", "the request has more than one Host"});
    if (message.count(http::field::transfer_encoding) > 0 && !parser_->chunked())
      return refuse(Problem{501, "bad_transfer_encoding", "of transfer codings only chunked is understood"});
    auto target = read_target(std::string_view(message.target().data(), message.target().size()));
    if (!target.ok()) {
      const bool limit = target.error().code() == ErrorCode::limit;
      return refuse(Problem{limit ? 414 : 400, limit ? "target_too_long" : "bad_target", target.error().message(), target.error().reason()});
    }
    request_.target = std::move(target).value();
    auto found = server_.routes.find(request_.method, request_.target);
    route_ = found.route;
    request_.parameters = std::move(found.parameters);
    if (auto problem = server_.gate.check(request_, route_)) {
      server_.refuse_count(problem->code);
      Response response = problem_response(*problem);
      if (problem->status == 401) response.set("WWW-Authenticate", "Bearer realm=\"triaged\"");
      if (has_body_) keep_alive_ = false;
      return respond(std::move(response));
    }
    if (!route_) return no_route(found.allow);
    if (route_->body == BodyKind::none) {
      if (has_body_) return refuse(Problem{400, "body_not_taken", "this takes no body"});
      return dispatch();
    }
    if (route_->body == BodyKind::unread) return dispatch();
    begin_body();
  }

  void no_route(const std::string& allow) {
    if (has_body_) keep_alive_ = false;
    if (allow.empty()) return respond(problem_response(Problem{404, "no_such_path", "there is nothing under this path", {}, "the paths stand in /api/v1/openapi.yaml"}));
    Response response;
    if (request_.method == "OPTIONS")
      response.status = 204;
    else
      response = problem_response(Problem{405, "method_not_allowed", "this path does not take " + std::string(method_label(request_.method))});
    response.set("Allow", allow);
    respond(std::move(response));
  }

  void refuse(const Problem& problem) {
    keep_alive_ = keep_alive_ && !has_body_;
    server_.refuse_count(problem.code);
    respond(problem_response(problem));
  }

  Problem too_large() const {
    return Problem{413, "body_too_large", "the body is larger than " + std::to_string(route_->body_limit) + " bytes", {}, "send it in smaller parts"};
  }

  void begin_body() {
    const auto length = parser_->content_length();
    if (length && *length > route_->body_limit) return refuse(too_large());
    const std::string_view expect = request_.header("expect");
    if (!expect.empty() && !parsers::equal_ignoring_case(expect, "100-continue")) return refuse(Problem{417, "bad_expect", "of expectations only 100-continue is understood"});
    if (route_->body == BodyKind::memory) {
      if (!hold(length.value_or(0))) return refuse(busy("bodies of other requests fill the memory that they may take"));
      request_.body.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(length.value_or(0), 1024 * 1024)));
    } else {
      if (server_.uploads >= kUploads) return refuse(busy("other uploads are under way"));
      ++server_.uploads;
      is_upload_ = true;
    }
    parser_->eager(true);
    state_ = State::body;
    body_began_ = Clock::now();
    if (has_body_ && !expect.empty() && parser_->get().version() == 11) {
      out_ = "HTTP/1.1 100 Continue\r\n\r\n";
      deadline_ = Clock::now() + seconds(server_.config.limits.stall_s);
      return write_all(out_, [self = shared_from_this()] { self->open_body(); });
    }
    open_body();
  }

  static Problem busy(std::string why) { return Problem{503, "busy", std::move(why), {}, {}, {}, 1}; }

  void open_body() {
    if (!is_upload_) return continue_body();
    on_disk([this] {
      std::string name = server_.config.upload_folder + "/" + std::string(kUploadPrefix) + "XXXXXX";
      file_ = ::mkostemp(name.data(), O_CLOEXEC);
      if (file_ < 0)
        disk_error_ = errno;
      else
        request_.body_file = name;
    });
  }

  // Runs work on the disk thread, then goes on reading.
  void on_disk(std::function<void()> work) {
    state_ = State::handler;
    const bool posted = server_.disk->post([self = shared_from_this(), work = std::move(work)]() mutable {
      work();
      Impl& server = self->server_;
      asio::post(server.io, [self = std::move(self)] { self->disk_done(); });   // moved: a session ends on the I/O thread only
    });
    if (!posted) refuse(busy("the disk is slow"));
  }

  void disk_done() {
    if (closed_) return;
    if (disk_error_ != 0) {
      const bool full = disk_error_ == ENOSPC || disk_error_ == EDQUOT;
      return refuse(Problem{full ? 507 : 500, full ? "disk_full" : "io", full ? "the disk of the upload folder is full" : "the upload could not be written", request_.role == Role::admin ? std::strerror(disk_error_) : ""});
    }
    state_ = State::body;
    continue_body();
  }

  bool hold(std::uint64_t bytes) {
    if (!server_.reserve(bytes)) return false;
    held_ += bytes;
    return true;
  }

  void continue_body() {
    if (closed_) return;
    for (;;) {
      if (parser_->is_done()) return body_read();
      if (in_end_ > in_begin_) {
        error_code ec;
        const std::size_t used = parser_->put(asio::const_buffer(in_.data() + in_begin_, in_end_ - in_begin_), ec);
        in_begin_ += used;
        if (ec && ec != http::error::need_more) {
          keep_alive_ = false;
          return refuse(Problem{400, "bad_body", "the body's framing cannot be read", ec.message(), {}, request_.body_size});
        }
        if (const std::string& portion = parser_->get().body(); !portion.empty()) {
          request_.body_size += portion.size();
          server_.body_bytes.add(static_cast<double>(portion.size()));
          if (request_.body_size > route_->body_limit) return refuse(too_large());
          if (is_upload_) {
            portion_.swap(parser_->get().body());
            parser_->get().body().clear();
            return on_disk([this] { write_portion(); });
          }
          if (request_.body_size > held_ && !hold(std::max<std::uint64_t>(request_.body_size - held_, kBodyRead)))
            return refuse(busy("bodies of other requests fill the memory that they may take"));
          request_.body += portion;
          parser_->get().body().clear();
        }
        if (used > 0) continue;
      }
      break;
    }
    const auto now = Clock::now();
    const double took = std::chrono::duration<double>(now - body_began_).count();
    if (took > server_.config.limits.stall_s && static_cast<double>(request_.body_size) < took * static_cast<double>(server_.config.limits.slowest_bytes_per_s)) {
      server_.refuse_count("slow_body");
      return respond(problem_response(Problem{408, "slow_body", "the body comes too slowly"}));
    }
    deadline_ = now + seconds(server_.config.limits.stall_s);
    room(kBodyRead);
    if (in_end_ == in_.size()) return refuse(Problem{400, "bad_body", "a part of the body's framing is too long", {}, {}, request_.body_size});
    read_some(asio::buffer(in_.data() + in_end_, in_.size() - in_end_), [self = shared_from_this()](error_code ec, std::size_t size) {
      if (ec || self->closed_) return self->close();
      self->in_end_ += size;
      self->continue_body();
    });
  }

  void write_portion() {
    std::string_view left = portion_;
    while (!left.empty()) {
      const ssize_t wrote = ::write(file_, left.data(), left.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) {
        disk_error_ = errno;
        break;
      }
      left.remove_prefix(static_cast<std::size_t>(wrote));
    }
    portion_.clear();
  }

  void body_read() {
    discard_body_ = false;
    if (file_ >= 0) {
      ::close(file_);
      file_ = -1;
    }
    if (in_.size() > 8192 && in_begin_ == in_end_) {   // idle connections stay small
      in_begin_ = in_end_ = 0;
      in_.resize(4096);
      in_.shrink_to_fit();
    }
    dispatch();
  }

  Response run_handler() const {
    try {
      Response response = route_->handler(request_);
      if (worth_packing(response) && list_allows(request_.header("accept-encoding"), "gzip") && route_->lane != Lane::at_once) {
        response.body = gzip(response.content(), 4);
        response.shared_body.reset();
        response.set("Content-Encoding", "gzip");
      }
      return response;
    } catch (const std::bad_alloc&) {
      return problem_response(busy("there was not enough memory for this"));
    } catch (const std::exception& fault) {
      return problem_response(Error(ErrorCode::internal, "the request failed").because(fault.what()), request_.role);
    }
  }

  void dispatch() {
    state_ = State::handler;
    if (route_->lane == Lane::at_once) return respond(run_handler());
    const bool posted = server_.lanes[static_cast<std::size_t>(route_->lane)]->post([self = shared_from_this()]() mutable {
      auto response = std::make_shared<Response>(self->run_handler());
      Impl& server = self->server_;
      asio::post(server.io, [self = std::move(self), response] { self->respond(std::move(*response)); });
    });
    if (!posted) refuse(busy("too many requests wait"));
  }

  void respond(Response response) {
    if (closed_) return;
    if (discard_body_ || response.close || server_.stopping) keep_alive_ = false;
    if (response.events && server_.streams >= server_.config.limits.event_streams)
      response = problem_response(Problem{503, "too_many_streams", "the service has all the event streams that it may have", {}, {}, {}, 5});
    count(response.status);
    response.set("Date", server_.date);
    if (has_vary(response)) response.set("Vary", "Accept-Encoding");
    if (response.events) return begin_events(response);
    state_ = State::answer;
    out_ = response_head(response, response.content().size(), keep_alive_);
    const bool body = request_.method != "HEAD" && response.status != 204 && response.status != 304;
    shared_out_ = nullptr;
    if (body && response.shared_body)
      shared_out_ = response.shared_body;
    else if (body)
      out_ += response.body;
    answer_began_ = Clock::now();
    answered_ = 0;
    end_request();
    write_all(out_, [self = shared_from_this()] {
      if (!self->shared_out_) return self->answer_written();
      self->write_all(*self->shared_out_, [self] { self->answer_written(); });
    });
  }

  static bool has_vary(const Response& response) {
    return std::any_of(response.headers.begin(), response.headers.end(), [](const auto& header) { return header.first == "Content-Encoding"; });
  }

  void count(int status) {
    const double took = std::chrono::duration<double>(Clock::now() - began_).count();
    const std::string_view route = route_ ? std::string_view(route_->path) : std::string_view("none");
    server_.registry.counter(metrics::kHttpRequests, {method_label(request_.method), route, std::to_string(status)}).add();
    if (route_) server_.registry.histogram(metrics::kHttpSeconds, {route}).observe(took);
    if (server_.log) {
      const std::string caller = request_.has_header("authorization") ? server_.gate.caller(request_) : "";
      server_.log(AccessRecord{request_.method, request_.target.path, status, caller, took, request_.body_size});
    }
  }

  // Frees what the request held.
  void end_request() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
    if (!request_.body_file.empty()) {
      std::error_code ignored;
      std::filesystem::remove(request_.body_file, ignored);
      request_.body_file.clear();
    }
    if (is_upload_) {
      --server_.uploads;
      is_upload_ = false;
    }
    server_.memory_used -= std::exchange(held_, 0);
    request_.body = {};
  }

  void write_all(std::string_view bytes, std::function<void()> then) {
    if (closed_) return;
    if (bytes.empty()) return then();
    deadline_ = Clock::now() + seconds(server_.config.limits.stall_s);
    write_some(asio::buffer(bytes.data(), std::min(bytes.size(), kWritePiece)), [self = shared_from_this(), bytes, then = std::move(then)](error_code ec, std::size_t size) mutable {
      if (ec || self->closed_) return self->close();
      self->answered_ += size;
      const double took = std::chrono::duration<double>(Clock::now() - self->answer_began_).count();
      if (self->state_ == State::answer && took > self->server_.config.limits.stall_s &&
          static_cast<double>(self->answered_) < took * static_cast<double>(self->server_.config.limits.slowest_bytes_per_s)) {
        self->server_.refuse_count("slow_reader");
        return self->close();
      }
      self->write_all(bytes.substr(size), std::move(then));
    });
  }

  void answer_written() {
    out_ = {};
    shared_out_ = nullptr;
    if (keep_alive_) {
      // Not from here: a pipeline of requests must not nest.
      asio::post(server_.io, [self = shared_from_this()] { self->read_header(); });
      return;
    }
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    state_ = State::discard;
    deadline_ = Clock::now() + kDiscardTime;
    discarded_ = 0;
    discard();
  }

  // Reads what the peer still sends, for a while: closing at once would take the answer away from it.
  void discard() {
    in_begin_ = in_end_ = 0;
    room(discard_body_ ? kBodyRead : 4096);
    read_some(asio::buffer(in_.data(), in_.size()), [self = shared_from_this()](error_code ec, std::size_t size) {
      self->discarded_ += size;
      if (ec || self->closed_ || self->discarded_ > kDiscard) return self->close();
      self->discard();
    });
  }

  // ---- event streams

  void begin_events(const Response& response) {
    state_ = State::events;
    is_stream_ = true;
    server_.streams_gauge.set(static_cast<double>(++server_.streams));
    keep_alive_ = false;
    position_ = response.events->after;
    prefix_ = response.events->type_prefix;
    out_ = response_head(response, std::nullopt, false);
    const std::string first = "retry: 2000\nid: " + server_.hub.id_of(position_) + "\n\n" + (response.events->gap ? gap_text() : "");
    out_ += chunk(first);
    end_request();
    watch_for_end();
    stream_waits_ = false;
    if (request_.method == "HEAD") return close();
    write_all(out_, [self = shared_from_this()] { self->pump(); });
  }

  std::string gap_text() const { return "event: reset\nid: " + server_.hub.id_of(position_) + "\ndata: {}\n\n"; }

  static std::string chunk(std::string_view text) {
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", text.size());
    return size + std::string(text) + "\r\n";
  }

  void pump() {
    if (closed_) return;
    const HubPage page = server_.hub.after(position_, 64);
    position_ = page.last;
    std::string text = page.gap ? gap_text() : "";
    for (const HubEvent& event : page.events) {
      if (!event.type.starts_with(prefix_)) continue;
      text += "id: " + server_.hub.id_of(event.sequence) + "\nevent: " + event.type + "\ndata: " + event.data + "\n\n";
    }
    if (!text.empty()) return send_events(text);
    if (!page.events.empty()) {   // all of other types
      asio::post(server_.io, [self = shared_from_this()] { self->pump(); });
      return;
    }
    stream_waits_ = true;
    last_write_ = Clock::now();
    deadline_ = Clock::time_point::max();
  }

  void send_events(const std::string& text) {
    out_ = chunk(text);
    stream_waits_ = false;
    write_all(out_, [self = shared_from_this()] { self->pump(); });
  }

  void watch_for_end() {
    in_begin_ = in_end_ = 0;
    room(1024);
    read_some(asio::buffer(in_.data(), in_.size()), [self = shared_from_this()](error_code ec, std::size_t) {
      if (ec || self->closed_) return self->close();
      self->watch_for_end();
    });
  }

  const bool loopback_, counted_;
  bool closed_ = false, keep_alive_ = true, has_body_ = false, discard_body_ = false, is_upload_ = false, is_stream_ = false, stream_waits_ = false;
  std::optional<http::request_parser<PortionBody>> parser_;
  std::vector<char> in_;
  std::size_t in_begin_ = 0, in_end_ = 0, discarded_ = 0;
  Request request_;
  const Route* route_ = nullptr;
  std::string out_, portion_, prefix_;
  std::shared_ptr<const std::string> shared_out_;
  std::uint64_t held_ = 0, answered_ = 0, position_ = 0;
  int file_ = -1, disk_error_ = 0;
  Clock::time_point began_ = Clock::now(), body_began_, answer_began_ = Clock::now(), last_write_;
};

class Server::Impl::PlainSession final : public Session {
 public:
  PlainSession(Impl& server, tcp::socket socket, bool loopback, bool counted) : Session(server, loopback, counted), socket_(std::move(socket)) {}
  void begin() override { read_header(); }
  void read_some(asio::mutable_buffer room, Done done) override { socket_.async_read_some(room, std::move(done)); }
  void write_some(asio::const_buffer bytes, Done done) override { socket_.async_write_some(bytes, std::move(done)); }
  tcp::socket& socket() override { return socket_; }
  bool is_tls() const override { return false; }

 private:
  tcp::socket socket_;
};

class Server::Impl::TlsSession final : public Session {
 public:
  TlsSession(Impl& server, tcp::socket socket, std::shared_ptr<asio::ssl::context> context, bool loopback)
      : Session(server, loopback, true), context_(std::move(context)), stream_(std::move(socket), *context_) {}
  void begin() override {
    deadline_ = Clock::now() + seconds(server_.config.limits.header_s);
    stream_.async_handshake(asio::ssl::stream_base::server, [self = shared_from_this(), this](error_code ec) {
      if (ec) {
        server_.refuse_count("tls_handshake");
        return close();
      }
      read_header();
    });
  }
  void read_some(asio::mutable_buffer room, Done done) override { stream_.async_read_some(room, std::move(done)); }
  void write_some(asio::const_buffer bytes, Done done) override { stream_.async_write_some(bytes, std::move(done)); }
  tcp::socket& socket() override { return stream_.next_layer(); }
  bool is_tls() const override { return true; }

 private:
  std::shared_ptr<asio::ssl::context> context_;
  asio::ssl::stream<tcp::socket> stream_;
};

Result<std::shared_ptr<asio::ssl::context>> Server::Impl::load_tls(const HttpConfig& config) {
  if (config.certificate.empty()) return std::shared_ptr<asio::ssl::context>();
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

Status Server::Impl::open() {
  auto context = load_tls(config);
  if (!context.ok()) return std::move(context).error();
  tls = std::move(context).value();
  if (!config.upload_folder.empty()) {
    // What an earlier process left behind.
    std::error_code ec;
    std::filesystem::create_directories(config.upload_folder, ec);
    std::vector<std::filesystem::path> left;
    for (std::filesystem::directory_iterator at(config.upload_folder, ec), end; !ec && at != end; at.increment(ec))
      if (at->path().filename().string().starts_with(kUploadPrefix)) left.push_back(at->path());
    if (ec) return Error(ErrorCode::io, "the upload folder " + config.upload_folder + " cannot be used").because(ec.message());
    for (const auto& path : left) std::filesystem::remove(path, ec);
  }
  for (const ListenAddress& at : config.listen) {
    error_code ec;
    const auto fault = [&](const char* doing) {
      return Error(ErrorCode::io, std::string("the service cannot ") + doing + " " + at.address + ":" + std::to_string(at.port)).because(ec.message());
    };
    const auto address = asio::ip::make_address(at.address, ec);
    if (ec) return fault("read the address");
    const tcp::endpoint endpoint(address, static_cast<unsigned short>(at.port));
    auto acceptor = std::make_unique<tcp::acceptor>(io);
    acceptor->open(endpoint.protocol(), ec);
    if (ec) return fault("open a socket for");
    acceptor->set_option(tcp::acceptor::reuse_address(true), ec);
    if (address.is_v6()) acceptor->set_option(asio::ip::v6_only(true), ec);
    acceptor->bind(endpoint, ec);
    if (ec) return fault("bind to");
    acceptor->listen(1024, ec);
    if (ec) return fault("listen on");
    bound.push_back(acceptor->local_endpoint(ec).port());
    acceptors.push_back(std::move(acceptor));
    accept_timers.push_back(std::make_unique<asio::steady_timer>(io));
  }
  const HttpLimits& limits = config.limits;
  lanes[static_cast<std::size_t>(Lane::quick)] = std::make_unique<LanePool>(limits.quick_threads, limits.waiting);
  lanes[static_cast<std::size_t>(Lane::push)] = std::make_unique<LanePool>(limits.push_threads, limits.waiting);
  lanes[static_cast<std::size_t>(Lane::slow)] = std::make_unique<LanePool>(limits.slow_threads, std::min<std::uint32_t>(limits.waiting, 32));
  disk = std::make_unique<LanePool>(1, limits.waiting);
  work.emplace(io.get_executor());
  sweeper.emplace(io);
  sweep();
  for (std::size_t i = 0; i < acceptors.size(); ++i) accept(i);
  hub_token = hub.listen([this] {
    if (!wake_pending.exchange(true)) asio::post(io, [this] { wake_streams(); });
  });
  thread = std::thread([this] {
    for (;;) {
      try {
        io.run();
        return;
      } catch (const std::exception&) {
        refuse_count("internal");   // of one connection; the others go on
      }
    }
  });
  return parsers::done();
}

void Server::Impl::wake_streams() {
  wake_pending = false;
  if (streams == 0) return;
  std::vector<std::shared_ptr<Session>> now;
  for (const auto& [session, weak] : sessions)
    if (auto alive = weak.lock()) now.push_back(std::move(alive));
  for (const auto& session : now) session->wake();
}

void Server::Impl::accept(std::size_t index) {
  if (stopping) return;
  acceptors[index]->async_accept([this, index](error_code ec, tcp::socket socket) {
    if (stopping || ec == asio::error::operation_aborted) return;
    if (ec) {
      refuse_count("accept");
      // No descriptors, mostly: connections wait in the kernel meanwhile.
      accept_timers[index]->expires_after(std::chrono::milliseconds(100));
      accept_timers[index]->async_wait([this, index](error_code) { accept(index); });
      return;
    }
    accepted(index, std::move(socket));
    accept(index);
  });
}

void Server::Impl::accepted(std::size_t, tcp::socket socket) {
  error_code ec;
  socket.set_option(tcp::no_delay(true), ec);
  const auto peer = socket.remote_endpoint(ec).address();
  const auto own = ec ? asio::ip::address() : socket.local_endpoint(ec).address();
  if (ec) return;
  const bool loopback = peer.is_loopback() && own.is_loopback();
  const bool room = counted < config.limits.connections;
  if (!room) {
    refuse_count("too_many_connections");
    if (tls || refusals >= kRefusals) return;
  }
  std::shared_ptr<Session> session;
  if (tls)
    session = std::make_shared<TlsSession>(*this, std::move(socket), tls, loopback);
  else
    session = std::make_shared<PlainSession>(*this, std::move(socket), loopback, room);
  sessions.emplace(session.get(), session);
  room ? session->begin() : session->turn_away();
}

void Server::Impl::sweep() {
  const auto now = Clock::now();
  if (now - date_at >= std::chrono::milliseconds(500)) {
    date = date_text();
    date_at = now;
  }
  std::vector<std::shared_ptr<Session>> all;
  all.reserve(sessions.size());
  for (const auto& [session, weak] : sessions)
    if (auto alive = weak.lock()) all.push_back(std::move(alive));
  for (const auto& session : all) session->check_time(now);
  sweeper->expires_after(kSweep);
  sweeper->async_wait([this](error_code ec) {
    if (!ec) sweep();
  });
}

bool Server::Impl::stop() {
  const auto idle = [this] { return std::all_of(lanes.begin(), lanes.end(), [](const auto& lane) { return !lane || lane->idle(); }) && (!disk || disk->idle()); };
  if (stopped || !thread.joinable()) return idle();
  stopped = true;
  hub.unlisten(hub_token);
  asio::post(io, [this] {
    stopping = true;
    error_code ignored;
    for (const auto& acceptor : acceptors) acceptor->close(ignored);
    std::vector<std::shared_ptr<Session>> all;
    for (const auto& [session, weak] : sessions)
      if (auto alive = weak.lock()) all.push_back(std::move(alive));
    for (const auto& session : all) session->server_stops();
  });
  const auto until = Clock::now() + kStopTime;
  while (Clock::now() < until && (open_sessions > 0 || !idle())) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  io.stop();
  thread.join();
  for (const auto& lane : lanes)   // after the I/O thread: what waits holds sessions, and they end here
    if (lane) lane->stop();
  if (disk) disk->stop();
  return idle();
}

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
  auto impl = std::make_unique<Impl>(config, std::move(tokens), routes, hub, registry, std::move(log));
  if (Status status = impl->open(); !status.ok()) return std::move(status).error();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::vector<int> Server::ports() const { return impl_->bound; }

Status Server::reload_tls() {
  auto context = Impl::load_tls(impl_->config);
  if (!context.ok()) return std::move(context).error();
  asio::post(impl_->io, [impl = impl_.get(), fresh = std::move(context).value()] { impl->tls = fresh; });
  return parsers::done();
}

bool Server::stop() { return impl_->stop(); }

}  // namespace triage::daemon::api
