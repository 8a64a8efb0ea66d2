// Every limit on outside data, with its reason. Compared before a size is used; hitting one is an event, never silence.
#pragma once

#include <cstddef>
#include <cstdint>

namespace triage::parsers::limits {

inline constexpr std::size_t kLineBytes = 64 * 1024;         // longer lines are cut: an OOM message with 64 processes has 8 KiB
inline constexpr std::size_t kEvidenceBytes = 8 * 1024;      // of one line kept with a finding
inline constexpr std::size_t kTracebackFrames = 256;         // Python's own recursion reports have more: first and last are kept
inline constexpr std::size_t kOpenTracebacks = 4096;         // streams (ranks) of one file assembled at the same time
inline constexpr std::size_t kFindingsPerSource = 20'000;    // then only counted
inline constexpr std::size_t kFindingsPerRuleAndRank = 64;   // then folded into the last one, with a count
inline constexpr std::size_t kConfigLines = 20'000;          // of one configuration block
inline constexpr std::size_t kConfigBytes = 4 * 1024 * 1024; // of one configuration block or file
inline constexpr std::size_t kSettings = 20'000;             // raw settings kept of one run
inline constexpr std::size_t kRuleFileBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kRules = 10'000;
inline constexpr std::size_t kYamlDepth = 32;
inline constexpr std::size_t kYamlPieceBytes = 128 * 1024;   // one text, or all between outer brackets: yaml-cpp takes 240 bytes of memory for a '['
inline constexpr std::size_t kYamlNodes = 200'000;           // of one file: some 500 bytes of memory each; all shipped rules have 10,000
inline constexpr std::int64_t kRegexMemoryBytes = 8 * 1024 * 1024;  // RE2 budget of one pattern
inline constexpr int kRegexInstructions = 20'000;            // of one pattern compiled: time grows with them; the largest shipped has 1,300
inline constexpr std::size_t kTemplateNames = 32;            // {capture} in one text of a rule; the shipped ones have 7 at most
inline constexpr std::size_t kErrorBytes = 1024;              // of each text of one error: rule files hold megabytes, and errors come by the thousand
inline constexpr int kRegexGroups = 100;                     // with a number, of one pattern: each is copied for each byte of text
inline constexpr int kRuleTrialSeconds = 5;                  // of one core, to try a set's rules on all their examples; the shipped ones take 0.4
inline constexpr std::size_t kArchiveMembers = 100'000;
inline constexpr int kPackedLayers = 4;                      // a .gz in a .tar.gz in a .zip; what lies deeper is told, not read
inline constexpr int kZstdWindowLog = 27;                    // 128 MiB, what zstd itself allows without --long; the frame says how much it wants
inline constexpr std::uint64_t kUnpackedBytes = 4ULL << 30;  // of one packed input of any size; it may give more as long as it stays below ...
inline constexpr std::uint64_t kUnpackedRatio = 1100;        // ... so many bytes a packed byte: deflate cannot give more (1032), zstd does not on logs
inline constexpr std::uint64_t kHoleBytes = 1ULL << 30;      // zeros for holes of sparse members of one archive: cores have holes, and offsets count
inline constexpr std::size_t kToldFaults = 8;                // of one packed input; more are counted
inline constexpr std::uint64_t kGrownBytes = 1ULL << 30;     // read of a file beyond its size when it was opened: a writer may be faster than we
inline constexpr std::uint64_t kElfHeaders = 4'000'000;      // of a dump: 2048 threads x 132 SMs x 4 sections of a CUDA core, and room
inline constexpr std::size_t kCoreThreads = 4096;            // kept; more are only counted
inline constexpr std::size_t kCoreFileNote = 16 * 1024 * 1024;  // NT_FILE: the kernel itself stops at 4 MiB
inline constexpr std::size_t kCoreFiles = 65'536;            // mappings of NT_FILE: vm.max_map_count is 65530 by default
inline constexpr std::size_t kCudaCoreTables = 400'000;      // block, warp and thread tables kept of a CUDA core
inline constexpr std::size_t kCudaImageBytes = 512 * 1024 * 1024;  // symbol tables are looked up inside images up to this size
inline constexpr std::size_t kRecorderBytes = 256 * 1024 * 1024;   // of a flight recorder dump: 2000 entries with frames are 2 MB
inline constexpr std::size_t kRecorderEntries = 1'000'000;   // default ring: 2000
inline constexpr std::size_t kPackedDumpBytes = 512 * 1024 * 1024;  // of a dump inside an archive, which is unpacked into memory
inline constexpr std::size_t kRecorderPending = 512;         // calls kept that are not complete: a rank waits in the oldest
inline constexpr std::size_t kElasticErrorBytes = 64 * 1024 * 1024;  // of torchelastic's error.json
inline constexpr std::size_t kElasticErrorText = 4 * 1024 * 1024;    // of its message and of its traceback
inline constexpr std::size_t kJsonDepth = 64;
inline constexpr std::size_t kProcessGroups = 100'000;       // of one recorder dump
inline constexpr std::size_t kPickleDepth = 64;              // containers in one another: snapshots have 7, flight recorders 5
inline constexpr std::size_t kPickleLongBytes = 1024;        // of one integer; addresses and times have 8
inline constexpr std::size_t kPickleTextBytes = 16 * 1024 * 1024;   // of one text; a compile context with its graph is the longest seen
inline constexpr std::size_t kPickleTreeBytes = 512 * 1024 * 1024;  // of the tree of a small pickle: a flight recorder dump has 2 MB
inline constexpr std::size_t kPickleStackValues = 2 * 1024 * 1024;  // waiting on the stack, 16 bytes each: one writer puts a whole list there; events do not wait
inline constexpr std::size_t kSnapshotBytes = 512 * 1024 * 1024;     // of memo, segments, blocks and marks of a snapshot: one of 3 GB has 80 MB of them
inline constexpr std::int64_t kDeviceBytes = std::int64_t{1} << 44;  // 16 TiB: no device has as much, and sums of sizes up to it stay within 64 bits
inline constexpr std::size_t kStackFrames = 4096;            // of one call stack of a snapshot: Python stops at 1000, C++ frames may come in between
inline constexpr std::size_t kSnapshotExtras = 1'000'000;    // values of dicts that are no part of a snapshot as known
inline constexpr int kRanks = 1'000'000;                     // a larger rank number is text, not a rank

}  // namespace triage::parsers::limits
