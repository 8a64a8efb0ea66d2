// Whole configurations that are printed as YAML: Megatron Bridge's ConfigContainer.print_yaml
// ("_target_: megatron.bridge....ConfigContainer" on its first line, since the keys are sorted) and
// NeMo 1's hydra configuration ("************** Experiment configuration ***********", then
// OmegaConf.to_yaml, which NeMo's log formatter indents by four columns).
#include <functional>
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/block_text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"
#include "parsers/config/yaml_lines.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kBridge = "_target_: megatron.bridge.";
constexpr std::string_view kNemo = "* Experiment configuration *";
constexpr std::string_view kTriggers[] = {kBridge, kNemo, "* Experiment Configuration *"};
constexpr std::size_t kForeignLines = 200;

// Behind a clock, "- item" looks like the logger's own " - ": the dash and its indentation are
// given back.
std::string_view with_dash(const Record& record) {
  const std::string_view line = record.line.text;
  const char* const begin = line.data();
  const char* const message = record.message.data();
  if (std::less<>()(message, begin) || std::less<>()(begin + line.size(), message))
    return record.message;
  const auto at = static_cast<std::size_t>(message - begin);
  if (at < 4 || line.substr(at - 2, 2) != "- " || at + record.message.size() > line.size())
    return record.message;
  std::size_t blanks = 0;
  while (blanks < at - 2 && line[at - 3 - blanks] == ' ') ++blanks;
  if (blanks < 1) return record.message;
  const std::size_t start = at - 2 - (blanks - 1);  // one blank parts the clock from the message
  return line.substr(start, at + record.message.size() - start);
}

class YamlDump final : public ConfigReader {
 public:
  std::string_view name() const override {
    return bridge_ ? "megatron bridge configuration" : "nemo configuration";
  }
  std::span<const std::string_view> triggers() const override { return kTriggers; }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const std::string_view message = open_ && timed_ ? with_dash(record) : record.message;
    if (!open_) {
      const bool bridge = contains(message, kBridge) && contains(message, "ConfigContainer") &&
                          trim(message).substr(0, 9) == "_target_:";
      const bool nemo = contains(message, kNemo) || contains(message, kTriggers[2]);
      if (!bridge && !nemo) return Offer::not_mine;
      open_ = true;
      bridge_ = bridge;
      timed_ = record.time.has_value();  // a container runtime puts a clock before every line
      leveled_ = record.level != Level::unknown;
      stream_ = Stream(record);
      if (bridge) yaml_.add(message, record.line.number);
      return Offer::taken;
    }
    if (!stream_.owns(record)) return foreign();
    const std::string_view text = trim(message);
    if (text.empty()) return Offer::taken;
    if (++lines_ > limits::kConfigLines) return Offer::ended_before;
    if (!yaml_.empty() &&
        ((!timed_ && record.time) || (!leveled_ && record.level != Level::unknown)))
      return Offer::ended_before;  // the next log record
    // A root key that is no identifier ("Note: ...", "INFO: ...") or a line of rules is another
    // program's.
    const bool rooted = message.empty() || message.front() != ' ';
    if (bridge_ && rooted &&
        ((is_alpha(text.front()) && text.front() < 'a') || text.front() == '-') &&
        text.substr(0, 2) != "- ")
      return Offer::ended_before;
    if (yaml_.add(message, record.line.number)) {
      foreign_ = 0;
      return Offer::taken;
    }
    if (yaml_.outdented()) return Offer::ended_before;
    return foreign();
  }

  void finish(std::string_view file, RunConfig& config) override {
    const FlatSettings settings = yaml_.take();
    bool model = bridge_;
    for (const FlatSetting& setting : settings)
      if (setting.name.substr(0, 6) == "model.") model = true;
    if (settings.size() >= 3 && model) {
      Target target(config, file, std::string(name()));
      add_framework(config, bridge_ ? "megatron-bridge" : "nemo");
      target.raw(settings);
      apply_megatron_sections(settings, target);
    }
    *this = YamlDump();
  }

 private:
  Offer foreign() { return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine; }

  bool open_ = false;
  bool bridge_ = false;
  bool timed_ = false, leveled_ = false;  // the first line had a clock, a level
  std::size_t foreign_ = 0, lines_ = 0;
  Stream stream_;
  YamlLines yaml_;
};

}  // namespace

std::unique_ptr<ConfigReader> make_yaml_dump_reader() { return std::make_unique<YamlDump>(); }

}  // namespace triage::parsers
