// The factories of the readers, one a file; make_config_readers() calls them all.
#pragma once

#include <memory>

#include "parsers/config/config_reader.hpp"

namespace triage::parsers {

std::unique_ptr<ConfigReader> make_megatron_arguments_reader();
std::unique_ptr<ConfigReader> make_megatron_lines_reader();
std::unique_ptr<ConfigReader> make_bridge_summary_reader();
std::unique_ptr<ConfigReader> make_yaml_dump_reader();
std::unique_ptr<ConfigReader> make_deepspeed_reader();
std::unique_ptr<ConfigReader> make_torchtitan_config_reader();
std::unique_ptr<ConfigReader> make_torchtitan_lines_reader();
std::unique_ptr<ConfigReader> make_training_arguments_reader();
std::unique_ptr<ConfigReader> make_model_config_reader();
std::unique_ptr<ConfigReader> make_trainer_lines_reader();
std::unique_ptr<ConfigReader> make_verl_reader();
std::unique_ptr<ConfigReader> make_nemo_rl_reader();
std::unique_ptr<ConfigReader> make_maxtext_reader();
std::unique_ptr<ConfigReader> make_command_line_reader();
std::unique_ptr<ConfigReader> make_telling_lines_reader();

}  // namespace triage::parsers
