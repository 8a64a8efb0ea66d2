// The stack machine of the pickle readers: opcodes in, calls of a builder out. No object is ever made: what is not plain data is refused.
// Bytes may come in portions; an opcode that is not whole yet is left for the next call. Nothing here recurses.
//
// Builder has
//   Value                                    a small trivially copyable value
//   Value none() boolean(bool) integer(int64) real(double) text(string_view) list() dict()
//   Value tuple(Value* first, size_t n)
//   bool append(Value& list, Value* first, size_t n)         adds items; may change the handle
//   bool set_items(Value& dict, Value* first, size_t n, Value* parent)     n values: key, value, ...; parent: the container that stands open
//                                                            around the dict, or null
//   bool same_run(const Value& a, const Value& b)            b needs no place of its own on the stack behind a
//   bool put(uint64 index, Value&)  bool get(uint64 index, Value&)      the memo
// A false result stops the machine; the builder says why in `std::string failure` (and `bool over_limit`).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "parsers/base/limits.hpp"
#include "parsers/base/result.hpp"
#include "parsers/snapshot/pickle_opcode.hpp"

namespace triage::parsers {

enum class PickleState { more, stopped, failed };   // wants more bytes | reached its STOP | refused

template <class Builder>
class PickleMachine {
 public:
  using Value = typename Builder::Value;

  PickleMachine(Builder& builder, std::size_t stack_limit) : builder_(builder), stack_limit_(stack_limit) { grow(1024); }

  // Takes the opcodes that are whole in bytes; `used` says how many bytes were taken.
  PickleState run(std::string_view bytes, std::size_t& used) {
    if (state_ == PickleState::more) state_ = loop(bytes.data(), bytes.data() + bytes.size(), used);
    else used = 0;
    offset_ += used;
    return state_;
  }

  // Applies what stands open, innermost first, as if the file had ended each container here. For truncated files.
  void close_open() {
    while (!marks_.empty() || size_ > 1) {
      const std::size_t mark = marks_.empty() ? size_ - 1 : marks_.back();
      if (!marks_.empty()) marks_.pop_back();
      if (mark == 0) break;
      Value& target = stack_[mark - 1];
      const std::size_t count = size_ - mark;
      if (builder_.is_list(target)) (void)builder_.append(target, stack_.get() + mark, count);
      else if (builder_.is_dict(target)) (void)builder_.set_items(target, stack_.get() + mark, count & ~std::size_t{1}, parent(&target));
      size_ = mark;
    }
  }

  bool has_result() const { return size_ >= 1; }
  Value result() const { return stack_[0]; }
  std::uint64_t offset() const { return offset_; }          // bytes taken so far
  std::uint64_t fault_offset() const { return fault_offset_; }
  const std::string& fault() const { return fault_; }
  ErrorCode fault_code() const { return fault_code_; }
  bool started() const { return started_; }

 private:
  static std::uint64_t little(const char* p, std::size_t n) {
    std::uint64_t value = 0;
    if constexpr (std::endian::native == std::endian::little) std::memcpy(&value, p, n);
    else
      for (std::size_t i = 0; i < n; ++i) value |= std::uint64_t{static_cast<unsigned char>(p[i])} << (8 * i);
    return value;
  }
  // Of n bytes, at most 8. room: readable bytes from p on; 8 of them are read at once, for a copy of 5 to 7 bytes stalls the load behind it.
  static std::int64_t signed_little(const char* p, std::size_t n, std::size_t room) {
    if (n == 0) return 0;
    const unsigned shift = static_cast<unsigned>(64 - 8 * n);
    return static_cast<std::int64_t>((room >= 8 ? little(p, 8) : little(p, n)) << shift) >> shift;
  }
  static double big_double(const char* p) {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | static_cast<unsigned char>(p[i]);
    return std::bit_cast<double>(bits);
  }

