// Slack: incoming webhooks, and a bot that posts, changes its message and answers in its thread.
// Sources: docs.slack.dev "Sending messages using incoming webhooks", "chat.postMessage", "chat.update", "Rate limits", "Rich text block",
// "Header block". Text that comes from logs stands in plain text and rich text elements only: Slack does not look for markup there.
#include "daemon/alert/sink.hpp"

#include <array>

namespace triage::daemon {
namespace {

constexpr std::size_t kHeader = 150;           // "Header block": text, at most 150 characters
constexpr std::size_t kBlockText = 3000;       // "Text object": at most 3000 characters; kept for rich text too
constexpr std::size_t kBlocks = 50;            // "Blocks": up to 50 in a message
// Slack refuses messages whose blocks together are longer than some 13,000 characters with msg_blocks_too_long, without a word in its
// documentation (slackapi/bolt-js issue 2509).
constexpr std::size_t kMessage = 12'000;
constexpr std::size_t kFallback = 3000;        // "text": 4000 characters recommended

Json run(const std::string& text, const char* style = nullptr) {
  Json out = {{"type", "text"}, {"text", text}};
  if (style != nullptr) out["style"] = {{style, true}};
  return out;
}

// A rich text block under construction, within the limit of a block.
class Rich {
 public:
  void add(const std::string& text, const char* style = nullptr) {
    if (text.empty() || used_ >= kBlockText) return;
    const std::string part = cut_text(text, kBlockText - used_);
    used_ += text_units(part);
    parts_.push_back(run(part, style));
  }
  bool empty() const { return parts_.empty(); }
  Json block(const char* element = "rich_text_section") const { return {{"type", "rich_text"}, {"elements", {{{"type", element}, {"elements", parts_}}}}}; }

