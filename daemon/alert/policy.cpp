#include "daemon/alert/policy.hpp"

#include <algorithm>
#include <cstdio>

#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::TimePoint;

namespace {

// An item counts as waiting until shortly before its time: nearer to it, the sender may have it already.
constexpr auto kTakenSoon = std::chrono::seconds(1);
constexpr std::size_t kGroupMembers = 50;          // told with one message; more begin another one
constexpr std::size_t kRemembered = 20'000;        // incidents x sinks: some 12 MB
constexpr auto kForgetAfter = std::chrono::hours(14 * 24);   // a later run of the job may come days after

// FNV-1a, 64 bits, as text.
std::string hash_text(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  char out[24];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(hash));
  return out;
}

const Json& child(const Json& json, const char* key) {
  static const Json kNone;
  if (!json.is_object()) return kNone;
  const auto found = json.find(key);
  return found == json.end() ? kNone : *found;
}

std::string label(const Alert& alert, const std::string& name) {
  if (name == "fingerprint") return alert.fingerprint;
  if (name == "kind") return alert.kind;
  if (name == "job") return alert.job;
  if (name == "node") return alert.node;
  if (name == "severity") return alert.severity;
  return "";
}

std::string key_of(const Alert& alert, const std::vector<std::string>& labels) {
  std::string out;
  for (const std::string& name : labels) out += name + "\x1f" + label(alert, name) + "\x1e";
  return hash_text(out);
}

bool any_fits(const std::vector<std::string>& globs, std::string_view text) {
  return globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return glob_fits(glob, text); });
}

bool route_fits(const AlertRoute& route, const Alert& alert) {
  return any_fits(route.jobs, alert.job) && any_fits(route.nodes, alert.node) && (route.kinds.empty() || kind_fits(route.kinds, alert.kind)) &&
         (route.severities.empty() || std::find(route.severities.begin(), route.severities.end(), alert.severity) != route.severities.end());
}

std::string ago(TimePoint::duration time) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time).count();
  return minutes >= 120 ? std::to_string(minutes / 60) + " h ago" : std::to_string(minutes) + " min ago";
}

Json member(const Alert& alert) {
  return {{"incident", alert.incident}, {"job", alert.job}, {"node", alert.node}, {"kind", alert.kind}, {"summary", child(alert.incident_json, "summary")}};
}

bool same(const std::string& a, const std::string& b) { return !a.empty() && a == b; }

// What this very plan was about to put is not there to be taken back.
void withdraw(AlertPlan& plan, const AlertKey& key) {
  const auto is_it = [&](const AlertItem& one) { return one.sink == key.sink && one.incident == key.incident && one.event == key.event && one.revision == key.revision; };
  if (std::erase_if(plan.put, is_it) == 0) plan.withdraw.push_back(key);
}

}  // namespace

std::string alert_digest(const Json& incident) {
  const Json& root = child(incident, "root");
  Json parts = {child(incident, "kind"), child(incident, "summary"), child(incident, "plan"), child(root, "source"), child(root, "line"), child(root, "rank"), child(root, "node"),
                child(child(incident, "collective"), "culprit_ranks")};
  if (const Json& sets = child(child(incident, "collective"), "one_of"); sets.is_array() && !sets.empty()) parts.push_back(sets);
  const Json& fixes = child(incident, "fixes");
  for (std::size_t i = 0; fixes.is_array() && i < fixes.size() && i < 2; ++i) {
    parts.push_back(child(fixes[i], "id"));
    parts.push_back(child(fixes[i], "apply"));
    parts.push_back(child(fixes[i], "fits"));
  }
  return hash_text(json_text(parts, -1));
}

AlertPolicy::AlertPolicy(std::shared_ptr<const AlertConfig> config) : config_(std::move(config)) {}

AlertPlan AlertPolicy::plan(const Alert& alert, const SilenceCheck& silenced, TimePoint now) {
  AlertPlan plan;
  forget_old(now);
  seen_[alert.incident] = {alert.kind, alert.job, alert.node, alert.at};
  take_back_echoes(alert, plan, now);
  std::vector<std::string> done;
  for (const AlertRoute& route : config_->routes) {
    if (!route_fits(route, alert)) continue;
    if (route.mute) plan.held.push_back({"", alert.incident, HeldReason::muted, "muted by a route"});
    for (const std::string& name : route.sinks) {
      const SinkConfig* sink = config_->sink(name);
      if (sink == nullptr || std::find(done.begin(), done.end(), name) != done.end()) continue;
      done.push_back(name);
      tell(alert, *sink, route, silenced, now, plan);
    }
    if (!route.go_on) break;
  }
  return plan;
}

