// What the labels of a pushed stream say about its job, node and rank, by the names that shippers use: Promtail and Alloy, Vector, Fluent Bit,
// OpenTelemetry collectors, Kubernetes.
#pragma once

#include <string>
#include <string_view>

#include "daemon/http/push/batch.hpp"
#include "signatures/match/match.hpp"

namespace triage::daemon::api {

// name: "push:" and the labels in order, at most 512 bytes (a digest takes the place of what is cut), so that equal labels give equal names.
// The file or pod named in the labels is read as a file name is (rank3.log), where no label says the rank.
signatures::SourceInfo source_of_labels(const Labels& labels);

}  // namespace triage::daemon::api
