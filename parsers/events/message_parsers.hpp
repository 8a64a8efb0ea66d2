// The parsers of a single message; rules name them in `parser:` through read_event (event_reader.hpp). Each takes a message as a
// program printed it (prefix peeled or not, may hold '\n') and gives monostate if it is not of its form. None throws.
#pragma once

#include <string_view>

#include "parsers/events/event.hpp"

namespace triage::parsers {

// PyTorch's caching allocators and their kin. reserved and reserved_unallocated are filled from one another when allocated is known.
Event read_torch_oom(std::string_view message);
Event read_cupy_oom(std::string_view message);
Event read_jax_oom(std::string_view message);
Event read_tf_oom(std::string_view message);
// Triton's OutOfResources: tried = required, limit = what the hardware has, both bytes of shared memory.
Event read_triton_resources(std::string_view message);
Event read_nccl_alloc(std::string_view message);
Event read_collective_timeout(std::string_view message);
Event read_process_exit(std::string_view message);
// What container runtimes and Kubernetes say of an end in one line.
Event read_container_end(std::string_view message);
Event read_xid(std::string_view message);
// The kernel's line about the victim. The whole report: oom_kill_report in block_readers.hpp.
Event read_oom_kill(std::string_view message);

}  // namespace triage::parsers