 private:
  Json parts_ = Json::array();
  std::size_t used_ = 0;
};

Json blocks_of(const AlertText& text) {
  Json blocks = Json::array();
  blocks.push_back({{"type", "header"}, {"text", {{"type", "plain_text"}, {"text", cut_text(text.title.empty() ? "triaged" : text.title, kHeader)}, {"emoji", false}}}});
  Rich first;
  first.add(text.what);
  for (const auto& [name, value] : text.facts) {
    first.add("\n" + name + ": ", "bold");
    first.add(value);
  }
  if (!first.empty()) blocks.push_back(first.block());
  if (!text.evidence.empty()) {
    Rich line;
    line.add(text.evidence);
    blocks.push_back(line.block("rich_text_preformatted"));
  }
  int position = 0;
  for (const AlertFix& fix : text.fixes) {
    Rich part;
    part.add("Fix " + std::to_string(++position) + ": ", "bold");
    part.add(fix.title);
    if (!fix.set.empty()) {
      part.add("\n");
      part.add(fix.set, "code");
    }
    if (!fix.numbers.empty()) part.add("\n" + fix.numbers);
    blocks.push_back(part.block());
  }
  Rich rest;
  if (!text.verdict.empty()) rest.add("Plan: " + text.verdict);
  if (!text.others.empty()) rest.add(std::string(rest.empty() ? "" : "\n") + "The same cause:", "bold");
  for (const std::string& other : text.others) rest.add("\n- " + other);
  if (!rest.empty()) blocks.push_back(rest.block());
  Json foot = Json::array();
  if (!text.link.empty()) {
    foot.push_back({{"type", "link"}, {"url", text.link}, {"text", "Open the diagnosis"}});
    foot.push_back(run("  "));
  }
  foot.push_back(run("incident " + text.incident + ", " + text.severity, "italic"));
  blocks.push_back({{"type", "rich_text"}, {"elements", {{{"type", "rich_text_section"}, {"elements", foot}}}}});
  return blocks;
}

Json message(const Json& body) {
  const AlertText text = alert_text(body);
  Json out;
  const auto build = [&](double scale) {
    const AlertText parts = cut_parts(text, scale);
    out = {{"text", cut_escaped(parts.title + "\n" + parts.what, kFallback, escape_slack)}, {"blocks", blocks_of(parts)}};
    return json_text(out["blocks"], -1);
  };
  fit(build, [&](const std::string& blocks) { return text_units(blocks) <= kMessage && out["blocks"].size() <= kBlocks; });
  return out;
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

template <std::size_t N>
bool is_one(std::string_view word, const std::array<std::string_view, N>& words) {
  for (const std::string_view candidate : words)
    if (word == candidate) return true;
  return false;
}

}  // namespace

HttpRequest slack_webhook_request(const SlackWebhookSettings& settings, const Delivery& delivery) {
  Json json = message(delivery.body);
  json["unfurl_links"] = false;
  json["unfurl_media"] = false;
  json["mrkdwn"] = false;
  return json_post(settings.url.value, json);
}

// "Sending messages using incoming webhooks", handling errors: 200 with "ok"; else a word in plain text.
Outcome read_slack_webhook(const HttpResponse& response, parsers::TimePoint now) {
  if (response.status == 500 && response.body.find("rollup_error") != std::string::npos) return Outcome::again("Slack: rollup_error");
  return outcome_of_status(response, now);
}

HttpRequest slack_bot_request(const SlackBotSettings& settings, const Delivery& delivery) {
  Json json = message(delivery.body);
  json["mrkdwn"] = false;
  json["link_names"] = false;
  json["parse"] = "none";
  json["unfurl_links"] = false;
  json["unfurl_media"] = false;
  const Json receipt = Json::parse(delivery.receipt, nullptr, false);
  const std::string channel = text_of(receipt, "channel"), ts = text_of(receipt, "ts"), thread = text_of(receipt, "thread");
  std::string method = "/chat.postMessage";
  json["channel"] = settings.channel;
  if (!channel.empty() && !ts.empty()) {
    json["channel"] = channel;                 // chat.update takes ids only
    const bool answer = delivery.item.event == "next_run" || !settings.in_place || !delivery.own;
    if (answer) {
      json["thread_ts"] = thread.empty() ? ts : thread;   // an answer to an answer goes to its parent
    } else {
      json["ts"] = ts;
      method = "/chat.update";
      json.erase("mrkdwn");                    // chat.update has no such arguments
      json.erase("unfurl_links");
      json.erase("unfurl_media");
    }
  }
  HttpRequest request = json_post(settings.api + method, json);
  request.headers.emplace_back("Authorization", "Bearer " + settings.token.value);
  return request;
}

// "chat.postMessage", errors: HTTP 200 with {"ok": false, "error": WORD}. 429 carries Retry-After ("Rate limits").
Outcome read_slack_bot(const HttpResponse& response, parsers::TimePoint now) {
  if (response.status != 200) return outcome_of_status(response, now);
  const Json json = Json::parse(response.body, nullptr, false);
  const auto ok = json.is_object() ? json.find("ok") : json.end();
  if (!json.is_object() || ok == json.end() || !ok->is_boolean()) return Outcome::unknown("Slack answered something else: " + answer_text(response));
  if (ok->get<bool>()) {
    Json receipt = {{"channel", text_of(json, "channel")}, {"ts", text_of(json, "ts")}};
    if (const auto posted = json.find("message"); posted != json.end())
      if (const std::string thread = text_of(*posted, "thread_ts"); !thread.empty()) receipt["thread"] = thread;
    return Outcome::told(json_text(receipt, -1));
  }
  const std::string error = text_of(json, "error");
  const std::string why = "Slack: " + cut_text(clean_line(error), 100);
  constexpr std::array<std::string_view, 7> kLater = {"ratelimited", "rate_limited", "message_limit_exceeded", "service_unavailable", "team_added_to_org", "request_timeout", "accesslimited"};
  constexpr std::array<std::string_view, 2> kMaybe = {"fatal_error", "internal_error"};   // "some aspect may have succeeded"
  constexpr std::array<std::string_view, 5> kGone = {"message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found", "is_inactive"};
  if (is_one(error, kLater)) {
    const Outcome by_status = outcome_of_status({429, response.headers, "", false}, now);
    return Outcome::again(why, by_status.after);
  }
  if (is_one(error, kMaybe)) return Outcome::unknown(why);
  if (is_one(error, kGone)) {
    Outcome out = Outcome::again(why, std::chrono::seconds(0), false);
    out.gone = true;
    return out;
  }
  return Outcome::refused(why);
}

}  // namespace triage::daemon
