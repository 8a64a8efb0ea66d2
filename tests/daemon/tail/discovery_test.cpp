#include "daemon/tail/discovery.hpp"

#include <doctest/doctest.h>

#include "daemon/tail/job_template.hpp"
#include "daemon/tail/source_config.hpp"
#include "tests/support/fake_file_system.hpp"

using namespace triage::daemon;
using triage::tests::FakeFileSystem;

namespace {

SourceConfig config_of(const std::string& yaml, std::size_t faults_wanted = 0) {
  auto tree = triage::parsers::read_yaml(yaml, "triaged.yaml");
  REQUIRE(tree.ok());
  std::vector<triage::parsers::Error> faults;
  SourceConfig out = read_source_config(*tree, faults);
  for (const auto& fault : faults) INFO(fault.message());
  REQUIRE(faults.size() == faults_wanted);
  return out;
}

std::vector<std::string> paths_of(const std::vector<FoundFile>& found) {
  std::vector<std::string> out;
  for (const FoundFile& file : found) out.push_back(file.path);
  return out;
}
using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE("a template says job, attempt, node and rank of a path") {
  struct Row {
    const char *form, *path;
    bool fits;
    const char *job, *node;
    std::optional<int> attempt, rank, local_rank;
  };
  const Row rows[] = {
      {"/logs/{job}/{attempt}/{node}/rank{rank}.log", "/logs/gpt-7b/2/gpu-04/rank13.log", true, "gpt-7b", "gpu-04", 2, 13, {}},
      {"/logs/{job}/{attempt}/{node}/rank{rank}.log", "/logs/gpt-7b/two/gpu-04/rank13.log", false, "", "", {}, {}, {}},
      {"/logs/{job}/{attempt}/{node}/rank{rank}.log", "/logs/gpt-7b/2/gpu-04/rank13.log.1", false, "", "", {}, {}, {}},
      {"/scratch/%x-%j-%N-%t.out", "/scratch/my-job-4711-node-12-3.out", true, "4711", "node-12", {}, 3, {}},
      {"/scratch/%j_%4t.err", "/scratch/4711_0003.err", true, "4711", "", {}, 3, {}},
      {"/scratch/slurm-%A_%a.out", "/scratch/slurm-99_7.out", true, "99_7", "", {}, {}, {}},
      {"/scratch/%J.out", "/scratch/128.0.out", true, "128", "", {}, {}, {}},
      {"/scratch/100%%-%j.out", "/scratch/100%-5.out", true, "5", "", {}, {}, {}},
      {"/l/{job}_????????" "/attempt_{attempt}/{local_rank}/{stream}.log", "/l/my_run_a1b2_c3d/attempt_1/6/stderr.log", true, "my_run", "", 1, {}, 6},
      {"/var/log/pods/{namespace}_{pod}_{uid}/{container}/{attempt}.log",
       "/var/log/pods/ml_llama-sft-worker-3_0b7c5d5e-1d5c-4b1e-9d53-1d2f3a4b5c6d/pytorch/2.log", true, "ml/llama-sft", "llama-sft-worker-3", 2, {}, {}},
      {"/var/log/pods/{namespace}_{pod}_{uid}/{container}/{attempt}.log", "/var/log/pods/ml_bert-0-x7k2p_u/main/0.log", true, "ml/bert", "bert-0-x7k2p", 0, {}, {}},
      {"/data/**/stderr.log", "/data/stderr.log", true, "", "", {}, {}, {}},
      {"/data/**/stderr.log", "/data/a/b/c/stderr.log", true, "", "", {}, {}, {}},
      {"/data/**/stderr.log", "/data/a/.git/stderr.log", false, "", "", {}, {}, {}},
      {"/data/**", "/data/a/b", true, "", "", {}, {}, {}},
      {"/data/*.log", "/data/.hidden.log", false, "", "", {}, {}, {}},
      {"/data/[a-c]?[!x].log", "/data/bzy.log", true, "", "", {}, {}, {}},
      {"/data/[a-c]?[!x].log", "/data/bzx.log", false, "", "", {}, {}, {}},
      {"/{job}/{job}-{rank}.log", "/a/a-1.log", true, "a", "", {}, 1, {}},
      {"/{job}/{job}-{rank}.log", "/a/b-1.log", false, "", "", {}, {}, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.form));
    CAPTURE(std::string(row.path));
    const auto form = JobTemplate::parse(row.form);
    REQUIRE(form.ok());
    const auto values = form->match(row.path);
    REQUIRE(values.has_value() == row.fits);
    if (!row.fits) continue;
    const auto source = template_source(row.path, *values);
    CHECK(source.name == row.path);
    CHECK(source.job == row.job);
    if (*row.node) CHECK(source.node == row.node);
    CHECK(source.attempt == row.attempt);
    CHECK(source.rank == row.rank);
    CHECK(source.local_rank == row.local_rank);
  }
}

