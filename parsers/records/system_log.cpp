#include "parsers/records/system_log.hpp"

#include <algorithm>
#include <array>

#include "parsers/base/text.hpp"
#include "parsers/records/logger_prefix.hpp"
#include "parsers/records/timestamp.hpp"

namespace triage::parsers {
namespace {

// [ 1843.308145], [12345.678], with the caller that CONFIG_PRINTK_CALLER adds: [ 1843.308145][ T1234]. Seconds since boot.
bool boot_clock(std::string_view& text, Record& record) {
  std::string_view rest = text;
  if (!consume(rest, "[")) return false;
  while (consume(rest, " ")) {}
  if (!take_integer(rest) || !consume(rest, ".")) return false;
  std::size_t digits = 0;
  while (digits < rest.size() && is_digit(rest[digits])) ++digits;
  if (digits != 6 && digits != 3) return false;
  rest.remove_prefix(digits);
  if (!consume(rest, "]")) return false;
  if (rest.starts_with("[ ") || rest.starts_with("[T") || rest.starts_with("[C")) {
    const std::size_t close = rest.substr(0, 16).find(']');
    if (close != std::string_view::npos) rest.remove_prefix(close + 1);
  }
  if (!rest.empty() && !consume(rest, " ")) return false;
  record.system = true;
  text = rest;
  return true;
}

// dmesg -T: [Sun Feb 23 16:24:18 2025]
bool dated_kernel_clock(std::string_view& text, Record& record, int default_year) {
  if (text.size() < 22 || text[0] != '[' || !is_alpha(text[1])) return false;
  const auto stamp = read_timestamp(text.substr(1), default_year);
  if (!stamp || text.size() <= stamp->length + 1 || text[stamp->length + 1] != ']') return false;
  std::string_view rest = text.substr(stamp->length + 2);
  if (!rest.empty() && !consume(rest, " ")) return false;
  record.time = stamp->time;
  record.system = true;
  text = rest;
  return true;
}

// /dev/kmsg: "6,3973,227996636,-;text". The priority's low three bits are the level, the rest the facility (0 = kernel).
bool kmsg(std::string_view& text, Record& record) {
  std::string_view rest = text;
  const auto priority = take_integer(rest);
  if (!priority || *priority > 191 || !consume(rest, ",") || !take_integer(rest) || !consume(rest, ",") || !take_integer(rest) ||
      !consume(rest, ","))
    return false;
  const std::size_t end = rest.substr(0, 80).find(';');
  if (end == std::string_view::npos) return false;
  record.level = syslog_level(*priority & 7);
  record.system = true;
  text = rest.substr(end + 1);
  return true;
}

// Raw ring buffer: "<4>[ 12.345678] text"; also syslog over the wire "<13>Jun  3 ...".
bool raw_priority(std::string_view& text, Record& record) {
  std::string_view rest = text;
  if (!consume(rest, "<")) return false;
  const auto priority = take_integer(rest);
  if (!priority || *priority > 191 || !consume(rest, ">")) return false;
  if (!rest.starts_with("[") && !(rest.size() > 3 && is_alpha(rest[0]) && is_alpha(rest[1]) && is_alpha(rest[2]) && rest[3] == ' ')) return false;
  record.level = syslog_level(*priority & 7);
  text = rest;
  return true;
}

// dmesg -x: "kern  :err   : [ 12.345678] text"; with --time-format iso the clock stands bare.
bool decoded_priority(std::string_view& text, Record& record, int default_year) {
  std::string_view rest = text;
  if (!consume(rest, "kern") && !consume(rest, "daemon") && !consume(rest, "user")) return false;
  rest = trim_left(rest);
  if (!consume(rest, ":")) return false;
  const std::size_t end = rest.substr(0, 10).find(':');
  if (end == std::string_view::npos) return false;
  const Level level = level_word(trim(rest.substr(0, end)));
  if (level == Level::unknown) return false;
  rest.remove_prefix(end + 1);
  consume(rest, " ");
  if (const auto stamp = read_timestamp(rest, default_year)) {
    record.time = stamp->time;
    rest.remove_prefix(stamp->length);
    consume(rest, " ");
  }
  record.level = level;
  record.system = true;
  text = rest;
  return true;
}

struct Ident {
  std::string_view name;
  std::optional<std::int64_t> pid;
  std::size_t length = 0;  // with ": "
};

// "kernel: ", "slurmd[123]: ", "systemd[1]: ".
std::optional<Ident> read_ident(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && end < 64 && (is_alnum(text[end]) || std::string_view("-_./@").find(text[end]) != std::string_view::npos)) ++end;
  if (end == 0) return std::nullopt;
  Ident ident{text.substr(0, end), std::nullopt, 0};
  std::string_view rest = text.substr(end);
  if (consume(rest, "[")) {
    ident.pid = take_integer(rest);
    if (!ident.pid || !consume(rest, "]")) return std::nullopt;
  }
  if (!consume(rest, ":")) return std::nullopt;
  if (!rest.empty() && !consume(rest, " ")) return std::nullopt;
  ident.length = text.size() - rest.size();
  return ident;
}

bool is_slurm(std::string_view name) {
  return name == "slurmstepd" || name == "slurmctld" || name == "slurmd" || name == "slurmdbd" || name == "srun" || name == "sbatch" ||
         name == "salloc";
}

bool is_daemon(std::string_view name) {
  constexpr std::array<std::string_view, 18> kDaemons = {
      "systemd", "containerd", "dockerd", "kubelet", "nv-hostengine", "dcgm-exporter", "nvidia-persistenced", "nv-fabricmanager",
      "nvidia-fabricmanager", "abrt-hook-ccpp", "abrtd", "earlyoom", "crio", "podman", "sshd", "rasdaemon", "mcelog", "gpud"};
  return is_slurm(name) || name.starts_with("systemd-") || std::find(kDaemons.begin(), kDaemons.end(), name) != kDaemons.end();
}

void take_ident(std::string_view& text, const Ident& ident, Record& record) {
  if (ident.pid) record.pid = ident.pid;
  if (is_daemon(ident.name)) {
    record.system = true;  // its name stays: rules know the line by it
  } else {
    record.system = ident.name == "kernel";
    text.remove_prefix(ident.length);
  }
}

// Behind a clock: " host ident[pid]: ". With `any_ident` false only idents that no program's own text could be.
bool host_and_ident(std::string_view& text, Record& record, bool any_ident) {
  std::string_view rest = text;
  if (!consume(rest, " ")) return false;
  const std::size_t space = rest.substr(0, 254).find(' ');
  if (space == std::string_view::npos || space == 0) return false;
  const std::string_view host = rest.substr(0, space);
  for (const char c : host)
    if (!is_alnum(c) && c != '-' && c != '.' && c != '_') return false;
  if (level_word(host) != Level::unknown) return false;
  rest.remove_prefix(space + 1);
  const auto ident = read_ident(rest);
  if (!ident || (!any_ident && ident->name != "kernel" && !ident->pid && !is_daemon(ident->name))) return false;
  record.node = host;
  take_ident(rest, *ident, record);
  text = rest;
  return true;
}

bool syslog(std::string_view& text, Record& record, int default_year) {
  const auto stamp = read_timestamp(text, default_year);
  if (!stamp) return false;
  // syslog and journalctl -o short-iso; -o short-full has a weekday.
  const bool named_month = is_alpha(text[0]) && is_alpha(text[1]);
  const bool iso = text.size() > 10 && is_digit(text[0]) && (text[10] == 'T' || text[10] == ' ');
  if (!named_month && !iso) return false;
  std::string_view rest = text.substr(stamp->length);
  if (!host_and_ident(rest, record, named_month)) return false;
  record.time = stamp->time;
  text = rest;
  return true;
}

}  // namespace

