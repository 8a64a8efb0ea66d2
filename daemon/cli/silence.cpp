#include <pwd.h>
#include <unistd.h>

#include <cstdio>

#include "daemon/cli/command.hpp"
#include "daemon/config/config.hpp"
#include "daemon/config/fields.hpp"
#include "daemon/http/json_view.hpp"
#include "daemon/runtime/wall_clock.hpp"
#include "db/silences.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon {

namespace {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Result;

std::string user_name() {
  const passwd* const user = ::getpwuid(::getuid());
  return user ? user->pw_name : std::to_string(::getuid());
}

Result<std::string> database_of(const SilenceCommand& command) {
  if (!command.database.empty()) return command.database;
  ReadConfig read = read_config_file(command.config);
  if (!read.faults.empty()) return std::move(read.faults.front());
  return read.config.database;
}

std::string fits(const db::Silence& silence) {
  std::string out;
  const auto add = [&out](const char* name, const std::string& value) {
    if (!value.empty()) out += (out.empty() ? "" : " ") + std::string(name) + "=" + parsers::visible(value);
  };
  add("kind", silence.kind);
  add("job", silence.job);
  add("node", silence.node);
  add("fingerprint", silence.fingerprint);
  return out.empty() ? "everything" : out;
}

int print(const std::vector<db::Silence>& silences, Format format) {
  if (format == Format::json) {
    Json list = Json::array();
    for (const db::Silence& one : silences)
      list.push_back({{"id", one.id}, {"kind", one.kind}, {"job", one.job}, {"node", one.node}, {"fingerprint", one.fingerprint}, {"starts_at", time_text(one.starts_at)},
                      {"ends_at", time_text(one.ends_at)}, {"author", one.author}, {"reason", one.reason}});
    std::printf("%s\n", json_text(Json{{"silences", list}}, 2).c_str());
    return kNothingFound;
  }
  if (silences.empty()) std::printf("no silence holds now\n");
  for (const db::Silence& one : silences)
    std::printf("%lld  until %s  %s  %s: %s\n", static_cast<long long>(one.id), time_text(one.ends_at).c_str(), fits(one).c_str(), parsers::visible(one.author).c_str(),
                parsers::visible(one.reason).c_str());
  return kNothingFound;
}

Result<int> run(const SilenceCommand& command) {
  TRIAGE_TRY(const std::string database, database_of(command));
  TRIAGE_TRY(db::Silences store, db::Silences::open(database));
  if (command.what == SilenceCommand::What::list) {
    TRIAGE_TRY(const std::vector<db::Silence> found, command.all ? store.all(1000) : store.active(wall_clock()));
    return print(found, command.format);
  }
  if (command.what == SilenceCommand::What::end) {
    TRIAGE_CHECK(store.end(command.id, wall_clock()));
    std::printf("silence %ld has ended\n", command.id);
    return static_cast<int>(kNothingFound);
  }
  const auto length = read_duration(command.duration);
  if (!length || length->count() <= 0) return Error(ErrorCode::syntax, "'" + command.duration + "' is no duration").help("give a number and a unit: 30m, 2h, 3d");
  db::Silence silence;
  silence.kind = command.kind;
  silence.job = command.job;
  silence.node = command.node;
  silence.fingerprint = command.fingerprint;
  silence.reason = command.reason;
  silence.author = command.author.empty() ? user_name() : command.author;
  silence.starts_at = wall_clock();
  silence.ends_at = silence.starts_at + *length;
  TRIAGE_TRY(silence.id, store.add(silence, silence.starts_at));
  std::printf("silence %lld holds back alerts of %s until %s\n", static_cast<long long>(silence.id), fits(silence).c_str(), time_text(silence.ends_at).c_str());
  return static_cast<int>(kNothingFound);
}

}  // namespace

int silence_command(const SilenceCommand& command) {
  const Result<int> done = run(command);
  if (done.ok()) return *done;
  complain(done.error());
  return kTrouble;
}

}  // namespace triage::daemon
