// A sink: takes one item and says what became of it. One message an item, so that nothing is half told. What a request looks like and what
// an answer means are pure functions, one file a sink; sending them is the same for all that speak HTTP.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "daemon/alert/alert.hpp"
#include "daemon/alert/alert_config.hpp"
#include "daemon/alert/render.hpp"
#include "daemon/http/client.hpp"

namespace triage::daemon {

struct Outcome {
  enum class Kind {
    sent,
    retry,                             // not told; may be told again
    dead,                              // will not be told, however often it is tried
    doubt                              // nobody knows whether it was told
  };
  Kind kind = Kind::retry;
  std::string receipt;                 // sent: names the message at the sink; may be empty
  std::string why;                     // else
  std::optional<std::chrono::seconds> after;   // retry: not before
  bool gone = false;                   // retry: the message that the receipt names is no more; forget it
  bool whole_sink = false;             // retry: nothing else would arrive either (rate, no connection, server in trouble)

  static Outcome told(std::string receipt = "") { return {Kind::sent, std::move(receipt), "", std::nullopt, false, false}; }
  static Outcome again(std::string why, std::optional<std::chrono::seconds> after = std::nullopt, bool whole_sink = true) { return {Kind::retry, "", std::move(why), after, false, whole_sink}; }
  static Outcome refused(std::string why) { return {Kind::dead, "", std::move(why), std::nullopt, false, false}; }
  static Outcome unknown(std::string why) { return {Kind::doubt, "", std::move(why), std::nullopt, false, false}; }
};

// What a sink is given with an item.
struct Delivery {
  const AlertItem& item;
  const Json& body;                    // of the item, parsed
  const std::string& receipt;          // of the message that this one belongs to, as the sink wrote it; or empty
  bool own;                            // that message is the incident's own; else it was told with others, and is answered, not changed
  std::string key;                     // the same for every try of this item
  parsers::TimePoint now;
};

class AlertSink {
 public:
  virtual ~AlertSink() = default;
  // Blocks for at most the client's time-out.
  virtual Outcome send(const Delivery& delivery, const HttpClient& client, const std::stop_token& stop) const = 0;
};

std::unique_ptr<AlertSink> make_sink(const SinkConfig& config);

// Identity of an item towards its sink, in hexadecimal digits.
std::string idempotency_key(const AlertItem& item);

// ---- What the sinks share.
HttpRequest json_post(const std::string& url, const Json& body);
// What a status means where a sink has no words of its own: 2xx sent; 408, 425, 429 and 5xx again; all others refused.
Outcome outcome_of_status(const HttpResponse& response, parsers::TimePoint now);
// What a fault of the way means. idempotent: a message that may have arrived is sent again.
Outcome outcome_of_fault(const SendFault& fault, bool idempotent);
// The start of an answer, clean and masked, for error texts.
std::string answer_text(const HttpResponse& response);

// ---- Requests and answers by kind of sink; pure.
HttpRequest slack_webhook_request(const SlackWebhookSettings& settings, const Delivery& delivery);
Outcome read_slack_webhook(const HttpResponse& response, parsers::TimePoint now);
HttpRequest slack_bot_request(const SlackBotSettings& settings, const Delivery& delivery);
Outcome read_slack_bot(const HttpResponse& response, parsers::TimePoint now);
HttpRequest webhook_request(const WebhookSettings& settings, const Delivery& delivery);
HttpRequest alertmanager_request(const AlertmanagerSettings& settings, const Delivery& delivery);
HttpRequest pagerduty_request(const PagerDutySettings& settings, const Delivery& delivery);
Outcome read_pagerduty(const HttpResponse& response, parsers::TimePoint now);
HttpRequest teams_request(const TeamsSettings& settings, const Delivery& delivery);
HttpRequest discord_request(const DiscordSettings& settings, const Delivery& delivery);
Outcome read_discord(const HttpResponse& response, parsers::TimePoint now);
MailRequest mail_request(const MailSettings& settings, const Delivery& delivery);
Outcome read_mail(const MailResponse& response, const std::string& receipt);
Json command_input(const Delivery& delivery);
Outcome run_command(const CommandSettings& settings, const Delivery& delivery, const std::stop_token& stop);

}  // namespace triage::daemon
