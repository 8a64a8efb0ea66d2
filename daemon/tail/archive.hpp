// Archives through libarchive: it knows the formats, we keep the bounds. Used by unpack.cpp only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/tail/byte_source.hpp"

namespace triage::daemon {

enum class ArchiveKind { none, tar, zip, compressed };   // compressed: xz or bzip2, of one file or of a tar

// By the first bytes; a tar needs 512.
ArchiveKind archive_kind(std::string_view head);

// Walks the members in their order; false where it stopped before the end. visit gets the name as the archive spells it ("" for xz and bzip2 of one file) and the member's bytes,
// valid during the call. quiet: true when a fault of the bytes below was told already, which explains what is wrong with the archive.
bool for_each_archive_member(ByteSource& archive, ArchiveKind kind, const std::string& name, const Tell& tell, const std::function<bool()>& quiet,
                             const std::function<void(const std::string& member, std::unique_ptr<ByteSource> bytes)>& visit);

}  // namespace triage::daemon
