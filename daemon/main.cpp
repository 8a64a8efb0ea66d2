// Arguments to a command, its exit status to the caller; nothing else.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <new>

#include "daemon/cli/command.hpp"

namespace {

using namespace triage::daemon;

constexpr const char* kDatabase = "triage.db";

void format_option(CLI::App& app, Format& format, bool all_kinds) {
  std::map<std::string, Format> names = {{"text", Format::text}, {"json", Format::json}};
  if (all_kinds) names.insert({{"markdown", Format::markdown}, {"sarif", Format::sarif}});
  app.add_option("--format", format, "how to print the answer")->transform(CLI::CheckedTransformer(names, CLI::ignore_case))->option_text("KIND");
}

void database_option(CLI::App& app, std::string& database, bool must) {
  if (must) database = kDatabase;
  app.add_option("--db", database, must ? "the database file [triage.db]" : "keep the answer in this database file")
      ->option_text("FILE")
      ->check([](const std::string& name) { return name.empty() ? std::string("the name is empty") : std::string(); });
}

// Flags of `plan` that stand for one setting of keys.def each.
constexpr std::array<std::pair<const char*, const char*>, 13> kPlanFlags = {{{"--framework", "framework"}, {"--world", "world"}, {"--micro-batch", "micro_batch"},
                                                                            {"--global-batch", "global_batch"}, {"--seq", "seq_length"}, {"--optimizer", "optimizer"},
                                                                            {"--attn", "attention"}, {"--dtype", "dtype"}, {"--images", "images"}, {"--fsdp", "fsdp"},
                                                                            {"--zero-stage", "zero_stage"}, {"--lora-rank", "lora_rank"},
                                                                            {"--gradient-accumulation", "gradient_accumulation"}}};

void plan_options(CLI::App& app, PlanCommand& plan, int& status) {
  CLI::App* const plan_app = app.add_subcommand("plan", "memory of a configuration by rank: does it fit, and what each change would give");
  plan_app->add_option("--log", plan.logs, "a log of the run: its configuration, and what it measured")->option_text("FILE");
  plan_app->add_option("--megatron-args", plan.megatron_arguments, "a file with Megatron-LM's command line, or -")->option_text("FILE");
  plan_app->add_option("--config", plan.configs, "configuration file: DeepSpeed, torchtitan, Megatron Bridge, verl, ...")->option_text("FILE");
  plan_app->add_option("--model", plan.model, "config.json of a Hugging Face model")->option_text("FILE");
  const auto put = [&plan](const std::string& key) { return [&plan, key](const std::string& value) { plan.settings.emplace_back(key, value); }; };
  for (const auto& [flag, key] : kPlanFlags) plan_app->add_option_function<std::string>(flag, put(key), std::string("setting ") + key)->option_text("VALUE");
  plan_app->add_flag_function("--gradient-checkpointing", [&plan](std::int64_t) { plan.settings.emplace_back("recompute", "full"); }, "recompute every layer");
  plan_app->add_option_function<std::string>("--image-grid", [&plan](const std::string& grid) {
        const std::size_t times = grid.find_first_of("xX");
        if (times == std::string::npos) throw CLI::ValidationError("--image-grid", "is height x width in patches, e.g. 32x32");
        plan.settings.emplace_back("image_grid_height", grid.substr(0, times));
        plan.settings.emplace_back("image_grid_width", grid.substr(times + 1));
      }, "patches of one image")->option_text("HxW");
  plan_app->add_option_function<std::string>("--freeze", [&plan](const std::string& part) {
        if (part != "vision" && part != "projector" && part != "language") throw CLI::ValidationError("--freeze", "is vision, projector or language");
        plan.settings.emplace_back("freeze_" + part, "true");
      }, "a part without gradients: vision, projector, language")->option_text("PART");
  plan_app->add_option_function<std::vector<std::string>>("--set", [&plan](const std::vector<std::string>& all) {
        for (const std::string& one : all) {
          const std::size_t equal = one.find('=');
          if (equal == std::string::npos) throw CLI::ValidationError("--set", "is KEY=VALUE, e.g. tensor_parallel=2");
          plan.settings.emplace_back(one.substr(0, equal), one.substr(equal + 1));
        }
      }, "any setting, e.g. tensor_parallel=2")->option_text("KEY=VALUE");
  plan_app->add_option("--gpu", plan.gpu, "the card: h200, h100, a100-80g, b200, gb200, ...")->option_text("NAME");
  plan_app->add_option("--capacity", plan.capacity, "its memory, e.g. 80GiB")->option_text("BYTES");
  plan_app->add_option("--rank", plan.rank, "show the stage of this rank only")->option_text("N");
  plan_app->add_flag("--sweep", plan.sweep, "list the layouts that fit this number of ranks, best first");
  format_option(*plan_app, plan.format, false);
  plan_app->callback([&plan, &status] { status = plan_command(plan); });
}

void service_options(CLI::App& app, ServeCommand& serve, StatusCommand& status, SilenceCommand& silence, AlertTestCommand& alert, int& result) {
  const auto config_option = [](CLI::App& of, std::string& config) { of.add_option("--config", config, "configuration of the service [/etc/triaged/triaged.yaml]")->option_text("FILE"); };
  CLI::App* const serve_app = app.add_subcommand("serve", "the service: watch logs, diagnose, alert, answer the API");
  config_option(*serve_app, serve.config);
  serve_app->add_flag("--check", serve.check, "read configuration and rules, say what is wrong, and end");
  serve_app->callback([&] { result = serve_command(serve); });

  CLI::App* const status_app = app.add_subcommand("status", "ask the running service how it is");
  config_option(*status_app, status.config);
  status_app->add_option("--url", status.url, "its address, e.g. http://127.0.0.1:9477")->option_text("URL");
  status_app->add_option("--token", status.token, "env:NAME, file:PATH or the token [env:TRIAGED_TOKEN]")->option_text("TOKEN");
  format_option(*status_app, status.format, false);
  status_app->callback([&] { result = status_command(status); });

  CLI::App* const silence_app = app.add_subcommand("silence", "hold alerts back for a while");
  silence_app->require_subcommand(1);
  const auto where = [&](CLI::App& of) {
    config_option(of, silence.config);
    of.add_option("--db", silence.database, "the database file [that of the configuration]")->option_text("FILE");
  };
  CLI::App* const add = silence_app->add_subcommand("add", "a new one; what is named has to fit, all of it");
  where(*add);
  add->add_option("--kind", silence.kind, "kind or its beginning, e.g. gpu.oom")->option_text("KIND");
  add->add_option("--job", silence.job, "job")->option_text("JOB");
  add->add_option("--node", silence.node, "node")->option_text("NODE");
  add->add_option("--fingerprint", silence.fingerprint, "cause")->option_text("FINGERPRINT");
  add->add_option("--for", silence.duration, "how long, e.g. 2h")->required()->option_text("TIME");
  add->add_option("--reason", silence.reason, "why")->option_text("TEXT");
  add->add_option("--author", silence.author, "who [the user]")->option_text("NAME");
  add->callback([&] { silence.what = SilenceCommand::What::add; result = silence_command(silence); });
  CLI::App* const list = silence_app->add_subcommand("list", "those that hold now or will");
  where(*list);
  list->add_flag("--all", silence.all, "those that have ended, too");
  format_option(*list, silence.format, false);
  list->callback([&] { silence.what = SilenceCommand::What::list; result = silence_command(silence); });
  CLI::App* const end = silence_app->add_subcommand("end", "end one now");
  where(*end);
  end->add_option("id", silence.id, "its number")->required()->option_text("ID");
  end->callback([&] { silence.what = SilenceCommand::What::end; result = silence_command(silence); });

  CLI::App* const alert_app = app.add_subcommand("alert", "try the alerts");
  alert_app->require_subcommand(1);
  CLI::App* const test = alert_app->add_subcommand("test", "send a made-up alert to one sink at once");
  config_option(*test, alert.config);
  test->add_option("sink", alert.sink, "its name in the configuration")->required()->option_text("SINK");
  test->callback([&] { result = alert_test_command(alert); });
}

std::string version_text() {
  const auto loaded = load_knowledge({});
  std::string text = "triage " + program_version();
  if (loaded.knowledge)
    text += "\nrules " + std::to_string(loaded.knowledge->rules->signatures().size()) + ", hash " + loaded.knowledge->rules->hash() + ", scanned by " +
            std::string(loaded.knowledge->rules->engine());
  return text;
}

int main_or_throw(int argc, char** argv) {
  CLI::App app("Tells why a GPU training job died and what to change so that the next run lives.", "triage");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text);
  app.footer("exit status: 0 nothing found, 1 failure diagnosed, 2 trouble (`run` keeps that of its command)");
  int status = 0;

