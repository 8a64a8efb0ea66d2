#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "daemon/tail/system_sources.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::ErrorCode;
using parsers::Place;
using parsers::Result;

namespace {

constexpr std::size_t kRecordBytes = 16 * 1024;   // CONSOLE_EXT_LOG_MAX is 8 KiB; a smaller room makes read() fail
constexpr std::size_t kRecords = 4096;            // of one call

int hex_digit(char c) {
  if (parsers::is_digit(c)) return c - '0';
  const char low = parsers::to_lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x' && hex_digit(text[i + 2]) >= 0 && hex_digit(text[i + 3]) >= 0) {
      const char c = static_cast<char>(hex_digit(text[i + 2]) * 16 + hex_digit(text[i + 3]));
      out += c == '\n' ? ' ' : c;
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::int64_t clock_us(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

class RealDevice final : public KmsgDevice {
 public:
  explicit RealDevice(std::string path) : path_(std::move(path)) {}
  ~RealDevice() override { close(); }
  int open() override {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd_ < 0 ? -errno : 0;
  }
  long read(char* room, std::size_t size) override {
    const ssize_t count = ::read(fd_, room, size);
    return count < 0 ? -errno : count;
  }
  void close() override {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int fd() const override { return fd_; }

 private:
  std::string path_;
  int fd_ = -1;
};

class KmsgSource final : public SystemSource {
 public:
  KmsgSource(std::unique_ptr<KmsgDevice> device, const std::string& cursor, std::string boot, std::string node)
      : device_(std::move(device)), boot_(std::move(boot)), node_(std::move(node)) {
    const std::size_t at = cursor.find(' ');
    if (at != std::string::npos && cursor.substr(0, at) == boot_)
      if (const auto value = parsers::read_integer(cursor.substr(at + 1))) next_ = static_cast<std::uint64_t>(*value);
    only_new_ = cursor.empty();
  }
  std::string name() const override { return "/dev/kmsg"; }
  int fd() const override { return device_->fd(); }

  Result<SystemLines> read() override {
    if (device_->fd() < 0)
      if (const int code = device_->open(); code < 0) return gone("the kernel log cannot be opened", std::strerror(-code));
    SystemLines out;
    std::array<char, kRecordBytes> room;
    // Times of records count from boot; a wall clock that is set moves them.
    const std::int64_t boot_us = clock_us(CLOCK_REALTIME) - clock_us(CLOCK_MONOTONIC);
    for (std::size_t i = 0; i < kRecords; ++i) {
      const long count = device_->read(room.data(), room.size());
      if (count == -EPIPE || count == -EINTR) continue;   // overwritten: the numbers will tell how many
      if (count == -EAGAIN) {
        only_new_ = false;
        break;
      }
      if (count <= 0) {
        device_->close();
        if (!out.text.empty()) break;
        return gone("the kernel log cannot be read", count < 0 ? std::strerror(static_cast<int>(-count)) : "it ended");
      }
      const auto record = read_kmsg_record({room.data(), static_cast<std::size_t>(count)});
      if (!record || record->sequence < next_) continue;
      if (next_ > 0 && record->sequence > next_ && !only_new_) out.lost_records += record->sequence - next_;
      next_ = record->sequence + 1;
      if (only_new_ || (record->priority >> 3) != 0) continue;   // the latter: written by programs through /dev/kmsg, the journal has it
      out.text += iso_time(parsers::TimePoint(std::chrono::microseconds(boot_us) + record->since_boot)) + " " + node_ + " kernel: " + record->text + "\n";
    }
    if (out.lost_records > 0) out.why = "the kernel overwrote records of its ring buffer before they were read; log_buf_len makes it larger";
    if (!only_new_) out.cursor = boot_ + " " + std::to_string(next_);
    return out;
  }

 private:
  static Error gone(std::string what, std::string why) {
    return Error(ErrorCode::unavailable, std::move(what))
        .at(Place{"/dev/kmsg", {}, {}, {}, {}})
        .because(std::move(why))
        .help("the service needs CAP_SYSLOG where kernel.dmesg_restrict is 1, and the device where PrivateDevices or DeviceAllow hide it");
  }

  std::unique_ptr<KmsgDevice> device_;
  std::string boot_, node_;
  std::uint64_t next_ = 0;
  bool only_new_ = false;                // what was there before the first start is passed over
};

}  // namespace

std::optional<KmsgRecord> read_kmsg_record(std::string_view bytes) {
  KmsgRecord out;
  const auto priority = parsers::take_integer(bytes);
  if (!priority || *priority > 0xFFFF || !parsers::consume(bytes, ",")) return std::nullopt;
  const auto sequence = parsers::take_integer(bytes);
  if (!sequence || !parsers::consume(bytes, ",")) return std::nullopt;
  const auto time = parsers::take_integer(bytes);
  if (!time) return std::nullopt;
  const std::size_t begin = bytes.find(';');
  if (begin == std::string_view::npos) return std::nullopt;
  bytes.remove_prefix(begin + 1);
  out.priority = static_cast<unsigned>(*priority);
  out.sequence = static_cast<std::uint64_t>(*sequence);
  out.since_boot = std::chrono::microseconds(*time);
  out.text = unescaped(bytes.substr(0, bytes.find('\n')));
  return out;
}

std::string iso_time(parsers::TimePoint time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto rest = (time - day).count();
  std::array<char, 64> out;
  std::snprintf(out.data(), out.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06d+00:00", static_cast<int>(date.year()), static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(rest / 3'600'000'000), static_cast<int>(rest / 60'000'000 % 60), static_cast<int>(rest / 1'000'000 % 60), static_cast<int>(rest % 1'000'000));
  return out.data();
}

std::unique_ptr<KmsgDevice> make_kmsg_device(std::string path) { return std::make_unique<RealDevice>(std::move(path)); }

std::unique_ptr<SystemSource> make_kmsg_source(std::unique_ptr<KmsgDevice> device, std::string cursor, std::string boot, std::string node) {
  return std::make_unique<KmsgSource>(std::move(device), cursor, std::move(boot), std::move(node));
}

std::string boot_identity() {
  std::string out;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> out;
  return out;
}

}  // namespace triage::daemon
