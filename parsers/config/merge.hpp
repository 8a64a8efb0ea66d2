// Several sources -> one RunConfig: the more specific source wins, equal ones that disagree are
// recorded as a conflict. Called by every reader of this folder, and by whoever puts the
// configurations of several files of one job together.
#pragma once

#include <string_view>

#include "parsers/config/run_config.hpp"

namespace triage::parsers {

// How far a setting of this origin is from what really ran, higher is nearer:
// 0 defaults, 1 derived, 2 model configurations (config.json), 3 command lines, environment and
// configuration files (what was asked for), 4 printed configuration blocks (what the program made
// of it), 5 what the program reports while it starts, 6 the user's own flags.
int strength_of(std::string_view origin);

// Sets the key unless a stronger source has set it. Two different values of equal strength: of the
// same origin and file the later one is kept (a restarted run), else the first; the pair is
// recorded. True if the new value is the kept one.
bool merge_setting(RunConfig& config, Key key, Setting setting);

// Every setting, raw setting, conflict and framework of `from` into `into`.
void merge(RunConfig& into, const RunConfig& from);

// Adds a framework once. A framework that drives another one (Megatron Bridge over Megatron-LM)
// stands before it; Key::framework follows the first.
void add_framework(RunConfig& config, std::string_view name);

// Fills what follows exactly from other settings (data_parallel, world, gradient_accumulation,
// head_dim, ...); the origin says how. Never replaces a value. Idempotent.
void derive(RunConfig& config);

}  // namespace triage::parsers
