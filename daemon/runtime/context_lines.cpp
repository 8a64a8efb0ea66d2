#include "daemon/runtime/context_lines.hpp"

#include <algorithm>
#include <span>

#include "daemon/pipeline/newlines.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"

namespace triage::daemon {

using parsers::Result;

namespace {

constexpr std::uint32_t kLines = 2000;                 // limit: of one answer
constexpr std::uint64_t kBytes = 4 << 20;              // limit: read on each side of the place
constexpr std::size_t kShown = 4096;                   // bytes of one line
constexpr std::size_t kChunk = 1 << 20;

api::ContextLine shown(std::string_view text, std::uint64_t number, std::uint64_t offset) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return {number, offset, parsers::repair_utf8(text.substr(0, kShown)), text.size() > kShown};
}

// Offset of the line with that number, from a line whose place is known; the end of the file when there are fewer.
Result<std::pair<std::uint64_t, std::uint64_t>> find_line(parsers::ReadAt& file, std::uint64_t wanted, std::uint64_t number, std::uint64_t offset) {
  std::string room(kChunk, '\0');
  while (number < wanted && offset < file.size()) {
    TRIAGE_TRY(const std::size_t count, file.read(offset, std::span(room)));
    if (count == 0) break;
    std::string_view text(room.data(), count);
    const std::uint64_t lines = count_newlines(text);
    if (number + lines < wanted) {
      number += lines;
      offset += count;
      continue;
    }
    while (number < wanted) {
      const std::size_t end = text.find('\n') + 1;
      text.remove_prefix(end);
      offset += end;
      ++number;
    }
  }
  return std::pair{number, offset};
}

}  // namespace

Result<api::Context> read_context(parsers::ReadAt& file, const std::string& path, const api::ContextQuery& query, std::optional<std::pair<std::uint64_t, std::uint64_t>> near) {
  api::Context out;
  out.source = path;
  out.size = file.size();
  const std::uint32_t before = std::min(query.before, kLines), after = std::min(query.after, kLines);
  std::uint64_t number = 0, offset = 0;
  if (query.line) {
    const auto from = near.value_or(std::pair<std::uint64_t, std::uint64_t>{1, 0});
    TRIAGE_TRY(const auto place, find_line(file, std::max<std::uint64_t>(*query.line, 1), from.first, std::min(from.second, out.size)));
    number = place.first;
    offset = place.second;
  } else {
    offset = std::min(query.offset.value_or(0), out.size);
    if (offset == 0) number = 1;
  }
  if (before > 0 && offset > 0) {
    const std::uint64_t begin = offset > kBytes ? offset - kBytes : 0;
    TRIAGE_TRY(const std::string text, parsers::read_range(file, begin, static_cast<std::size_t>(offset - begin)));
    std::vector<api::ContextLine> lines;
    std::size_t end = text.size();
    while (end > 0 && lines.size() < before) {
      const std::size_t newline = end < 2 ? std::string::npos : text.rfind('\n', end - 2);
      if (newline == std::string::npos && begin > 0) break;   // its begin was not read
      const std::size_t at = newline == std::string::npos ? 0 : newline + 1;
      lines.push_back(shown(std::string_view(text).substr(at, end - at), number == 0 ? 0 : number - lines.size() - 1, begin + at));
      end = at;
    }
    out.lines.assign(std::make_move_iterator(lines.rbegin()), std::make_move_iterator(lines.rend()));
  }
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(kBytes, out.size - offset));
  TRIAGE_TRY(const std::string text, parsers::read_range(file, offset, most));
  std::size_t at = 0;
  for (std::uint32_t i = 0; i <= after && at < text.size(); ++i) {
    const std::size_t newline = text.find('\n', at);
    const std::size_t end = newline == std::string::npos ? text.size() : newline + 1;
    out.lines.push_back(shown(std::string_view(text).substr(at, end - at), number == 0 ? 0 : number + i, offset + at));
    if (newline == std::string::npos && offset + end < out.size) out.lines.back().cut = true;
    at = end;
  }
  return out;
}

api::Context context_of_spool(const std::string& source, const api::ContextQuery& query, const std::vector<db::SpoolLine>& spool) {
  api::Context out;
  out.source = source;
  out.from_spool = true;
  if (spool.empty()) return out;
  out.size = spool.back().offset + spool.back().text.size();
  const auto place = std::partition_point(spool.begin(), spool.end(), [&](const db::SpoolLine& line) {
    return query.line ? line.number < *query.line : line.offset < query.offset.value_or(0);
  });
  const auto begin = place - std::min<std::ptrdiff_t>(place - spool.begin(), std::min(query.before, kLines));
  const auto end = place + std::min<std::ptrdiff_t>(spool.end() - place, static_cast<std::ptrdiff_t>(std::min(query.after, kLines)) + 1);
  for (auto line = begin; line != end; ++line) out.lines.push_back(shown(line->text, line->number, line->offset));
  return out;
}

}  // namespace triage::daemon
