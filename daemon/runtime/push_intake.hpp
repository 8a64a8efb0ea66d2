// PushIntake: log lines that shippers push (Loki, OTLP, newline JSON) on their way to the desk. A stream is a source: its labels are its
// name, its bytes are counted as those of a file. The answer to a push comes after the commit, so that accepted means safe.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/http/push_sink.hpp"
#include "daemon/runtime/line_stream.hpp"
#include "daemon/runtime/worker.hpp"

namespace triage::daemon {

class PushIntake : public PushSink {
 public:
  // streams: known at once; beyond it the one used longest ago is let go of, and the store brings it back.
  PushIntake(RulesInForce rules, NewsQueue& desk, Worker::LoadRow load_row, Worker::LoadSpool load_spool, Worker::Clock clock, int default_year, std::size_t streams = 20'000);
  ~PushIntake() override;

  // Streams of an earlier run.
  void restore(const std::vector<db::WatchedRow>& rows);
  void use(RulesInForce rules);
  PushAnswer offer(std::vector<PushedStream>&& streams, std::uint64_t batch_hash) override;

 private:
  struct Stream;
  parsers::Result<std::shared_ptr<Stream>> stream_of(const signatures::SourceInfo& info);
  std::shared_ptr<Stream> add(signatures::SourceInfo info);
  void let_go();
  void cool();
  struct Scanner {
    RulesInForce rules;
    std::unique_ptr<BlockScanner> scanner;
  };
  Scanner take_scanner();
  void give_back(Scanner scanner);
  std::optional<SourceNews> take(Stream& stream, const PushedStream& pushed, std::uint64_t batch_hash, const Scanner& scanner);

  NewsQueue& desk_;
  const Worker::LoadRow load_row_;
  const Worker::LoadSpool load_spool_;
  const Worker::Clock clock_;
  const int default_year_;
  const std::size_t most_;
  std::mutex lock_;                             // of what follows
  RulesInForce rules_;
  std::vector<std::unique_ptr<BlockScanner>> scanners_;   // of these rules, for the next batch
  struct Known {
    std::shared_ptr<Stream> stream;
    std::list<std::string>::iterator use;
  };
  std::map<std::string, Known> streams_;
  std::uint64_t let_go_ = 0;                    // streams so far
  std::list<std::string> by_use_;               // the one used last is first
};

}  // namespace triage::daemon
