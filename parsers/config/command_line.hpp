// Command lines as logs show them (set -x, launchers' notes, Python's list form) and what their
// options say.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/config/flat_setting.hpp"
#include "parsers/config/target.hpp"

namespace triage::parsers {

// Words of a line as a shell splits it (quotes, backslash); also ['python', '-u', 'main.py',
// '--x=1'].  A quoted word that holds options itself (CMD='train.py --x 1') is split too. At most
// 4096 words.
std::vector<std::string> command_words(std::string_view line);

// "--micro-batch-size 4", "--x=1", "--flag", "a.b=c" -> settings named micro_batch_size, x, flag
// (True), a.b.
// "--no-x" without a value also sets x to False. Several values of one option are joined by a
// space.
FlatSettings options_of(std::span<const std::string> words, std::uint64_t line);

// Maps options by the program whose names they are; adds the framework. False if nothing told which
// program it is.
bool apply_options(const FlatSettings& options, Target& target);

}  // namespace triage::parsers
