// A database file from outside bytes, as a broken disk or a foreign file leaves one: opened by the history, by the API and by the service,
// everything in it asked for.
#include <cstddef>
#include <cstdint>
#include <fstream>

#include "db/live_store.hpp"
#include "db/outbox.hpp"
#include "db/query.hpp"
#include "db/store.hpp"
#include "tests/support/temp_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triage;
  static const tests::TempFolder folder;
  const std::string path = folder / "triage.db";
  const parsers::TimePoint now{};
  for (const char* const beside : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(path + beside);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  if (auto store = db::Store::open_read_only(path); store.ok()) {
    if (const auto rows = store->history({}); rows.ok())
      for (const db::HistoryRow& row : *rows) (void)store->find(row.id), (void)store->fix_records(row.fingerprint);
  }
  if (auto query = db::Query::open(path); query.ok()) {
    if (const auto page = query->incidents({}); page.ok())
      for (const db::HistoryRow& row : page->rows) (void)query->findings(row.id), (void)query->excerpt(row.id, row.source);
    (void)query->counts({}, std::chrono::seconds(3600));
    (void)query->sources({});
    (void)query->devices({});
    (void)query->outbox({});
    (void)query->sink_counts();
    (void)query->silences(now, true);
    (void)query->totals();
  }
  if (auto store = db::Store::open(path); store.ok()) (void)store->keep({}, {}, {"hash", "0"}, now);
  if (auto live = db::LiveStore::open(path); live.ok()) {
    if (const auto rows = live->watched(); rows.ok())
      for (const db::WatchedRow& row : *rows) (void)live->tail(row.id), (void)live->spool(row.id);
    (void)live->tracked_open();
    (void)live->all_fix_records();
  }
  if (auto outbox = db::Outbox::open(path, 0); outbox.ok()) (void)outbox->recover({}, now), (void)outbox->due(now, 10), (void)outbox->counts();
  return 0;
}
