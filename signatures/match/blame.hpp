// A user's rule that gets in the way of shipped ones: told once, however many it meets. Used inside signatures/match only.
#pragma once

#include <map>
#include <set>
#include <string>

#include "signatures/match/signature.hpp"

namespace triage::signatures {

struct Blame {
  const Signature* first = nullptr;     // of the shipped rules
  std::string example;                  // of that one
  std::set<const Signature*> shipped;   // all of them

  std::size_t more() const { return shipped.size() - 1; }
};

using Blames = std::map<const Signature*, Blame>;   // by the user's rule

inline void add_blame(Blames& blames, const Signature& user, const Signature& shipped, const std::string& example) {
  blames.try_emplace(&user, Blame{&shipped, example, {}}).first->second.shipped.insert(&shipped);
}

}  // namespace triage::signatures