  ScanCommand scan;
  CLI::App* const scan_app = app.add_subcommand("scan", "diagnose logs: files, folders, globs, - (stdin), .gz .zst .tar .zip");
  scan_app->add_option("paths", scan.paths, "what to read")->required()->option_text("PATH...");
  format_option(*scan_app, scan.format, true);
  scan_app->add_option("--since", scan.since, "leave out what is older, e.g. 2026-12-01T13:00:00Z")->option_text("TIME");
  database_option(*scan_app, scan.database, false);
  scan_app->add_option("--rules", scan.rules, "rules of your own over the shipped ones [/etc/triaged/rules.d]")->option_text("PATH");
  scan_app->add_option("--threads", scan.threads, "threads; 0 is one a core")->check(CLI::Range(0, 256));
  scan_app->add_flag("--all", scan.all, "print every fix and reason, not one screen an incident");
  scan_app->callback([&] { status = scan_command(scan); });

  RunCommand run;
  CLI::App* const run_app = app.add_subcommand("run", "run a training command; on failure print the diagnosis to stderr");
  run_app->add_option("command", run.command, "the command, after --")->required()->option_text("-- COMMAND...");
  format_option(*run_app, run.format, true);
  database_option(*run_app, run.database, false);
  run_app->add_option("--log", run.log, "also write the output to this file")->option_text("FILE");
  run_app->add_option("--rules", run.rules, "rules of your own")->option_text("PATH");
  run_app->positionals_at_end();
  run_app->callback([&] { status = run_command(run); });

