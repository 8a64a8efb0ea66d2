#include "parsers/config/readers.hpp"

namespace triage::parsers {

std::vector<std::unique_ptr<ConfigReader>> make_config_readers() {
  std::vector<std::unique_ptr<ConfigReader>> readers;
  readers.push_back(make_megatron_arguments_reader());
  readers.push_back(make_megatron_lines_reader());
  readers.push_back(make_bridge_summary_reader());
  readers.push_back(make_yaml_dump_reader());
  readers.push_back(make_deepspeed_reader());
  readers.push_back(make_torchtitan_config_reader());
  readers.push_back(make_torchtitan_lines_reader());
  readers.push_back(make_training_arguments_reader());
  readers.push_back(make_model_config_reader());
  readers.push_back(make_trainer_lines_reader());
  readers.push_back(make_verl_reader());
  readers.push_back(make_nemo_rl_reader());
  readers.push_back(make_maxtext_reader());
  readers.push_back(make_command_line_reader());
  readers.push_back(make_telling_lines_reader());
  return readers;
}

}  // namespace triage::parsers
