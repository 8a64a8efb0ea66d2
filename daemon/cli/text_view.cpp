#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "daemon/cli/page.hpp"
#include "daemon/cli/view.hpp"
#include "parsers/base/quantity.hpp"
#include "parsers/base/visible.hpp"

namespace triage::daemon {

using namespace signatures;
using parsers::bytes_text;

namespace {

constexpr std::size_t kFixes = 4, kReasons = 3, kFrames = 3;
constexpr std::size_t kLineBytes = 300;    // of the root line, while not everything is asked for

// "rank 7", "ranks 0-3, 5".
// Ranges; not more of them than a line or two holds, unless `all`.
std::string ranks_text(std::vector<int> ranks, bool all) {
  constexpr std::size_t kRanges = 24;
  std::sort(ranks.begin(), ranks.end());
  std::string out;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    if (!all && ranges++ == kRanges) {
      out += " and " + std::to_string(ranks.size() - i) + " more (--all)";
      break;
    }
    std::size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    out += (out.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (end > i + 1) out += "-" + std::to_string(ranks[end]);
    if (end == i + 1) out += ", " + std::to_string(ranks[end]);
    i = end + 1;
  }
  return (ranks.size() > 1 ? "ranks " : "rank ") + out;
}

std::string where_text(const Evidence& e) {
  std::string out = one_line(e.source, 300) + (e.line > 0 ? ":" + std::to_string(e.line) : "");
  if (e.rank) out += "  rank " + std::to_string(*e.rank);
  if (!e.rank && e.local_rank) out += "  local rank " + std::to_string(*e.local_rank);
  if (!e.node.empty()) out += "  node " + one_line(e.node, 100);
  if (e.device) out += "  device " + std::to_string(*e.device);
  if (e.step) out += "  step " + std::to_string(*e.step);
  if (e.time) out += "  " + time_text(*e.time);
  return out;
}

std::string ledger_text(const Ledger& ledger) {
  std::string out;
  const auto part = [&](const char* name, const std::optional<parsers::Bytes>& bytes, const char* before) {
    if (bytes) out += (out.empty() ? "" : before) + bytes_text(*bytes) + " " + name;
  };
  part("device", ledger.capacity, "");
  part("free", ledger.free, " = ");
  part("allocated by PyTorch", ledger.allocated, " + ");
  part("reserved but unallocated", ledger.reserved_unallocated, " + ");
  part("outside PyTorch", ledger.outside_pytorch, " + ");
  parsers::Bytes others;
  for (const parsers::ProcessMemory& process : ledger.other_processes) others += process.bytes;
  if (!ledger.other_processes.empty()) {
    out += " + " + bytes_text(others) + " of other processes (";
    for (std::size_t i = 0; i < ledger.other_processes.size() && i < 4; ++i)
      out += (i > 0 ? ", " : "") + std::string("pid ") + std::to_string(ledger.other_processes[i].pid) + " " +
             bytes_text(ledger.other_processes[i].bytes);
    out += ledger.other_processes.size() > 4 ? ", ...)" : ")";
  }
  if (ledger.limit) out += "; limit " + bytes_text(*ledger.limit);
  if (ledger.tried) out += (out.empty() ? "asked for " : "; asked for ") + bytes_text(*ledger.tried);
  return out;
}

std::string percent(double value) {
  char text[16];
  std::snprintf(text, sizeof text, "%+.0f", value);
  return text;
}

// A traceback printed as one list ends with what went wrong: a line too long to be shown begins there.
std::string_view telling_part(std::string_view line, std::size_t most) {
  if (line.size() <= most) return line;
  const std::size_t error = line.rfind("Error: ");
  if (error == std::string_view::npos || error + 100 < most) return line;
  const std::size_t start = line.find_last_of(" '\"", error);
  return start == std::string_view::npos ? line : line.substr(start + 1);
}

std::string fix_effect(const Fix& fix) {
  std::string out;
  if (fix.saving) {
    out += "saves " + bytes_text(fix.saving->mid);
    if (fix.saving->low != fix.saving->high) out += " (" + bytes_text(fix.saving->low) + " to " + bytes_text(fix.saving->high) + ")";
    out += ", " + std::string(basis_name(fix.basis));
  }
  if (fix.predicted_peak) out += (out.empty() ? "" : "; ") + std::string("peak then ") + bytes_text(*fix.predicted_peak);
  if (fix.fits) out += *fix.fits ? ", fits" : ", does not fit alone";
  if (fix.cost.step_time_low_percent && fix.cost.step_time_high_percent) {
    out += (out.empty() ? "" : "; ") + std::string("step time ") + percent(*fix.cost.step_time_low_percent);
    if (*fix.cost.step_time_low_percent != *fix.cost.step_time_high_percent) out += " to " + percent(*fix.cost.step_time_high_percent);
    out += " %";
  }
  return out;
}

// The user's own frames (the last ones) and the innermost one; a library's way down to it tells nothing.
std::string stack_text(const std::vector<parsers::Frame>& frames, bool all) {
  const auto of_library = [](const parsers::Frame& frame) {
    for (const char* part : {"-packages/", "<frozen", "/lib/python", "<string>"})
      if (frame.file.find(part) != std::string::npos) return true;
    return false;
  };
  std::vector<const parsers::Frame*> shown;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    if (all || frame == frames.rbegin() || (shown.size() < kFrames && !of_library(*frame))) shown.push_back(&*frame);
  std::string out;
  for (auto frame = shown.rbegin(); frame != shown.rend(); ++frame)
    out += (out.empty() ? "" : " > ") + one_line((*frame)->function, 80) + " (" + one_line((*frame)->file, 200) +
           ((*frame)->line > 0 ? ":" + std::to_string((*frame)->line) : "") + ")";
  return out;
}

// "optimizer 54.38 GiB, weights 41.12 GiB (MEASURED)": what is worth a word, most first.
std::string composition_text(const std::vector<CompositionTerm>& composition) {
  std::vector<CompositionTerm> terms = composition;
  std::stable_sort(terms.begin(), terms.end(), [](const CompositionTerm& a, const CompositionTerm& b) { return a.bytes > b.bytes; });
  std::string out;
  for (std::size_t i = 0; i < terms.size() && i < 6; ++i) {
    if (terms[i].bytes.count() * 100 < terms[0].bytes.count()) break;
    out += (i > 0 ? ", " : "") + terms[i].term + " " + bytes_text(terms[i].bytes);
    if (terms[i].guessed.count() * 20 > terms[i].bytes.count()) out += " [" + guessed_text(terms[i].guessed.count(), terms[i].bytes.count()) + "]";
  }
  return out.empty() ? out : out + " (" + std::string(basis_name(terms[0].basis)) + (terms[0].in_doubt ? ", in doubt)" : ")");
}

std::string config_text(const parsers::RunConfig& config) {
  using parsers::Key;
  static const std::pair<Key, const char*> shown[] = {
      {Key::tensor_parallel, "TP"},   {Key::pipeline_parallel, "PP"}, {Key::context_parallel, "CP"},      {Key::expert_parallel, "EP"},
      {Key::data_parallel, "DP"},     {Key::zero_stage, "ZeRO"},      {Key::fsdp, "FSDP"},                {Key::layers, "layers"},
      {Key::hidden, "hidden"},        {Key::experts, "experts"},      {Key::seq_length, "sequence"},      {Key::micro_batch, "micro batch"},
      {Key::recompute, "recompute"},  {Key::dtype, "dtype"},          {Key::expandable_segments, "expandable segments"}};
  std::string out;
  for (const auto& [key, name] : shown)
    if (const parsers::Setting* setting = config.find(key)) out += (out.empty() ? "" : ", ") + std::string(name) + " " + parsers::value_text(setting->value);
  return out;
}

void write_fixes(Page& page, const JudgedIncident& incident, const TextStyle& style) {
  const auto& fixes = incident.plan.fixes;
  if (fixes.empty()) return;
  page.blank();
  const std::size_t count = style.all ? fixes.size() : std::min(fixes.size(), kFixes);
  for (std::size_t i = 0; i < count; ++i) {
    const Fix& fix = fixes[i];
    page.strong("fix " + std::to_string(i + 1), fix.title + "  [" + fix.id + "]");
    for (const FixSetting& setting : fix.apply) {
      page.under((setting.framework == "any" ? "" : setting.framework + ": ") + setting.set);
      if (!style.all && fix.apply.size() > 2) break;
    }
    if (!fix.why.empty() && (i == 0 || style.all)) page.under(fix.why);
    if (const std::string effect = fix_effect(fix); !effect.empty()) page.under(effect);
    for (const std::string& assumption : fix.assumes)
      if (style.all) page.under("if " + assumption);
  }
  if (count < fixes.size()) page.row("", std::to_string(fixes.size() - count) + " more with --all or --format json");
  if (!incident.plan.verdict.empty()) page.row("plan", incident.plan.verdict);
}

}  // namespace

std::string guessed_text(std::int64_t guessed, std::int64_t whole) {
  const std::int64_t percent = whole > 0 ? static_cast<std::int64_t>(100 * static_cast<double>(guessed) / static_cast<double>(whole)) : 0;
  return percent >= 95 ? "guessed" : std::to_string(percent) + " % guessed";
}

std::string one_line(std::string_view text, std::size_t limit) { return parsers::visible_head(text, limit); }

TextStyle terminal_style(bool all) {
  TextStyle style;
  style.all = all;
  winsize size{};
  if (::isatty(STDOUT_FILENO)) {
    style.colour = std::getenv("NO_COLOR") == nullptr;
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) style.width = std::min<std::size_t>(size.ws_col, 140);
  }
  return style;
}

