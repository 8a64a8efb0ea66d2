// MaxText's configuration (MaxText/pyconfig.py): "Config param NAME: VALUE", one line a name,
// sorted.
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/config/block_text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kTriggers[] = {"Config param "};
constexpr std::size_t kForeignLines = 20;

class MaxText final : public ConfigReader {
 public:
  std::string_view name() const override { return "maxtext configuration"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }
  bool open() const override { return !settings_.empty(); }

  Offer offer(const Record& record) override {
    const auto at = record.message.find(kTriggers[0]);
    const std::string_view rest = at == std::string_view::npos
                                      ? std::string_view()
                                      : record.message.substr(at + kTriggers[0].size());
    const auto colon = rest.find(':');
    const bool pair = colon != std::string_view::npos && colon > 0 &&
                      rest.substr(0, colon).find(' ') == std::string_view::npos;
    if (settings_.empty()) {
      if (!pair) return Offer::not_mine;
      stream_ = Stream(record);
    } else if (!pair || !stream_.owns(record)) {
      return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine;
    }
    if (settings_.size() >= limits::kConfigLines) return Offer::ended_before;
    foreign_ = 0;
    settings_.push_back({std::string(rest.substr(0, colon)),
                         std::string(trim(rest.substr(colon + 1)).substr(0, kFlatValueBytes)),
                         record.line.number, 0});
    return Offer::taken;
  }

  void finish(std::string_view file, RunConfig& config) override {
    if (settings_.size() >= 10) {
      Target target(config, file, std::string(name()));
      add_framework(config, "jax");
      target.raw(settings_);
      apply_maxtext(settings_, target);
    }
    *this = MaxText();
  }

 private:
  std::size_t foreign_ = 0;
  Stream stream_;
  FlatSettings settings_;
};

}  // namespace

std::unique_ptr<ConfigReader> make_maxtext_reader() { return std::make_unique<MaxText>(); }

}  // namespace triage::parsers
