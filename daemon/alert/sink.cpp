#include "daemon/alert/sink.hpp"

#include <functional>

#include "daemon/alert/hash.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {
namespace {

std::int64_t seconds_of(parsers::TimePoint time) { return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count(); }

std::optional<std::chrono::seconds> retry_after(const HttpResponse& response, parsers::TimePoint now) {
  const std::int64_t seconds = retry_after_seconds(response.header("retry-after"), seconds_of(now));
  if (seconds < 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

using Ask = std::function<HttpRequest(const Delivery&)>;
using Read = std::function<Outcome(const HttpResponse&, parsers::TimePoint)>;

class HttpSink final : public AlertSink {
 public:
  HttpSink(Ask ask, Read read, bool idempotent) : ask_(std::move(ask)), read_(std::move(read)), idempotent_(idempotent) {}

  Outcome send(const Delivery& delivery, const HttpClient& client, const std::stop_token& stop) const override {
    const HttpReply reply = client.send(ask_(delivery), stop);
    if (const auto* fault = std::get_if<SendFault>(&reply)) return outcome_of_fault(*fault, idempotent_);
    Outcome outcome = read_(std::get<HttpResponse>(reply), delivery.now);
    if (outcome.kind == Outcome::Kind::doubt && idempotent_) outcome.kind = Outcome::Kind::retry;
    return outcome;
  }

 private:
  Ask ask_;
  Read read_;
  bool idempotent_;
};

class MailSink final : public AlertSink {
 public:
  MailSink(MailSettings settings, bool idempotent) : settings_(std::move(settings)), idempotent_(idempotent) {}
  Outcome send(const Delivery& delivery, const HttpClient& client, const std::stop_token& stop) const override {
    const MailReply reply = client.mail(mail_request(settings_, delivery), stop);
    if (const auto* fault = std::get_if<SendFault>(&reply)) return outcome_of_fault(*fault, idempotent_);
    return read_mail(std::get<MailResponse>(reply), delivery.receipt.empty() ? json_text({{"message_id", delivery.key + "@triaged"}}, -1) : delivery.receipt);
  }

 private:
  MailSettings settings_;
  bool idempotent_;
};

class CommandSink final : public AlertSink {
 public:
  CommandSink(CommandSettings settings, bool idempotent) : settings_(std::move(settings)), idempotent_(idempotent) {}
  Outcome send(const Delivery& delivery, const HttpClient&, const std::stop_token& stop) const override {
    Outcome outcome = run_command(settings_, delivery, stop);
    if (outcome.kind == Outcome::Kind::doubt && idempotent_) outcome.kind = Outcome::Kind::retry;
    return outcome;
  }

 private:
  CommandSettings settings_;
  bool idempotent_;
};

}  // namespace

std::string idempotency_key(const AlertItem& item) {
  return sha256_hex(item.sink + '\n' + item.incident + '\n' + item.event + '\n' + std::to_string(item.revision)).substr(0, 32);
}

HttpRequest json_post(const std::string& url, const Json& body) { return {"POST", url, {{"Content-Type", "application/json; charset=utf-8"}}, json_text(body, -1)}; }

std::string answer_text(const HttpResponse& response) { return cut_text(clean_line(mask_text(std::string_view(response.body).substr(0, 2000), {})), 300); }

Outcome outcome_of_status(const HttpResponse& response, parsers::TimePoint now) {
  const int status = response.status;
  if (status >= 200 && status < 300) return Outcome::told();
  const std::string text = answer_text(response);
  const std::string why = "HTTP " + std::to_string(status) + (text.empty() ? "" : ": " + text);
  if (status == 429 || status == 503) return Outcome::again(why, retry_after(response, now));
  // 500 may be about this message alone; the others are about the server.
  if (status >= 500 || status == 408 || status == 425) return Outcome::again(why, retry_after(response, now), status != 500);
  return Outcome::refused(why);
}

Outcome outcome_of_fault(const SendFault& fault, bool idempotent) {
  const std::string why = clean_line(fault.why);
  if (fault.maybe_delivered && !idempotent) return Outcome::unknown(why);
  return Outcome::again(why, fault.stopped ? std::optional(std::chrono::seconds(0)) : std::nullopt);
}

std::unique_ptr<AlertSink> make_sink(const SinkConfig& config) {
  const bool idempotent = config.idempotent() || config.repeat_in_doubt;
  const auto http = [&](Ask ask, Read read) { return std::make_unique<HttpSink>(std::move(ask), std::move(read), idempotent); };
  if (const auto* s = std::get_if<SlackWebhookSettings>(&config.settings)) return http([settings = *s](const Delivery& d) { return slack_webhook_request(settings, d); }, read_slack_webhook);
  if (const auto* s = std::get_if<SlackBotSettings>(&config.settings)) return http([settings = *s](const Delivery& d) { return slack_bot_request(settings, d); }, read_slack_bot);
  if (const auto* s = std::get_if<WebhookSettings>(&config.settings)) return http([settings = *s](const Delivery& d) { return webhook_request(settings, d); }, outcome_of_status);
  if (const auto* s = std::get_if<AlertmanagerSettings>(&config.settings)) return http([settings = *s](const Delivery& d) { return alertmanager_request(settings, d); }, outcome_of_status);
  if (const auto* s = std::get_if<PagerDutySettings>(&config.settings)) return http([settings = *s](const Delivery& d) { return pagerduty_request(settings, d); }, read_pagerduty);
  if (const auto* s = std::get_if<TeamsSettings>(&config.settings)) return http([settings = *s](const Delivery& d) { return teams_request(settings, d); }, outcome_of_status);
  if (const auto* s = std::get_if<DiscordSettings>(&config.settings)) return http([settings = *s](const Delivery& d) { return discord_request(settings, d); }, read_discord);
  if (const auto* s = std::get_if<MailSettings>(&config.settings)) return std::make_unique<MailSink>(*s, idempotent);
  return std::make_unique<CommandSink>(std::get<CommandSettings>(config.settings), idempotent);
}

}  // namespace triage::daemon
