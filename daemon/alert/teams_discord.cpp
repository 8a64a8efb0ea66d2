// Microsoft Teams (a workflow that posts cards) and Discord (webhooks; also what speaks its form).
#include "daemon/alert/sink.hpp"

namespace triage::daemon {
namespace {

// learn.microsoft.com "Create Incoming Webhooks": messages of at most 28 KB. Others met the limit at 21 KB, since what Teams counts is
// longer than what is sent (msteams_hermes, Message), so we stay under that.
constexpr std::size_t kTeamsBytes = 20 * 1000;

// A TextRun is shown as it is: TextBlocks would read Markdown (adaptivecards.io, "RichTextBlock", "TextRun").
Json run(const std::string& text, bool bold = false, bool mono = false) {
  Json out = {{"type", "TextRun"}, {"text", guard_mentions(text)}};
  if (bold) out["weight"] = "Bolder";
  if (mono) out["fontType"] = "Monospace";
  return out;
}

Json rich(Json inlines, bool separator = false) {
  Json out = {{"type", "RichTextBlock"}, {"inlines", std::move(inlines)}};
  if (separator) out["separator"] = true;
  return out;
}

Json card(const AlertText& text) {
  Json body = Json::array();
  Json title = run(text.title, true);
  title["size"] = "Large";
  title["color"] = text.severity == "critical" ? "Attention" : text.severity == "warning" ? "Warning" : "Default";
  body.push_back(rich(Json::array({title})));
  if (!text.what.empty()) body.push_back(rich(Json::array({run(text.what)})));
  for (const auto& [name, value] : text.facts) body.push_back(rich(Json::array({run(name + ": ", true), run(value)})));
  if (!text.evidence.empty()) body.push_back(rich(Json::array({run(text.evidence, false, true)}), true));
  int position = 0;
  for (const AlertFix& fix : text.fixes) {
    body.push_back(rich(Json::array({run("Fix " + std::to_string(++position) + ": ", true), run(fix.title)}), true));
    if (!fix.set.empty()) body.push_back(rich(Json::array({run(fix.set, false, true)})));
    if (!fix.numbers.empty()) body.push_back(rich(Json::array({run(fix.numbers)})));
  }
  if (!text.verdict.empty()) body.push_back(rich(Json::array({run("Plan: ", true), run(text.verdict)})));
  if (!text.others.empty()) body.push_back(rich(Json::array({run("The same cause:", true)}), true));
  for (const std::string& other : text.others) body.push_back(rich(Json::array({run("- " + other)})));
  body.push_back(rich(Json::array({run("incident " + text.incident + ", " + text.severity)})));
  Json out = {{"$schema", "http://adaptivecards.io/schemas/adaptive-card.json"}, {"type", "AdaptiveCard"}, {"version", "1.4"}, {"body", body}, {"msteams", {{"width", "Full"}}}};
  if (!text.link.empty()) out["actions"] = Json::array({{{"type", "Action.OpenUrl"}, {"title", "Open the diagnosis"}, {"url", text.link}}});
  return out;
}

// discord.com/developers "Message Create", "Embed limits": content 2000, title 256, description 4096, field name 256, field value 1024,
// 25 fields, all of an embed 6000 characters.
constexpr std::size_t kContent = 2000, kEmbedTitle = 256, kDescription = 4096, kFieldValue = 1024, kFields = 25, kEmbed = 6000;

Json field(const std::string& name, std::string value) {
  if (value.empty()) value = "-";
  return {{"name", name}, {"value", std::move(value)}, {"inline", false}};
}

Json embed(const AlertText& text) {
  Json fields = Json::array();
  const auto plain = [](const std::string& value) { return cut_escaped(value, kFieldValue, escape_discord); };
  const auto code = [](const std::string& value, std::size_t room) { return cut_escaped(value, room, code_block); };
  for (const auto& [name, value] : text.facts) fields.push_back(field(name, plain(value)));
  if (!text.evidence.empty()) fields.push_back(field("Line", code(text.evidence, kFieldValue)));
  int position = 0;
  for (const AlertFix& fix : text.fixes) {
    std::string value = cut_escaped(fix.title, 250, escape_discord);
    if (!fix.set.empty()) value += "\n" + code(fix.set, 450);
    if (!fix.numbers.empty()) value += "\n" + cut_escaped(fix.numbers, 300, escape_discord);
    fields.push_back(field("Fix " + std::to_string(++position), value));
  }
  if (!text.verdict.empty()) fields.push_back(field("Plan", plain(text.verdict)));
  if (!text.others.empty()) {
    std::string list;
    for (const std::string& other : text.others) list += "- " + other + "\n";
    fields.push_back(field("The same cause", cut_escaped(list, kFieldValue, escape_discord)));
  }
  while (fields.size() > kFields) fields.erase(fields.size() - 1);
  Json out = {{"title", cut_escaped(text.title, kEmbedTitle, escape_discord)},
              {"description", cut_escaped(text.what, kDescription, escape_discord)},
              {"color", text.severity == "critical" ? 0xd7263d : text.severity == "warning" ? 0xf4a261 : 0x3a86ff},
              {"fields", fields},
              {"footer", {{"text", "incident " + text.incident + ", " + text.severity}}}};
  if (!text.link.empty()) out["url"] = text.link;
  return out;
}

std::size_t embed_units(const Json& embed) {
  std::size_t units = text_units(embed["title"].get<std::string>()) + text_units(embed["description"].get<std::string>()) + text_units(embed["footer"]["text"].get<std::string>());
  for (const Json& one : embed["fields"]) units += text_units(one["name"].get<std::string>()) + text_units(one["value"].get<std::string>());
  return units;
}

std::string digits_of(const Json& receipt, const char* key) {
  const auto found = receipt.is_object() ? receipt.find(key) : receipt.end();
  if (found == receipt.end() || !found->is_string()) return "";
  const auto& text = found->get_ref<const std::string&>();
  return text.size() < 32 && text.find_first_not_of("0123456789") == std::string::npos ? text : std::string();
}

}  // namespace

HttpRequest teams_request(const TeamsSettings& settings, const Delivery& delivery) {
  const AlertText text = alert_text(delivery.body);
  Json json;
  const auto build = [&](double scale) {
    json = {{"type", "message"}, {"attachments", Json::array({{{"contentType", "application/vnd.microsoft.card.adaptive"}, {"contentUrl", nullptr}, {"content", card(cut_parts(text, scale))}}})}};
    return json_text(json, -1);
  };
  fit(build, [](const std::string& body) { return body.size() <= kTeamsBytes; });
  return json_post(settings.url.value, json);
}

// A receipt makes it a change of that message ("Edit Webhook Message"); news of a later run are a message of their own.
HttpRequest discord_request(const DiscordSettings& settings, const Delivery& delivery) {
  const AlertText text = alert_text(delivery.body);
  Json part;
  const auto build = [&](double scale) {
    part = embed(cut_parts(text, scale));
    return std::string();
  };
  fit(build, [&](const std::string&) { return embed_units(part) <= kEmbed; });
  Json json = {{"content", cut_escaped(text.title, kContent, escape_discord)}, {"embeds", Json::array({part})}, {"allowed_mentions", {{"parse", Json::array()}}}};
  const std::string id = delivery.item.event == "next_run" || !delivery.own ? "" : digits_of(Json::parse(delivery.receipt, nullptr, false), "id");
  std::string url = settings.url.value;
  const std::size_t query = url.find('?');
  const std::string rest = query == std::string::npos ? "" : url.substr(query + 1);
  url = url.substr(0, query);
  while (url.ends_with('/')) url.pop_back();
  HttpRequest request;
  if (!id.empty()) {
    request = json_post(url + "/messages/" + id + (rest.empty() ? "" : "?" + rest), json);
    request.method = "PATCH";
  } else {
    request = json_post(url + "?wait=true" + (rest.empty() ? "" : "&" + rest), json);   // "Execute Webhook": wait gives the message back
  }
  return request;
}

// 429: retry_after in seconds in the body, Retry-After as a header ("Rate Limits"). 10008: unknown message.
Outcome read_discord(const HttpResponse& response, parsers::TimePoint now) {
  const Json json = Json::parse(response.body, nullptr, false);
  Outcome out = outcome_of_status(response, now);
  if (out.kind == Outcome::Kind::sent) {
    if (const std::string id = digits_of(json, "id"); !id.empty()) out.receipt = json_text({{"id", id}}, -1);
    return out;
  }
  if (response.status == 429 && !out.after && json.is_object())
    if (const auto wait = json.find("retry_after"); wait != json.end() && wait->is_number())
      if (const std::int64_t seconds = retry_after_seconds(wait->dump(), 0); seconds >= 0) out.after = std::chrono::seconds(seconds);
  if (response.status == 404 && json.is_object() && json.contains("code") && json["code"] == 10008) {
    out = Outcome::again("Discord: the message is gone", std::chrono::seconds(0), false);
    out.gone = true;
  }
  return out;
}

}  // namespace triage::daemon
