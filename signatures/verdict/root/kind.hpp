// What the place of the root says of its kind beyond its rule: a checkpoint's reader, a signal, a table, the kernel's report.
#pragma once

#include "signatures/verdict/root/case.hpp"

namespace triage::signatures {

// Sets d.kind, and of an exit that only a launcher's table tells d.root too; adds the reason in words. d.root and d.phase are known before.
void refine_kind(const Case& c, Diagnosis& d);

}  // namespace triage::signatures
