// Lines of the system rather than of the program: kernel ring buffer (dmesg in its forms, /dev/kmsg), syslog and journal, Slurm.
#pragma once

#include <string_view>

#include "parsers/records/record.hpp"

namespace triage::parsers {

// Takes one prefix off the front of `text` and sets record.system where the line is the kernel's or a daemon's. The name of a
// daemon (slurmd, systemd, containerd, ...) stays in the message, the kernel's and a program's goes. False where none stands.
bool peel_system(std::string_view& text, Record& record, int default_year);

// A message that only the kernel or Slurm prints, also without any prefix ("NVRM: Xid ...", "oom-kill:constraint=...").
bool is_kernel_text(std::string_view message);

}  // namespace triage::parsers
