// The end of a container or pod as `kubectl describe pod` and `kubectl get pod -o yaml` print it.
// Source: kubernetes/kubectl pkg/describe/describe.go (describeStatus), kubernetes/api core/v1 ContainerStateTerminated, PodStatus.
#include "parsers/base/text.hpp"
#include "parsers/events/block_readers.hpp"
#include "parsers/events/exit_status.hpp"
#include "parsers/events/scan.hpp"
#include "parsers/events/stream.hpp"

#include <array>
#include <string>

namespace triage::parsers {

namespace {

constexpr std::size_t kForeignLines = 64;
constexpr std::size_t kReasonBytes = 1024;

class K8sDescribe final : public EventReader {
 public:
  std::string_view name() const override { return "k8s_describe"; }
  std::span<const std::string_view> triggers() const override {
    static constexpr std::array<std::string_view, 5> kTriggers{"  Terminated", "terminated:", "OOMKilled", " Evicted", "reason: Evicted"};
    return kTriggers;
  }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const auto line = trim(record.message);
    const auto key = line.substr(0, line.find(':'));
    const auto value = key.size() == line.size() ? std::string_view() : trim(line.substr(key.size() + 1));
    if (!open_) {
      const bool state = (key == "State" || key == "Last State") && value == "Terminated";
      const bool pod = equal_ignoring_case(key, "reason") && (value == "OOMKilled" || value == "Evicted");
      if (!state && !pod && line != "terminated:") return Offer::not_mine;
      open_ = true;
      stream_.open(record);
      first_ = record.line.number;
    } else if (!stream_.holds(record)) {
      return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine;
    } else if (key == "State" || key == "Last State" || line == "terminated:") {
      return Offer::ended_before;
    }
    if (!read(key, value)) return Offer::ended_before;
    last_ = record.line.number;
    return Offer::taken;
  }

  std::optional<Block> finish() override {
    std::optional<Block> block;
    const bool failed = exit_.out_of_memory || evicted_ || exit_.signal || exit_.exit_code.value_or(0) != 0;
    if (open_ && failed) {
      exit_.printer = "kubernetes";
      if (evicted_ && !message_.empty()) exit_.reason += ": " + message_;
      if (contains(message_, "low on resource: memory")) exit_.out_of_memory = true;
      block = Block{exit_, first_, last_, false};
    }
    *this = K8sDescribe();
    return block;
  }

 private:
  // False: the line is not of the block.
  bool read(std::string_view key, std::string_view value) {
    if (key == "State" || key == "Last State" || key == "terminated" || key == "containerID") return true;
    if (equal_ignoring_case(key, "reason")) {
      exit_.reason = std::string(value.substr(0, kReasonBytes));
      exit_.out_of_memory = value == "OOMKilled";
      evicted_ = value == "Evicted";
      return true;
    }
    if (key == "Exit Code" || key == "exitCode") {
      Scan scan(value);
      if (const auto status = scan.integer()) enter_status(exit_, *status);
      return true;
    }
    if (key == "Signal" || key == "signal") {
      Scan scan(value);
      if (const auto signal = narrow(scan.integer()); signal && *signal > 0 && *signal <= 64) exit_.signal = signal;
      return true;
    }
    if (equal_ignoring_case(key, "message")) {
      message_ = std::string(value.substr(0, kReasonBytes));
      return true;
    }
    return key == "Started" || key == "Finished" || key == "startedAt" || key == "finishedAt" || key == "phase" || key == "startTime";
  }

  ProcessExit exit_;
  std::string message_;
  Stream stream_;
  std::uint64_t first_ = 0, last_ = 0;
  std::size_t foreign_ = 0;
  bool open_ = false, evicted_ = false;
};

}  // namespace

std::unique_ptr<EventReader> make_k8s_describe_reader() { return std::make_unique<K8sDescribe>(); }

}  // namespace triage::parsers
