// A dump in a watched folder, from its file to what the desk takes.
#pragma once

#include <memory>

#include "daemon/pipeline/knowledge.hpp"
#include "daemon/runtime/news.hpp"
#include "daemon/tail/file_system.hpp"
#include "parsers/base/result.hpp"
#include "signatures/match/match.hpp"

namespace triage::daemon {

// A dump of any kind. What is damaged is told as lost. Errors: limit, unavailable: a file server does not answer, no descriptor is free; the
// dump is to be read another time.
parsers::Result<SourceNews> read_dump_file(std::shared_ptr<const Knowledge> knowledge, FileSystem& files, const signatures::SourceInfo& info, int default_year);

}  // namespace triage::daemon
