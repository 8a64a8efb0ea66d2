// Text that healthy training runs print, as a measure of how rare a literal is. Used when literals and search windows are chosen.
#pragma once

#include <cstddef>
#include <string_view>

namespace triage::signatures {

// Lines of healthy logs of several frameworks, each ended by '\n', as the programs print them. Static storage.
std::string_view background();

// How often the text stands in background(), without regard to case (ASCII). An empty text: 0.
std::size_t background_count(std::string_view text);

}  // namespace triage::signatures