void AlertPolicy::tell(const Alert& alert, const SinkConfig& sink, const AlertRoute& route, const SilenceCheck& silenced, TimePoint now, AlertPlan& plan) {
  if (silenced) {
    if (const std::string silence = silenced(alert, now); !silence.empty()) {
      const std::size_t held = plan.held.size();
      take_back({sink.name, alert.incident}, HeldReason::silenced, silence, plan, now);
      if (plan.held.size() == held) plan.held.push_back({sink.name, alert.incident, HeldReason::silenced, silence});
      return;
    }
  }
  const auto told = told_.find({sink.name, alert.incident});
  if (told != told_.end()) return tell_again(alert, sink, told->second, now, plan);
  if (alert.event == "next_run") return;   // nobody was told of the failure
  if (const std::string source = echo_of(alert, now); !source.empty()) {
    plan.held.push_back({sink.name, alert.incident, HeldReason::inhibited, "echo of " + source});
    return;
  }
  tell_first(alert, sink, route, now, plan);
}

void AlertPolicy::tell_first(const Alert& alert, const SinkConfig& sink, const AlertRoute& route, TimePoint now, AlertPlan& plan) {
  Told told;
  told.digest = alert_digest(alert.incident_json);
  told.revision = alert.revision;
  told.thread = alert.incident;
  told.group = key_of(alert, config_->group_by);
  told.repeat = key_of(alert, {"job", "fingerprint"});
  told.alert = alert;
  told.waiting = true;
  told.first = true;
  Repeat& repeat = repeats_[{sink.name, told.repeat}];
  const auto interval = route.repeat_interval.value_or(config_->repeat_interval);
  if (!repeat.incident.empty() && repeat.incident != alert.incident && now - repeat.at < interval) {
    ++repeat.held;
    told.held = true;
    told.waiting = false;
    told.first = false;
    told.at = now;
    told.thread = repeat.incident;
    told.alert = {};
    plan.held.push_back({sink.name, alert.incident, HeldReason::repeated, "told " + ago(now - repeat.at)});
    told_[{sink.name, alert.incident}] = std::move(told);
    return;
  }
  told.at = now + route.group_wait.value_or(config_->group_wait);
  std::uint64_t seen = repeat.held;
  if (!sink.per_incident()) {
    const auto group = groups_.find({sink.name, told.group});
    const auto leader = group == groups_.end() ? told_.end() : told_.find({sink.name, group->second});
    if (leader != told_.end() && leader->second.waiting && leader->second.at > now + kTakenSoon && leader->second.others.size() < kGroupMembers) {
      // The waiting message is taken back and told anew under the newcomer, at the time of the first.
      told.at = leader->second.at;
      told.others = std::move(leader->second.others);
      told.others.push_back(leader->first.second);
      withdraw(plan, leader->second.key);
      leader->second.waiting = false;
      leader->second.first = false;
      leader->second.others.clear();
    }
    groups_[{sink.name, told.group}] = alert.incident;
  }
  repeat = {alert.incident, told.at, 0};
  AlertItem out = item(alert, sink, told, told.at, seen);
  for (const std::string& other : told.others) {
    Told& member_told = told_[{sink.name, other}];
    member_told.thread = alert.incident;
    member_told.at = told.at;
  }
  told.key = {out.sink, out.incident, out.event, out.revision};
  told_[{sink.name, alert.incident}] = std::move(told);
  plan.put.push_back(std::move(out));
}

// While the message of its group waits, a change of a member changes that message.
bool AlertPolicy::tell_in_group(const Alert& alert, const SinkConfig& sink, Told& told, TimePoint now, AlertPlan& plan) {
  if (told.waiting || told.thread == alert.incident) return false;
  if (waiting_message({sink.name, alert.incident}, now) == nullptr) return false;
  Told& leader = told_[{sink.name, told.thread}];
  told.revision = alert.revision;
  told.digest = alert_digest(alert.incident_json);
  told.alert = alert;
  withdraw(plan, leader.key);
  plan.put.push_back(item(leader.alert, sink, leader, leader.at, 0));
  return true;
}

