// E-mail. Sources: RFC 5322 (message), RFC 2047 (words in headers), RFC 3834 (automatic messages), RFC 5321 (replies).
#include "daemon/alert/sink.hpp"

#include <ctime>

namespace triage::daemon {
namespace {

constexpr std::size_t kSubject = 200;          // units; mail programs show less
constexpr std::size_t kWordBytes = 45;         // of one encoded word: 75 characters at most with its frame, RFC 2047, 2

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto byte = [&](std::size_t i) { return at + i < bytes.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) : 0U; };
    const std::uint32_t three = byte(0) << 16 | byte(1) << 8 | byte(2);
    out += kDigits[three >> 18 & 63];
    out += kDigits[three >> 12 & 63];
    out += at + 1 < bytes.size() ? kDigits[three >> 6 & 63] : '=';
    out += at + 2 < bytes.size() ? kDigits[three & 63] : '=';
  }
  return out;
}

// A header's text; always encoded, so that nothing in it can be read as a header. Words break between characters.
std::string encoded_words(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(at + kWordBytes, text.size());
    while (end < text.size() && end > at && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
    if (end == at) break;
    out += std::string(out.empty() ? "" : "\r\n ") + "=?UTF-8?B?" + base64(std::string_view(text).substr(at, end - at)) + "?=";
    at = end;
  }
  return out;
}

std::string date_text(parsers::TimePoint now) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d +0000", kDays[parts.tm_wday], parts.tm_mday, kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                parts.tm_sec);
  return text;
}

std::string message_id(const std::string& receipt) {
  const Json json = Json::parse(receipt, nullptr, false);
  const auto found = json.is_object() ? json.find("message_id") : json.end();
  if (found == json.end() || !found->is_string()) return "";
  const auto& id = found->get_ref<const std::string&>();
  return id.size() < 200 && id.find_first_of("<> \r\n") == std::string::npos ? id : std::string();
}

}  // namespace

MailRequest mail_request(const MailSettings& settings, const Delivery& delivery) {
  const AlertText text = cut_parts(alert_text(delivery.body), 1);
  std::string message = "Date: " + date_text(delivery.now) + "\r\nFrom: <" + settings.from + ">\r\nTo: ";
  for (std::size_t i = 0; i < settings.to.size(); ++i) message += (i == 0 ? "<" : ",\r\n <") + settings.to[i] + ">";
  message += "\r\nSubject: " + encoded_words(cut_text("[" + text.severity + "] " + text.title, kSubject));
  message += "\r\nMessage-ID: <" + delivery.key + "@triaged>";
  if (const std::string thread = message_id(delivery.receipt); !thread.empty()) message += "\r\nIn-Reply-To: <" + thread + ">\r\nReferences: <" + thread + ">";
  message += "\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n";
  const std::string body = base64(plain_text(text));
  for (std::size_t at = 0; at < body.size(); at += 76) message += body.substr(at, 76) + "\r\n";
  return {settings.url, settings.starttls, settings.user, settings.password.value, settings.from, settings.to, std::move(message)};
}

// 2xx taken; 4xx for now (greylisting, full); 5xx for good (RFC 5321, 4.2.1).
Outcome read_mail(const MailResponse& response, const std::string& receipt) {
  if (response.status >= 200 && response.status < 300) return Outcome::told(receipt);
  const std::string why = "SMTP " + std::to_string(response.status) + ": " + cut_text(clean_line(mask_text(response.text, {})), 300);
  if (response.status >= 400 && response.status < 500) return Outcome::again(why, std::nullopt, response.status == 421);
  return Outcome::refused(why);
}

}  // namespace triage::daemon
