// ProtobufReader: the fields of a protobuf message, one after another, each with its byte. The wire format only: varint, 64-bit, bytes, 32-bit
// (protobuf.dev/programming-guides/encoding). Groups are refused. Views look into the bytes that were given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "parsers/base/result.hpp"

namespace triage::daemon::api {

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes, std::size_t base = 0) : bytes_(bytes), base_(base) {}

  // Goes to the next field. False at the end and at a fault.
  bool next();
  bool bad() const { return !why_.empty(); }
  parsers::Error error() const {
    return parsers::Error(parsers::ErrorCode::syntax, "the protobuf message is wrong at byte " + std::to_string(base_ + at_field_))
        .because(why_)
        .at(parsers::Place{"body", {}, {}, base_ + at_field_, {}});
  }

  std::uint32_t field() const { return field_; }
  bool is_bytes() const { return wire_ == 2; }
  bool is_number() const { return wire_ != 2; }
  std::uint64_t number() const { return number_; }            // varint, 32 and 64 bit as they stand
  std::string_view bytes() const { return view_; }
  ProtobufReader message() const { return ProtobufReader(view_, base_ + at_view_); }

 private:
  bool fail(const char* why) {
    why_ = why;
    return false;
  }
  bool varint(std::uint64_t& out);

  std::string_view bytes_;
  std::size_t base_, at_ = 0, at_field_ = 0, at_view_ = 0;
  std::uint32_t field_ = 0, wire_ = 0;
  std::uint64_t number_ = 0;
  std::string_view view_;
  std::string why_;
};

inline bool ProtobufReader::varint(std::uint64_t& out) {
  out = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (at_ >= bytes_.size()) return fail("it ends inside a number");
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    if (shift == 63 && (byte & 0x7e) != 0) return fail("a number has more than 64 bits");
    out |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return fail("a number has more than 64 bits");
}

inline bool ProtobufReader::next() {
  if (bad() || at_ >= bytes_.size()) return false;
  at_field_ = at_;
  std::uint64_t key = 0;
  if (!varint(key)) return false;
  wire_ = static_cast<std::uint32_t>(key & 7);
  if (key >> 3 == 0 || key >> 3 > 0x1fffffff) return fail("a field has an impossible number");
  field_ = static_cast<std::uint32_t>(key >> 3);
  view_ = {};
  number_ = 0;
  std::size_t width = 0;
  switch (wire_) {
    case 0: return varint(number_);
    case 1: width = 8; break;
    case 5: width = 4; break;
    case 2: {
      std::uint64_t length = 0;
      if (!varint(length)) return false;
      if (length > bytes_.size() - at_) return fail("a field is longer than what is left");
      at_view_ = at_;
      view_ = bytes_.substr(at_, static_cast<std::size_t>(length));
      at_ += static_cast<std::size_t>(length);
      return true;
    }
    default: return fail("a field has a type that is not used");
  }
  if (bytes_.size() - at_ < width) return fail("it ends inside a number");
  for (std::size_t i = 0; i < width; ++i) number_ |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
  at_ += width;
  return true;
}

}  // namespace triage::daemon::api
