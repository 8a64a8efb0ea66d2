#include "daemon/runtime/system_intake.hpp"
#include "daemon/runtime/thread_name.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace triage::daemon {

SystemIntake::SystemIntake(RulesInForce rules, NewsQueue& desk, Worker::LoadSpool load_spool, Worker::Clock clock, int default_year)
    : desk_(desk), load_spool_(std::move(load_spool)), clock_(std::move(clock)), default_year_(default_year), rules_(rules), next_rules_(std::move(rules)) {}

void SystemIntake::add(std::unique_ptr<SystemSource> source, std::string kind, std::string node, const std::optional<db::WatchedRow>& known) {
  signatures::SourceInfo info;
  info.name = source->name();
  info.node = std::move(node);
  info.system = true;
  LineStream lines(std::move(info), std::move(kind), default_year_);
  if (known) lines.restore(*known);
  sources_.push_back({std::move(source), std::move(lines), {}});
}

void SystemIntake::start() {
  if (sources_.empty()) return;
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { loop(); });
}

void SystemIntake::stop() {
  stopping_ = true;
  const std::uint64_t one = 1;
  if (wake_fd_ >= 0) (void)!::write(wake_fd_, &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  if (wake_fd_ >= 0) ::close(std::exchange(wake_fd_, -1));
}

void SystemIntake::use(RulesInForce rules) {
  const std::lock_guard guard(lock_);
  next_rules_ = std::move(rules);
}

std::string SystemIntake::trouble() const {
  const std::lock_guard guard(lock_);
  return trouble_;
}

void SystemIntake::read(Read& one) {
  for (int portions = 0; portions < 16; ++portions) {   // of a flood: then the others have their turn
    auto lines = one.source->read();
    if (!lines.ok()) {
      one.trouble = lines.error().message() + (lines.error().reason().empty() ? "" : ": " + lines.error().reason());
      return;
    }
    one.trouble.clear();
    if (lines->text.empty() && lines->lost_records == 0 && (lines->cursor == one.cursor || !one.cursor.empty())) return;   // the first cursor is kept at once
    one.cursor = lines->cursor;
    if (lines->lost_records > 0) one.lines.lose(lines->why, lines->lost_records);
    one.lines.feed(lines->text, rules_, *scanner_, load_spool_);
    SourceNews news = one.lines.news(clock_());
    news.row.cursor = lines->cursor;
    news.must_last = false;                     // the cursor reads it again
    std::vector<SourceNews> all;
    all.push_back(std::move(news));
    if (!desk_.push(std::move(all))) return;
  }
}

void SystemIntake::loop() {
  name_thread("system_logs");
  scanner_ = std::make_unique<BlockScanner>(*rules_.knowledge);
  while (!stopping_) {
    {
      const std::lock_guard guard(lock_);
      if (next_rules_.version != rules_.version) {
        rules_ = next_rules_;
        scanner_ = std::make_unique<BlockScanner>(*rules_.knowledge);
      }
    }
    std::string trouble;
    for (Read& one : sources_) {
      read(one);
      if (!one.trouble.empty()) trouble += (trouble.empty() ? "" : "; ") + one.lines.info().name + ": " + one.trouble;
    }
    {
      const std::lock_guard guard(lock_);
      trouble_ = std::move(trouble);
    }
    std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
    for (const Read& one : sources_)
      if (one.source->fd() >= 0 && one.trouble.empty()) fds.push_back({one.source->fd(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), 1000);
  }
}

}  // namespace triage::daemon
