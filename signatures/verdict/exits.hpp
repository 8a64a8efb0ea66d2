// What launchers, shells and schedulers say about the end of processes: torchrun's failure tables, exit codes, signals.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "signatures/verdict/item.hpp"

namespace triage::signatures {

// The first failure over all tables of an incident: the earliest time, then the entry marked as root, then the line. Entries that
// the launcher itself ended (SIGTERM, SIGKILL) count only if there is no other.
struct FirstFailure {
  const parsers::ElasticFailure* failure = nullptr;
  std::size_t source = 0;
  const Finding* finding = nullptr;
};
std::optional<FirstFailure> first_failure(const std::vector<Item>& items);
// All entries of all tables.
std::vector<const parsers::ElasticFailure*> table_entries(const std::vector<Item>& items);

// How a process ended: signal number, or exit code.
struct Ending {
  std::optional<int> signal, code;
};
// 137 is SIGKILL, 139 SIGSEGV (128 + N, shells and container runtimes), -9 is SIGKILL (Python).
Ending ending_of_code(int exit_code);
// Out of the finding's event, else its captures (exitcode, exit_code, signal, code), else its kind.
std::optional<Ending> ending_of(const Finding& finding);
std::string kind_of_ending(const Ending& ending);      // proc.sigkill, ..., proc.exit
std::string ending_text(const Ending& ending);         // "signal 9 (SIGKILL)", "exit code 1"

bool told_to_end(const Finding& finding);              // torchrun's "Received 15 death signal, shutting down workers": raised again after it
bool killed(const std::vector<Item>& items);           // some process ended by SIGKILL
// The launcher's own "Sending process N closing signal": from this line on, SIGTERM and SIGKILL are its clean-up.
std::optional<std::uint64_t> closing_line(const std::vector<Item>& items, std::size_t source);

}  // namespace triage::signatures
