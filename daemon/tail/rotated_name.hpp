// Names that log rotation gives: logrotate's train.log.1 and train.log-20260131, Python's train.log.2026-01-31, kubelet's
// 0.log.20260131-120000; each also with .gz, .zst, .xz, .bz2.
// Sources: logrotate(8) (dateext, dateformat, compressext); CPython Lib/logging/handlers.py (RotatingFileHandler,
// TimedRotatingFileHandler); kubernetes pkg/kubelet/logs/container_log_manager.go (timestampFormat).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace triage::daemon {

struct RotatedName {
  std::string_view mark;                 // "1", "20260131"
  bool packed = false;
};

// Is `name` that of a rotated file of `base` (both without folder)? The views look into `name`.
std::optional<RotatedName> read_rotated_name(std::string_view base, std::string_view name);

// Names that `name` may be a rotated file of, shortest first; empty for most names. A number at the end may also be a rank: the caller
// asks whether the base exists.
std::vector<std::string_view> rotated_bases(std::string_view name);

// Of two marks of one base: was the file with mark `a` rotated away later than that with `b`? Counters grow with age, dates do not.
bool rotated_later(std::string_view a, std::string_view b);

// Names that a packed file may have had: unpacked, with the number before, and its bases. "a.log.2.gz": a.log.2, a.log.1.gz, a.log.1, a.log.
std::vector<std::string> earlier_names(std::string_view name);

bool has_packed_ending(std::string_view name);
std::span<const std::string_view> packed_endings();   // ".gz" and the others

}  // namespace triage::daemon
