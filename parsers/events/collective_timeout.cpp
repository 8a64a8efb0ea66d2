// Time-outs of collectives: ProcessGroupNCCL's watchdog (all spellings since 1.9), its XCCL, HCCL, RCCL kin, and gloo.
// Sources: pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp; facebookincubator/gloo
// gloo/transport/tcp/unbound_buffer.cc; Ascend/pytorch ProcessGroupHCCL.cpp.
#include "parsers/base/text.hpp"
#include "parsers/events/message_parsers.hpp"
#include "parsers/events/scan.hpp"

#include <array>
#include <string>

namespace triage::parsers {

namespace {

constexpr std::size_t kBracketBytes = 512;  // a group's description may name its ranks

// "[Rank 3]", "[PG 1 Rank 0]", "[PG ID 0 PG GUID 0(default_pg) Rank 5]": rank and group. Only brackets that hold "Rank " count.
void read_bracket(std::string_view message, CollectiveTimeout& out) {
  for (std::size_t at = message.find('['); at != std::string_view::npos; at = message.find('[', at + 1)) {
    const auto window = message.substr(at + 1, kBracketBytes);
    const auto inside = window.substr(0, window.find(']'));
    Scan rank(inside);
    if (inside.size() == window.size() || !rank.after("Rank ")) continue;
    out.rank = rank_number(rank.integer());
    Scan group(inside);
    if (group.word("PG ID ") || group.word("PG ")) {
      out.process_group = std::string(trim(group.until(" ")));
      const auto open = inside.find('('), close = inside.find(')');
      if (open != std::string_view::npos && close != std::string_view::npos && open + 1 < close)
        out.process_group = std::string(inside.substr(open + 1, close - open - 1));
    }
    return;
  }
}

// "WorkNCCL(SeqNum=4084, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"; the numbers of elements are missing before 2.1.
bool read_work(std::string_view message, CollectiveTimeout& out) {
  Scan scan(message);
  if (!scan.after("(SeqNum=")) return false;
  out.sequence = scan.integer();
  const auto fields = scan.rest().substr(0, 512);
  const auto field = [&](std::string_view name) {
    Scan at(fields);
    return at.after(name) ? at.integer() : std::nullopt;
  };
  Scan type(fields);
  if (type.after("OpType=")) out.operation = std::string(trim(type.until(",)")));
  out.elements_in = field("NumelIn=");
  out.elements_out = field("NumelOut=");
  out.timeout_ms = field("Timeout(ms)=");
  out.ran_ms = field(" ran for ");
  return true;
}

// "last enqueued NCCL work: 4084, last completed NCCL work: 4083", "last enqueued work: E, last completed work: C".
bool read_state(std::string_view message, CollectiveTimeout& out) {
  const auto state = [&](std::string_view what) -> std::optional<std::int64_t> {
    for (const std::string_view first : {"last ", "Last "}) {
      Scan scan(message);
      if (!scan.after(std::string(first) + std::string(what))) continue;
      scan.blanks();
      while (is_alpha(scan.peek())) scan.until(" :"), scan.blanks();  // NCCL, work
      if (scan.word(":")) return scan.integer();
    }
    return std::nullopt;
  };
  out.last_enqueued = state("enqueued");
  out.last_completed = state("completed");
  return out.last_enqueued || out.last_completed;
}

// "Timeout at NCCL work: 4084", "at work sequence id: 12", "at work: 12".
void read_sequence(std::string_view message, CollectiveTimeout& out) {
  if (out.sequence) return;
  for (const std::string_view mark : {"imeout at NCCL work: ", "at work sequence id: ", "watchdog at work: ", "imeout at work: "}) {
    Scan scan(message);
    if (!scan.after(mark)) continue;
    out.sequence = scan.integer();
    return;
  }
}

// "[.../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
bool read_gloo(std::string_view message, CollectiveTimeout& out) {
  Scan scan(message);
  if (scan.after("Timed out waiting ")) {
    const auto ms = scan.integer();
    if (!ms || !scan.word("ms for ")) return false;
    out.timeout_ms = ms;
    out.operation = std::string(scan.until(" "));
    return true;
  }
  // "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 300000 ms"
  if (scan.after("failed to pass monitoredBarrier in ")) {
    out.operation = "monitoredBarrier";
    out.timeout_ms = scan.integer();
    return true;
  }
  return contains(message, "gloo") && (contains(message, "imed out") || contains(message, "imeout"));
}

}  // namespace

Event read_collective_timeout(std::string_view message) {
  CollectiveTimeout out;
  const bool work = read_work(message, out);
  const bool state = read_state(message, out);
  const bool said = contains(message, "imeout") || contains(message, "imed out") || contains(message, "times out") ||
                    contains(message, "before timing out") || contains(message, "failure detected by watchdog");
  if (work || state) {
    if (!said) return {};
  } else {
    const bool watchdog = contains(message, "Watchdog caught collective operation timeout") || contains(message, "Timeout at NCCL work") ||
                          (contains(message, "HCCL") && said) || (contains(message, "Notify register") && said);
    if (!watchdog && !read_gloo(message, out)) return {};
  }
  // "... Notify register times out. ... base information: [streamID:[14], taskID[4], tag[HcomAllReduce_66294_0].]"
  if (Scan tag(message); out.operation.empty() && contains(message, "Notify register") && tag.after("tag[")) {
    tag.word("Hcom");
    out.operation = std::string(tag.until("_]").substr(0, 64));
  }
  read_sequence(message, out);
  read_bracket(message, out);
  return out;
}

}  // namespace triage::parsers