  void grow(std::size_t room) {
    auto larger = std::make_unique<Value[]>(room);
    if (size_) std::memcpy(static_cast<void*>(larger.get()), stack_.get(), size_ * sizeof(Value));
    stack_ = std::move(larger);
    room_ = room;
  }
  // More room on the full stack; false: the limit is reached.
  bool grow_more() {
    if (room_ >= stack_limit_) return false;
    grow(std::min(room_ * 2, stack_limit_));
    return true;
  }
  Value* floor() const { return stack_.get() + (marks_.empty() ? 0 : marks_.back()); }   // what stands below belongs to an outer container

  // The container around the one at `at`, where a mark stands between them.
  Value* parent(const Value* at) {
    Value* const mark = floor();
    return marks_.empty() || mark == stack_.get() || mark > at ? nullptr : mark - 1;
  }

  PickleState fail(const char* at, const char* base, ErrorCode code, std::string why) {
    fault_offset_ = offset_ + static_cast<std::uint64_t>(at - base);
    fault_code_ = code;
    fault_ = std::move(why);
    return PickleState::failed;
  }
  PickleState fail_builder(const char* at, const char* base) {
    return fail(at, base, builder_.over_limit ? ErrorCode::limit : ErrorCode::syntax, builder_.failure);
  }

  PickleState loop(const char* const base, const char* const end, std::size_t& used);