std::string collective_text(const CollectiveFault& fault, bool all) {
  constexpr std::size_t kSets = 4;
  std::string text = fault.operation;
  if (fault.sequence) text += " number " + std::to_string(*fault.sequence);
  if (!fault.process_group.empty()) text += " of group " + fault.process_group;
  const auto named = [&](const char* what, const std::vector<int>& ranks) {
    if (!ranks.empty()) text += (text.empty() ? "" : "; ") + (what + ranks_text(ranks, all));
  };
  named("did not arrive: ", fault.culprit_ranks);
  for (std::size_t i = 0; i < fault.one_of.size() && i < kSets; ++i) named("stands still: one of ", fault.one_of[i]);
  if (fault.one_of.size() > kSets) text += " (and of " + std::to_string(fault.one_of.size() - kSets) + (fault.one_of.size() - kSets == 1 ? " more set)" : " more sets)");
  named("printed nothing: ", fault.silent_ranks);
  named("waited: ", fault.waiting_ranks);
  return text + (fault.note.empty() ? "" : ". " + fault.note);
}

std::string incident_text(const JudgedIncident& incident, const TextStyle& style) {
  const Diagnosis& d = incident.diagnosis;
  Page page(style);
  std::string head = d.kind;
  if (d.phase != Phase::unknown) head += "  in " + std::string(phase_name(d.phase));
  if (d.root.rank) head += "  rank " + std::to_string(*d.root.rank);
  head += "  (" + std::to_string(std::lround(d.confidence * 100)) + " % sure)";
  page.head(head);
  page.row("what", d.summary);
  page.row("where", where_text(d.root));
  page.row("line", one_line(style.all ? std::string_view(d.root.text) : telling_part(d.root.text, kLineBytes), style.all ? 2000 : kLineBytes));
  if (const std::string stack = stack_text(d.root.frames, style.all); !stack.empty()) page.row("stack", stack);
  if (d.ledger)
    if (const std::string text = ledger_text(*d.ledger); !text.empty()) page.row("memory", text + (d.ledger->note.empty() ? "" : ". " + d.ledger->note));
  if (const std::string text = composition_text(d.composition); !text.empty()) page.row("filled by", text);
  if (d.collective) page.row("collective", collective_text(*d.collective, style.all));
  if (!d.echoes.empty()) {
    std::string text;
    for (const Echo& echo : d.echoes) {
      text += (text.empty() ? "" : "; ") + echo.kind + " x" + std::to_string(echo.count);
      if (!echo.ranks.empty()) text += " on " + ranks_text(echo.ranks, style.all);
      if (echo.first_line > 0) text += " from line " + std::to_string(echo.first_line);
    }
    page.row("echoes", text);
  }
  if (const std::string text = config_text(d.config); !text.empty()) page.row("run", text);
  for (std::size_t i = 0; i < d.reasons.size() && (style.all || i < kReasons); ++i) page.row(i == 0 ? "why" : "", d.reasons[i]);
  if (!d.help.empty()) page.row("first", d.help);
  write_fixes(page, incident, style);
  if (!d.missing.empty()) page.blank();
  for (std::size_t i = 0; i < d.missing.size() && (style.all || i < 2); ++i)
    page.row(i == 0 ? "unknown" : "", d.missing[i].what + (d.missing[i].set.empty() ? "" : "; to record it: " + d.missing[i].set));
  page.row("id", d.id);
  return page.take();
}

