// Megatron Bridge's summary at start (megatron/bridge/training/config.py, log_non_default_values):
//   ======================================================================
//   Configuration Summary (Non-Default Values vs Megatron Core)
//   [model] Non-default values (vs Mcore TransformerConfig):
//     tensor_model_parallel_size: 2  (Mcore default: 1)
//   ----------------------------------------------------------------------
//   Other Configuration Values:
//   [train]:
//     micro_batch_size: 1
//   ======================================================================
// What is not named has megatron-core's default.
#include <utility>

#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/block_text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kTriggers[] = {"Configuration Summary (Non-Default"};
constexpr std::size_t kForeignLines = 400;

bool rule_of(std::string_view text, char c) {
  return text.size() >= 20 && text.find_first_not_of(c) == std::string_view::npos;
}

class BridgeSummary final : public ConfigReader {
 public:
  std::string_view name() const override { return "megatron bridge summary"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const std::string_view text = trim(record.message);
    if (!open_) {
      if (!contains(text, kTriggers[0])) return Offer::not_mine;
      open_ = true;
      stream_ = Stream(record);
      return Offer::taken;
    }
    if (!stream_.owns(record)) return foreign();
    if (contains(text, kTriggers[0])) return Offer::ended_before;
    if (text.empty() || rule_of(text, '-') || text == "Other Configuration Values:")
      return Offer::taken;
    if (rule_of(text, '=')) return ++rules_ < 2 ? Offer::taken : Offer::finished;
    if (text.front() == '[') {
      const auto end = text.find(']');
      if (end == std::string_view::npos || text.back() != ':') return foreign();
      section_ = std::string(text.substr(1, end - 1));
      foreign_ = 0;
      return Offer::taken;
    }
    const auto colon = text.find(": ");
    if (section_.empty() || colon == std::string_view::npos ||
        text.substr(0, colon).find(' ') != std::string_view::npos)
      return foreign();
    if (settings_.size() >= limits::kConfigLines) return Offer::ended_before;
    std::string_view value = trim(text.substr(colon + 2));
    if (const auto note = value.rfind("  (Mcore default: "); note != std::string_view::npos)
      value = trim(value.substr(0, note));
    if (value.size() >= 2 && (value.front() == '\'' || value.front() == '"') &&
        value.back() == value.front())
      value = value.substr(1, value.size() - 2);
    settings_.push_back({section_ + "." + std::string(text.substr(0, colon)),
                         std::string(value.substr(0, kFlatValueBytes)), record.line.number, 0});
    foreign_ = 0;
    return Offer::taken;
  }

  void finish(std::string_view file, RunConfig& config) override {
    if (!settings_.empty()) {
      Target target(config, file, std::string(name()));
      add_framework(config, "megatron-bridge");
      target.raw(settings_);
      apply_megatron_sections(settings_, target);
      const bool model = section_seen("model.");
      if (model) defaults(config, file);
    }
    *this = BridgeSummary();
  }

 private:
  Offer foreign() { return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine; }

  bool section_seen(std::string_view prefix) const {
    for (const FlatSetting& setting : settings_)
      if (std::string_view(setting.name).substr(0, prefix.size()) == prefix) return true;
    return false;
  }

  // megatron/core/transformer/transformer_config.py and model_parallel_config.py: the values of
  // what the summary leaves out.
  static void defaults(RunConfig& config, std::string_view file) {
    Target target(config, file, "default of megatron-core");
    for (const Key key : {Key::tensor_parallel, Key::pipeline_parallel, Key::context_parallel,
                          Key::expert_parallel, Key::virtual_pipeline})
      if (!config.has(key)) target.put(key, std::int64_t{1}, 0);
    for (const Key key : {Key::recompute, Key::cuda_graphs, Key::loss_fusion})
      if (!config.has(key)) target.put(key, std::string("none"), 0);
    if (!config.has(Key::sequence_parallel)) target.put(Key::sequence_parallel, false, 0);
    if (!config.has(Key::experts)) target.put(Key::experts, std::int64_t{0}, 0);
  }

  bool open_ = false;
  int rules_ = 0;
  std::size_t foreign_ = 0;
  Stream stream_;
  std::string section_;
  FlatSettings settings_;
};

}  // namespace

std::unique_ptr<ConfigReader> make_bridge_summary_reader() {
  return std::make_unique<BridgeSummary>();
}

}  // namespace triage::parsers
