// What deploy/ says of metrics stands in the catalogue; its files are well formed.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/metrics/catalogue.hpp"
#include "parsers/base/text.hpp"
#include "parsers/base/yaml_text.hpp"

using namespace triage;
using daemon::metrics::kCatalogue;
using daemon::metrics::Metric;
using daemon::metrics::Type;
namespace fs = std::filesystem;

namespace {

const fs::path kDeploy = fs::path(TRIAGE_SOURCE_DIR) / "deploy";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in, path.string());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<fs::path> files(const char* ending) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(kDeploy))
    if (entry.is_regular_file() && entry.path().extension() == ending) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_name(char c) { return parsers::is_alnum(c) || c == '_'; }

// The metric behind a name of the exposition: histograms have three.
const Metric* metric_of(const std::string& name) {
  for (const Metric* metric : kCatalogue) {
    if (metric->name == name) return metric->type == Type::histogram ? nullptr : metric;
    if (metric->type != Type::histogram) continue;
    for (const char* part : {"_bucket", "_sum", "_count"})
      if (name == std::string(metric->name) + part) return metric;
  }
  return nullptr;
}

struct Use {
  std::string name;
  std::vector<std::string> labels;   // in the braces behind it
};

// Every triage_... in the text, with the labels that are asked for.
std::vector<Use> uses(const std::string& text) {
  std::vector<Use> out;
  for (std::size_t at = text.find("triage_"); at != std::string::npos; at = text.find("triage_", at + 1)) {
    if (at > 0 && is_name(text[at - 1])) continue;
    std::size_t end = at;
    while (end < text.size() && is_name(text[end])) ++end;
    Use use{text.substr(at, end - at), {}};
    if (end < text.size() && text[end] == '{') {
      for (std::size_t i = end + 1; i < text.size() && text[i] != '}';) {
        std::size_t stop = i;
        while (stop < text.size() && is_name(text[stop])) ++stop;
        use.labels.push_back(text.substr(i, stop - i));
        const std::size_t open = text.find('"', stop), close = open == std::string::npos ? open : text.find('"', open + 1);
        if (close == std::string::npos) break;
        i = close + 1;
        while (i < text.size() && (text[i] == ',' || text[i] == ' ')) ++i;
      }
    }
    out.push_back(std::move(use));
  }
  return out;
}

void check_uses(const std::string& text, const std::string& where) {
  for (const Use& use : uses(text)) {
    const Metric* metric = metric_of(use.name);
    CHECK_MESSAGE(metric != nullptr, where, ": there is no metric ", use.name);
    if (!metric) continue;
    for (const std::string& label : use.labels) {
      const bool known = label == "instance" || label == "job" || label == "le" || std::find(metric->labels.begin(), metric->labels.end(), label) != metric->labels.end();
      CHECK_MESSAGE(known, where, ": ", use.name, " has no label ", label);
    }
  }
}

}  // namespace

TEST_CASE("the finder of metrics sees names, parts of histograms and labels") {
  const auto found = uses("rate(triage_a_total{instance=~\"$instance\", reason=\"x\"}[5m]) + triage_b_bucket not_triage_c");
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "triage_a_total");
  CHECK(found[0].labels == std::vector<std::string>{"instance", "reason"});
  CHECK(found[1].name == "triage_b_bucket");
  CHECK(metric_of("triage_commit_seconds_bucket") != nullptr);
  CHECK(metric_of("triage_commit_seconds") == nullptr);
  CHECK(metric_of("triage_no_such_total") == nullptr);
}

TEST_CASE("alert rules and dashboard name metrics and labels of the catalogue") {
  std::size_t seen = 0;
  for (const char* name : {"prometheus/alerts.yaml", "grafana/dashboard.json"}) {
    std::string text = read(kDeploy / name);
    if (fs::path(name).extension() == ".json") {   // its strings escape the quotes of labels
      std::string plain;
      const auto json = nlohmann::json::parse(text);
      for (const auto& panel : json.at("panels"))
        for (const auto& target : panel.value("targets", nlohmann::json::array())) plain += target.at("expr").get<std::string>() + "\n";
      text = plain;
    }
    seen += uses(text).size();
    check_uses(text, name);
  }
  CHECK(seen > 40);
}

TEST_CASE("the dashboard is one that can be imported: panels do not overlap, each has a query") {
  const auto json = nlohmann::json::parse(read(kDeploy / "grafana/dashboard.json"));
  std::set<int> ids;
  std::map<std::pair<int, int>, int> taken;
  for (const auto& panel : json.at("panels")) {
    const int id = panel.at("id").get<int>();
    CHECK(ids.insert(id).second);
    if (panel.at("type") != "row") CHECK_FALSE(panel.at("targets").empty());
    const auto& at = panel.at("gridPos");
    CHECK(at.at("x").get<int>() + at.at("w").get<int>() <= 24);
    for (int x = at.at("x"); x < at.at("x").get<int>() + at.at("w").get<int>(); ++x)
      for (int y = at.at("y"); y < at.at("y").get<int>() + at.at("h").get<int>(); ++y) CHECK(taken.emplace(std::pair(x, y), id).second);
  }
}

TEST_CASE("every YAML and JSON file of deploy/ is read") {
  for (const fs::path& path : files(".json")) CHECK_MESSAGE(nlohmann::json::accept(read(path)), path.string());
  const auto yaml = files(".yaml");
  CHECK(yaml.size() >= 15);
  for (const fs::path& path : yaml) {
    const auto node = parsers::read_yaml(read(path), path.string());
    CHECK_MESSAGE(node.ok(), path.string(), ": ", node.ok() ? "" : node.error().message());
  }
}

TEST_CASE("each alert of the service is explained to operators, and each metric is listed") {
  const std::string text = read(fs::path(TRIAGE_SOURCE_DIR) / "docs/operating.md");
  const auto rules = parsers::read_yaml(read(kDeploy / "prometheus/alerts.yaml"), "alerts.yaml");
  REQUIRE(rules.ok());
  for (const auto& group : rules->find("groups")->items)
    for (const auto& rule : group.find("rules")->items) {
      const std::string& name = rule.find("alert")->scalar;
      CHECK_MESSAGE(text.find(name) != std::string::npos, "docs/operating.md does not name ", name);
    }
  for (const Metric* metric : kCatalogue) CHECK_MESSAGE(text.find(std::string(metric->name)) != std::string::npos, "docs/operating.md does not list ", metric->name);
}
