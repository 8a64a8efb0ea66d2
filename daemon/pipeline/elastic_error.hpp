// torchelastic's error.json as a source: the traceback in it goes the way of every log.
#pragma once

#include <memory>

#include "daemon/pipeline/knowledge.hpp"
#include "parsers/base/result.hpp"
#include "parsers/snapshot/read_at.hpp"
#include "signatures/match/match.hpp"

namespace triage::daemon {

// Findings carry line 1 of the file: it has one. Errors: of parsers::read_elastic_error.
parsers::Result<signatures::SourceFindings> scan_elastic_error(std::shared_ptr<const Knowledge> knowledge, parsers::ReadAt& file,
                                                               signatures::SourceInfo source, int default_year);

}  // namespace triage::daemon
