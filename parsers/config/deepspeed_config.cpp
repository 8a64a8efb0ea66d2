// DeepSpeed's print of its configuration (deepspeed/runtime/config.py, DeepSpeedConfig.print):
//   [2021-05-25 06:38:26,358] [INFO] [config.py:748:print] DeepSpeedEngine configuration:
//   [2021-05-25 06:38:26,359] [INFO] [config.py:752:print]   train_batch_size ............. 64
//   [2021-05-25 06:38:26,360] [INFO] [config.py:754:print]   json = {
//       "train_batch_size": 64, ...
//   }
// Name, dots to column 29 (none for longer names), value, which may be a dict over many lines. The
// json is what the user gave.
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/block_text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/python_literal.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kTriggers[] = {"DeepSpeedEngine configuration:",
                                          "DeepSpeedConfig configuration:"};
constexpr std::size_t kForeignLines = 400;

// "train_batch_size ............. 64", "train_micro_batch_size_per_gpu  4", "json = {"
bool read_pair(std::string_view line, std::string_view& name, std::string_view& value) {
  line = trim(line);
  std::size_t end = 0;
  while (end < line.size() && (is_alnum(line[end]) || line[end] == '_')) ++end;
  if (end < 3 || end >= line.size() || line[end] != ' ') return false;
  name = line.substr(0, end);
  std::string_view rest = line.substr(end + 1);
  if (name == "json" && rest.substr(0, 2) == "= ") {
    value = rest.substr(2);
    return true;
  }
  std::size_t dots = 0;
  while (dots < rest.size() && rest[dots] == '.') ++dots;
  if (dots == 0 && (rest.empty() || rest.front() != ' ')) return false;
  value = trim(rest.substr(dots));
  return true;
}

class DeepSpeedConfig final : public ConfigReader {
 public:
  std::string_view name() const override { return "deepspeed configuration"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const std::string_view message = without_logger(record.message);
    if (!open_) {
      if (!contains(message, kTriggers[0]) && !contains(message, kTriggers[1]))
        return Offer::not_mine;
      open_ = true;
      stream_ = Stream(record);
      return Offer::taken;
    }
    if (!stream_.owns(record)) return foreign();
    if (contains(message, kTriggers[0])) return Offer::ended_before;
    if (++lines_ > limits::kConfigLines) return Offer::ended_before;
    if (!dict_.empty() && !brackets_.closed() &&
        literal_shaped(message)) {  // inside a value of many lines
      dict_.add(message, record.line.number);
      brackets_.add(message);
      foreign_ = 0;
      if (brackets_.closed()) return close_dict() ? Offer::finished : Offer::taken;
      return Offer::taken;
    }
    std::string_view name, value;
    if (!read_pair(message, name, value)) return foreign();
    foreign_ = 0;
    if (!dict_.empty()) close_dict();
    if (settings_.size() >= limits::kSettings) return Offer::ended_before;
    if (!value.empty() && (value.front() == '{' || name == "json")) {
      dict_name_ = std::string(name);
      dict_.add(value, record.line.number);
      brackets_ = BracketCounter();
      brackets_.add(value);
      if (brackets_.closed() && close_dict()) return Offer::finished;
    } else {
      settings_.push_back({std::string(name), std::string(value.substr(0, kFlatValueBytes)),
                           record.line.number, 0});
    }
    return Offer::taken;
  }

  void finish(std::string_view file, RunConfig& config) override {
    if (!dict_.empty()) close_dict();
    if (!settings_.empty()) {
      Target target(config, file, std::string(name()));
      add_framework(config, "deepspeed");
      target.raw(settings_);
      apply_deepspeed(settings_, target);
    }
    *this = DeepSpeedConfig();
  }

 private:
  Offer foreign() { return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine; }

  // True if it was the json, the last value of the print.
  bool close_dict() {
    FlatLiteral literal = read_literal(dict_.text());
    dict_.number(literal.settings);
    const bool json = dict_name_ == "json";
    for (FlatSetting& setting : literal.settings) {
      if (settings_.size() >= limits::kSettings) break;
      if (!json) setting.name = dict_name_ + "." + setting.name;
      settings_.push_back(std::move(setting));
    }
    dict_.clear();
    dict_name_.clear();
    return json;
  }

  bool open_ = false;
  std::size_t foreign_ = 0, lines_ = 0;
  Stream stream_;
  FlatSettings settings_;
  std::string dict_name_;
  BlockText dict_;
  BracketCounter brackets_;
};

}  // namespace

std::unique_ptr<ConfigReader> make_deepspeed_reader() {
  return std::make_unique<DeepSpeedConfig>();
}

}  // namespace triage::parsers