  SnapshotCommand snapshot;
  CLI::App* const snapshot_app = app.add_subcommand("snapshot", "what filled the device: a memory snapshot of PyTorch's allocator, or a folder of ranks");
  snapshot_app->add_option("paths", snapshot.paths, "the snapshot (.pickle, also packed), or those of all ranks")->required()->option_text("FILE...");
  snapshot_app->add_option("--compare", snapshot.compare, "show what changed up to this other snapshot")->option_text("OTHER");
  snapshot_app->add_option("--what-if", snapshot.what_if, "replay the requests under other allocator settings (as in PYTORCH_CUDA_ALLOC_CONF; memory_limit=BYTES), or under all usual ones: all")->option_text("SETTINGS|all")->take_all()->expected(1);
  snapshot_app->add_option("--capacity", snapshot.capacity, "what PyTorch can reserve at most, for --what-if")->option_text("AMOUNT");
  snapshot_app->add_option("--total-memory", snapshot.total_memory, "memory of the device, for per_process_memory_fraction in --what-if")->option_text("AMOUNT");
  snapshot_app->add_option("--html", snapshot.html, "also write a page: memory over time, flame graph, map of the segments")->option_text("OUT");
  format_option(*snapshot_app, snapshot.format, false);
  snapshot_app->callback([&] { status = snapshot_command(snapshot); });

  PlanCommand plan;
  plan_options(app, plan, status);