  Builder& builder_;
  std::unique_ptr<Value[]> stack_;
  std::size_t size_ = 0, room_ = 0, stack_limit_;
  std::vector<std::size_t> marks_;
  std::uint64_t offset_ = 0, fault_offset_ = 0, puts_ = 0;
  std::string fault_;
  ErrorCode fault_code_ = ErrorCode::syntax;
  PickleState state_ = PickleState::more;
  bool started_ = false;
};

template <class Builder>
PickleState PickleMachine<Builder>::loop(const char* const base, const char* const end, std::size_t& used) {
  const char* p = base;
  const char* at = base;
  const auto left = [&] { return static_cast<std::size_t>(end - p); };
  // The stack in registers: the members are written where the loop is left. A store into the stack may be one into a member for all that the
  // compiler knows, and would have it read them again for each opcode.
  Value* top = stack_.get() + size_;             // behind the last value
  Value* full = stack_.get() + room_;
  Value* floor_now = floor();
  const auto leave = [&] { size_ = static_cast<std::size_t>(top - stack_.get()); };
  used = 0;
  // More bytes are wanted: the opcode at `at` is not whole.
#define TRIAGE_PICKLE_NEED(n)                                   \
  do {                                                          \
    if (__builtin_expect(left() < (n), 0)) {                    \
      used = static_cast<std::size_t>(at - base);               \
      leave();                                                  \
      return PickleState::more;                                 \
    }                                                           \
  } while (false)
#define TRIAGE_PICKLE_FAIL(code, why) return leave(), fail(at, base, code, why)
#define TRIAGE_PICKLE_FAIL_BUILDER() return leave(), fail_builder(at, base)
  // A place for one more value.
#define TRIAGE_PICKLE_ROOM()                                                                          \
  do {                                                                                                \
    if (__builtin_expect(top == full, 0)) {                                                           \
      leave();                                                                                        \
      if (!grow_more()) return fail(at, base, ErrorCode::limit, "too many values wait on the stack"); \
      top = stack_.get() + size_;                                                                     \
      full = stack_.get() + room_;                                                                    \
      floor_now = floor();                                                                            \
    }                                                                                                 \
  } while (false)
#define TRIAGE_PICKLE_PUSH(value) \
  do {                            \
    TRIAGE_PICKLE_ROOM();         \
    *top++ = value;               \
  } while (false)
  // In place: a value made elsewhere part by part and then copied whole stalls the copy.
#define TRIAGE_PICKLE_GET(index)                                                             \
  do {                                                                                       \
    TRIAGE_PICKLE_ROOM();                                                                    \
    if (__builtin_expect(!builder_.get(index, *top), 0)) TRIAGE_PICKLE_FAIL_BUILDER();       \
    ++top;                                                                                   \
  } while (false)
  // At least n values above the innermost mark.
#define TRIAGE_PICKLE_HAVE(n)                                                                                                      \
  do {                                                                                                                             \
    if (__builtin_expect(top - floor_now < static_cast<std::ptrdiff_t>(n), 0)) TRIAGE_PICKLE_FAIL(ErrorCode::syntax, "values are missing"); \
  } while (false)
  while (true) {
    at = p;
    if (__builtin_expect(p == end, 0)) {
      used = static_cast<std::size_t>(p - base);
      leave();
      return PickleState::more;
    }
    const auto byte = static_cast<std::uint8_t>(*p++);
    if (__builtin_expect(!started_, 0)) {
      if (byte != static_cast<std::uint8_t>(PickleOp::proto)) TRIAGE_PICKLE_FAIL(ErrorCode::unsupported, "not a pickle of protocol 2 to 5");
      started_ = true;
    }
    switch (static_cast<PickleOp>(byte)) {
      case PickleOp::bin_get:
        TRIAGE_PICKLE_NEED(1);
        TRIAGE_PICKLE_GET(static_cast<unsigned char>(*p));
        p += 1;
        break;
      case PickleOp::long_bin_get:
        TRIAGE_PICKLE_NEED(4);
        TRIAGE_PICKLE_GET(little(p, 4));
        p += 4;
        break;
      case PickleOp::bin_int1:
        TRIAGE_PICKLE_NEED(1);
        TRIAGE_PICKLE_PUSH(builder_.integer(static_cast<unsigned char>(*p)));
        p += 1;
        break;
      case PickleOp::bin_int2:
        TRIAGE_PICKLE_NEED(2);
        TRIAGE_PICKLE_PUSH(builder_.integer(static_cast<std::int64_t>(little(p, 2))));
        p += 2;
        break;
      case PickleOp::bin_int:
        TRIAGE_PICKLE_NEED(4);
        TRIAGE_PICKLE_PUSH(builder_.integer(static_cast<std::int32_t>(little(p, 4))));
        p += 4;
        break;
      case PickleOp::long1:
      case PickleOp::long4: {
        const std::size_t head = byte == static_cast<std::uint8_t>(PickleOp::long1) ? 1 : 4;
        TRIAGE_PICKLE_NEED(head);
        const std::size_t size = head == 1 ? static_cast<unsigned char>(*p) : static_cast<std::size_t>(little(p, 4));
        if (size > limits::kPickleLongBytes) TRIAGE_PICKLE_FAIL(ErrorCode::limit, "an integer of " + std::to_string(size) + " bytes");
        TRIAGE_PICKLE_NEED(head + size);
        p += head;
        if (size <= 8) {
          TRIAGE_PICKLE_PUSH(builder_.integer(signed_little(p, size, left())));
        } else {   // over 64 bits: its size is all that data of ours could need; the nearest double
          double value = 0;
          const bool negative = (static_cast<unsigned char>(p[size - 1]) & 0x80U) != 0;
          for (std::size_t i = size; i-- > 0;)
            value = value * 256 + (negative ? 255 - static_cast<unsigned char>(p[i]) : static_cast<unsigned char>(p[i]));
          TRIAGE_PICKLE_PUSH(builder_.real(negative ? -value - 1 : value));
        }
        p += size;
        break;
      }
      case PickleOp::bin_float:
        TRIAGE_PICKLE_NEED(8);
        TRIAGE_PICKLE_PUSH(builder_.real(big_double(p)));
        p += 8;
        break;
      case PickleOp::none: TRIAGE_PICKLE_PUSH(builder_.none()); break;
      case PickleOp::new_true: TRIAGE_PICKLE_PUSH(builder_.boolean(true)); break;
      case PickleOp::new_false: TRIAGE_PICKLE_PUSH(builder_.boolean(false)); break;
      case PickleOp::short_bin_unicode:
      case PickleOp::short_bin_string:
      case PickleOp::short_bin_bytes:
      case PickleOp::bin_unicode:
      case PickleOp::bin_string:
      case PickleOp::bin_bytes:
      case PickleOp::bin_unicode8:
      case PickleOp::bin_bytes8:
      case PickleOp::byte_array8: {
        std::size_t head = 4;
        switch (static_cast<PickleOp>(byte)) {
          case PickleOp::short_bin_unicode: case PickleOp::short_bin_string: case PickleOp::short_bin_bytes: head = 1; break;
          case PickleOp::bin_unicode8: case PickleOp::bin_bytes8: case PickleOp::byte_array8: head = 8; break;
          default: break;
        }
        TRIAGE_PICKLE_NEED(head);
        const std::uint64_t size = little(p, head);
        if (size > limits::kPickleTextBytes) TRIAGE_PICKLE_FAIL(ErrorCode::limit, "a text of " + std::to_string(size) + " bytes");
        TRIAGE_PICKLE_NEED(head + size);
        const std::string_view text(p + head, static_cast<std::size_t>(size));
        p += head + size;
        Value value = builder_.text(text);
        TRIAGE_PICKLE_PUSH(value);
        if (__builtin_expect(builder_.over_limit, 0)) TRIAGE_PICKLE_FAIL_BUILDER();
        break;
      }
      case PickleOp::mark:
        if (marks_.size() >= limits::kPickleDepth) TRIAGE_PICKLE_FAIL(ErrorCode::limit, "containers stand too deep in one another");
        marks_.push_back(static_cast<std::size_t>(top - stack_.get()));
        floor_now = top;
        break;
      case PickleOp::empty_list:
      case PickleOp::empty_set: TRIAGE_PICKLE_PUSH(builder_.list()); break;
      case PickleOp::empty_dict: TRIAGE_PICKLE_PUSH(builder_.dict()); break;
      case PickleOp::empty_tuple: TRIAGE_PICKLE_PUSH(builder_.tuple(nullptr, 0)); break;
      case PickleOp::tuple1:
      case PickleOp::tuple2:
      case PickleOp::tuple3: {
        const std::size_t n = byte - static_cast<std::size_t>(PickleOp::tuple1) + 1;
        TRIAGE_PICKLE_HAVE(n);
        const Value value = builder_.tuple(top - n, n);
        top -= n;
        TRIAGE_PICKLE_PUSH(value);
        if (!builder_.failure.empty()) TRIAGE_PICKLE_FAIL_BUILDER();
        break;
      }
      case PickleOp::tuple:
      case PickleOp::list:
      case PickleOp::frozen_set:
      case PickleOp::dict: {
        if (marks_.empty()) TRIAGE_PICKLE_FAIL(ErrorCode::syntax, "a container without a mark");
        Value* const mark = floor_now;
        marks_.pop_back();
        floor_now = floor();
        const auto n = static_cast<std::size_t>(top - mark);
        Value value;
        if (static_cast<PickleOp>(byte) == PickleOp::dict) {
          if (n % 2) TRIAGE_PICKLE_FAIL(ErrorCode::syntax, "a key without a value");
          value = builder_.dict();
          if (n && !builder_.set_items(value, mark, n, nullptr)) TRIAGE_PICKLE_FAIL_BUILDER();
        } else if (static_cast<PickleOp>(byte) == PickleOp::list) {
          value = builder_.list();
          if (n && !builder_.append(value, mark, n)) TRIAGE_PICKLE_FAIL_BUILDER();
        } else {
          value = builder_.tuple(mark, n);
        }
        top = mark;
        TRIAGE_PICKLE_PUSH(value);
        if (!builder_.failure.empty()) TRIAGE_PICKLE_FAIL_BUILDER();
        break;
      }
      case PickleOp::append: {
        TRIAGE_PICKLE_HAVE(2);
        if (!builder_.append(top[-2], top - 1, 1)) TRIAGE_PICKLE_FAIL_BUILDER();
        --top;
        break;
      }
      case PickleOp::set_item: {
        TRIAGE_PICKLE_HAVE(3);
        if (!builder_.set_items(top[-3], top - 2, 2, parent(top - 3))) TRIAGE_PICKLE_FAIL_BUILDER();
        top -= 2;
        break;
      }
      case PickleOp::appends:
      case PickleOp::add_items:
      case PickleOp::set_items: {
        if (marks_.empty()) TRIAGE_PICKLE_FAIL(ErrorCode::syntax, "items without a mark");
        Value* const mark = floor_now;
        marks_.pop_back();
        floor_now = floor();
        if (mark < floor_now + 1) TRIAGE_PICKLE_FAIL(ErrorCode::syntax, "items without a container");
        const auto n = static_cast<std::size_t>(top - mark);
        top = mark;
        if (static_cast<PickleOp>(byte) == PickleOp::set_items) {
          if (n % 2) TRIAGE_PICKLE_FAIL(ErrorCode::syntax, "a key without a value");
          if (__builtin_expect(!builder_.set_items(mark[-1], mark, n, parent(mark - 1)), 0)) TRIAGE_PICKLE_FAIL_BUILDER();
          if (mark - 2 >= floor_now && builder_.same_run(mark[-2], mark[-1])) --top;
        } else if (__builtin_expect(!builder_.append(mark[-1], mark, n), 0)) {
          TRIAGE_PICKLE_FAIL_BUILDER();
        }
        break;
      }
      case PickleOp::memoize:
        TRIAGE_PICKLE_HAVE(1);
        if (__builtin_expect(!builder_.put(puts_++, top[-1]), 0)) TRIAGE_PICKLE_FAIL_BUILDER();
        break;
      case PickleOp::bin_put:
      case PickleOp::long_bin_put: {
        const std::size_t n = byte == static_cast<std::uint8_t>(PickleOp::bin_put) ? 1 : 4;
        TRIAGE_PICKLE_NEED(n);
        TRIAGE_PICKLE_HAVE(1);
        const std::uint64_t index = little(p, n);
        // A writer numbers its entries one after the other, and each costs it two bytes at least.
        if (index > offset_ + static_cast<std::uint64_t>(p - base)) TRIAGE_PICKLE_FAIL(ErrorCode::limit, "a memo entry far beyond the others");
        p += n;
        ++puts_;
        if (!builder_.put(index, top[-1])) TRIAGE_PICKLE_FAIL_BUILDER();
        break;
      }
      case PickleOp::proto: {
        TRIAGE_PICKLE_NEED(1);
        const int protocol = static_cast<unsigned char>(*p);
        if (protocol < 2 || protocol > 5) TRIAGE_PICKLE_FAIL(ErrorCode::unsupported, "pickle protocol " + std::to_string(protocol));
        p += 1;
        break;
      }
      case PickleOp::frame:   // a hint for readers that read ahead; its size is not needed
        TRIAGE_PICKLE_NEED(8);
        p += 8;
        break;
      case PickleOp::stop:
        if (top != stack_.get() + 1 || !marks_.empty()) TRIAGE_PICKLE_FAIL(ErrorCode::syntax, "the end comes while containers are open");
        used = static_cast<std::size_t>(p - base);
        leave();
        return PickleState::stopped;
      default: {
        const RefusedOp refused = refused_op(byte);
        if (refused.name.empty()) TRIAGE_PICKLE_FAIL(ErrorCode::syntax, "byte " + std::to_string(byte) + " is no opcode");
        TRIAGE_PICKLE_FAIL(ErrorCode::unsupported, "opcode " + std::string(refused.name) + ": " + std::string(refused.why));
      }
    }
  }
#undef TRIAGE_PICKLE_NEED
#undef TRIAGE_PICKLE_FAIL
#undef TRIAGE_PICKLE_FAIL_BUILDER
#undef TRIAGE_PICKLE_ROOM
#undef TRIAGE_PICKLE_PUSH
#undef TRIAGE_PICKLE_GET
#undef TRIAGE_PICKLE_HAVE
}

}  // namespace triage::parsers
