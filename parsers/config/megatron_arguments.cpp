// Megatron-LM's argument block (megatron/training/arguments.py, _print_args):
//   ------------------------ arguments ------------------------
//     tensor_model_parallel_size ...................... 2
//   -------------------- end of arguments ---------------------
// Name, 48 - length dots (none from 48 on), value as str() prints it.
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/block_text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kTriggers[] = {" arguments ------"};
constexpr std::size_t kForeignLines =
    400;  // that many lines of others in a row: the block broke off

bool read_pair(std::string_view line, std::string_view& name, std::string_view& value) {
  line = trim(line);
  std::size_t end = 0;
  while (end < line.size() && (is_alnum(line[end]) || line[end] == '_')) ++end;
  if (end == 0 || is_digit(line[0]) || end >= line.size() || line[end] != ' ') return false;
  name = line.substr(0, end);
  std::string_view rest = line.substr(end + 1);
  std::size_t dots = 0;
  while (dots < rest.size() && rest[dots] == '.') ++dots;
  if (dots == 0) {
    if (end < 48 || rest.empty() || rest.front() != ' ') return false;
  } else if (dots < rest.size() && rest[dots] != ' ') {
    return false;
  }
  value = trim(rest.substr(dots));
  return true;
}

class MegatronArguments final : public ConfigReader {
 public:
  std::string_view name() const override { return "megatron arguments"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const std::string_view message = record.message;
    const bool rule = contains(message, kTriggers[0]) && contains(message, "-----");
    if (!open_) {
      if (!rule || contains(message, "end of arguments")) return Offer::not_mine;
      open_ = true;
      stream_ = Stream(record);
      return Offer::taken;
    }
    if (!stream_.owns(record)) return foreign();
    if (rule) return contains(message, "end of arguments") ? Offer::finished : Offer::ended_before;
    std::string_view name, value;
    if (!read_pair(message, name, value)) return foreign();
    foreign_ = 0;
    if (settings_.size() >= limits::kConfigLines) return Offer::ended_before;
    settings_.push_back(
        {std::string(name), std::string(value.substr(0, kFlatValueBytes)), record.line.number, 0});
    return Offer::taken;
  }

  void finish(std::string_view file, RunConfig& config) override {
    if (settings_.size() >= 3) {
      Target target(config, file, std::string(name()));
      add_framework(config, "megatron-lm");
      target.raw(settings_);
      apply_megatron(settings_, target);
    }
    *this = MegatronArguments();
  }

 private:
  Offer foreign() { return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine; }

  bool open_ = false;
  std::size_t foreign_ = 0;
  Stream stream_;
  FlatSettings settings_;
};

}  // namespace

std::unique_ptr<ConfigReader> make_megatron_arguments_reader() {
  return std::make_unique<MegatronArguments>();
}

}  // namespace triage::parsers
