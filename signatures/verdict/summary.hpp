// What a diagnosis says in words: the one sentence, and what would make it surer.
#pragma once

#include <string>
#include <vector>

#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// One sentence with the figures. rule_summary: of the root's rule, used where the kind has no sentence of its own.
std::string summary_of(const Diagnosis& diagnosis, const Finding& root, const std::string& rule_summary);

struct Knowledge {
  bool snapshot = false;        // an allocator snapshot is among the inputs
  bool flight_recorder = false; // a NCCL flight recorder dump is among the inputs
  bool core_file = false;       // an ELF core of a process is
  bool cuda_core = false;       // a CUDA core dump is
};
std::vector<Missing> missing_of(const Diagnosis& diagnosis, const Finding& root, const Knowledge& knowledge);

}  // namespace triage::signatures
