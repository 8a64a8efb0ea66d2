// history, show, feedback: what a database of incidents knows.
#include <cstdio>

#include "daemon/cli/command.hpp"
#include "daemon/cli/view.hpp"
#include "daemon/http/json_view.hpp"
#include "daemon/runtime/wall_clock.hpp"
#include "db/store.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon {

namespace {

using parsers::Error;
using parsers::ErrorCode;

int out_of(const Error& error) {
  complain(error);
  return kTrouble;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Json row_json(const db::HistoryRow& row) {
  return {{"id", row.id},
          {"fingerprint", row.fingerprint},
          {"kind", row.kind},
          {"phase", row.phase == "unknown" ? Json(nullptr) : Json(row.phase)},
          {"confidence", row.confidence},
          {"summary", row.summary},
          {"source", row.source},
          {"line", row.line},
          {"rank", row.rank ? Json(*row.rank) : Json(nullptr)},
          {"kept_at", time_text(row.kept_at)},
          {"occurred_at", row.occurred_at ? Json(time_text(*row.occurred_at)) : Json(nullptr)},
          {"state", db::incident_state_name(row.state)},
          {"opened_at", row.opened_at ? Json(time_text(*row.opened_at)) : Json(nullptr)},
          {"changed_at", row.changed_at ? Json(time_text(*row.changed_at)) : Json(nullptr)},
          {"same_cause", row.seen}};
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

// "open", "closed": of the service; what a scan kept has no state.
std::string state_text(const db::HistoryRow& row) {
  return row.state == db::IncidentState::kept ? std::string() : std::string(db::incident_state_name(row.state));
}

// "loss.fused", or what was changed where no fix of the catalogue stands for it.
std::string change_text(const db::FixRecord& record) { return record.fix.empty() ? one_line(record.settings, 200) : record.fix; }

// The kept answer, told again from its JSON: it may come from an older triage.
std::string kept_text(const db::Kept& kept) {
  const Json answer = Json::parse(kept.answer, nullptr, false);
  const std::string state = state_text(kept.row);
  const std::string when = state.empty() ? "kept " + time_text(kept.row.kept_at)
                                         : state + ", opened " + time_text(kept.row.opened_at.value_or(kept.row.kept_at)) + ", changed " +
                                               time_text(kept.row.changed_at.value_or(kept.row.kept_at));
  std::string out = kept.row.kind + "  (" + when + ")\n  " + kept.row.summary + "\n  " + one_line(kept.row.source, 300) +
                    ":" + std::to_string(kept.row.line) + "\n";
  if (answer.is_object()) {
    out += "  " + one_line(text_of(answer.value("root", Json::object()).value("text", Json(nullptr))), 400) + "\n";
    for (const Json& reason : answer.value("reasons", Json::array())) out += "  why     " + text_of(reason) + "\n";
    for (const Json& fix : answer.value("fixes", Json::array())) {
      out += "  fix " + text_of(fix.value("rank", Json(nullptr))) + "   " + text_of(fix.value("title", Json(nullptr))) + "  [" +
             text_of(fix.value("id", Json(nullptr))) + "]\n";
      for (const Json& setting : fix.value("apply", Json::array()))
        out += "          " + text_of(setting.value("framework", Json(nullptr))) + ": " + text_of(setting.value("set", Json(nullptr))) + "\n";
    }
  }
  for (const db::Feedback& said : kept.feedback)
    out += "  said    " + (said.fix.empty() ? std::string("the diagnosis") : said.fix) + (said.helped ? " helped" : " did not help") +
           (said.note.empty() ? "" : ": " + one_line(said.note, 500)) + "\n";
  return out + "  seen    " + std::to_string(kept.row.seen) + " with the same cause\n  id      " + kept.row.id + "\n";
}

}  // namespace

int history_command(const HistoryCommand& command) {
  auto store = db::Store::open_read_only(command.database);
  if (!store.ok()) return out_of(store.error());
  db::HistoryQuery query;
  query.kind = command.kind;
  query.fingerprint = command.fingerprint;
  query.limit = command.limit;
  const auto rows = store->history(query);
  if (!rows.ok()) return out_of(rows.error());
  if (command.format == Format::json) {
    Json list = Json::array();
    for (const db::HistoryRow& row : *rows) list.push_back(row_json(row));
    print(json_text(Json{{"incidents", list}}, 2) + "\n");
    return kNothingFound;
  }
  for (const db::HistoryRow& row : *rows) {
    std::string kind = row.kind;
    kind.resize(std::max<std::size_t>(kind.size(), 24), ' ');
    print(row.id.substr(0, 12) + "  " + time_text(row.kept_at).substr(0, 19) + "  " + kind + "  x" + std::to_string(row.seen) + "  " +
          one_line(row.source, 60) + ":" + std::to_string(row.line) + (row.rank ? "  rank " + std::to_string(*row.rank) : "") +
          (row.state == db::IncidentState::kept ? "" : "  " + state_text(row)) + "\n");
  }
  if (rows->empty()) print("no incidents kept in " + command.database + "\n");
  return kNothingFound;
}

int show_command(const ShowCommand& command) {
  auto store = db::Store::open_read_only(command.database);
  if (!store.ok()) return out_of(store.error());
  const auto kept = store->find(command.id);
  if (!kept.ok()) return out_of(kept.error());
  if (command.format == Format::json) {
    Json said = Json::array();
    for (const db::Feedback& item : kept->feedback)
      said.push_back({{"fix", item.fix.empty() ? Json(nullptr) : Json(item.fix)},
                      {"helped", item.helped},
                      {"note", item.note},
                      {"said_at", time_text(item.said_at)}});
    Json answer = Json::parse(kept->answer, nullptr, false);
    print(json_text(Json{{"incident", std::move(answer)}, {"kept", row_json(kept->row)}, {"feedback", said}}, 2) + "\n");
  } else {
    print(parsers::visible(kept_text(*kept), true));
  }
  return kNothingFound;
}

// A fix of the kept answer or of the catalogue: a misspelt id would count for nothing, for ever.
bool known_fix(const std::string& fix, const db::Kept& kept) {
  const Json answer = Json::parse(kept.answer, nullptr, false);
  if (answer.is_object())
    for (const Json& offered : answer.value("fixes", Json::array()))
      if (offered.is_object() && text_of(offered.value("id", Json(nullptr))) == fix) return true;
  const auto knowledge = load_knowledge({}).knowledge;
  if (!knowledge) return true;
  const auto& fixes = knowledge->fixes();
  return std::any_of(fixes.begin(), fixes.end(), [&](const signatures::CatalogueFix& one) { return one.id == fix; });
}

int feedback_command(const FeedbackCommand& command) {
  if (!command.helped)
    return out_of(Error(ErrorCode::syntax, "the feedback does not say whether it helped").help("add --helped or --failed"));
  auto existing = db::Store::open_read_only(command.database);   // never makes a database
  if (!existing.ok()) return out_of(existing.error());
  const auto kept = existing->find(command.id);
  if (!kept.ok()) return out_of(kept.error());
  if (!command.fix.empty() && !known_fix(command.fix, *kept))
    return out_of(Error(ErrorCode::not_found, "no fix has the id '" + command.fix + "'")
                      .help("take the id in brackets after a fix's title: triage show " + kept->row.id.substr(0, 12) + " --db " + command.database));
  auto store = db::Store::open(command.database);
  if (!store.ok()) return out_of(store.error());
  const parsers::Status said = store->say(kept->row.id, {command.fix, *command.helped, command.note, wall_clock()});
  if (!said.ok()) return out_of(said.error());
  print("noted for " + kept->row.id + "\n");
  const auto records = store->fix_records(kept->row.fingerprint);
  if (records.ok())
    for (const db::FixRecord& record : *records)
      print("  " + change_text(record) + " helped " + std::to_string(record.helped) + " of " + std::to_string(record.tried) + " times for this cause\n");
  return kNothingFound;
}

}  // namespace triage::daemon
