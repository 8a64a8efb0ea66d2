#include "daemon/runtime/housekeeping.hpp"
#include "daemon/runtime/thread_name.hpp"

#include <sys/stat.h>

#include <algorithm>

namespace triage::daemon {

using Steady = std::chrono::steady_clock;

namespace {

constexpr auto kSlices = std::chrono::seconds(60);   // between two looks for what is old
constexpr auto kFigures = std::chrono::seconds(5);

std::string text_of(const parsers::Error& error) { return error.message() + (error.reason().empty() ? "" : ": " + error.reason()); }

bool same(const std::vector<db::Silence>& a, const std::vector<db::Silence>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const db::Silence& x, const db::Silence& y) { return x.id == y.id && x.ends_at == y.ends_at; });
}

}  // namespace

Housekeeping::Housekeeping(Parts parts, db::RetentionLimits limits) : parts_(std::move(parts)), limits_(limits) {}

void Housekeeping::start() {
  thread_ = std::thread([this] { loop(); });
}

void Housekeeping::stop() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
    called_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Housekeeping::look() {
  const std::lock_guard guard(lock_);
  look_ = true;
  called_.notify_all();
}

void Housekeeping::apply(const db::RetentionLimits& limits) {
  const std::lock_guard guard(lock_);
  limits_ = limits;
}

StoreFigures Housekeeping::figures() const {
  const std::lock_guard guard(lock_);
  return figures_;
}

void Housekeeping::loop() {
  name_thread("housekeeping");
  for (;;) {
    look_at_store();
    look_at_files();
    keep_house();
    parts_.every_second();
    std::unique_lock guard(lock_);
    called_.wait_for(guard, more_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(1000), [this] { return look_ || stopping_; });
    look_ = false;
    if (stopping_) return;
  }
}

void Housekeeping::keep_house() {
  std::string trouble;
  db::RetentionLimits limits;
  {
    const std::lock_guard guard(lock_);
    limits = limits_;
  }
  if (!retention_) {
    auto opened = db::Retention::open(parts_.database);
    if (opened.ok())
      retention_.emplace(std::move(*opened));
    else
      trouble = text_of(opened.error());
  }
  if (retention_) {
    if (const auto moved = retention_->move_log(); !moved.ok()) trouble = text_of(moved.error());
    if (more_ || Steady::now() >= slice_at_) {
      const auto slice = retention_->slice(limits, parts_.clock());
      more_ = slice.ok() && slice->more;
      if (!more_) slice_at_ = Steady::now() + kSlices;
      if (!slice.ok()) trouble = text_of(slice.error());
      if (slice.ok()) {
        const std::lock_guard guard(lock_);
        figures_.short_of_closed = slice->short_of_closed;
      }
    }
    if (!trouble.empty()) retention_.reset();
  }
  const std::lock_guard guard(lock_);
  figures_.trouble = std::move(trouble);
}

void Housekeeping::look_at_store() {
  if (!query_) {
    auto opened = db::Query::open(parts_.database);
    if (!opened.ok()) return;
    query_.emplace(std::move(*opened));
  }
  auto silences = query_->silences(parts_.clock(), false);
  if (!silences.ok()) {
    query_.reset();
    return;
  }
  if (!silences_known_ || !same(*silences, silences_)) {
    silences_known_ = true;
    silences_ = *silences;
    parts_.silences_changed(std::move(*silences));
  }
  if (Steady::now() < figures_at_) return;
  figures_at_ = Steady::now() + kFigures;
  auto totals = query_->totals();
  auto outbox = query_->sink_counts();
  const std::lock_guard guard(lock_);
  if (totals.ok()) figures_.totals = *totals;
  if (outbox.ok()) figures_.outbox = std::move(*outbox);
}

// Files are compared by inode, size and time: an editor writes anew, a ConfigMap changes a link.
void Housekeeping::look_at_files() {
  std::string state;
  for (const std::string& path : parts_.watched_files()) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) continue;
    state += path + ' ' + std::to_string(info.st_ino) + ' ' + std::to_string(S_ISDIR(info.st_mode) ? 0 : info.st_size) + ' ' + std::to_string(info.st_mtim.tv_sec) + '.' +
             std::to_string(info.st_mtim.tv_nsec) + '\n';
  }
  const bool changed = !files_state_.empty() && state != files_state_;
  files_state_ = std::move(state);
  if (changed) parts_.files_changed();
}

}  // namespace triage::daemon
