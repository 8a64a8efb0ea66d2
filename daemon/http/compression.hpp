// Content codings: gzip of answers; gzip, deflate, zstd and snappy of request bodies, with a limit on what comes out, so that a small body
// cannot fill the memory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "parsers/base/result.hpp"

namespace triage::daemon::api {

// level 1 (fast) to 9 (small).
std::string gzip(std::string_view bytes, int level);

enum class Coding { identity, gzip, deflate, zstd, snappy };

// A Content-Encoding, or nothing for one that is not known ("br").
std::optional<Coding> read_coding(std::string_view text);

// The bytes behind the coding, at most `limit`. Errors: limit when more would come out (named), syntax when the bytes are not of that coding or
// break off. gzip: several members follow one another as one; deflate: zlib's form or the bare one; snappy: the block form of Loki.
parsers::Result<std::string> unpack(Coding coding, std::string_view bytes, std::size_t limit);

}  // namespace triage::daemon::api
