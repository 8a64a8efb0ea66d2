// Names for `top -H`, `perf` and stack dumps.
#pragma once

#include <pthread.h>

namespace triage::daemon {

// name: at most 15 letters. Of the calling thread.
inline void name_thread(const char* name) { (void)pthread_setname_np(pthread_self(), name); }

}  // namespace triage::daemon
