#include "daemon/runtime/dump_file.hpp"

#include <chrono>
#include <utility>

#include "daemon/pipeline/dump.hpp"
#include "daemon/pipeline/elastic_error.hpp"
#include "daemon/pipeline/snapshot_file.hpp"
#include "daemon/tail/read_at_file.hpp"

namespace triage::daemon {

using parsers::Error;
using parsers::Result;

namespace {

constexpr std::chrono::seconds kPatience{20};   // for one answer of a file server

Result<signatures::SourceFindings> findings_of_snapshot(parsers::ReadAt& file, const signatures::SourceInfo& info) {
  TRIAGE_TRY(auto snapshot, load_snapshot(std::make_unique<ReadAtSource>(file), info.name));
  if (snapshot.cut && comes_later(*snapshot.cut)) return *std::move(snapshot.cut);
  signatures::SourceFindings found = snapshot_findings(analyze_snapshot(info.name, std::move(snapshot)));
  if (!found.source.rank) found.source.rank = info.rank;
  found.source.job = info.job;
  return found;
}

// Nothing: a log under the name of a dump, or one that is not written yet.
Result<std::optional<signatures::SourceFindings>> findings_of(std::shared_ptr<const Knowledge> knowledge, FileSystem& files, const signatures::SourceInfo& info, int default_year) {
  using Found = std::optional<signatures::SourceFindings>;
  TRIAGE_TRY(const auto file, open_read_at(files, info.name, kPatience));
  TRIAGE_TRY(const std::string head, parsers::read_range(*file, 0, kKindBytes));
  const InputKind kind = kind_of_input(head);
  if (kind == InputKind::text) return Found();
  if (kind == InputKind::allocator_snapshot) {
    TRIAGE_TRY(auto found, findings_of_snapshot(*file, info));
    return Found(std::move(found));
  }
  if (kind == InputKind::elastic_error) {
    TRIAGE_TRY(auto found, scan_elastic_error(std::move(knowledge), *file, info, default_year));
    return Found(std::move(found));
  }
  TRIAGE_TRY(auto found, read_dump(kind, *file, info));
  return Found(std::move(found));
}

}  // namespace

Result<SourceNews> read_dump_file(std::shared_ptr<const Knowledge> knowledge, FileSystem& files, const signatures::SourceInfo& info, int default_year) {
  SourceNews news;
  news.info = info;
  news.info.dump = true;
  news.row.name = info.name;
  news.row.kind = "dump";
  news.row.ended = true;
  auto found = findings_of(std::move(knowledge), files, news.info, default_year);
  if (found.ok()) {
    news.dump = *std::move(found);
    return news;
  }
  const Error& error = found.error();
  if (comes_later(error)) return error;
  news.lost.push_back({news.info.name, error.message() + (error.reason().empty() ? "" : ": " + error.reason()), 0, 0, 0, 1});
  return news;
}

}  // namespace triage::daemon
