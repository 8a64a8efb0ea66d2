// error.json: what torch.distributed.elastic's `record` keeps of the exception that ended a worker.
// Source: pytorch/pytorch: torch/distributed/elastic/multiprocessing/errors/error_handler.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parsers/base/result.hpp"

namespace triage::parsers {

struct ElasticError {
  std::string message;                     // "RuntimeError: ..."
  std::string callstack;                   // Python's own text of the traceback; may be empty
  std::optional<std::int64_t> time;        // seconds since 1970
  std::optional<std::int64_t> exit_code;
};

bool looks_like_elastic_error(std::string_view head);
// Errors: syntax (no JSON, no message), limit.
Result<ElasticError> read_elastic_error(std::string_view bytes, const std::string& file);

}  // namespace triage::parsers
