#include "signatures/plan/saving.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "parsers/base/quantity.hpp"
#include "signatures/plan/observed.hpp"

namespace triage::signatures {

using parsers::Bytes;
using parsers::bytes_text;
using parsers::Key;

namespace {

bool within_kind(const Diagnosis& diagnosis, std::string_view kind) {
  return diagnosis.kind == kind;
}

void measured(Fix& fix, Bytes low, Bytes mid, Bytes high) {
  fix.saving = Range{low, mid, high};
  fix.basis = Basis::measured;
}

Bytes outside_of(const Ledger& ledger) {
  Bytes sum = ledger.outside_pytorch.value_or(Bytes());
  for (const parsers::ProcessMemory& other : ledger.other_processes) sum += other.bytes;
  return sum;
}

// Reserved but unallocated memory becomes usable; the peak is then what is allocated, the failed request and what stands
// outside the allocator (context, libraries).
void fragmentation(Fix& fix, const Diagnosis& diagnosis, const Forecast* forecast) {
  const Ledger& ledger = *diagnosis.ledger;
  if (!ledger.reserved_unallocated || ledger.reserved_unallocated->count() <= 0) return;
  const Bytes all = *ledger.reserved_unallocated;
  const Bytes least = ledger.tried ? std::min(*ledger.tried, all) : all;
  measured(fix, least, all, all);
  if (!ledger.allocated || !ledger.tried) return;
  const Bytes needed = needed_without_pieces(diagnosis, forecast);
  fix.predicted_peak = needed - outside_of(ledger);
  if (ledger.capacity) fix.fits = needed <= *ledger.capacity;
  if (!forecast) fix.assumes.push_back("nothing after the failed request needs more than is counted here: the configuration is not known well enough");
}

}  // namespace

Bytes needed_without_pieces(const Diagnosis& diagnosis, const Forecast* forecast) {
  if (!diagnosis.ledger || !diagnosis.ledger->allocated || !diagnosis.ledger->tried) return {};
  const Ledger& ledger = *diagnosis.ledger;
  Bytes peak = *ledger.allocated + *ledger.tried + rest_of_loss(diagnosis, true);
  if (forecast) peak = std::max(peak, forecast->now().peak.mid);
  return peak + outside_of(ledger);
}

namespace {

void other_processes(Fix& fix, const Ledger& ledger) {
  Bytes sum;
  for (const parsers::ProcessMemory& other : ledger.other_processes) sum += other.bytes;
  if (sum.count() <= 0) return;
  measured(fix, sum, sum, sum);
}

// The names of what a memory model needs and the log does not state.
std::string lacking(const parsers::RunConfig& config) {
  constexpr std::array<std::pair<Key, std::string_view>, 5> kNeeded = {
      {{Key::layers, "the number of layers"},
       {Key::hidden, "the hidden size"},
       {Key::vocab, "the vocabulary size"},
       {Key::seq_length, "the sequence length"},
       {Key::micro_batch, "the micro batch"}}};
  std::vector<std::string_view> names;
  for (const auto& [key, name] : kNeeded) {
    if (key == Key::vocab && config.has(Key::padded_vocab)) continue;
    if (!config.has(key)) names.push_back(name);
  }
  if (names.size() >= 3 && !config.has(Key::layers) && !config.has(Key::hidden))
    return "the model's shape and batch";
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + std::string(names[i]);
  return text;
}

}  // namespace

void add_saving(Fix& fix, const CatalogueFix& entry, const Diagnosis& diagnosis, const Forecast* forecast) {
  if (!diagnosis.kind.starts_with("gpu.oom")) return;
  if (diagnosis.ledger) {
    const Ledger& ledger = *diagnosis.ledger;
    if (within_kind(diagnosis, "gpu.oom.fragmentation") && fix.id == "allocator.expandable")
      fragmentation(fix, diagnosis, forecast);
    if (within_kind(diagnosis, "gpu.oom.other_process") &&
        (fix.id == "process.stale" || fix.id == "device.free_card" || fix.id == "process.one_device"))
      other_processes(fix, ledger);
    if (fix.id == "limit.fraction" && ledger.limit && ledger.capacity &&
        *ledger.limit < *ledger.capacity) {
      const Bytes room = *ledger.capacity - *ledger.limit;
      measured(fix, room, room, room);
      fix.why += " It gives back " + bytes_text(room) + " of the card.";
    }
    // In the loss the failed request is one tensor as large as the logits: it scales with the micro batch and vanishes, but for
    // one chunk of (at least) eight, when output layer and loss are computed together.
    if (diagnosis.phase == Phase::loss && ledger.tried && ledger.tried->count() > 0) {
      const std::int64_t tried = ledger.tried->count();
      if (fix.id == "loss.fused_linear" || fix.id == "loss.liger" || fix.id == "loss.chunked")
        measured(fix, Bytes(tried - tried / 8), Bytes(tried), Bytes(tried));
      else if (fix.id == "micro_batch.halve")
        measured(fix, Bytes(tried / 2), Bytes(tried / 2), Bytes(tried / 2));
      if (fix.saving && entry.family == "micro_batch")
        fix.assumes.push_back("the saving counts the failed request only; kept activations shrink as well");
    }
  }
  if (fix.saving) return;
  const bool model_terms = std::any_of(
      entry.reduces.begin(), entry.reduces.end(),
      [](const std::string& term) { return term != "host" && term != "outside" && term != "fragmentation"; });
  if (!model_terms) return;
  const std::string missing = lacking(diagnosis.config);
  if (!missing.empty())
    fix.why += " The bytes it saves cannot be computed: the log does not state " + missing + ".";
}

}  // namespace triage::signatures
