// What the commands share: output kinds, exit statuses, options, and the one function a command gives to main.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "daemon/pipeline/knowledge.hpp"
#include "daemon/tail/rule_files.hpp"
#include "parsers/base/result.hpp"
#include "parsers/base/units.hpp"

namespace triage::daemon {

enum class Format { text, json, markdown, sarif };

// Exit statuses of all commands but `run`, which keeps that of its command.
enum ExitStatus : int {
  kNothingFound = 0,   // no failure; or the command did what it was asked
  kFailureFound = 1,   // at least one incident
  kTrouble = 2,        // an input, a rule or the database could not be used, and no incident was found in the rest
};

struct ScanCommand {
  std::vector<std::string> paths;
  Format format = Format::text;
  std::string since;                    // clock time; empty: all
  std::string database;                 // empty: keep nothing
  std::vector<std::string> rules;       // files or folders with the user's rules
  unsigned threads = 0;                 // 0: one a core
  bool all = false;                     // text: every incident in full, not one screen each
};
int scan_command(const ScanCommand& command);

struct RunCommand {
  std::vector<std::string> command;
  Format format = Format::text;
  std::string database, log;            // log: file that gets a copy of what passed through
  std::vector<std::string> rules;
};
int run_command(const RunCommand& command);

struct SnapshotCommand {
  std::vector<std::string> paths;       // one file, or the files or folder of a run's ranks
  std::string compare;                  // a second file: what changed; empty: none
  std::vector<std::string> what_if;     // allocator settings to replay under, or "all"
  std::string capacity, total_memory;   // of the device, for the replay; empty: what the snapshot shows
  std::string html;                     // write a page with timeline, flame graph and segment map here; empty: none
  Format format = Format::text;
};
int snapshot_command(const SnapshotCommand& command);

struct PlanCommand {
  std::vector<std::string> logs;        // runs whose configuration is planned, with what they measured
  std::string megatron_arguments;       // file with Megatron-LM's command line, or "-"
  std::vector<std::string> configs;     // configuration files of DeepSpeed, torchtitan, Megatron Bridge, ...
  std::string model;                    // config.json of a Hugging Face model
  std::vector<std::pair<std::string, std::string>> settings;   // key of keys.def -> value, in the order given; over all the rest
  std::string gpu, capacity;            // name of a card, or bytes ("80GiB"); empty: not known
  std::optional<long> rank;             // show the stage of this rank only
  bool sweep = false;                   // list the layouts that fit
  Format format = Format::text;
};
int plan_command(const PlanCommand& command);

struct RulesCommand {
  enum class What { check, test, list, explain, make, literals } what = What::check;
  std::vector<std::string> files;       // the user's rules; empty: the shipped ones alone
  std::string line;                     // explain, make
  std::vector<std::string> against;     // test: logs on which nothing new may fire
  Format format = Format::text;
};
int rules_command(const RulesCommand& command);

struct HistoryCommand {
  std::string database, kind, fingerprint;
  long limit = 50;
  Format format = Format::text;
};
int history_command(const HistoryCommand& command);

struct ShowCommand {
  std::string database, id;
  Format format = Format::text;
};
int show_command(const ShowCommand& command);

struct FeedbackCommand {
  std::string database, id, fix, note;
  std::optional<bool> helped;           // has to be said
};
int feedback_command(const FeedbackCommand& command);

struct ServeCommand {
  std::string config = "/etc/triaged/triaged.yaml";
  bool check = false;                   // read configuration and rules, say what is wrong, and end
};
int serve_command(const ServeCommand& command);

struct StatusCommand {
  std::string config = "/etc/triaged/triaged.yaml";   // names the service's address, where `url` does not
  std::string url, token;               // token: env:NAME, file:PATH or the token itself; empty: TRIAGED_TOKEN of the environment
  Format format = Format::text;
};
int status_command(const StatusCommand& command);

struct SilenceCommand {
  enum class What { add, list, end } what = What::list;
  std::string config = "/etc/triaged/triaged.yaml", database;   // database: empty: that of the configuration
  std::string kind, job, node, fingerprint, reason, author, duration;
  long id = 0;                          // end
  bool all = false;                     // list: those that have ended, too
  Format format = Format::text;
};
int silence_command(const SilenceCommand& command);

struct AlertTestCommand {
  std::string config = "/etc/triaged/triaged.yaml", sink;
};
int alert_test_command(const AlertTestCommand& command);

// Loads the rules with the user's files over them; faults go to stderr, and the result is null. `checked`: lint and examples of the
// user's files count as well; what a scan can do without is only told.
std::shared_ptr<const Knowledge> knowledge_or_complain(const std::vector<std::string>& rule_paths, bool checked = true);

// Errors to stderr, by the one renderer.
void complain(const std::vector<parsers::Error>& errors);
void complain(const parsers::Error& error);
// The status of a command whose output went to stdout: kTrouble, and a complaint, if not all of it could be written.
int written_or_complain(int status);
// The answer of a scan to a stream, as the format says.
void print_answer(const struct Answer& answer, Format format, bool all, const std::string& rules_hash, std::FILE* out);

}  // namespace triage::daemon