std::string answer_text(const Answer& answer, const TextStyle& style) {
  std::string out;
  for (const JudgedIncident& incident : answer.incidents) out += (out.empty() ? "" : "\n") + incident_text(incident, style);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.2f", answer.stats.seconds);
  if (answer.incidents.empty() && answer.stats.files == 0)
    out += "nothing was scanned: no file held text\n";
  else if (answer.incidents.empty())
    out += "no failure found in " + std::to_string(answer.stats.files) + (answer.stats.files == 1 ? " file, " : " files, ") +
           bytes_text(parsers::Bytes(static_cast<std::int64_t>(answer.stats.bytes))) + ", " + std::to_string(answer.stats.lines) + " lines (" +
           seconds + " s)\n";
  std::uint64_t handled = 0;
  for (const Handled& item : answer.handled) handled += item.count;
  if (handled > 0) {
    const Handled& first = answer.handled.front();
    out += "handled by the program, no failure: " + std::to_string(handled) + " (first: " + first.kind + " at " + one_line(first.source, 200) + ":" +
           std::to_string(first.line) + (first.why.empty() ? "" : ", " + first.why) + ")\n";
  }
  for (std::size_t i = 0; i < answer.lost.size() && (style.all || i < 5); ++i) {
    const Lost& lost = answer.lost[i];
    out += "lost: " + lost.what + " at " + one_line(lost.source, 200) + (lost.line > 0 ? ":" + std::to_string(lost.line) : "") +
           (lost.bytes > 0 ? ", " + std::to_string(lost.bytes) + " bytes" : "") + "\n";
  }
  if (!style.all && answer.lost.size() > 5) out += "lost: " + std::to_string(answer.lost.size() - 5) + " more in --format json\n";
  return out;
}

}  // namespace triage::daemon
