// The readers of events that stand on several lines; registered by make_event_readers. All keep a bounded amount, and go on while lines of
// other streams stand between theirs.
#pragma once

#include <memory>

#include "parsers/events/event_reader.hpp"

namespace triage::parsers {

std::unique_ptr<EventReader> make_elastic_table_reader();      // torchrun's failure table -> ElasticTable
std::unique_ptr<EventReader> make_oom_kill_report_reader();    // the kernel's report -> OomKill
std::unique_ptr<EventReader> make_cuda_malloc_async_reader();  // -> OutOfMemory
std::unique_ptr<EventReader> make_coredumpctl_reader();        // coredumpctl info -> ProcessExit
std::unique_ptr<EventReader> make_k8s_describe_reader();       // kubectl describe pod / get pod -o yaml -> ProcessExit

}  // namespace triage::parsers