  RulesCommand rules;
  CLI::App* const rules_app = app.add_subcommand("rules", "the signature database");
  rules_app->require_subcommand(1);
  const auto rules_verb = [&](const char* name, const char* help, RulesCommand::What what) {
    CLI::App* const verb = rules_app->add_subcommand(name, help);
    verb->callback([&, what] {
      rules.what = what;
      status = rules_command(rules);
    });
    if (what != RulesCommand::What::make && what != RulesCommand::What::explain)
      verb->add_option("files", rules.files, "your rule files or folders, over the shipped rules")->option_text("PATH...");
    return verb;
  };
  rules_verb("check", "lint the rules and run their examples", RulesCommand::What::check);
  rules_verb("test", "check, then show what the rules newly fire on", RulesCommand::What::test)
      ->add_option("--against", rules.against, "folder or files with logs")
      ->option_text("PATH");
  format_option(*rules_verb("list", "all rules", RulesCommand::What::list), rules.format, false);
  CLI::App* const explain = rules_verb("explain", "why a line does or does not match", RulesCommand::What::explain);
  explain->add_option("line", rules.line, "the log line")->required()->option_text("LINE");
  explain->add_option("--rules", rules.files, "your rule files or folders")->option_text("PATH");
  rules_verb("new", "a rule's skeleton from a log line", RulesCommand::What::make)
      ->add_option("line", rules.line, "the log line")
      ->required()
      ->option_text("LINE");
  rules_verb("literals", "the literals that the first pass looks for", RulesCommand::What::literals);

  HistoryCommand history;
  CLI::App* const history_app = app.add_subcommand("history", "incidents that were kept, newest first");
  database_option(*history_app, history.database, true);
  history_app->add_option("--kind", history.kind, "kind or its beginning, e.g. gpu.oom")->option_text("KIND");
  history_app->add_option("--fingerprint", history.fingerprint, "incidents of one cause")->option_text("FINGERPRINT");
  history_app->add_option("--limit", history.limit, "at most so many")->check(CLI::Range(1, 1'000'000));
  format_option(*history_app, history.format, false);
  history_app->callback([&] { status = history_command(history); });

  ShowCommand show;
  CLI::App* const show_app = app.add_subcommand("show", "one incident that was kept");
  show_app->add_option("id", show.id, "its id, or the beginning of it")->required()->option_text("ID");
  database_option(*show_app, show.database, true);
  format_option(*show_app, show.format, false);
  show_app->callback([&] { status = show_command(show); });

  FeedbackCommand feedback;
  CLI::App* const feedback_app = app.add_subcommand("feedback", "say whether a fix helped");
  feedback_app->add_option("id", feedback.id, "the incident")->required()->option_text("ID");
  database_option(*feedback_app, feedback.database, true);
  feedback_app->add_option("--fix", feedback.fix, "id of the fix; without it the word is about the diagnosis")->option_text("FIX");
  feedback_app->add_flag_callback("--helped", [&] { feedback.helped = true; }, "it did; this or --failed has to be said");
  feedback_app->add_flag_callback("--failed", [&] { feedback.helped = false; }, "it did not");
  feedback_app->add_option("--note", feedback.note, "in your words")->option_text("TEXT");
  feedback_app->callback([&] { status = feedback_command(feedback); });

  ServeCommand serve;
  StatusCommand status_of;
  SilenceCommand silence;
  AlertTestCommand alert;
  service_options(app, serve, status_of, silence, alert, status);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kTrouble;
  }
  return scan_app->parsed() || run_app->parsed() ? status : written_or_complain(status);   // those two see to it themselves
}

}  // namespace

int main(int argc, char** argv) {
  // A stream that we were started without must not become a database, a log or a pipe. Opened the wrong way round: its use is an error.
  for (int fd = 0; fd < 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  try {
    return main_or_throw(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("error: there is not enough memory\n  help: raise the limit (ulimit -v, the cgroup's memory), or give fewer --threads\n", stderr);
    return kTrouble;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kTrouble;
  }
}
