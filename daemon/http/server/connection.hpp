// Connection: one peer, from its first byte to the close: header, gate, body, handler, answer, next request. Everything runs on the I/O
// thread, but for handlers and file writes, during which nothing else touches the connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/message.hpp"
#include "daemon/http/problem.hpp"
#include "daemon/http/server/event_reader.hpp"
#include "daemon/http/server/request_parser.hpp"
#include "daemon/http/server/shared.hpp"
#include "daemon/http/server/transport.hpp"
#include "daemon/http/server/upload_file.hpp"

namespace triage::daemon::api {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // counted: against the limit of connections; others are only told that there is no room. server outlives it.
  Connection(Shared& server, std::unique_ptr<Transport> transport, bool loopback, bool counted);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void begin();
  void turn_away();                                // 503, without having read a request
  void close();

  void check_time(Clock::time_point now);          // the sweeper's view
  void wake();                                     // events may stand in the hub
  void server_stops();
  // Since when it waits for a next request; empty: it does something else.
  std::optional<Clock::time_point> idle_since() const;

 private:
  enum class State { idle, header, body, handler, answer, events, discard };
  using Then = std::function<void()>;

  // connection.cpp: header, handler, answer
  void read_header();
  void continue_header();
  void header_fault(RequestParser::Fault fault);
  void header_read();
  void no_route(const std::string& allow);
  void refuse(const Problem& problem);
  void dispatch();
  Response run_handler() const;
  void respond(Response response);
  void count(int status);
  void end_request();
  void write_all(std::string_view bytes, Then then);
  void answer_written();
  void discard();
  void read_more(Then then);                       // into in_; closes at the end
  bool make_room(std::size_t wanted);              // in in_, behind what stands there; false: it is full
  std::string_view unread() const { return {in_.data() + in_begin_, in_end_ - in_begin_}; }

  // connection_body.cpp
  void begin_body();
  void open_body();
  void continue_body();
  bool take_portion();                             // false: something else goes on, or the request was refused
  void body_read();
  void on_disk(std::function<void()> task);
  void disk_done();
  bool hold(std::uint64_t bytes);
  bool too_slow(Clock::time_point since, std::uint64_t bytes) const;
  Problem too_large() const;

  // connection_events.cpp
  void begin_events(const Response& response);
  void pump();
  void send_events(std::string text);
  void watch_for_end();

  Shared& server_;
  const std::unique_ptr<Transport> transport_;
  const bool loopback_, counted_;
  State state_ = State::header;
  bool closed_ = false, handshake_done_ = false, keep_alive_ = true;
  Clock::time_point deadline_, idle_since_ = Clock::now();

  std::vector<char> in_;                           // what was read and not parsed: from in_begin_ to in_end_
  std::size_t in_begin_ = 0, in_end_ = 0, discarded_ = 0;
  std::optional<RequestParser> parser_;
  RequestHeader header_;
  Request request_;
  const Route* route_ = nullptr;
  bool discard_body_ = false;                      // the peer may still send a body that nobody wants
  Clock::time_point began_ = Clock::now(), body_began_;

  std::uint64_t held_ = 0;                         // of the memory of bodies, bytes
  bool counts_as_upload_ = false;
  std::shared_ptr<UploadFile> upload_;             // shared with the disk thread
  std::string portion_;                            // on its way to the disk

  std::string out_;                                // being written; events: one piece
  std::shared_ptr<const std::string> shared_out_;
  std::uint64_t answered_ = 0;                     // bytes of the answer taken by the peer
  Clock::time_point answer_began_ = Clock::now();

  std::optional<EventReader> events_;
  bool events_wait_ = false;                       // nothing is being written
  Clock::time_point last_event_;
};

inline Problem busy_problem(std::string why) { return Problem{503, "busy", std::move(why), {}, {}, {}, 1}; }

}  // namespace triage::daemon::api
