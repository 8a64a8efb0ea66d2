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
  PushIntake(RulesInForce rules, NewsQueue& desk, Worker::LoadSpool load_spool, Worker::Clock clock, int default_year);
  ~PushIntake() override;

  // Streams of an earlier run.
  void restore(const std::vector<db::WatchedRow>& rows);
  void use(RulesInForce rules);
  PushAnswer offer(std::vector<PushedStream>&& streams, std::uint64_t batch_hash) override;

 private:
  struct Stream;
  std::shared_ptr<Stream> stream_of(const signatures::SourceInfo& info);
  std::shared_ptr<Stream> add(signatures::SourceInfo info);
  void cool();
  struct Scanner {
    RulesInForce rules;
    std::unique_ptr<BlockScanner> scanner;
  };
  Scanner take_scanner();
  void give_back(Scanner scanner);
  std::optional<SourceNews> take(Stream& stream, const PushedStream& pushed, std::uint64_t batch_hash, const Scanner& scanner);

  NewsQueue& desk_;
  const Worker::LoadSpool load_spool_;
  const Worker::Clock clock_;
  const int default_year_;
  std::mutex lock_;                             // of what follows
  RulesInForce rules_;
  std::vector<std::unique_ptr<BlockScanner>> scanners_;   // of these rules, for the next batch
  struct Known {
    std::shared_ptr<Stream> stream;
    std::list<std::string>::iterator use;
  };
  std::map<std::string, Known> streams_;
  std::list<std::string> by_use_;               // the one used last is first
};

}  // namespace triage::daemon
