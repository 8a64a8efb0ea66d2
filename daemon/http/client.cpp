#include "daemon/http/client.hpp"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <mutex>

#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

namespace {

constexpr std::size_t kHeaders = 64;           // kept of an answer
constexpr std::size_t kHeaderBytes = 4 * 1024;
constexpr std::int64_t kLongestRetryAfter = 3600;  // seconds: a peer cannot silence us for longer

struct EasyDelete {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct MultiDelete {
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};
struct ListDelete {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct UrlDelete {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct TextDelete {
  void operator()(char* text) const { curl_free(text); }
};
using Easy = std::unique_ptr<CURL, EasyDelete>;
using List = std::unique_ptr<curl_slist, ListDelete>;

void start_library() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

bool append(List& list, const std::string& text) {
  curl_slist* longer = curl_slist_append(list.get(), text.c_str());
  if (longer == nullptr) return false;
  (void)list.release();
  list.reset(longer);
  return true;
}

// What the callbacks write into. No exception passes through the library.
struct Incoming {
  HttpResponse* response;
  std::size_t limit;
};

std::size_t take_body(char* data, std::size_t, std::size_t count, void* user) noexcept {
  auto& in = *static_cast<Incoming*>(user);
  try {
    std::string& body = in.response->body;
    const std::size_t room = in.limit - body.size();
    body.append(data, std::min(count, room));
    if (count > room) {
      in.response->cut = true;
      return 0;                                // ends the transfer: what we need to know is there
    }
    return count;
  } catch (...) {
    return 0;
  }
}

std::size_t take_header(char* data, std::size_t, std::size_t count, void* user) noexcept {
  auto& in = *static_cast<Incoming*>(user);
  try {
    const std::string_view line = parsers::trim(std::string_view(data, count));
    if (line.starts_with("HTTP/")) {           // of the final answer, after a 100 Continue
      in.response->headers.clear();
    } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos && in.response->headers.size() < kHeaders && count <= kHeaderBytes) {
      in.response->headers.emplace_back(parsers::lower(line.substr(0, colon)), std::string(parsers::trim(line.substr(colon + 1))));
    }
    return count;
  } catch (...) {
    return 0;
  }
}

struct Outgoing {
  std::string_view rest;
};

std::size_t give_body(char* room, std::size_t size, std::size_t count, void* user) noexcept {
  auto& out = *static_cast<Outgoing*>(user);
  const std::size_t portion = std::min(size * count, out.rest.size());
  std::copy_n(out.rest.data(), portion, room);
  out.rest.remove_prefix(portion);
  return portion;
}

// SMTP replies come through the header callback; the last refusal is kept, else the last line.
std::size_t take_smtp_line(char* data, std::size_t, std::size_t count, void* user) noexcept {
  try {
    auto& kept = *static_cast<std::string*>(user);
    const std::string_view line = parsers::trim(std::string_view(data, std::min(count, kHeaderBytes)));
    const auto refusal = [](std::string_view text) { return text.starts_with('4') || text.starts_with('5'); };
    if (refusal(line) || !refusal(kept)) kept.assign(line);
  } catch (...) {
  }
  return count;
}

std::size_t drop(char*, std::size_t size, std::size_t count, void*) noexcept { return size * count; }

// OpenSSL writes with write(2): a peer that closed would end the process. Blocked for this thread, and taken off it at the end.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec now{0, 0};
    if (!was_pending_)
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {}
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

struct Ended {
  CURLcode code = CURLE_OK;
  bool stopped = false;
};

// Runs one transfer. Waits in steps short enough to see `stop`.
Ended perform(CURL* easy, const ClientSettings& settings, const std::stop_token& stop) {
  const NoBrokenPipe no_broken_pipe;
  const std::unique_ptr<CURLM, MultiDelete> multi(curl_multi_init());
  if (!multi || curl_multi_add_handle(multi.get(), easy) != CURLM_OK) return {CURLE_OUT_OF_MEMORY, false};
  Ended ended;
  bool done = false;
  auto give_up = std::chrono::steady_clock::time_point::max();
  while (!done) {
    int running = 0;
    if (curl_multi_perform(multi.get(), &running) != CURLM_OK) {
      ended.code = CURLE_FAILED_INIT;
      break;
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left))
      if (message->msg == CURLMSG_DONE) {
        ended.code = message->data.result;
        done = true;
      }
    if (done) break;
    if (stop.stop_requested()) {
      const auto now = std::chrono::steady_clock::now();
      if (give_up == std::chrono::steady_clock::time_point::max()) give_up = now + settings.stop_grace;
      if (now >= give_up) {
        ended = {CURLE_ABORTED_BY_CALLBACK, true};
        break;
      }
    }
    curl_multi_poll(multi.get(), nullptr, 0, 100, nullptr);
  }
  curl_multi_remove_handle(multi.get(), easy);
  return ended;
}

void set_common(CURL* easy, const ClientSettings& settings, const std::string& url, const char* protocols, char* fault) {
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, protocols);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);      // a name look-up under way does not hold up the end
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);    // a reused connection that is dead would make the library send again
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(easy, CURLOPT_PROXY, settings.proxy.c_str());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(settings.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(settings.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, fault);
  if (!settings.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, settings.ca_file.c_str());
}

