#include "db/filter.hpp"

#include "db/convert.hpp"

namespace triage::db {

std::string Filter::parameter(Value value) {
  values_.push_back(std::move(value));
  return "?" + std::to_string(values_.size());
}

void Filter::add(std::string_view condition) {
  text_ += text_.empty() ? "WHERE " : " AND ";
  text_ += condition;
}

void Filter::add(std::string_view condition, Value value) {
  const std::string name = parameter(std::move(value));
  std::string text;
  for (const char c : condition) {
    if (c == '@')
      text += name;
    else
      text += c;
  }
  add(text);
}

int Filter::bind(Statement& statement) const {
  int index = 0;
  for (const auto& value : values_) {
    ++index;
    if (const auto* number = std::get_if<std::int64_t>(&value))
      statement.bind(index, *number);
    else
      statement.bind(index, std::string_view(std::get<std::string>(value)));
  }
  return index + 1;
}

Filter incident_filter(const HistoryQuery& query) {
  Filter filter;
  // '/' is the character after '.': what stands between is what begins with "kind."
  if (!query.kind.empty()) filter.add("(i.kind = @ OR (i.kind >= @ || '.' AND i.kind < @ || '/'))", query.kind);
  if (!query.fingerprint.empty()) filter.add("i.fingerprint = @", query.fingerprint);
  if (!query.job.empty()) filter.add("i.job = @", query.job);
  if (!query.node.empty()) {
    filter.add("i.node <> ''");   // names the partial index
    filter.add("i.node = @", query.node);
  }
  if (query.rank) filter.add("i.rank = @", *query.rank);
  if (query.since) filter.add("i.kept_at >= @", micros(*query.since));
  if (query.until) filter.add("i.kept_at < @", micros(*query.until));
  if (query.open) filter.add(*query.open ? "t.closed = 0" : "coalesce(t.closed, 1) = 1");
  return filter;
}

}  // namespace triage::db
