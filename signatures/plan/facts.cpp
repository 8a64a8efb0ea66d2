#include "signatures/plan/facts.hpp"

#include <optional>
#include <string>
#include <vector>

#include "parsers/base/quantity.hpp"
#include "parsers/base/text.hpp"

namespace triage::signatures {

using parsers::Bytes;

namespace {

constexpr std::size_t kFactBytes = 200;    // of one text fact
constexpr std::size_t kListed = 6;         // processes or ranks named in one sentence

void put_size(Facts& facts, const std::string& name, const std::optional<Bytes>& bytes) {
  if (!bytes) return;
  facts[name] = parsers::bytes_text(*bytes);
  facts[name + "_gib"] = bytes->gib();
}

template <class Number>
void put_number(Facts& facts, const char* name, const std::optional<Number>& number) {
  if (number) facts[name] = static_cast<double>(*number);
}

void put_text(Facts& facts, const std::string& name, std::string_view text) {
  if (text.empty()) return;
  facts[name] = parsers::repair_utf8(text.substr(0, kFactBytes));
}

void put_ranks(Facts& facts, const char* name, const std::vector<int>& ranks) {
  if (ranks.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kListed; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > kListed) text += " and " + std::to_string(ranks.size() - kListed) + " more";
  facts[name] = std::move(text);
}

std::string capture_text(const CaptureValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) return datum_text(*number);
  return parsers::bytes_text(std::get<Bytes>(value));
}

// The kind of the card, where the configuration names it: gb300, gb200, b300, b200, h200, h100, a100, ...
void put_card(Facts& facts, const parsers::RunConfig& config) {
  const std::string name = parsers::lower(config.text(parsers::Key::gpu).value_or(""));
  for (const std::string_view kind : {"gb300", "gb200", "b300", "b200", "gh200", "h200", "h100", "h800", "a100", "mi300", "mi325", "mi355"})
    if (name.find(kind) != std::string::npos) return put_text(facts, "card", kind);
}

}  // namespace

// Megatron-LM: --mock-data; Megatron Bridge: data sets whose class is called Mock...; torchtitan and others have none of their own.
bool uses_mock_data(const parsers::RunConfig& config) {
  for (const auto& [name, setting] : config.raw()) {
    const bool named = name == "mock_data" || name == "dataset.mock" || name == "data.mock" || name.ends_with(".mock_data");
    if (named && (setting.value == "True" || setting.value == "true" || setting.value == "1")) return true;
    if (name.ends_with("_target_") && setting.value.find("Mock") != std::string::npos && name.find("dataset") != std::string::npos) return true;
  }
  return false;
}

Facts facts_of(const Diagnosis& diagnosis) {
  Facts facts;
  put_text(facts, "kind", diagnosis.kind);
  put_text(facts, "phase", phase_name(diagnosis.phase));
  put_text(facts, "backend", diagnosis.backend);
  put_text(facts, "node", diagnosis.root.node);
  put_number(facts, "rank", diagnosis.root.rank);
  put_number(facts, "local_rank", diagnosis.root.local_rank);
  put_number(facts, "device", diagnosis.root.device);
  put_number(facts, "step", diagnosis.root.step);
  for (const Finding& finding : diagnosis.findings) {   // dumps that are there need not be recorded
    if (std::holds_alternative<parsers::RecordingEvent>(finding.event)) facts["flight_recorder_dump"] = 1.0;
    if (std::holds_alternative<parsers::CudaCoreEvent>(finding.event)) facts["cuda_core_dump"] = 1.0;
  }
  put_card(facts, diagnosis.config);
  if (uses_mock_data(diagnosis.config)) facts["mock_data"] = 1.0;
  if (diagnosis.ledger) {
    const Ledger& ledger = *diagnosis.ledger;
    put_size(facts, "tried", ledger.tried);
    if (ledger.tried && diagnosis.phase == Phase::loss)
      facts["tried_in_loss"] = parsers::bytes_text(*ledger.tried);
    if (ledger.tried && (diagnosis.phase == Phase::optimizer_init || diagnosis.phase == Phase::optimizer_step))
      facts["tried_in_optimizer"] = parsers::bytes_text(*ledger.tried);
    put_size(facts, "free", ledger.free);
    put_size(facts, "capacity", ledger.capacity);
    put_size(facts, "in_use", ledger.in_use);
    put_size(facts, "allocated", ledger.allocated);
    put_size(facts, "unallocated", ledger.reserved_unallocated);
    put_size(facts, "outside", ledger.outside_pytorch);
    put_size(facts, "limit", ledger.limit);
    put_size(facts, "pools", ledger.private_pools);
    if (!ledger.other_processes.empty()) {
      Bytes sum;
      std::string processes, pids;
      for (std::size_t i = 0; i < ledger.other_processes.size(); ++i) {
        const parsers::ProcessMemory& other = ledger.other_processes[i];
        sum += other.bytes;
        if (i >= kListed) continue;
        processes += (i ? ", " : "") + std::to_string(other.pid) + " (" +
                     parsers::bytes_text(other.bytes) + ")";
        pids += (i ? " " : "") + std::to_string(other.pid);
      }
      if (ledger.other_processes.size() > kListed)
        processes += " and " + std::to_string(ledger.other_processes.size() - kListed) + " more";
      put_size(facts, "others", sum);
      facts["other_count"] = static_cast<double>(ledger.other_processes.size());
      facts["other_processes"] = std::move(processes);
      facts["other_pids"] = std::move(pids);
    }
  }
  if (diagnosis.collective) {
    put_text(facts, "operation", diagnosis.collective->operation);
    put_number(facts, "sequence", diagnosis.collective->sequence);
    put_ranks(facts, "culprit_ranks", diagnosis.collective->culprit_ranks);
    put_ranks(facts, "silent_ranks", diagnosis.collective->silent_ranks);
    put_ranks(facts, "waiting_ranks", diagnosis.collective->waiting_ranks);
  }
  // Captures of the cause first, then of what else was found.
  for (const bool cause : {true, false})
    for (const Finding& finding : diagnosis.findings) {
      if ((finding.role == Role::root) != cause) continue;
      for (const auto& [name, value] : finding.captures)
        if (!facts.contains("capture." + name))
          put_text(facts, "capture." + name, capture_text(value));
    }
  return facts;
}

}  // namespace triage::signatures