SendFault fault_of(CURL* easy, const Ended& ended, const char* text, std::size_t message_bytes) {
  curl_off_t sent = 0;
  curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &sent);
  SendFault fault;
  fault.stopped = ended.stopped;
  fault.maybe_delivered = sent >= static_cast<curl_off_t>(message_bytes) && ended.code != CURLE_COULDNT_CONNECT && ended.code != CURLE_COULDNT_RESOLVE_HOST &&
                          ended.code != CURLE_PEER_FAILED_VERIFICATION && ended.code != CURLE_SSL_CONNECT_ERROR && ended.code != CURLE_OUT_OF_MEMORY;
  // A request without a body counts as gone once it was connected; there is none among our sinks.
  fault.why = ended.stopped ? "the service stops" : text[0] != '\0' ? text : curl_easy_strerror(ended.code);
  return fault;
}

bool has_line_end(std::string_view text) { return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos; }

}  // namespace

std::string_view HttpResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

HttpClient::HttpClient(ClientSettings settings) : settings_(std::move(settings)) { start_library(); }

HttpReply HttpClient::send(const HttpRequest& request, const std::stop_token& stop) const {
  const Easy easy(curl_easy_init());
  if (!easy) return SendFault{false, false, "no memory for a request"};
  char fault[CURL_ERROR_SIZE] = "";
  set_common(easy.get(), settings_, request.url, "http,https", fault);
  List headers;
  bool ok = append(headers, "Expect:");
  for (const auto& [name, value] : request.headers) {
    if (has_line_end(name) || has_line_end(value)) return SendFault{false, false, "a header holds a line end"};
    ok = ok && append(headers, name + ": " + value);
  }
  if (!ok) return SendFault{false, false, "no memory for a request"};
  HttpResponse response;
  Incoming incoming{&response, settings_.response_bytes};
  CURL* const handle = easy.get();
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle, CURLOPT_USERAGENT, settings_.user_agent.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method != "GET") {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.c_str());
  }
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &incoming);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &incoming);
  const Ended ended = perform(handle, settings_, stop);
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  // Once the final status line is there, the peer has decided: a body that breaks off or is too long changes nothing.
  if (status < 200) return fault_of(handle, ended, fault, request.body.size());
  if (ended.code != CURLE_OK) response.cut = true;
  response.status = static_cast<int>(status);
  return response;
}

