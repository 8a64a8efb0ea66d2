// What `coredumpctl info` prints of one process that dumped core. Source: systemd/systemd src/coredump/coredumpctl.c (print_info).
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/events/block_readers.hpp"
#include "parsers/events/exit_status.hpp"
#include "parsers/events/scan.hpp"
#include "parsers/events/stream.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace triage::parsers {

namespace {

constexpr std::size_t kForeignLines = 64;
constexpr std::size_t kReasonBytes = 1024;
// The fields, right-aligned before a colon.
constexpr std::array<std::string_view, 24> kFields{"PID", "TID", "UID", "GID", "Signal", "Reason", "Timestamp", "Command Line", "Executable", "Control Group", "Unit",
                                                   "User Unit", "Slice", "Session", "Owner UID", "Boot ID", "Machine ID", "Hostname", "Storage", "Size on Disk", "Package",
                                                   "Message", "build-id", "Disk Size"};

class Coredumpctl final : public EventReader {
 public:
  std::string_view name() const override { return "coredumpctl"; }
  std::span<const std::string_view> triggers() const override {
    static constexpr std::array<std::string_view, 1> kTriggers{"           PID: "};
    return kTriggers;
  }
  bool open() const override { return open_; }

  Offer offer(const Record& record) override {
    const auto line = trim(record.message);
    const auto key = line.substr(0, line.find(':'));
    const auto value = key.size() == line.size() ? std::string_view() : trim(line.substr(key.size() + 1));
    if (!open_) {
      if (key != "PID") return Offer::not_mine;
      std::string_view rest = value;
      exit_.pid = take_integer(rest);
      if (!exit_.pid) return Offer::not_mine;
      open_ = true;
      stream_.open(record);
      first_ = last_ = record.line.number;
      return Offer::taken;
    }
    if (!stream_.holds(record)) return ++foreign_ > kForeignLines ? Offer::ended_before : Offer::not_mine;
    if (key == "PID") return Offer::ended_before;
    if (!stack(line)) {
      if (threads_ > 0 || std::find(kFields.begin(), kFields.end(), key) == kFields.end()) return Offer::ended_before;
      read(key, value);
    }
    last_ = record.line.number;
    return Offer::taken;
  }

  std::optional<Block> finish() override {
    std::optional<Block> block;
    if (open_ && exit_.signal) {
      exit_.printer = "coredumpctl";
      block = Block{exit_, first_, last_, false};
    }
    *this = Coredumpctl();
    return block;
  }

 private:
  // "Stack trace of thread 4242:" and "#0  0x00007f2b8c1a2b3c ncclProxyProgress (libnccl.so.2 + 0x5a2b3c)". The thread that crashed is first.
  bool stack(std::string_view line) {
    if (line.empty() || line.starts_with("Module ") || line.starts_with("Found module ") || line.starts_with("ELF object binary architecture")) return true;
    if (line.starts_with("Stack trace of thread ")) {
      ++threads_;
      return true;
    }
    if (!consume(line, "#") || !take_integer(line)) return false;
    line = trim(line);
    const auto space = line.find(' '), paren = line.rfind('(');
    if (!line.starts_with("0x") || space == std::string_view::npos) return false;
    if (threads_ > 1 || exit_.frames.size() >= limits::kTracebackFrames) return true;
    Frame frame;
    frame.function = std::string(trim(line.substr(space, paren == std::string_view::npos || paren < space ? std::string_view::npos : paren - space)));
    if (paren != std::string_view::npos && line.ends_with(')')) frame.file = std::string(line.substr(paren + 1, line.size() - paren - 2));
    exit_.frames.push_back(std::move(frame));
    return true;
  }

  void read(std::string_view key, std::string_view value) {
    if (key == "Signal") {
      const auto signal = take_integer(value);
      if (signal && *signal > 0 && *signal <= 64) exit_.signal = static_cast<int>(*signal);
    } else if (key == "Hostname") {
      exit_.node = std::string(value.substr(0, 256));
    } else if (key == "Command Line") {
      exit_.reason = std::string(value.substr(0, kReasonBytes));
      exit_.rank = option(value, {"--rank=", "--rank "});
      exit_.local_rank = option(value, {"--local_rank=", "--local-rank=", "--local_rank ", "--local-rank "});
    }
  }

  static std::optional<int> option(std::string_view line, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      const auto at = line.find(name);
      if (at == std::string_view::npos) continue;
      std::string_view rest = line.substr(at + name.size());
      if (const auto value = take_integer(rest); value && *value < limits::kRanks) return static_cast<int>(*value);
    }
    return std::nullopt;
  }

  ProcessExit exit_;
  Stream stream_;
  std::uint64_t first_ = 0, last_ = 0;
  std::size_t foreign_ = 0, threads_ = 0;
  bool open_ = false;
};

}  // namespace

std::unique_ptr<EventReader> make_coredumpctl_reader() { return std::make_unique<Coredumpctl>(); }

}  // namespace triage::parsers
