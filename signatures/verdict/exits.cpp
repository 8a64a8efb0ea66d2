#include "signatures/verdict/exits.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "parsers/base/text.hpp"

namespace triage::signatures {
namespace {

struct SignalName {
  int number;
  std::string_view name, kind;
};
// Linux numbers (signal(7)).
constexpr std::array<SignalName, 11> kSignals = {{{4, "SIGILL", "proc.sigill"},
                                                  {5, "SIGTRAP", "proc.exit"},
                                                  {6, "SIGABRT", "proc.sigabrt"},
                                                  {7, "SIGBUS", "proc.sigbus"},
                                                  {8, "SIGFPE", "proc.sigfpe"},
                                                  {9, "SIGKILL", "proc.sigkill"},
                                                  {11, "SIGSEGV", "proc.sigsegv"},
                                                  {15, "SIGTERM", "proc.sigterm"},
                                                  {2, "SIGINT", "proc.sigint"},
                                                  {1, "SIGHUP", "proc.sighup"},
                                                  {31, "SIGSYS", "proc.exit"}}};

const SignalName* find_signal(int number) {
  const auto found = std::find_if(kSignals.begin(), kSignals.end(), [&](const SignalName& s) { return s.number == number; });
  return found == kSignals.end() ? nullptr : &*found;
}

bool by_launcher(const parsers::ElasticFailure& f) { return f.exit_code && (*f.exit_code == -15 || *f.exit_code == -9); }

std::optional<std::int64_t> integer_capture(const Finding& finding, std::initializer_list<std::string_view> names) {
  for (const auto& [name, value] : finding.captures) {
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
    if (const auto* text = std::get_if<std::string>(&value))
      if (const auto number = parsers::read_integer(parsers::trim(*text))) return number;
  }
  return {};
}

}  // namespace

std::vector<const parsers::ElasticFailure*> table_entries(const std::vector<Item>& items) {
  std::vector<const parsers::ElasticFailure*> out;
  for (const auto& item : items)
    if (const auto* table = std::get_if<parsers::ElasticTable>(&item.finding->event))
      for (const auto& failure : table->failures) out.push_back(&failure);
  return out;
}

std::optional<FirstFailure> first_failure(const std::vector<Item>& items) {
  std::optional<FirstFailure> best;
  const auto key = [](const parsers::ElasticFailure& f) {
    return std::tuple(by_launcher(f) && !f.root, f.time.value_or(parsers::TimePoint::max()), !f.root, f.line);
  };
  for (const auto& item : items) {
    const auto* table = std::get_if<parsers::ElasticTable>(&item.finding->event);
    if (table == nullptr) continue;
    for (const auto& failure : table->failures)
      if (!best || key(failure) < key(*best->failure)) best = FirstFailure{&failure, item.source, item.finding};
  }
  return best;
}

Ending ending_of_code(int exit_code) {
  Ending out;
  if (exit_code < 0 && exit_code >= -64) {
    out.signal = -exit_code;
  } else if (exit_code > 128 && exit_code <= 128 + 64 && find_signal(exit_code - 128) != nullptr) {
    out.signal = exit_code - 128;
  } else {
    out.code = exit_code;
  }
  return out;
}

std::optional<Ending> ending_of(const Finding& finding) {
  if (const auto* exit = std::get_if<parsers::ProcessExit>(&finding.event)) {
    if (exit->signal) return Ending{exit->signal, {}};
    if (exit->exit_code) return ending_of_code(*exit->exit_code);
  }
  if (const auto signal = integer_capture(finding, {"signal"}); signal && *signal > 0 && *signal <= 64)
    return Ending{static_cast<int>(*signal), {}};
  if (const auto code = integer_capture(finding, {"exitcode", "exit_code", "code", "status", "return_code"});
      code && *code >= -64 && *code <= 255)
    return ending_of_code(static_cast<int>(*code));
  for (const auto& s : kSignals)
    if (s.kind != "proc.exit" && kind_is(finding.kind, s.kind)) return Ending{s.number, {}};
  return {};
}

std::string kind_of_ending(const Ending& ending) {
  if (!ending.signal) return "proc.exit";
  const auto* signal = find_signal(*ending.signal);
  return signal == nullptr ? "proc.exit" : std::string(signal->kind);
}

std::string ending_text(const Ending& ending) {
  if (ending.signal) {
    const auto* signal = find_signal(*ending.signal);
    return "signal " + std::to_string(*ending.signal) + (signal == nullptr ? "" : " (" + std::string(signal->name) + ")");
  }
  return ending.code ? "exit code " + std::to_string(*ending.code) : "unknown exit status";
}

bool told_to_end(const Finding& finding) { return parsers::contains(finding.text, "death signal, shutting down workers"); }

bool killed(const std::vector<Item>& items) {
  for (const auto* failure : table_entries(items))
    if (failure->exit_code && (*failure->exit_code == -9 || *failure->exit_code == 137)) return true;
  return std::any_of(items.begin(), items.end(), [](const Item& item) {
    if (item.strength != Strength::exit && item.strength != Strength::wrapper) return false;
    if (parsers::contains(words_of(*item.finding), "killed by signal: Killed")) return true;
    const auto ending = ending_of(*item.finding);
    return ending && ending->signal == 9;
  });
}

std::optional<std::uint64_t> closing_line(const std::vector<Item>& items, std::size_t source) {
  std::optional<std::uint64_t> line;
  for (const auto& item : items) {
    if (item.source != source) continue;
    const bool closing = parsers::contains(item.finding->text, "closing signal SIG") || parsers::contains(item.finding->text, "Killing subprocess");
    if (closing && (!line || item.finding->line < *line)) line = item.finding->line;
  }
  return line;
}

}  // namespace triage::signatures
