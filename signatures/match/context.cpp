#include "signatures/match/matcher.hpp"

#include "parsers/records/traceback.hpp"

namespace triage::signatures {

Context context_of(const parsers::Record& record) {
  Context out;
  out.exception = parsers::looks_like_exception(record.message);
  out.block = true;
  out.kernel = record.system;
  return out;
}

}  // namespace triage::signatures