void AlertPolicy::tell_again(const Alert& alert, const SinkConfig& sink, Told& told, TimePoint now, AlertPlan& plan) {
  const bool next_run = alert.event == "next_run", closed = alert.event == "closed";
  if (!next_run && alert.revision <= told.revision && told.key.event == alert.event) return;
  if (next_run && told.held) return;       // its message was never made
  const std::string digest = alert_digest(alert.incident_json);
  const bool changed = digest != told.digest;
  if (told.held) {                         // the cause was told before; only a different answer is news
    told.revision = alert.revision;
    if (!changed) return;
    told.held = false;
    told.digest.clear();
    told.thread = alert.incident;
  }
  if (!next_run && alert.revision < told.revision) return;
  if (!next_run && tell_in_group(alert, sink, told, now, plan)) return;
  const bool waits = told.waiting && told.at > now + kTakenSoon;
  told.revision = std::max(told.revision, alert.revision);
  if (waits && !next_run) {
    // One message instead of two, at the time of the first.
    withdraw(plan, told.key);
  } else if (!next_run) {
    // Chats hear of what has changed; a close that says nothing new is told only where it changes a message. Machines hear all.
    const bool wanted = changed ? (closed || sink.in_place()) : (closed && sink.in_place());
    if (!wanted && !(sink.per_incident() && changed)) return;
    told.at = closed ? std::max(now, std::min(told.at + std::chrono::seconds(1), now + config_->group_interval)) : std::max(now, told.at + config_->group_interval);
    if (told.waiting) withdraw(plan, told.key);   // it may still wait for a retry: then the newer text takes its place
    told.first = false;
  } else {
    told.at = std::max(now, waits ? told.at : now);
  }
  told.digest = digest;
  told.alert = alert;
  AlertItem out = item(alert, sink, told, told.at, 0);
  if (!next_run) {
    told.waiting = true;
    told.key = {out.sink, out.incident, out.event, out.revision};
  }
  plan.put.push_back(std::move(out));
}

AlertPlan AlertPolicy::recheck(const SilenceCheck& silenced, TimePoint now) {
  AlertPlan plan;
  std::vector<std::pair<std::pair<std::string, std::string>, std::string>> found;
  for (const auto& [key, told] : told_) {
    if (waiting_message(key, now) == nullptr || !silenced) continue;
    if (std::string silence = silenced(told.alert, now); !silence.empty()) found.emplace_back(key, std::move(silence));
  }
  for (const auto& [key, silence] : found) take_back(key, HeldReason::silenced, silence, plan, now);
  return plan;
}

// The message that tells of this incident and surely waits: its own, or that of its group.
const AlertPolicy::Told* AlertPolicy::waiting_message(const std::pair<std::string, std::string>& key, TimePoint now) const {
  const auto waits = [&](const Told& told) { return told.waiting && told.at > now + kTakenSoon; };
  const auto found = told_.find(key);
  if (found == told_.end()) return nullptr;
  if (waits(found->second)) return &found->second;
  const auto leader = told_.find({key.first, found->second.thread});
  if (leader == told_.end() || !waits(leader->second)) return nullptr;
  const auto& others = leader->second.others;
  return std::find(others.begin(), others.end(), key.second) != others.end() ? &leader->second : nullptr;
}

// The message is taken back, and put again without this incident where it tells of others too.
void AlertPolicy::take_back(const std::pair<std::string, std::string>& key, HeldReason reason, const std::string& why, AlertPlan& plan, TimePoint now) {
  const Told* message = waiting_message(key, now);
  if (message == nullptr) return;
  const AlertKey old = message->key;
  const TimePoint at = message->at;
  std::vector<std::string> left = message->others;
  left.push_back(old.incident);
  std::erase(left, key.second);
  withdraw(plan, old);
  plan.held.push_back({key.first, key.second, reason, why});
  if (!message->first) {                       // it was told of before: only this change is taken back
    Told& told = told_[key];
    told.waiting = false;
    told.digest.clear();                       // the next change is news
    return;
  }
  if (const auto repeat = repeats_.find({key.first, told_[key].repeat}); repeat != repeats_.end() && repeat->second.incident == key.second) repeats_.erase(repeat);
  Told& before = told_[{key.first, old.incident}];
  before.waiting = false;
  before.first = false;
  before.others.clear();
  told_.erase(key);
  const SinkConfig* sink = config_->sink(key.first);
  std::erase_if(left, [&](const std::string& incident) {
    const auto member = told_.find({key.first, incident});
    return member == told_.end() || member->second.alert.incident_json.is_null();
  });
  if (left.empty() || sink == nullptr) return;
  const std::string leader_name = left.back();
  left.pop_back();
  for (const std::string& other : left) told_[{key.first, other}].thread = leader_name;
  Told& leader = told_[{key.first, leader_name}];
  leader.thread = leader_name;
  leader.others = std::move(left);
  leader.at = at;
  leader.waiting = true;
  leader.first = true;
  AlertItem out = item(leader.alert, *sink, leader, at, 0);
  leader.key = {out.sink, out.incident, out.event, out.revision};
  groups_[{key.first, leader.group}] = leader_name;
  plan.put.push_back(std::move(out));
}

