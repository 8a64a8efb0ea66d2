// The body of a request: into memory, within what all bodies together may take, or into a file.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/http/server/connection.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon::api {

namespace {

constexpr std::size_t kBodyRead = 128 * 1024;       // one read
constexpr std::size_t kBodyReserve = 1024 * 1024;   // ahead of what has come
constexpr std::size_t kUploads = 4;                 // bodies written to files at the same time
constexpr std::size_t kIdleBuffer = 4096;           // of a connection between requests

}  // namespace

Problem Connection::too_large() const {
  return Problem{413, "body_too_large", "the body is larger than " + std::to_string(route_->body_limit) + " bytes", {}, "send it in smaller parts"};
}

void Connection::begin_body() {
  if (header_.content_length && *header_.content_length > route_->body_limit) return refuse(too_large());
  const std::string_view expect = request_.header("expect");
  if (!expect.empty() && !parsers::equal_ignoring_case(expect, "100-continue")) return refuse(Problem{417, "bad_expect", "of expectations only 100-continue is understood"});
  if (route_->body == BodyKind::memory) {
    if (!hold(header_.content_length.value_or(0))) return refuse(busy_problem("bodies of other requests fill the memory that they may take"));
    request_.body.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(header_.content_length.value_or(0), kBodyReserve)));
  } else {
    if (server_.uploads >= kUploads) return refuse(busy_problem("other uploads are under way"));
    ++server_.uploads;
    counts_as_upload_ = true;
  }
  parser_->read_body();
  state_ = State::body;
  body_began_ = Clock::now();
  if (header_.has_body() && !expect.empty() && header_.version >= 11) {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    return write_all(out_, [this] { open_body(); });
  }
  open_body();
}

void Connection::open_body() {
  if (!counts_as_upload_) return continue_body();
  upload_ = std::make_shared<UploadFile>();
  on_disk([file = upload_, folder = server_.config.upload_folder] { file->create(folder); });
}

// Runs work on the disk thread, then goes on reading.
void Connection::on_disk(std::function<void()> task) {
  state_ = State::handler;
  const bool posted = server_.disk->post([self = shared_from_this(), task = std::move(task)]() mutable {
    task();
    task = nullptr;
    Shared& server = self->server_;
    server.post([self = std::move(self)] { self->disk_done(); });   // moved: a connection ends on the I/O thread only
  });
  if (!posted) refuse(busy_problem("the disk is slow"));
}

void Connection::disk_done() {
  if (closed_) return;
  portion_.clear();
  if (const int fault = upload_->fault(); fault != 0) {
    const bool full = fault == ENOSPC || fault == EDQUOT;
    return refuse(Problem{full ? 507 : 500, full ? "disk_full" : "io", full ? "the disk of the upload folder is full" : "the upload could not be written",
                          request_.role == Role::admin ? std::strerror(fault) : ""});
  }
  request_.body_file = upload_->path();
  state_ = State::body;
  continue_body();
}

bool Connection::hold(std::uint64_t bytes) {
  if (!server_.reserve(bytes)) return false;
  held_ += bytes;
  return true;
}

bool Connection::too_slow(Clock::time_point since, std::uint64_t bytes) const {
  const double took = std::chrono::duration<double>(Clock::now() - since).count();
  return took > server_.config.limits.stall_s && static_cast<double>(bytes) < took * static_cast<double>(server_.config.limits.slowest_bytes_per_s);
}

void Connection::continue_body() {
  if (closed_) return;
  for (;;) {
    if (parser_->done()) return body_read();
    if (unread().empty()) break;
    const std::size_t used = parser_->put(unread());
    in_begin_ += used;
    if (parser_->fault() != RequestParser::Fault::none)
      return refuse(Problem{400, "bad_body", "the body's framing cannot be read", parser_->fault_text(), {}, request_.body_size});
    if (!parser_->portion().empty() && !take_portion()) return;
    if (used == 0) break;
  }
  if (too_slow(body_began_, request_.body_size)) return refuse(Problem{408, "slow_body", "the body comes too slowly"});
  deadline_ = Clock::now() + span_of(server_.config.limits.stall_s);
  if (!make_room(kBodyRead)) return refuse(Problem{400, "bad_body", "a part of the body's framing is too long", {}, {}, request_.body_size});
  read_more([this] { continue_body(); });
}

bool Connection::take_portion() {
  std::string& portion = parser_->portion();
  request_.body_size += portion.size();
  server_.body_bytes.add(static_cast<double>(portion.size()));
  if (request_.body_size > route_->body_limit) {
    refuse(too_large());
    return false;
  }
  if (counts_as_upload_) {
    portion_.swap(portion);
    portion.clear();
    on_disk([this] { upload_->write(portion_); });
    return false;
  }
  if (request_.body_size > held_ && !hold(std::max<std::uint64_t>(request_.body_size - held_, kBodyRead))) {
    refuse(busy_problem("bodies of other requests fill the memory that they may take"));
    return false;
  }
  request_.body += portion;
  portion.clear();
  return true;
}

void Connection::body_read() {
  discard_body_ = false;
  if (upload_) upload_->close();
  if (in_.size() > 2 * kIdleBuffer && unread().empty()) {
    in_begin_ = in_end_ = 0;
    in_.resize(kIdleBuffer);
    in_.shrink_to_fit();
  }
  dispatch();
}

}  // namespace triage::daemon::api
