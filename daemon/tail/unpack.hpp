// Undoes the packing of an input: gzip and zstd by our own decoders (they keep what stands before a damage), tar, zip, xz and bzip2 by
// libarchive, in each other up to limits::kPackedLayers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/tail/byte_source.hpp"
#include "daemon/tail/peeked_source.hpp"

namespace triage::daemon {

inline constexpr std::size_t kPackedHead = 512;   // bytes that looks_packed needs

// Is it an archive or a compressed file, by its first bytes?
bool looks_packed(std::string_view head);

// name: that of the input; archive!member inside an archive (archive!member!member in two).
using Visit = std::function<void(const std::string& name, PeekedSource& stream)>;

// Calls visit for each stream of an input that is not packed any more: itself if it never was. What visit leaves unread is skipped.
// Faults of packing go to `tell`, those that concern a stream being visited before visit has read its end. Bounded by
// limits::kArchiveMembers, kUnpackedBytes, kUnpackedRatio, kHoleBytes, kToldFaults.
void for_each_stream(std::unique_ptr<ByteSource> input, const std::string& name, const Tell& tell, const Visit& visit);

}  // namespace triage::daemon
