// The identity of a cause (the same over jobs, ranks, hosts and times) and of one diagnosis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "signatures/match/match.hpp"
#include "signatures/verdict/diagnosis.hpp"

namespace triage::signatures {

// "v1:" and 16 hexadecimal digits over kind, exception, own innermost function, normalised message and framework.
std::string fingerprint_of(const Finding& root, std::string_view kind, const std::vector<std::string>& frameworks);
// 16 hexadecimal digits over fingerprint, place and text of the root, job and attempt. The folder of the source does not count.
std::string diagnosis_id(const Diagnosis& diagnosis);
// Lower case, without numbers, addresses, paths, quoted names, at most 200 bytes.
std::string normalised(std::string_view message);

}  // namespace triage::signatures
