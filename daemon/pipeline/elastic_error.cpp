#include "daemon/pipeline/elastic_error.hpp"

#include <chrono>
#include <utility>

#include "daemon/pipeline/intake_stream.hpp"
#include "parsers/base/limits.hpp"
#include "parsers/base/text.hpp"
#include "parsers/snapshot/elastic_error.hpp"

namespace triage::daemon {

parsers::Result<signatures::SourceFindings> scan_elastic_error(std::shared_ptr<const Knowledge> knowledge, parsers::ReadAt& file,
                                                               signatures::SourceInfo source, int default_year) {
  const std::size_t most = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), parsers::limits::kElasticErrorBytes + 1));
  TRIAGE_TRY(const std::string bytes, parsers::read_range(file, 0, most));
  TRIAGE_TRY(const parsers::ElasticError error, parsers::read_elastic_error(bytes, source.name));
  std::string text = error.callstack;
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  // A handler of its own may keep the message without the traceback.
  const std::string_view first = std::string_view(error.message).substr(0, error.message.find('\n'));
  if (!parsers::contains(text, first)) text += error.message + "\n";
  IntakeStream intake(std::move(knowledge), std::move(source), default_year);
  intake.feed(text);
  signatures::SourceFindings out = intake.finish();
  out.source.bytes = file.size();
  out.source.lines = 1;
  out.last_line = 1;
  for (signatures::Finding& f : out.findings) {
    f.line = f.last_line = 1;
    f.offset = 0;
    if (f.traceback) f.traceback->first_line = f.traceback->last_line = f.traceback->exception_line = 1;
  }
  // Not the time of a line: it is UTC, and logs beside it may be in local time.
  if (error.time && *error.time > 0 && *error.time < 253'402'300'800) {
    const parsers::TimePoint time{std::chrono::seconds(*error.time)};
    if (!out.first_time) out.first_time = time;
    if (!out.last_time) out.last_time = time;
  }
  return out;
}

}  // namespace triage::daemon
