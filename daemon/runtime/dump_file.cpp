#include "daemon/pipeline/dump.hpp"
#include "daemon/pipeline/elastic_error.hpp"
#include "daemon/pipeline/snapshot_file.hpp"
#include "daemon/runtime/worker.hpp"
#include "daemon/tail/input.hpp"
#include "daemon/tail/read_at_file.hpp"

namespace triage::daemon {

SourceNews read_dump_file(std::shared_ptr<const Knowledge> knowledge, const signatures::SourceInfo& info, int default_year) {
  SourceNews news;
  news.info = info;
  news.info.dump = true;
  news.row.name = info.name;
  news.row.kind = "dump";
  news.row.ended = true;
  const auto lose = [&news](const parsers::Error& error) {
    news.lost.push_back({news.info.name, error.message() + (error.reason().empty() ? "" : ": " + error.reason()), 0, 0, 0, 1});
  };
  const auto head = head_of(info.name, kKindBytes);
  if (!head.ok()) {
    lose(head.error());
    return news;
  }
  const InputKind kind = kind_of_input(*head);
  if (kind == InputKind::text) return news;   // a log under the name of a dump, or one that is not written yet
  if (kind == InputKind::allocator_snapshot) {
    auto snapshot = load_snapshot(info.name);
    if (!snapshot.ok()) {
      lose(snapshot.error());
      return news;
    }
    signatures::SourceFindings found = snapshot_findings(analyze_snapshot(info.name, std::move(*snapshot)));
    if (!found.source.rank) found.source.rank = info.rank;
    found.source.job = info.job;
    news.dump = std::move(found);
    return news;
  }
  auto file = open_read_at(info.name);
  if (!file.ok()) {
    lose(file.error());
    return news;
  }
  auto found = kind == InputKind::elastic_error ? scan_elastic_error(std::move(knowledge), **file, news.info, default_year) : read_dump(kind, **file, news.info);
  if (!found.ok()) {
    lose(found.error());
    return news;
  }
  news.dump = std::move(*found);
  return news;
}

}  // namespace triage::daemon
