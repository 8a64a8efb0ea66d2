// Configuration files and command lines that the user hands over (triage plan, scan --config),
// without a log.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "parsers/base/result.hpp"
#include "parsers/config/run_config.hpp"

namespace triage::parsers {

// A configuration file, told by its content: Hugging Face config.json, DeepSpeed JSON, torchtitan
// TOML or JSON, Megatron Bridge, NeMo, verl, accelerate, axolotl and LLaMA-Factory YAML, a shell
// script with a training command. file: its name, for Place. Errors: syntax (with place),
// unsupported (nothing in it is a known setting), limit.
Result<RunConfig> read_config_file(std::string_view text, std::string file);

// Megatron-LM's options, with Megatron-LM's defaults for what is not given (origin "default of
// megatron-lm"). A leading program or launcher ("torchrun --nproc-per-node 8 pretrain_gpt.py") is
// understood.
RunConfig read_megatron_arguments(std::span<const std::string> command_line);

// A model's config.json. Errors: syntax, unsupported.
Result<RunConfig> read_model_config(std::string_view text, std::string file = "config.json");

}  // namespace triage::parsers
