// Offer: how a reader of many lines answers to a record it is offered.
#pragma once

#include <cstdint>

namespace triage::parsers {

enum class Offer : std::uint8_t {
  not_mine,       // the reader does not want this record and nothing is open (or it waits on: another stream's line)
  taken,          // taken; more may follow
  finished,       // taken, and it was the last one: call finish()
  ended_before,   // not taken, but the block ended before it: call finish(), then offer this record again
};

}  // namespace triage::parsers
