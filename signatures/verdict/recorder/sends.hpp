// Open sends and receives of two ranks matched with one another. They carry no common number: the k-th open send of a pair meets its k-th
// open receive.
#pragma once

#include <string>
#include <vector>

#include "signatures/verdict/recorder/job.hpp"

namespace triage::signatures {

// A peer of a send or receive, as its place in the group, and how many open ones of the same kind stand before it.
struct SendPartner {
  int peer = -1;
  std::size_t order = 0;
};

// The head where it is a send or receive, and the sends that were open before it: what of that kind a device has before it. At most 16.
std::vector<const parsers::RecordedOp*> posted(const RecordedRank& rank);

// Of a send or receive; of all of them in one coalescing region.
std::vector<SendPartner> partners(const RecordedRank& rank, const parsers::RecordedOp& op);

// How many open ones to the same peer stand before it.
std::size_t order_of(const RecordedRank& rank, const parsers::RecordedOp& op);

// What meets `op` on the other rank, of those in the group of this key; null: nothing open does.
const parsers::RecordedOp* counterpart(const RecordedRank& other, const std::string& key, const parsers::RecordedOp& op, std::size_t order);

bool same_region(const parsers::RecordedOp& a, const parsers::RecordedOp& b);   // coalesced: they are one call

// Did the device pass this open call? Calls are numbered through: one made later that is not among the open ones is complete.
bool passed(const parsers::Recording& recording, const parsers::RecordedOp& op);

}  // namespace triage::signatures