// The time between two incidents counts, not when they changed last.
std::string AlertPolicy::echo_of(const Alert& alert, TimePoint) const {
  for (const InhibitRule& rule : config_->inhibit) {
    if (!kind_fits(rule.echo, alert.kind)) continue;
    for (const auto& [incident, seen] : seen_) {
      const auto apart = seen.at > alert.at ? seen.at - alert.at : alert.at - seen.at;
      if (incident == alert.incident || apart > rule.within || !kind_fits(rule.of, seen.kind) || kind_fits(rule.echo, seen.kind)) continue;
      for (const std::string& name : rule.equal)
        if (name == "job" ? same(alert.job, seen.job) : same(alert.node, seen.node)) return incident;
    }
  }
  return "";
}

void AlertPolicy::take_back_echoes(const Alert& alert, AlertPlan& plan, TimePoint now) {
  std::vector<std::pair<std::string, std::string>> echoes;
  for (const InhibitRule& rule : config_->inhibit) {
    if (!kind_fits(rule.of, alert.kind) || kind_fits(rule.echo, alert.kind)) continue;
    for (const auto& entry : told_) {
      const auto& key = entry.first;
      const Told& told = entry.second;
      const auto apart = told.alert.at > alert.at ? told.alert.at - alert.at : alert.at - told.alert.at;
      if (key.second == alert.incident || apart > rule.within || !kind_fits(rule.echo, told.alert.kind)) continue;
      if (waiting_message(key, now) == nullptr) continue;
      if (std::any_of(rule.equal.begin(), rule.equal.end(), [&](const std::string& name) { return name == "job" ? same(alert.job, told.alert.job) : same(alert.node, told.alert.node); }))
        echoes.push_back(key);
    }
  }
  for (const auto& key : echoes) take_back(key, HeldReason::inhibited, "echo of " + alert.incident, plan, now);
}

AlertItem AlertPolicy::item(const Alert& alert, const SinkConfig& sink, const Told& told, TimePoint not_before, std::uint64_t seen) const {
  Json body = alert_body(alert);
  Json others = Json::array(), known = Json::array();
  for (const std::string& incident : told.others) {
    const auto found = told_.find({sink.name, incident});
    if (found == told_.end()) continue;
    others.push_back(member(found->second.alert));
    known.push_back({{"incident", incident}, {"digest", found->second.digest}, {"revision", found->second.revision}, {"event", found->second.key.event}, {"repeat", found->second.repeat}});
  }
  body["group"] = {{"others", others}};
  body["seen"] = seen;
  body["policy"] = {{"digest", told.digest}, {"thread", told.thread}, {"group", told.group}, {"repeat", told.repeat},
                    {"kind", alert.kind},     {"job", alert.job},      {"node", alert.node},   {"at", time_text(alert.at)}, {"others", known}};
  AlertItem out;
  out.sink = sink.name;
  out.channel = sink.channel();
  out.incident = alert.incident;
  out.event = alert.event;
  out.revision = alert.revision;
  out.body = json_text(body, -1);
  out.not_before = not_before;
  return out;
}