TEST_CASE("patterns that cannot be are refused with the reason") {
  for (const char* bad : {"logs/a.log", "/logs/", "/logs/{jop}.log", "/logs/[abc", "/logs/{job", "/logs/{job}{node}", "/a/../b", "/"}) {
    CAPTURE(std::string(bad));
    CHECK(!JobTemplate::parse(bad).ok());
  }
}

TEST_CASE("a long name and many wild cards are matched in bounded time") {
  const auto form = JobTemplate::parse("/" "a*a*a*a*a*a*a*a*a*a*a*a*b");
  REQUIRE(form.ok());
  CHECK(!form->match("/" + std::string(255, 'a')));
  CHECK(!form->match("/" + std::string(5000, 'a')));
}

TEST_CASE("discovery finds files of all patterns, now and as they come") {
  FakeFileSystem files;
  for (const char* path : {"/logs/j1/0/n1/rank0.log", "/logs/j1/0/n1/rank1.log", "/logs/j1/0/n1/rank1.log.1", "/logs/j1/0/n1/notes.txt", "/plain/train.log",
                           "/plain/train.log.1", "/plain/train.log-20260101.gz", "/plain/lonely.log.3", "/dumps/a/nccl_trace_rank_3", "/other/x.log"})
    files.create(path);
  const SourceConfig config = config_of(
      "files:\n  - /logs/{job}/{attempt}/{node}/rank{rank}.log\n  - path: /plain/*\n    job: mine\n    except: /plain/*.txt\n"
      "dumps:\n  - /dumps/**/nccl_trace_rank_*\n");
  std::set<std::string> watched;
  DiscoveryOptions options;
  options.watch = [&](const std::string& folder) { watched.insert(folder); };
  Discovery discovery(files, config.patterns, options);
  const auto found = discovery.scan();
  CHECK(paths_of(found) == Paths{"/dumps/a/nccl_trace_rank_3", "/logs/j1/0/n1/rank0.log", "/logs/j1/0/n1/rank1.log", "/plain/lonely.log.3", "/plain/train.log"});
  CHECK(found[0].kind == FoundFile::Kind::dump);
  CHECK(found[0].source.rank == 3);
  CHECK(found[4].source.job == "mine");
  CHECK(watched == std::set<std::string>{"/dumps", "/dumps/a", "/logs", "/logs/j1", "/logs/j1/0", "/logs/j1/0/n1", "/plain"});

  files.create("/logs/j2/1/n7/rank4.log");
  CHECK(paths_of(discovery.look("/logs", "j2")) == Paths{"/logs/j2/1/n7/rank4.log"});
  CHECK(watched.count("/logs/j2/1/n7") == 1);
  files.create("/logs/j2/1/n7/rank5.log");
  CHECK(paths_of(discovery.look("/logs/j2/1/n7", "rank5.log")) == Paths{"/logs/j2/1/n7/rank5.log"});
  files.create("/plain/train.log.2");
  CHECK(discovery.look("/plain", "train.log.2").empty());
  CHECK(discovery.look("/elsewhere", "x").empty());
  CHECK(!discovery.is_source("/plain/train.log.2"));
  CHECK(discovery.is_source("/logs/j2/1/n7/rank5.log"));
  CHECK(discovery.take_faults().empty());
}

