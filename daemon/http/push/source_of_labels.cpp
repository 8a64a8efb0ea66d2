#include "daemon/http/push/source_of_labels.hpp"

#include <algorithm>
#include <initializer_list>

#include "daemon/http/gate.hpp"
#include "daemon/pipeline/source_name.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon::api {

namespace {

constexpr std::size_t kName = 512;

std::string first_of(const Labels& labels, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    for (const auto& [key, value] : labels)
      if (parsers::equal_ignoring_case(key, name) && !value.empty()) return parsers::visible(std::string_view(value).substr(0, 253));
  return {};
}

std::optional<int> number_of(const Labels& labels, std::initializer_list<std::string_view> names) {
  const std::string text = first_of(labels, names);
  const auto number = parsers::read_integer(text);
  if (!number || *number < 0 || *number >= parsers::limits::kRanks) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace

signatures::SourceInfo source_of_labels(const Labels& labels) {
  const std::string file = first_of(labels, {"filename", "file", "log.file.path", "path", "file_path", "log.file.name"});
  const std::string pod = first_of(labels, {"pod", "k8s.pod.name", "kubernetes.pod_name", "pod_name"});
  signatures::SourceInfo info = source_info(file.empty() ? pod : file);
  Labels sorted = labels;
  std::sort(sorted.begin(), sorted.end());
  std::string name = "push:{";
  for (const auto& [key, value] : sorted) name += (name.size() > 6 ? "," : "") + parsers::visible(key) + "=" + parsers::visible(value);
  name += "}";
  if (name.size() > kName) {
    const std::string digest = sha256(name);
    name.resize(kName - 20);
    while (!parsers::is_utf8(name)) name.pop_back();
    name += "...";
    for (const char c : digest.substr(0, 8)) {
      name += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
      name += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
    }
  }
  info.name = name;
  // A job of the training before one of the scrape: Promtail's own "job" names a scrape configuration, but operators set it too.
  if (const std::string job = first_of(labels, {"slurm_job_id", "slurm.job.id", "job_id", "jobid", "kubernetes.labels.training.kubeflow.org/job-name",
                                                "kubernetes.pod_labels.training.kubeflow.org/job-name", "kubernetes.labels.jobset.sigs.k8s.io/jobset-name",
                                                "kubernetes.pod_labels.jobset.sigs.k8s.io/jobset-name", "kubernetes.labels.volcano.sh/job-name",
                                                "kubernetes.pod_labels.volcano.sh/job-name", "k8s.job.name", "kubernetes.labels.batch.kubernetes.io/job-name",
                                                "kubernetes.pod_labels.batch.kubernetes.io/job-name", "kubernetes.labels.job-name", "kubernetes.pod_labels.job-name",
                                                "job_name", "job", "service.name", "service_name", "app"});
      !job.empty())
    info.job = job;
  if (const std::string node = first_of(labels, {"k8s.node.name", "kubernetes.pod_node_name", "kubernetes.host", "node_name", "nodename", "node", "host.name", "hostname",
                                                 "host", "_hostname", "instance"});
      !node.empty())
    info.node = node;
  if (const auto rank = number_of(labels, {"rank", "global_rank"})) info.rank = rank;
  if (const auto rank = number_of(labels, {"local_rank"})) info.local_rank = rank;
  if (const auto attempt = number_of(labels, {"attempt", "restart"})) info.attempt = attempt;
  const std::string unit = first_of(labels, {"_systemd_unit", "unit", "syslog_identifier"});
  const std::string job_label = first_of(labels, {"job"});
  if (unit == "kernel" || unit == "kmsg" || job_label == "systemd-journal" || job_label == "kmsg") {
    info.system = true;
    if (info.job == job_label) info.job.clear();
  }
  return info;
}

}  // namespace triage::daemon::api
