// verl's configuration: pprint of OmegaConf.to_container(config) (verl/trainer/main_ppo.py), a
// Python dict over many lines that starts with
// "{'actor_rollout_ref': {", behind a Ray prefix.
#include "parsers/base/text.hpp"
#include "parsers/config/dialects.hpp"
#include "parsers/config/dict_reader.hpp"
#include "parsers/config/merge.hpp"
#include "parsers/config/readers.hpp"

namespace triage::parsers {
namespace {

constexpr std::string_view kTriggers[] = {"{'actor_rollout_ref': {"};

class Verl final : public DictReader {
 public:
  std::string_view name() const override { return "verl configuration"; }
  std::span<const std::string_view> triggers() const override { return kTriggers; }

 protected:
  std::size_t start_of(std::string_view message) override { return message.find(kTriggers[0]); }
  void apply(const FlatSettings& settings, Target& target) override {
    add_framework(target.config(), "verl");
    target.raw(settings);
    apply_verl(settings, target);
  }
};

}  // namespace

std::unique_ptr<ConfigReader> make_verl_reader() { return std::make_unique<Verl>(); }

}  // namespace triage::parsers
