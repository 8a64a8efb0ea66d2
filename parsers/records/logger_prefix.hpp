// Prefixes that loggers put before a message: glog, c10, absl, TensorFlow, Python logging and its styles (DeepSpeed, transformers,
// Hydra, NeMo, loguru, fairseq, Ray, vLLM, SGLang, Rich), log4j, container runtimes' clocks.
#pragma once

#include <cstdint>
#include <string_view>

#include "parsers/records/record.hpp"

namespace triage::parsers {

// The level that a word means ("ERROR", "warn", "I", "CRITICAL", ...), or unknown.
Level level_word(std::string_view word);
// Kernel and syslog priority 0 (emergency) to 7 (debug).
Level syslog_level(std::int64_t priority);
// The level that a message's own first word tells ("WARNING: ...", "[ERROR] ...", "slurmstepd: error: ..."), or unknown.
Level level_of_head(std::string_view message);

// "trainer.py:1339", "launch.py:434:fn", "torch/_inductor/x.py:12", "ProcessGroupNCCL.cpp:828": a place in a source file.
bool is_source_place(std::string_view text);

// Takes one prefix off the front of `text`. False, and nothing changed, where none stands.
bool peel_logger(std::string_view& text, Record& record, int default_year);

}  // namespace triage::parsers
