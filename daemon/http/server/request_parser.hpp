// RequestParser: bytes of a connection -> header and body of one request. Its .cpp is the only user of Beast.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace triage::daemon::api {

struct RequestHeader {
  std::string method, target;
  std::vector<std::pair<std::string, std::string>> fields;   // names in lower case
  int version = 11;                                          // 10 or 11
  bool keep_alive = false;
  bool chunked = false, transfer_coding = false;             // transfer_coding: the field stands there, whatever it says
  std::optional<std::uint64_t> content_length;               // bytes
  int hosts = 0;                                             // fields of the name Host

  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

class RequestParser {
 public:
  // header_bytes: of request line and fields together.
  explicit RequestParser(std::size_t header_bytes);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Takes from the front of `bytes` and returns how many it took; the rest has to be given again with what follows. Stops behind the header
  // until read_body() is called, and behind the request. After a fault nothing more is taken.
  std::size_t put(std::string_view bytes);

  enum class Fault { none, header_too_large, bad_version, malformed };
  Fault fault() const { return fault_; }
  const std::string& fault_text() const { return fault_text_; }

  bool header_done() const;
  RequestHeader header() const;        // once header_done()
  void read_body();
  bool done() const;                   // the body is whole
  // Bytes of the body that came since it was last emptied, without the framing of chunks.
  std::string& portion();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  const std::size_t header_bytes_;
  std::size_t header_used_ = 0;
  Fault fault_ = Fault::none;
  std::string fault_text_;
};

}  // namespace triage::daemon::api
