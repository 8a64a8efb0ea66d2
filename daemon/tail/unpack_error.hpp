// The words in which decoders tell what is wrong with packed bytes; one place, so that gzip, zstd and archives speak alike.
#pragma once

#include <cstdint>
#include <string>

#include "parsers/base/result.hpp"

namespace triage::daemon {

// offset: in the packed stream. given: bytes that came out before.
inline std::string kept_text(std::uint64_t given) {
  return given > 0 ? "the " + std::to_string(given) + " bytes unpacked before it were still judged" : "nothing of it could be read";
}
inline parsers::Error cut_error(const std::string& name, std::uint64_t offset, std::string reason, std::uint64_t given) {
  return parsers::Error(parsers::ErrorCode::syntax, "the packed file breaks off")
      .at(parsers::Place{name, {}, {}, offset, {}})
      .because(std::move(reason))
      .help(kept_text(given));
}
inline parsers::Error damage_error(const std::string& name, std::uint64_t offset, std::string reason, std::uint64_t given) {
  return parsers::Error(parsers::ErrorCode::syntax, "the packed file is damaged")
      .at(parsers::Place{name, {}, {}, offset, {}})
      .because(std::move(reason))
      .help(kept_text(given) + "; take the file again from where it was copied, if it is whole there");
}
inline parsers::Error resumed_error(const std::string& name, std::uint64_t from, std::uint64_t to) {
  return parsers::Error(parsers::ErrorCode::syntax, "packed bytes were left out")
      .at(parsers::Place{name, {}, {}, from, {}})
      .because("no packed data begins in the " + std::to_string(to - from) + " bytes there")
      .help("what stands before and after them was judged");
}

}  // namespace triage::daemon
