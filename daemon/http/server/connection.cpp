#include "daemon/http/server/connection.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "daemon/http/compression.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

using parsers::Error;
using parsers::ErrorCode;

namespace {

constexpr std::size_t kWritePiece = 256 * 1024;        // one write of an answer
constexpr std::size_t kGzipFrom = 1024;                // smaller answers gain nothing
constexpr std::size_t kDiscard = 4 * 1024 * 1024;      // of a body that is refused, so that the peer can read why
constexpr std::size_t kDiscardRead = 128 * 1024;
constexpr std::size_t kHeaderRead = 4096;
constexpr auto kDiscardTime = std::chrono::seconds(1);

bool worth_packing(const Response& response) {
  if (response.content().size() < kGzipFrom) return false;
  for (const auto& [name, value] : response.headers) {
    if (parsers::equal_ignoring_case(name, "content-encoding")) return false;
    if (parsers::equal_ignoring_case(name, "content-type"))
      return value.find("json") != std::string::npos || value.starts_with("text/") || value.find("javascript") != std::string::npos || value.find("yaml") != std::string::npos;
  }
  return false;
}

bool is_packed(const Response& response) {
  return std::any_of(response.headers.begin(), response.headers.end(), [](const auto& header) { return header.first == "Content-Encoding"; });
}

std::string_view method_label(std::string_view method) {
  for (const std::string_view known : {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
    if (method == known) return known;
  return "other";
}

}  // namespace

Connection::Connection(Shared& server, std::unique_ptr<Transport> transport, bool loopback, bool counted)
    : server_(server), transport_(std::move(transport)), loopback_(loopback), counted_(counted), deadline_(Clock::now() + span_of(server.config.limits.header_s)) {
  if (counted_)
    server_.connections_gauge.set(static_cast<double>(++server_.counted));
  else
    ++server_.refusals;
  ++server_.open;
}

Connection::~Connection() {
  end_request();
  if (events_) server_.streams_gauge.set(static_cast<double>(--server_.streams));
  if (counted_)
    server_.connections_gauge.set(static_cast<double>(--server_.counted));
  else
    --server_.refusals;
  server_.connections.erase(this);
  --server_.open;
}

void Connection::begin() {
  transport_->handshake([self = shared_from_this()](bool ok) {
    if (ok) return self->read_header();
    self->server_.refused("tls_handshake");
    self->close();
  });
}

void Connection::turn_away() {
  keep_alive_ = false;
  respond(problem_response(Problem{503, "too_many_connections", "the service has all the connections that it may have", {}, {}, {}, 1}));
}

void Connection::close() {
  closed_ = true;
  transport_->close();
}

void Connection::check_time(Clock::time_point now) {
  if (closed_) return;
  if (state_ == State::events && events_wait_ && now - last_event_ >= kHeartbeat) return send_events(EventReader::heartbeat());
  if (now < deadline_) return;
  switch (state_) {
    case State::idle:
    case State::discard: break;
    case State::header: server_.refused(handshake_done_ ? "slow_header" : "slow_handshake"); break;
    case State::body: server_.refused("slow_body"); break;
    case State::answer:
    case State::events: server_.refused("slow_reader"); break;
    case State::handler: return;   // ours, not the peer's
  }
  close();
}

void Connection::server_stops() {
  keep_alive_ = false;
  if (state_ == State::idle || state_ == State::events || state_ == State::discard || (state_ == State::header && unread().empty())) close();
}

std::optional<Clock::time_point> Connection::idle_since() const {
  if (state_ != State::idle || closed_) return std::nullopt;
  return idle_since_;
}

// ---- header

void Connection::read_header() {
  if (closed_) return;
  handshake_done_ = true;
  parser_.emplace(server_.config.limits.header_bytes);
  discard_body_ = false;
  state_ = State::idle;
  idle_since_ = Clock::now();
  deadline_ = idle_since_ + span_of(server_.config.limits.idle_s);
  if (server_.stopping && unread().empty()) return close();
  continue_header();
}

void Connection::continue_header() {
  if (!unread().empty()) {
    if (state_ == State::idle) {
      state_ = State::header;
      began_ = Clock::now();
      deadline_ = began_ + span_of(server_.config.limits.header_s);
    }
    in_begin_ += parser_->put(unread());
    if (parser_->fault() != RequestParser::Fault::none) return header_fault(parser_->fault());
    if (parser_->header_done()) return header_read();
  }
  const std::size_t most = server_.config.limits.header_bytes + kHeaderRead;
  if (!make_room(std::min(most, std::max(kHeaderRead, unread().size() * 2)))) return header_fault(RequestParser::Fault::header_too_large);
  read_more([this] { continue_header(); });
}

void Connection::header_fault(RequestParser::Fault fault) {
  request_ = {};
  route_ = nullptr;
  keep_alive_ = false;
  discard_body_ = true;
  Problem problem{400, "bad_request", "the request's header cannot be read", parser_->fault_text()};
  if (fault == RequestParser::Fault::header_too_large)
    problem = Problem{431, "header_too_large", "the request's header is larger than " + std::to_string(server_.config.limits.header_bytes) + " bytes"};
  if (fault == RequestParser::Fault::bad_version) problem = Problem{505, "bad_version", "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  server_.refused(problem.code);
  respond(problem_response(problem));
}

void Connection::header_read() {
  header_ = parser_->header();
  request_ = {};
  request_.method = std::move(header_.method);
  request_.headers = std::move(header_.fields);
  request_.loopback = loopback_;
  request_.tls = transport_->is_tls();
  request_.keep_alive = keep_alive_ = header_.keep_alive && !server_.stopping;
  route_ = nullptr;
  discard_body_ = header_.has_body();
  if (header_.hosts > 1) return refuse(Problem{400, "bad_host", "the request has more than one Host"});
  if (header_.transfer_coding && !header_.chunked) return refuse(Problem{501, "bad_transfer_encoding", "of transfer codings only chunked is understood"});
  // RFC 9112, 6.1: HTTP/1.0 has no transfer codings; something in front may have framed the body in another way.
  if (header_.transfer_coding && header_.version < 11) return refuse(Problem{400, "bad_transfer_encoding", "HTTP/1.0 has no transfer codings"});
  auto target = read_target(header_.target);
  if (!target.ok()) {
    const bool limit = target.error().code() == ErrorCode::limit;
    return refuse(Problem{limit ? 414 : 400, limit ? "target_too_long" : "bad_target", target.error().message(), target.error().reason()});
  }
  request_.target = std::move(target).value();
  auto found = server_.routes.find(request_.method, request_.target);
  route_ = found.route;
  request_.parameters = std::move(found.parameters);
  if (auto problem = server_.gate.check(request_, route_)) {
    server_.refused(problem->code);
    Response response = problem_response(*problem);
    if (problem->status == 401) response.set("WWW-Authenticate", "Bearer realm=\"triaged\"");
    return respond(std::move(response));
  }
  if (!route_) return no_route(found.allow);
  if (route_->body == BodyKind::none) {
    if (header_.has_body()) return refuse(Problem{400, "body_not_taken", "this takes no body"});
    return dispatch();
  }
  if (route_->body == BodyKind::unread) return dispatch();
  begin_body();
}

void Connection::no_route(const std::string& allow) {
  if (allow.empty()) return respond(problem_response(Problem{404, "no_such_path", "there is nothing under this path", {}, "the paths stand in /api/v1/openapi.yaml"}));
  Response response;
  if (request_.method == "OPTIONS")
    response.status = 204;
  else
    response = problem_response(Problem{405, "method_not_allowed", "this path does not take " + std::string(method_label(request_.method))});
  response.set("Allow", allow);
  respond(std::move(response));
}

void Connection::refuse(const Problem& problem) {
  server_.refused(problem.code);
  respond(problem_response(problem));
}

// ---- handler

void Connection::dispatch() {
  state_ = State::handler;
  if (route_->lane == Lane::at_once) return respond(run_handler());
  const bool posted = server_.lanes[static_cast<std::size_t>(route_->lane)]->post([self = shared_from_this()]() mutable {
    auto response = std::make_shared<Response>(self->run_handler());
    Shared& server = self->server_;
    // Moved: a connection ends on the I/O thread only.
    server.post([self = std::move(self), response] { self->respond(std::move(*response)); });
  });
  if (!posted) refuse(busy_problem("too many requests wait"));
}

Response Connection::run_handler() const {
  try {
    Response response = route_->handler(request_);
    if (worth_packing(response) && list_allows(request_.header("accept-encoding"), "gzip") && route_->lane != Lane::at_once) {
      response.body = gzip(response.content(), 4);
      response.shared_body.reset();
      response.set("Content-Encoding", "gzip");
    }
    return response;
  } catch (const std::bad_alloc&) {
    return problem_response(busy_problem("there was not enough memory for this"));
  } catch (const std::exception& fault) {
    return problem_response(Error(ErrorCode::internal, "the request failed").because(fault.what()), request_.role);
  }
}

// ---- answer

void Connection::respond(Response response) {
  if (closed_) return;
  if (discard_body_ || response.close || server_.stopping) keep_alive_ = false;
  const bool head = request_.method == "HEAD";
  if (response.events && header_.version < 11)
    response = problem_response(Problem{505, "bad_version", "the event stream needs HTTP/1.1"});
  else if (response.events && server_.streams >= server_.config.limits.event_streams)
    response = problem_response(Problem{503, "too_many_streams", "the service has all the event streams that it may have", {}, {}, {}, 5});
  count(response.status);
  response.set("Date", server_.date);
  if (is_packed(response)) response.set("Vary", "Accept-Encoding");
  if (response.events && !head) return begin_events(response);
  state_ = State::answer;
  out_ = response_head(response, response.events ? std::nullopt : std::optional<std::uint64_t>(response.content().size()), keep_alive_);
  const bool body = !head && response.status != 204 && response.status != 304;
  shared_out_ = body ? response.shared_body : nullptr;
  if (body && !shared_out_) out_ += response.body;
  answer_began_ = Clock::now();
  answered_ = 0;
  end_request();
  write_all(out_, [this] {
    if (!shared_out_) return answer_written();
    write_all(*shared_out_, [this] { answer_written(); });
  });
}

void Connection::count(int status) {
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
void Connection::end_request() {
  if (upload_) {
    // Freeing the blocks of a large file takes a disk's time.
    auto remove = [upload = std::move(upload_)] {
      upload->close();
      if (!upload->path().empty()) UploadFile::remove(upload->path());
    };
    if (!server_.disk || !server_.disk->post(remove)) remove();
    upload_.reset();
  }
  if (std::exchange(counts_as_upload_, false)) --server_.uploads;
  server_.release(std::exchange(held_, 0));
  request_.body = {};
}

// then: called while the connection lives; it must not outlive it, so it takes `this` only.
void Connection::write_all(std::string_view bytes, Then then) {
  if (closed_) return;
  if (bytes.empty()) return then();
  deadline_ = Clock::now() + span_of(server_.config.limits.stall_s);
  transport_->write_some(bytes.substr(0, kWritePiece), [self = shared_from_this(), bytes, then = std::move(then)](bool ok, std::size_t size) mutable {
    if (!ok || self->closed_) return self->close();
    self->answered_ += size;
    if (self->state_ == State::answer && self->too_slow(self->answer_began_, self->answered_)) {
      self->server_.refused("slow_reader");
      return self->close();
    }
    self->write_all(bytes.substr(size), std::move(then));
  });
}

void Connection::answer_written() {
  out_ = {};
  shared_out_ = nullptr;
  if (keep_alive_) {
    // Not from here: a pipeline of requests must not nest.
    server_.post([self = shared_from_this()] { self->read_header(); });
    return;
  }
  transport_->end_writing();
  state_ = State::discard;
  deadline_ = Clock::now() + kDiscardTime;
  discarded_ = 0;
  discard();
}

// Reads what the peer still sends, for a while: closing at once would take the answer away from it.
void Connection::discard() {
  discarded_ += unread().size();
  if (discarded_ > kDiscard) return close();
  in_begin_ = in_end_ = 0;
  make_room(discard_body_ ? kDiscardRead : kHeaderRead);
  read_more([this] { discard(); });
}

// ---- input

void Connection::read_more(Then then) {
  transport_->read_some(std::span<char>(in_).subspan(in_end_), [self = shared_from_this(), then = std::move(then)](bool ok, std::size_t size) {
    if (!ok || self->closed_) return self->close();
    self->in_end_ += size;
    then();
  });
}

bool Connection::make_room(std::size_t wanted) {
  if (in_begin_ > 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  if (in_.size() < wanted) in_.resize(wanted);
  return in_end_ < in_.size();
}

}  // namespace triage::daemon::api
