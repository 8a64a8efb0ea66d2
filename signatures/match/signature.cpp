#include "signatures/match/signature.hpp"

namespace triage::signatures {

std::string_view role_name(Role role) {
  switch (role) {
    case Role::root: return "root";
    case Role::cascade: return "cascade";
    case Role::confirmation: return "confirmation";
    case Role::handled: return "handled";
    case Role::advice: return "advice";
    case Role::progress: return "progress";
    case Role::fact: return "fact";
  }
  return "root";
}

std::string_view within_name(Within within) {
  switch (within) {
    case Within::any: return "any";
    case Within::line: return "line";
    case Within::exception: return "exception";
    case Within::block: return "block";
    case Within::kernel: return "kernel";
  }
  return "any";
}

}  // namespace triage::signatures
