#include "daemon/http/push/origin_names.hpp"

#include <algorithm>
#include <array>

#include "parsers/base/text.hpp"

namespace triage::daemon::api {

namespace {

constexpr std::array kNames = std::to_array<std::string_view>({
    "_hostname", "_systemd_unit", "app", "attempt", "cluster", "container", "container_name", "file", "file_path", "filename", "host", "host.name",
    "hostname", "instance", "job", "job_id", "job_name", "jobid", "local_rank", "namespace", "namespace_name", "node", "node_name", "node_rank",
    "nodename", "path", "pod", "pod_name", "rank", "service", "service.name", "service_name", "source", "stream", "syslog_identifier", "tag", "unit",
    // Fluent Bit's kubernetes filter; Vector's kubernetes_logs source
    "kubernetes.container_name", "kubernetes.host", "kubernetes.namespace_name", "kubernetes.pod_name", "kubernetes.pod_namespace",
    "kubernetes.pod_node_name",
    // OpenTelemetry's names
    "container.name", "log.file.name", "log.file.path", "log.iostream"});

constexpr std::array kHeads = std::to_array<std::string_view>({"k8s.", "slurm_", "slurm.", "ray."});

// Labels of a pod that name the job and its replica: Job controller, Kubeflow's training operator, JobSet, Volcano, KubeRay.
constexpr std::array kPodLabels = std::to_array<std::string_view>(
    {"job-name", "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index", "training.kubeflow.org/job-name",
     "training.kubeflow.org/replica-index", "training.kubeflow.org/replica-type", "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/job-index",
     "volcano.sh/job-name", "ray.io/cluster", "app", "app.kubernetes.io/name"});

}  // namespace

bool says_origin(std::string_view name) {
  if (name.size() > 200) return false;
  const std::string small = parsers::lower(name);
  if (std::find(kNames.begin(), kNames.end(), small) != kNames.end()) return true;
  if (std::any_of(kHeads.begin(), kHeads.end(), [&](std::string_view head) { return small.starts_with(head); })) return true;
  std::string_view rest = small;
  if (parsers::consume(rest, "kubernetes.labels.") || parsers::consume(rest, "kubernetes.pod_labels."))
    return std::find(kPodLabels.begin(), kPodLabels.end(), rest) != kPodLabels.end();
  return false;
}

}  // namespace triage::daemon::api
