// Opcodes of Python's pickle, protocols 2 to 5, as far as data needs them, and the names of those that are refused.
// Source: the opcode table of CPython's Lib/pickle.py; the writer of PyTorch's C++ snapshots (torch/csrc/jit/serialization/pickler.cpp)
// uses a part of protocol 2.
#pragma once

#include <cstdint>
#include <string_view>

namespace triage::parsers {

// The opcodes that make plain data. Each other one is refused: they build objects, call functions, or belong to the text protocols.
enum class PickleOp : std::uint8_t {
  mark = '(', stop = '.', none = 'N', new_true = 0x88, new_false = 0x89,
  bin_int = 'J', bin_int1 = 'K', bin_int2 = 'M', long1 = 0x8a, long4 = 0x8b, bin_float = 'G',
  bin_string = 'T', short_bin_string = 'U', bin_unicode = 'X', short_bin_unicode = 0x8c, bin_unicode8 = 0x8d,
  bin_bytes = 'B', short_bin_bytes = 'C', bin_bytes8 = 0x8e, byte_array8 = 0x96,
  empty_list = ']', append = 'a', appends = 'e', list = 'l',
  empty_dict = '}', set_item = 's', set_items = 'u', dict = 'd',
  empty_tuple = ')', tuple = 't', tuple1 = 0x85, tuple2 = 0x86, tuple3 = 0x87,
  empty_set = 0x8f, add_items = 0x90, frozen_set = 0x91,
  bin_put = 'q', long_bin_put = 'r', bin_get = 'h', long_bin_get = 'j', memoize = 0x94,
  proto = 0x80, frame = 0x95,
};

// The name of an opcode that is refused, and why in a few words; an unknown byte gives {"", "..."}.
struct RefusedOp {
  std::string_view name, why;
};
RefusedOp refused_op(std::uint8_t byte);

}  // namespace triage::parsers
