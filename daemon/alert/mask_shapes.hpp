// The table of shapes that mask.cpp looks for.
#pragma once

#include <span>
#include <string_view>

namespace triage::daemon {

enum class MaskGroup { secret, user, mail, host };

// Is this match what the shape means? Called with the text to be masked.
using MaskCheck = bool (*)(std::string_view value);

struct MaskShape {
  std::string_view name;               // of the mark
  std::string_view anchors;            // small letters, separated by '|': one of them has to stand in the lowered text; empty: always tried
  std::string_view pattern;            // RE2, Latin-1; group 1 is masked, else the whole match
  MaskGroup group = MaskGroup::secret;
  MaskCheck check = nullptr;
};

// In the order in which they are tried: shapes with a name of their own before values beside a telling name.
std::span<const MaskShape> mask_shape_table();

}  // namespace triage::daemon
