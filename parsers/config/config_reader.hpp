// Readers of the configuration that programs print into their log: Megatron-LM's argument block,
// Megatron Bridge's summary, DeepSpeed's and torchtitan's JSON, TrainingArguments, model
// configurations, verl's dict, single telling lines.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/config/run_config.hpp"
#include "parsers/records/offer.hpp"
#include "parsers/records/record.hpp"

namespace triage::parsers {

// One per source. Records come in order, from the first that holds a trigger until the reader has
// nothing open. Interleaved lines of other streams are not_mine and do not end the block.
class ConfigReader {
 public:
  virtual ~ConfigReader() = default;
  virtual std::string_view name() const = 0;  // "megatron arguments": the origin of its settings
  virtual std::span<const std::string_view> triggers() const = 0;
  virtual Offer offer(const Record& record) = 0;
  virtual bool open() const = 0;
  // Adds what was read to the configuration (merge rules: merge.hpp); an unfinished block keeps
  // what it has. Resets the reader. file: the source's name, for Place.
  virtual void finish(std::string_view file, RunConfig& config) = 0;
};

std::vector<std::unique_ptr<ConfigReader>> make_config_readers();

}  // namespace triage::parsers