void AlertPolicy::restore(const AlertItem& item, const std::string& record, bool waiting, TimePoint at) {
  const Json json = Json::parse(record, nullptr, false);
  const Json& policy = child(json, "policy");
  if (!policy.is_object()) return;
  const auto text = [&](const char* key) { return child(policy, key).is_string() ? child(policy, key).get<std::string>() : std::string(); };
  Told& told = told_[{item.sink, item.incident}];
  if (item.revision >= told.revision) {
    told.first = waiting && told.digest.empty();   // nothing earlier is known
    told.revision = item.revision;
    told.digest = text("digest");
    told.thread = text("thread");
    told.group = text("group");
    told.repeat = text("repeat");
    told.at = at;
    told.waiting = waiting;
    told.key = {item.sink, item.incident, item.event, item.revision};
    told.alert.incident = item.incident;
    told.alert.kind = text("kind");
    told.alert.job = text("job");
    told.alert.node = text("node");
    told.alert.at = at;
    told.alert.incident_json = child(json, "incident");
    told.alert.event = item.event;
    told.alert.revision = item.revision;
    told.alert.fingerprint = child(told.alert.incident_json, "fingerprint").is_string() ? told.alert.incident_json["fingerprint"].get<std::string>() : "";
    told.alert.severity = default_severity(told.alert.kind);
    told.others.clear();
    if (waiting) groups_[{item.sink, told.group}] = item.incident;
    restore_others(item, json, waiting);
  }
  Repeat& repeat = repeats_[{item.sink, told.repeat}];
  if (item.event != "next_run" && at >= repeat.at) repeat = {told.thread.empty() ? item.incident : told.thread, at, 0};
  seen_[item.incident] = {told.alert.kind, told.alert.job, told.alert.node, at};
}

// The incidents that a message told of besides its own. What is left of their words is enough to tell them alone.
void AlertPolicy::restore_others(const AlertItem& item, const Json& record, bool waiting) {
  const Told& leader = told_[{item.sink, item.incident}];
  const Json &known = child(child(record, "policy"), "others"), &words = child(child(record, "group"), "others");
  const auto text = [](const Json& json, const char* key) { return child(json, key).is_string() ? child(json, key).get<std::string>() : std::string(); };
  std::vector<std::string> names;
  for (std::size_t i = 0; known.is_array() && i < known.size(); ++i) {
    const std::string incident = text(known[i], "incident");
    if (incident.empty() || incident == item.incident) continue;
    names.push_back(incident);
    Told other;
    other.revision = child(known[i], "revision").is_number_unsigned() ? child(known[i], "revision").get<std::uint64_t>() : 0;
    if (const auto before = told_.find({item.sink, incident}); before != told_.end() && before->second.revision > other.revision) continue;
    other.digest = text(known[i], "digest");
    other.thread = item.incident;
    other.group = leader.group;
    other.repeat = text(known[i], "repeat");
    other.at = leader.at;
    other.key = {item.sink, incident, text(known[i], "event"), other.revision};
    other.alert.incident = incident;
    other.alert.event = other.key.event;
    other.alert.revision = other.revision;
    other.alert.at = leader.alert.at;
    other.alert.fingerprint = leader.alert.fingerprint;
    if (words.is_array() && i < words.size()) {
      other.alert.kind = text(words[i], "kind");
      other.alert.job = text(words[i], "job");
      other.alert.node = text(words[i], "node");
      other.alert.severity = default_severity(other.alert.kind);
      other.alert.incident_json = {{"id", incident}, {"kind", other.alert.kind}, {"job", other.alert.job}, {"summary", child(words[i], "summary")}};
    }
    told_[{item.sink, incident}] = std::move(other);
  }
  if (waiting) told_[{item.sink, item.incident}].others = std::move(names);
}

void AlertPolicy::forget_old(TimePoint now) {
  if (now - swept_ < std::chrono::minutes(10) && told_.size() < kRemembered) return;
  swept_ = now;
  const auto keep = std::max<TimePoint::duration>(kForgetAfter, config_->repeat_interval);
  const auto drop = [&](TimePoint limit) {
    std::erase_if(told_, [&](const auto& entry) { return entry.second.at < limit; });
    std::erase_if(seen_, [&](const auto& entry) { return entry.second.at < limit; });
    std::erase_if(repeats_, [&](const auto& entry) { return entry.second.at < limit; });
    std::erase_if(groups_, [&](const auto& entry) { return !told_.contains({entry.first.first, entry.second}); });
  };
  drop(now - keep);
  for (auto& [key, told] : told_)
    if (told.at < now - std::chrono::hours(1)) {   // the texts are needed only while something waits
      told.alert.incident_json = nullptr;
      told.waiting = false;
    }
  for (auto limit = keep; told_.size() >= kRemembered && limit > std::chrono::minutes(1);) {
    limit /= 2;
    drop(now - limit);
  }
}

}  // namespace triage::daemon
