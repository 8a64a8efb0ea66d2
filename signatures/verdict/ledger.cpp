#include "signatures/verdict/ledger.hpp"

#include <algorithm>
#include <cmath>

#include "parsers/base/quantity.hpp"

namespace triage::signatures {
namespace {

using parsers::Bytes;
using parsers::bytes_text;

constexpr Bytes operator/(Bytes a, std::int64_t n) { return Bytes(a.count() / n); }
constexpr Bytes percent(Bytes whole, int share) { return Bytes(whole.count() / 100 * share); }

// NVML's "not available" (2^64 - 1) printed as GiB, or 0 of a container without the host's process ids.
bool absurd(Bytes value, const std::optional<Bytes>& capacity) {
  if (value.count() <= 0 || value > parsers::gib(1024.0 * 1024.0)) return true;
  return capacity && value > Bytes(capacity->count() + capacity->count() / 2);
}

std::optional<Bytes> own_sum(const parsers::OutOfMemory& event) {
  if (!event.allocated) return {};
  return *event.allocated + event.reserved_unallocated.value_or(Bytes(0));
}

// The listed process that is this one: nearest above allocated + unallocated, within 2 GiB (a CUDA context with its libraries takes
// 0.3 to 1 GiB, NCCL's buffers the rest), or nothing. Corpus gpu/018, gpu/051, gpu/078. When the listed ones and PyTorch's own figures
// together exceed the card, one of them must be this one, however far above.
std::size_t own_process(const std::vector<parsers::ProcessMemory>& processes, Bytes sum, const std::optional<Bytes>& capacity) {
  Bytes listed;
  for (const auto& process : processes) listed += process.bytes;
  const bool must = capacity && listed + sum > *capacity + parsers::mib(64);
  std::size_t best = processes.size();
  std::int64_t distance = 0;
  const std::int64_t usual = parsers::gib(0.5).count();
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const std::int64_t above = (processes[i].bytes - sum).count();
    if (above < -parsers::mib(32).count() || (!must && above > parsers::gib(2).count())) continue;
    const std::int64_t from_usual = std::llabs(above - usual);
    if (best == processes.size() || from_usual < distance) {
      best = i;
      distance = from_usual;
    }
  }
  return best;
}

void note(Ledger& ledger, std::string text) {
  if (!ledger.note.empty()) ledger.note += "; ";
  ledger.note += std::move(text);
}

Bytes others_of(const Ledger& ledger) {
  Bytes sum;
  for (const auto& p : ledger.other_processes) sum += p.bytes;
  return sum;
}

// What neither free memory nor PyTorch nor a listed process accounts for. Zero if it is not known.
Bytes unexplained(const Ledger& ledger) {
  if (!ledger.capacity || !ledger.free || !ledger.allocated) return {};
  const Bytes own = ledger.in_use ? *ledger.in_use : *ledger.allocated + ledger.reserved_unallocated.value_or(Bytes(0));
  return *ledger.capacity - *ledger.free - own - others_of(ledger);
}

}  // namespace

bool expandable_segments_on(const parsers::RunConfig& config) {
  if (const auto on = config.boolean(parsers::Key::expandable_segments)) return *on;
  const auto text = config.text(parsers::Key::alloc_conf).value_or("");
  return text.find("expandable_segments:True") != std::string::npos || text.find("expandable_segments:true") != std::string::npos;
}

Ledger make_ledger(const parsers::OutOfMemory& event) {
  Ledger ledger;
  ledger.capacity = event.capacity;
  ledger.free = event.free;
  ledger.tried = event.tried;
  ledger.allocated = event.allocated;
  ledger.reserved_unallocated = event.reserved_unallocated;
  if (!ledger.reserved_unallocated && event.reserved && event.allocated && *event.reserved >= *event.allocated)
    ledger.reserved_unallocated = *event.reserved - *event.allocated;
  ledger.limit = event.limit;
  ledger.private_pools = event.private_pools;
  if (event.in_use) {
    if (absurd(*event.in_use, event.capacity)) {
      note(ledger, "the memory of this process as printed (" + bytes_text(*event.in_use) + ") is no real figure");
    } else {
      ledger.in_use = event.in_use;
    }
  }
  std::vector<parsers::ProcessMemory> others;
  for (const auto& p : event.processes)
    if (!absurd(p.bytes, event.capacity)) others.push_back(p);
  if (!ledger.in_use && !others.empty()) {
    parsers::OutOfMemory whole = event;
    whole.reserved_unallocated = ledger.reserved_unallocated;
    if (const auto sum = own_sum(whole)) {
      const auto own = own_process(others, *sum, event.capacity);
      if (own < others.size()) {
        ledger.in_use = others[own].bytes;
        note(ledger, "process " + std::to_string(others[own].pid) + " is this one: its " + bytes_text(others[own].bytes) +
                         " are what PyTorch reserved plus a context");
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(own));
      }
    }
  }
  ledger.other_processes = std::move(others);
  if (ledger.in_use && ledger.allocated && (ledger.reserved_unallocated || !event.truncated)) {   // a cut message leaves it unknown
    const Bytes outside = *ledger.in_use - *ledger.allocated - ledger.reserved_unallocated.value_or(Bytes(0));
    if (outside.count() >= 0) {
      ledger.outside_pytorch = outside;
    } else if (outside.count() > -parsers::mib(64).count()) {
      ledger.outside_pytorch = Bytes(0);   // rounding of the printed figures
    } else {
      note(ledger, "PyTorch's own figures exceed what the driver says of this process by " + bytes_text(-outside));
    }
  }
  if (!event.sums_agree && !event.sums_note.empty()) note(ledger, event.sums_note);
  if (event.truncated) note(ledger, "the message is cut: the figures after the cut are not known");
  return ledger;
}