TEST_CASE("a folder that does not exist yet is waited for") {
  FakeFileSystem files;
  files.create("/data/readme");
  const SourceConfig config = config_of("torchrun: /data/runs/torch\npods: true\n");
  std::set<std::string> watched;
  DiscoveryOptions options;
  options.watch = [&](const std::string& folder) { watched.insert(folder); };
  Discovery discovery(files, config.patterns, options);
  CHECK(discovery.scan().empty());
  CHECK(watched.count("/data") == 1);
  files.create("/data/runs/torch/none_abcdefgh/attempt_0/1/stderr.log");
  files.create("/data/runs/torch/none_abcdefgh/attempt_0/1/error.json");
  const auto found = discovery.look("/data", "runs");
  REQUIRE(found.size() == 2);
  CHECK(found[0].kind == FoundFile::Kind::dump);
  CHECK(found[1].source.local_rank == 1);
  CHECK(found[1].source.attempt == 0);
}

TEST_CASE("links are followed within the roots only, loops end, and a file has one name") {
  FakeFileSystem files;
  files.create("/pods/a/0.log");
  files.create("/secret/shadow.log");
  files.links["/containers/a.log"] = "/pods/a/0.log";      // found directly, too
  files.links["/containers/b.log"] = "/secret/shadow.log"; // leads out
  files.links["/pods/a/loop"] = "/pods/a";
  const SourceConfig config = config_of("files: [/pods/**/*.log, /containers/*.log]\n");
  Discovery discovery(files, config.patterns);
  CHECK(paths_of(discovery.scan()) == Paths{"/pods/a/0.log"});
  const auto faults = discovery.take_faults();
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].reason() == "it leads to /secret/shadow.log");
  CHECK(discovery.take_faults().empty());
  (void)discovery.look("/containers");
  CHECK(discovery.take_faults().empty());   // told once
  (void)discovery.scan();
  CHECK(discovery.take_faults().size() == 1);   // it is still there

  DiscoveryOptions options;
  options.links_into = {"/secret"};
  Discovery wider(files, config.patterns, options);
  const auto found = wider.scan();
  REQUIRE(found.size() == 2);
  CHECK(found[0].link);
}

TEST_CASE("the number of files is limited, and that is told") {
  FakeFileSystem files;
  for (int i = 0; i < 50; ++i) files.create("/logs/" + std::to_string(i) + ".log");
  DiscoveryOptions options;
  options.files = 20;
  Discovery discovery(files, config_of("files: /logs/*.log\n").patterns, options);
  CHECK(discovery.scan().size() == 20);
  CHECK(discovery.take_faults().size() == 1);
}

TEST_CASE("the configuration of sources tells all its faults at once") {
  const SourceConfig good = config_of(
      "files: /a/*.log\njournal: {kernel: true, units: [slurmd.service]}\nkernel_log: true\npoll: 2s\nflush: 500ms\nignore_older: 7d\nmax_files: 100\n"
      "links_into: [/var/lib/docker/containers/]\npacked: true\n");
  CHECK(good.patterns.size() == 1);
  CHECK(good.journal.on);
  CHECK(good.journal.units == Paths{"slurmd.service"});
  CHECK(good.poll == std::chrono::seconds(2));
  CHECK(good.ignore_older == std::chrono::hours(168));
  CHECK(good.links_into == Paths{"/var/lib/docker/containers"});

  for (const char* const text : {"journal: {kernel: false}\n", "kernel_log: true\njournal: true\n"}) {
    const auto asked = triage::parsers::read_yaml(text, "c.yaml");
    REQUIRE(asked.ok());
    std::vector<triage::parsers::Error> found;
    (void)read_source_config(*asked, found);
    REQUIRE(found.size() == 1);
    CHECK(found[0].message() == "journal is asked for nothing");
  }

  auto tree = triage::parsers::read_yaml("flies: /a/*.log\nfiles:\n  - logs/x\n  - job: a\npoll: soon\nmax_files: 0\nkernel_log: maybe\nlinks_into: etc\n", "c.yaml");
  REQUIRE(tree.ok());
  std::vector<triage::parsers::Error> faults;
  (void)read_source_config(*tree, faults);
  CHECK(faults.size() == 7);
  bool near = false;
  for (const auto& fault : faults) {
    CHECK(fault.place().has_value());
    near = near || fault.help_text() == "did you mean 'files'?";
  }
  CHECK(near);
}