bool is_kernel_text(std::string_view message) {
  if (message.empty()) return false;
  switch (message[0]) {
    case 'N': return message.starts_with("NVRM: ");
    case ' ': return trim_left(message).starts_with("NVRM: ");  // the further lines of one print
    case 'o': return starts_with_any(message, {"oom-kill:constraint=", "oom_reaper: reaped"});
    case 'O': return message.starts_with("Out of memory: Kill");
    case 'M': return starts_with_any(message, {"Memory cgroup out of memory", "Memory cgroup Out of memory", "Memory cgroup stats for "});
    case 'n': return starts_with_any(message, {"nvidia-nvswitch", "nvidia-nvlink", "nvidia 0000:"});
    case 's':
      return starts_with_any(message, {"slurmstepd: ", "slurmstepd-", "slurmctld: ", "slurmd: ", "srun: ", "sbatch: ", "salloc: ", "systemd["});
    default: return contains(message.substr(0, 64), "oom-killer: gfp_mask");
  }
}

bool peel_system(std::string_view& text, Record& record, int default_year) {
  if (text.size() < 4) return false;
  const char c = text[0];
  if (c == '[') return boot_clock(text, record) || dated_kernel_clock(text, record, default_year);
  if (c == '<') return raw_priority(text, record);
  if (is_digit(c)) return kmsg(text, record) || syslog(text, record, default_year);
  if (c >= 'A' && c <= 'Z') return syslog(text, record, default_year);
  if (c == 'k' || c == 'd' || c == 'u') {
    if (decoded_priority(text, record, default_year)) return true;
    std::string_view rest = text;
    if (consume(rest, "kernel: ") && (rest.starts_with("[") || is_kernel_text(rest))) {
      record.system = true;
      text = rest;
      return true;
    }
  }
  return false;
}

}  // namespace triage::parsers