MailReply HttpClient::mail(const MailRequest& request, const std::stop_token& stop) const {
  const Easy easy(curl_easy_init());
  if (!easy) return SendFault{false, false, "no memory for a mail"};
  char fault[CURL_ERROR_SIZE] = "";
  set_common(easy.get(), settings_, request.url, "smtp,smtps", fault);
  List to;
  bool ok = true;
  for (const std::string& address : request.to) {
    if (has_line_end(address)) return SendFault{false, false, "an address holds a line end"};
    ok = ok && append(to, "<" + address + ">");
  }
  if (!ok || has_line_end(request.from)) return SendFault{false, false, "an address holds a line end"};
  Outgoing outgoing{request.message};
  std::string reply;
  CURL* const handle = easy.get();
  const std::string from = "<" + request.from + ">";
  curl_easy_setopt(handle, CURLOPT_MAIL_FROM, from.c_str());
  curl_easy_setopt(handle, CURLOPT_MAIL_RCPT, to.get());
#if LIBCURL_VERSION_NUM >= 0x080200
  curl_easy_setopt(handle, CURLOPT_MAIL_RCPT_ALLOWFAILS, 1L);   // one address that is gone does not keep the others from hearing
#else
  curl_easy_setopt(handle, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L);
#endif
  curl_easy_setopt(handle, CURLOPT_USE_SSL, static_cast<long>(request.starttls ? CURLUSESSL_ALL : CURLUSESSL_NONE));
  if (!request.user.empty()) {
    curl_easy_setopt(handle, CURLOPT_USERNAME, request.user.c_str());
    curl_easy_setopt(handle, CURLOPT_PASSWORD, request.password.c_str());
  }
  curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(handle, CURLOPT_READFUNCTION, &give_body);
  curl_easy_setopt(handle, CURLOPT_READDATA, &outgoing);
  curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.message.size()));
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &drop);
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &take_smtp_line);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &reply);
  const Ended ended = perform(handle, settings_, stop);
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  if (ended.code == CURLE_OK) return MailResponse{static_cast<int>(status == 0 ? 250 : status), reply};
  // A refusal in words of the server: greylisting, unknown recipient, wrong password.
  if (status >= 400 && !ended.stopped) return MailResponse{static_cast<int>(status), reply.empty() ? std::string(fault) : reply};
  SendFault out = fault_of(handle, ended, fault, request.message.size());
  out.maybe_delivered = out.maybe_delivered && outgoing.rest.empty();
  return out;
}

Result<UrlParts> read_url(std::string_view text) {
  start_library();
  const Error bad(ErrorCode::syntax, "this is not a URL");
  if (text.empty() || text.size() > 8 * 1024) return bad;
  for (const char c : text)
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f) return Error(ErrorCode::syntax, "a URL holds no blanks and no special characters");
  const std::unique_ptr<CURLU, UrlDelete> url(curl_url());
  const std::string whole(text);
  if (!url || curl_url_set(url.get(), CURLUPART_URL, whole.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) return bad;
  const auto part = [&](CURLUPart which) {
    char* value = nullptr;
    if (curl_url_get(url.get(), which, &value, 0) != CURLUE_OK) return std::string();
    const std::unique_ptr<char, TextDelete> owner(value);
    return std::string(value);
  };
  UrlParts parts;
  parts.scheme = part(CURLUPART_SCHEME);
  parts.host = parsers::lower(part(CURLUPART_HOST));
  parts.has_user = !part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty();
  if (parts.scheme.empty() || parts.host.empty()) return bad;
  parts.loopback = parts.host == "localhost" || parts.host == "[::1]" || (parts.host.starts_with("127.") && parts.host.find_first_not_of("0123456789.") == std::string::npos);
  return parts;
}

std::int64_t retry_after_seconds(std::string_view value, std::int64_t now) {
  value = parsers::trim(value);
  if (value.empty()) return -1;
  if (const auto seconds = parsers::read_double(value)) {
    if (!(*seconds >= 0)) return -1;
    return *seconds > static_cast<double>(kLongestRetryAfter) ? kLongestRetryAfter : static_cast<std::int64_t>(std::ceil(*seconds));
  }
  start_library();
  const std::string text(value.substr(0, 64));
  const time_t at = curl_getdate(text.c_str(), nullptr);
  if (at < 0) return -1;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(at) - now, 0, kLongestRetryAfter);
}

}  // namespace triage::daemon
