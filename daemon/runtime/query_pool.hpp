// QueryPool: connections for those who read the store.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "db/query.hpp"

namespace triage::daemon {

// Connections for readers, one a caller at a time; made when they are asked for, kept for the next.
class QueryPool {
 public:
  explicit QueryPool(std::string path) : path_(std::move(path)) {}
  // Calls ask(db::Query&) with a connection of its own. Errors of opening are those of the result.
  template <class Ask>
  auto with(Ask ask) -> decltype(ask(std::declval<db::Query&>())) {
    std::unique_ptr<db::Query> query;
    {
      const std::lock_guard guard(lock_);
      if (!free_.empty()) {
        query = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!query) {
      auto opened = db::Query::open(path_);
      if (!opened.ok()) return std::move(opened).error();
      query = std::make_unique<db::Query>(std::move(*opened));
    }
    auto answer = ask(*query);
    if (answer.ok()) {
      const std::lock_guard guard(lock_);
      if (free_.size() < kKept) free_.push_back(std::move(query));
    }
    return answer;
  }

 private:
  static constexpr std::size_t kKept = 8;
  const std::string path_;
  std::mutex lock_;
  std::vector<std::unique_ptr<db::Query>> free_;
};

}  // namespace triage::daemon
