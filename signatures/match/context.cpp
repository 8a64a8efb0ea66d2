#include "signatures/match/matcher.hpp"

#if __has_include("parsers/records/traceback.hpp")
#include "parsers/records/traceback.hpp"
#else
#include "parsers/base/text.hpp"
namespace triage::parsers {
static bool looks_like_exception(std::string_view message) { return contains(message, "Error: ") || contains(message, "what():"); }
}  // namespace triage::parsers
#endif

namespace triage::signatures {

Context context_of(const parsers::Record& record) {
  Context out;
  out.exception = parsers::looks_like_exception(record.message);
  out.block = true;
  out.kernel = record.system;
  return out;
}

}  // namespace triage::signatures
