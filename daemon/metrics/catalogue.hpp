// Every metric of the service: name, type, unit, help, labels. Declared here once; the registry makes nothing that does not stand here, a test
// checks the names, and docs/operating.md lists them. Names: triage_<noun>_<unit>[_total]. No label whose values outside data could invent
// without a bound: the registry folds what exceeds kSeriesPerMetric into one series "other".
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace triage::daemon::metrics {

enum class Type { counter, gauge, histogram };
enum class Buckets { none, seconds, bytes };   // of histograms; bounds stand in registry.cpp

inline constexpr std::size_t kLabels = 3;      // at most, a metric
inline constexpr std::size_t kSeriesPerMetric = 1000;

struct Metric {
  std::string_view name, help;
  Type type = Type::counter;
  std::array<std::string_view, kLabels> labels = {};   // names; empty ones at the end
  Buckets buckets = Buckets::none;
};

// ---- the process
inline constexpr Metric kBuildInfo{"triage_build_info", "Always 1; the labels say which program and rules run.", Type::gauge, {"version", "rules"}};
inline constexpr Metric kStartTime{"triage_start_time_seconds", "When the service started, seconds since 1970.", Type::gauge};
inline constexpr Metric kResidentBytes{"triage_resident_bytes", "Resident memory of the process.", Type::gauge};
inline constexpr Metric kOpenFiles{"triage_open_files", "File descriptors in use.", Type::gauge};
inline constexpr Metric kHealthPart{"triage_health_ok", "1 while this part of the service works, else 0.", Type::gauge, {"part"}};
inline constexpr Metric kReloads{"triage_reloads_total", "Reloads of configuration and rules by result (applied, refused).", Type::counter, {"what", "result"}};
inline constexpr Metric kRules{"triage_rules", "Rules in force.", Type::gauge};

// ---- sources
inline constexpr Metric kSources{"triage_sources", "Sources: watched files, those of them that are polled, and all that the database knows (watched, polled, known).", Type::gauge, {"state"}};
inline constexpr Metric kSourceLagBytes{"triage_source_lag_bytes", "Bytes written to sources and not read yet, all together.", Type::gauge};
inline constexpr Metric kReadBytes{"triage_read_bytes_total", "Bytes read from sources.", Type::counter};
inline constexpr Metric kReadLines{"triage_read_lines_total", "Lines read from sources.", Type::counter};
inline constexpr Metric kLostBytes{"triage_lost_bytes_total", "Bytes known to be lost, by reason (sources: truncated, replaced, vanished or in overlong lines).", Type::counter, {"reason"}};
inline constexpr Metric kSourceErrors{"triage_source_errors_total", "Failed reads and opens of sources.", Type::counter};
inline constexpr Metric kDiscoverySeconds{"triage_discovery_seconds", "Time of one full search for sources.", Type::histogram, {}, Buckets::seconds};

// ---- judging and storing
inline constexpr Metric kQueueDepth{"triage_queue_depth", "Things waiting in a queue of the service.", Type::gauge, {"queue"}};
inline constexpr Metric kQueueWait{"triage_queue_wait_seconds_total", "Time that producers waited because a queue was full.", Type::counter, {"queue"}};
inline constexpr Metric kFindings{"triage_findings_total", "Lines that a rule matched, by role (telling: all but progress and facts).", Type::counter, {"role"}};
inline constexpr Metric kIncidents{"triage_incidents_total", "Incidents opened, by kind.", Type::counter, {"kind"}};
inline constexpr Metric kIncidentsOpen{"triage_incidents_open", "Incidents that are open now.", Type::gauge};
inline constexpr Metric kCommitSeconds{"triage_commit_seconds", "Judging and storing of what was taken at once, up to the end of its transaction.", Type::histogram, {}, Buckets::seconds};
inline constexpr Metric kDiagnosisSeconds{"triage_diagnosis_seconds", "From a line read to its diagnosis committed.", Type::histogram, {}, Buckets::seconds};
inline constexpr Metric kStoreErrors{"triage_store_errors_total", "Transactions that failed, by reason (commit); they are repeated.", Type::counter, {"reason"}};
inline constexpr Metric kStoreBytes{"triage_store_bytes", "Size of the database file with its log.", Type::gauge};

// ---- alerts
inline constexpr Metric kOutbox{"triage_outbox_items", "Alerts in the outbox by sink and state (waiting, sending, dead, uncertain).", Type::gauge, {"sink", "state"}};
inline constexpr Metric kOutboxAge{"triage_outbox_age_seconds", "Since when the oldest due alert waits.", Type::gauge, {"sink"}};
inline constexpr Metric kAlerts{"triage_alerts_total", "Tries to send an alert by sink and result (sent, retry, dead, uncertain).", Type::counter, {"sink", "result"}};
inline constexpr Metric kAlertSeconds{"triage_alert_seconds", "Time of one try to send an alert.", Type::histogram, {"sink"}, Buckets::seconds};
inline constexpr Metric kAlertsSilenced{"triage_alerts_suppressed_total", "Alerts not sent, by reason (silenced, inhibited, repeated, muted by a route).", Type::counter, {"reason"}};

// ---- HTTP
inline constexpr Metric kHttpRequests{"triage_http_requests_total", "Answered requests by route and status.", Type::counter, {"method", "route", "status"}};
inline constexpr Metric kHttpSeconds{"triage_http_request_seconds", "From the request's header to the answer handed to the socket, by route.", Type::histogram, {"route"}, Buckets::seconds};
inline constexpr Metric kHttpConnections{"triage_http_connections", "Open connections.", Type::gauge};
inline constexpr Metric kHttpStreams{"triage_http_event_streams", "Readers of the event stream.", Type::gauge};
inline constexpr Metric kHttpRefused{"triage_http_refused_total", "Connections and requests refused or cut, by reason.", Type::counter, {"reason"}};
inline constexpr Metric kHttpBodyBytes{"triage_http_body_bytes_total", "Bytes of request bodies as they came.", Type::counter};
inline constexpr Metric kPushBatches{"triage_push_batches_total", "Pushed batches by receiver (loki, otlp, ndjson) and result (accepted, repeated, busy, refused, malformed).", Type::counter, {"receiver", "result"}};
inline constexpr Metric kPushLines{"triage_push_lines_total", "Pushed lines that were accepted.", Type::counter, {"receiver"}};
inline constexpr Metric kPushBytes{"triage_push_bytes_total", "Pushed bytes after decompression.", Type::counter, {"receiver"}};

inline constexpr std::array kCatalogue = {
    &kBuildInfo, &kStartTime, &kResidentBytes, &kOpenFiles, &kHealthPart, &kReloads, &kRules,
    &kSources, &kSourceLagBytes, &kReadBytes, &kReadLines, &kLostBytes, &kSourceErrors, &kDiscoverySeconds,
    &kQueueDepth, &kQueueWait, &kFindings, &kIncidents, &kIncidentsOpen, &kCommitSeconds, &kDiagnosisSeconds, &kStoreErrors, &kStoreBytes,
    &kOutbox, &kOutboxAge, &kAlerts, &kAlertSeconds, &kAlertsSilenced,
    &kHttpRequests, &kHttpSeconds, &kHttpConnections, &kHttpStreams, &kHttpRefused, &kHttpBodyBytes, &kPushBatches, &kPushLines, &kPushBytes};

}  // namespace triage::daemon::metrics
