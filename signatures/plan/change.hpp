// The configuration that a fix leads to.
#pragma once

#include <optional>

#include "parsers/config/run_config.hpp"
#include "signatures/plan/catalogue.hpp"

namespace triage::signatures {

// The settings after the fix, with what follows from them (data parallel size, gradient accumulation) computed anew; number of ranks
// and global batch stay. Empty: the entry states no change, a value of it is unknown in this scope, or nothing would be different.
std::optional<parsers::RunConfig> changed_config(const CatalogueFix& entry, const Scope& scope);

// Sets one key and computes anew what follows from it. Used for a fix and for a setting of the user.
void change_setting(parsers::RunConfig& config, parsers::Key key, parsers::Value value, const std::string& origin);

}  // namespace triage::signatures