MemoryKind refine_memory_kind(const std::string& kind, const parsers::OutOfMemory* event, const Ledger* ledger, Phase phase,
                              const parsers::RunConfig& config) {
  MemoryKind out;
  out.kind = kind;
  if (kind != "gpu.oom" && kind != "gpu.oom.capacity") return out;
  out.kind = "gpu.oom.capacity";
  if (event == nullptr || ledger == nullptr) {
    if (phase == Phase::capture) {
      out.kind = "gpu.oom.cudagraph";
      out.reasons.push_back("it happened while a CUDA graph was captured");
    } else {
      out.reasons.push_back("the message has no figures, so capacity is assumed");
      out.confidence = -0.1;
    }
    return out;
  }
  const auto& l = *ledger;
  const Bytes tried = l.tried.value_or(Bytes(0));
  const Bytes free = l.free.value_or(Bytes(0));
  const Bytes unallocated = l.reserved_unallocated.value_or(Bytes(0));
  const Bytes capacity = l.capacity.value_or(l.limit.value_or(Bytes(0)));
  const bool watermark = event->backend == "mps";

  // 1. A limit the program set for itself: its capacity is the limit (corpus gpu/021).
  const bool limited = l.limit && !watermark && l.capacity && *l.limit < percent(*l.capacity, 98);
  if (limited && (!l.free || free > tried)) {
    out.reasons.push_back("a limit of its own stopped it: " + bytes_text(*l.limit) + " allowed of " + bytes_text(*l.capacity) +
                          ", with " + bytes_text(free) + " free");
    out.fix_hints.push_back("limit");
    return out;
  }
  // 2. Free memory far above the request: not capacity, but a refusal of the driver (largest buffer, mappings). Slightly above is
  //    rounding to segments or a later reading (corpus gpu/026, gpu/043).
  if (l.tried && l.free && free - tried >= parsers::mib(512) && !watermark) {
    out.kind = "gpu.oom.driver";
    out.reasons.push_back("the request of " + bytes_text(tried) + " is far below the " + bytes_text(free) +
                          " that were free: the driver refused it, capacity did not");
    return out;
  }
  // 3. Others hold a tenth of the device or more, and without them the request would have fitted.
  const Bytes others = others_of(l);
  if (l.tried && capacity.count() > 0 && others >= percent(capacity, 10) && free + others >= tried) {
    out.kind = "gpu.oom.other_process";
    out.reasons.push_back(std::to_string(l.other_processes.size()) + " other process" + (l.other_processes.size() == 1 ? "" : "es") +
                          " held " + bytes_text(others) + " of " + bytes_text(capacity) + "; without " +
                          (l.other_processes.size() == 1 ? "it" : "them") + " the request of " + bytes_text(tried) + " would have fitted");
    return out;
  }
  // 4. A graph capture, or private pools with a quarter of what is allocated.
  if (phase == Phase::capture) {
    out.kind = "gpu.oom.cudagraph";
    out.reasons.push_back("it happened while a CUDA graph was captured");
    return out;
  }
  if (l.private_pools && l.allocated && *l.private_pools >= parsers::gib(1) && *l.private_pools >= *l.allocated / 4) {
    out.kind = "gpu.oom.cudagraph";
    out.reasons.push_back("private pools (CUDA graphs) hold " + bytes_text(*l.private_pools) + " of the " + bytes_text(*l.allocated) +
                          " allocated");
    return out;
  }
  // 5. Fragmentation: the cache holds the request and at least 6 % of the device (and 512 MiB). Labelled logs: fragmentation from
  //    8.6 % on, capacity up to 4.2 % (and 7 % of a 4 GiB card, 0.28 GiB).
  const bool large = unallocated >= parsers::mib(512) && capacity.count() > 0 && unallocated >= percent(capacity, 6);
  if (l.tried && large && unallocated >= tried) {
    if (!expandable_segments_on(config)) {
      out.kind = "gpu.oom.fragmentation";
      out.reasons.push_back(bytes_text(unallocated) + " were reserved but unallocated, more than the " + bytes_text(tried) +
                            " asked for: the cache is in pieces");
      return out;
    }
    out.reasons.push_back(bytes_text(unallocated) + " were reserved but unallocated, although expandable segments are on");
    out.confidence = -0.1;
  }
  // 6. Old messages list no processes: far more in use than PyTorch and a context explain (corpus gpu/029 of the same printer).
  const Bytes hidden = unexplained(l);
  if (l.tried && !watermark && hidden >= parsers::gib(2.5) && hidden >= percent(capacity, 10) && free + hidden >= tried) {
    out.kind = "gpu.oom.other_process";
    out.reasons.push_back(bytes_text(hidden) + " of the device are in use by neither this process' PyTorch nor a listed process");
    out.confidence = -0.1;
    return out;
  }
  if (l.tried && l.capacity && tried > *l.capacity) {
    out.reasons.push_back("one request of " + bytes_text(tried) + " is larger than the whole device");
  } else if (l.tried && l.capacity && l.allocated && tried > *l.capacity - *l.allocated) {
    out.reasons.push_back("what is allocated leaves no room for the request of " + bytes_text(tried) + ", cache or not");
  } else if (l.tried) {
    out.reasons.push_back(l.free ? "the device was full: " + bytes_text(free) + " free, " + bytes_text(tried) + " asked for"
                                 : "the message does not say how much was free, so capacity is assumed");
  }
  return out;
}

}  // namespace triage::signatures
